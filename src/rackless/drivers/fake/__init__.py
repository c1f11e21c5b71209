"""Drivers that only pretend: for tests and simulations, with delays and faults on demand."""
