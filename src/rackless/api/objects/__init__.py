"""Stored objects: what a write means, the verbs on them, patches and server-side apply, watches, which kinds there are."""
