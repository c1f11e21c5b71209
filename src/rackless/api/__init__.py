"""The objects: an embedded Kubernetes API."""
