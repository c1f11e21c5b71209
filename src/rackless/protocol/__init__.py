"""The protocol between a command and labd: the control socket, its client and its server, and the event stream."""
