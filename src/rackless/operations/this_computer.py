"""This computer, opened for commands that hand it on: whatever they call is given its drivers."""

from __future__ import annotations

from rackless.drivers import open_drivers
from rackless.ports.drivers import Drivers
from rackless.ports.process import Processes


def this_computer() -> Drivers:
    return open_drivers()


def local_processes() -> Processes:
    return open_drivers().processes
