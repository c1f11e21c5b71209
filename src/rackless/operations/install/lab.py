"""`rackless up` of a lab with `cluster.method: ipi`: runs an install in a folder of the lab, once the lab has its BMCs."""

from __future__ import annotations

from pathlib import Path

from rackless.cluster.reference.keys import Keys
from rackless.drivers import open_drivers
from rackless.events import Bus
from rackless.installer.assets.install_config import FILE
from rackless.installer.install_config.from_lab import BmcAccount, from_lab
from rackless.installer.install_config.writing import write
from rackless.operations.install import assets
from rackless.operations.install.cluster import create_cluster
from rackless.plan.addressing import plan_lab
from rackless.plan.model import LabPlan
from rackless.plan.stages import GOALS
from rackless.ports.drivers import Drivers
from rackless.run.files import write_secret
from rackless.run.paths import LabPaths, Roots
from rackless.spec.lab import LabSpec
from rackless.trust.identity import USERNAME, Identity

NO_PULL_SECRET = '{"auths": {"registry.invalid": {"auth": "bm9ib2R5Om5vdGhpbmc="}}}'
"""A pull secret for nobody: the install pulls no image, its release server has all it needs."""


async def install_lab(
    spec: LabSpec, roots: Roots, bus: Bus, *, goal: str = GOALS[-1], drivers: Drivers | None = None
) -> None:
    """Install the cluster of a lab that has its BMCs, whole or as far as one of INSTALL_GOALS; go on where an earlier run
    stopped."""
    drivers = drivers or open_drivers()
    paths = LabPaths(roots, spec.name)
    begin_folder(paths.install, plan_lab(spec), paths)
    await create_cluster(paths.install, spec.name, roots, bus, drivers, goal=goal)


def begin_folder(folder: Path, plan: LabPlan, paths: LabPaths) -> None:
    """Make the install's folder and write its install-config, unless an install was begun in it."""
    folder.mkdir(mode=0o700, exist_ok=True)
    if assets.is_begun(folder):
        return
    account = BmcAccount(USERNAME, Identity(paths).password("bmc"))
    key = Keys(paths.cluster_keys).ensure_admin(plan.name).public
    accounts = {server.name: account for server in plan.servers}
    write_secret(folder / FILE, write(from_lab(plan, accounts, NO_PULL_SECRET, key)))
