"""Keeping it true: reconcile loops over the objects."""
