"""All resources of the service, in one tree."""

from __future__ import annotations

from rackless.bmc.redfish import enclosure, hardware, managers, media, root, sessions, systems
from rackless.bmc.redfish.resource import Routes


def routes() -> Routes:
    modules = (root, sessions, systems, hardware, media, managers, enclosure)
    return Routes(resource for module in modules for resource in module.RESOURCES)
