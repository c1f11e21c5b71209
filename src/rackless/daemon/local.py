"""What daemons and commands need of this machine: programs, run in the namespaces we are in, and open files."""

from __future__ import annotations

import resource

from rackless.drivers.process import LocalProcesses
from rackless.ports.process import Processes


def local_processes() -> Processes:
    return LocalProcesses()


def allow_many_files() -> None:
    """As many as this process may have: a thousand BMCs have a thousand sockets, and the usual limit is 1024."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
