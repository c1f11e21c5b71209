"""This computer, opened for commands that hand it on: whatever they call is given its drivers."""

from __future__ import annotations

from rackless.drivers import library_version, open_drivers
from rackless.errors import HypervisorError
from rackless.ports.drivers import Drivers
from rackless.ports.process import Processes


def this_computer() -> Drivers:
    return open_drivers()


def libvirt_version() -> str:
    """Of the library that the binding speaks through; the binding is the distribution's, or in our own environment."""
    try:
        return library_version()
    except HypervisorError as error:
        return f"{error.what}: {error.hint}"


def local_processes() -> Processes:
    return open_drivers().processes
