"""Drivers for commands that need no lab: programs of this machine, run in the namespaces we are in."""

from __future__ import annotations

from rackless.drivers.process import LocalProcesses
from rackless.ports.process import Processes


def local_processes() -> Processes:
    return LocalProcesses()
