"""Nodes as the cluster sees them: approving their certificate requests (`approving`), and marking silent ones NotReady (`life`)."""
