"""Keeping it true: controllers over Kubernetes objects, and the runtime they share."""
