"""What is said between a command and labd: the control socket, its client and its server."""
