"""Somebody at the computer of a fake world: see `rackless.simulation.person`."""

from rackless.simulation.person import LAB, Person

__all__ = ["LAB", "Person"]
