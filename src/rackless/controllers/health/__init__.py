"""MachineHealthCheck: which Machines are unwell (`judging`), and what is done about it, never about too many at once."""
