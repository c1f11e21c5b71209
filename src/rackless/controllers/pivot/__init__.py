"""Hosts, Machines and sets go from one Kubernetes API to another, with what they need and how they stand."""
