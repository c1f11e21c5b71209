"""Drivers without an outside world: the same ports, in memory, with delays and faults on request."""
