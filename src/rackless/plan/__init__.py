"""The plan of a lab: pure functions from lab.yaml to addresses, names, MACs and servers, and from an observation to actions."""
