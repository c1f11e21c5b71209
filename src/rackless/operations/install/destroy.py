"""`rackless install destroy …`: deletes what an install made, however far it came."""

from __future__ import annotations

import shutil
from pathlib import Path

from rackless.cluster.reference.keys import Keys
from rackless.events import Bus
from rackless.operations.install import assets
from rackless.operations.install.cluster import load_folder, retire_machine
from rackless.operations.lab_registry import current_plan, locked, require_lab, require_root
from rackless.ports.drivers import Drivers
from rackless.protocol.client import ControlClient
from rackless.protocol.messages import POWER, PressPower
from rackless.run.paths import Roots
from rackless.spec.servers import Role


async def destroy_bootstrap(folder: Path, lab: str | None, roots: Roots, bus: Bus, drivers: Drivers) -> None:
    require_root("take a bootstrap machine away", drivers.computer)
    found = load_folder(folder)
    paths = require_lab(lab or found.cluster, roots)
    with locked(paths, drivers.processes):
        await retire_machine(found, current_plan(paths), paths, bus, drivers)


async def destroy_cluster(folder: Path, lab: str | None, roots: Roots, bus: Bus, drivers: Drivers) -> None:
    """Delete the bootstrap machine, switch off the servers, and remove the install's keys and files from the folder and the lab.
    The servers' disks keep their contents until something else is installed. The lab is then what it was before the install:
    servers and BMCs."""
    require_root("take a cluster away", drivers.computer)
    found = load_folder(folder)
    paths = require_lab(lab or found.cluster, roots)
    with locked(paths, drivers.processes):
        plan = current_plan(paths)
        await retire_machine(found, plan, paths, bus, drivers)
        shutil.rmtree(
            paths.release, ignore_errors=True
        )  # from here on the install no longer owns the hosts, and only the lab switches servers
        # control planes first: they would switch workers on again
        order = sorted(plan.servers, key=lambda server: server.role is not Role.CONTROL_PLANE)
        with bus.step("servers switched off", servers=len(order)):
            for server in order:
                await ControlClient(paths.socket).work(POWER, PressPower(server.name, "off"), bus)
        Keys(paths.cluster_keys).forget_cluster()
        assets.forget(folder)
