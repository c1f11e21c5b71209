"""Screens: read-only pages over the same events."""
