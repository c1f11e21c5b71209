"""Live checks: what only the site itself can answer. Everything here observes; nothing changes anything."""
