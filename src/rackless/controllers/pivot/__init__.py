"""Pivot: moves hosts, Machines and MachineSets from one Kubernetes API to another, with their Secrets and their status."""
