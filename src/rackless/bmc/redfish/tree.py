"""All resources of the service, in one tree."""

from __future__ import annotations

from rackless.bmc.redfish import (
    accounts,
    bios,
    enclosure,
    events,
    hardware,
    logs,
    managers,
    media,
    registries,
    root,
    sessions,
    systems,
    tasks,
    update,
)
from rackless.bmc.redfish.resource import Routes

MODULES = (
    root,
    sessions,
    accounts,
    systems,
    hardware,
    bios,
    media,
    managers,
    enclosure,
    logs,
    tasks,
    events,
    update,
    registries,
)


def routes() -> Routes:
    return Routes(resource for module in MODULES for resource in module.RESOURCES)
