"""Nodes as the cluster sees them: who may become one (`approving`), and which of them have gone silent (`life`)."""
