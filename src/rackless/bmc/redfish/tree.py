"""All resources of the service, in one tree."""

from __future__ import annotations

from rackless.bmc.redfish import (
    accounts,
    bios,
    boot_options,
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
from rackless.bmc.redfish.resource import ResourceRoutes

MODULES = (
    root,
    sessions,
    accounts,
    systems,
    boot_options,
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


def routes() -> ResourceRoutes:
    return ResourceRoutes(resource for module in MODULES for resource in module.RESOURCES)
