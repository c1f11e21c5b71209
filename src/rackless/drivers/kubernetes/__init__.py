"""Records in a Kubernetes API."""
