"""MachineHealthCheck: which Machines are unhealthy (`judging`), and their remediation, of at most `maxUnhealthy` at once."""
