"""Why: evidence of what happened to a host, and how long each phase took."""
