"""Structural schemas: what a kind's objects look like, compiled to functions."""
