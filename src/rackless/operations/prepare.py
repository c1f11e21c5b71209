"""Getting this computer ready: Debian packages, Ironic's environment, the images. All labs share what is made."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from rackless.errors import HypervisorError
from rackless.events import Bus
from rackless.images import requirements as image_requirements
from rackless.images.catalogue import (
    BootstrapIso,
    ensure_bootstrap_iso,
    ensure_deploy_image,
    ensure_node_image,
    lacking_images,
)
from rackless.lab import libvirtd, network_boot
from rackless.lab.acceleration import probe_kvm
from rackless.plan.actions import Action, Verb
from rackless.ports import ironic as ironic_requirements
from rackless.ports.computer import Computer
from rackless.ports.drivers import Drivers
from rackless.ports.packages import Packages
from rackless.run.paths import Roots
from rackless.run.supplies import Supplies

PACKAGES = tuple(
    dict.fromkeys(
        (
            *libvirtd.HOST_PACKAGES,
            *network_boot.HOST_PACKAGES,
            *ironic_requirements.HOST_PACKAGES,
            *image_requirements.HOST_PACKAGES,
            "openssh-client",
            "util-linux",
        )
    )
)


@dataclass(frozen=True, slots=True)
class Shared:
    """What of the things that labs share one lab needs, besides the packages that all labs need."""

    images: bool = True
    """Whether hosts are provisioned: then images are needed and, unless another Ironic is named, Ironic."""
    ironic: bool = True
    packages: tuple[str, ...] = ()


async def prepare_computer(
    roots: Roots,
    bus: Bus,
    drivers: Drivers,
    wanted: Shared | None = None,
    *,
    install: bool = True,
) -> Supplies | None:
    """Install packages; then, unless no hosts are provisioned, build the images and, unless another Ironic is named, Ironic's
    virtualenv."""
    wanted, processes = wanted or Shared(), drivers.processes
    with bus.step("this computer"):
        await ensure_packages((*PACKAGES, *wanted.packages), bus, drivers.packages, drivers.computer, install=install)
        if not wanted.images:
            return None
        async with asyncio.TaskGroup() as group:
            venv = group.create_task(drivers.open_environment().ensure(roots.cache, bus)) if wanted.ironic else None
            deploy = group.create_task(ensure_deploy_image(roots.images, processes, bus))
            node = group.create_task(ensure_node_image(roots.images, processes, bus))
        boot, disk = deploy.result(), node.result()
        kvm = await probe_kvm(boot.kernel, roots.cache, drivers.computer, processes, bus)
        return Supplies(
            venv.result() if venv else None, boot.kernel, boot.initramfs, boot.esp, disk.qcow2, disk.sha256, kvm
        )


async def plan_preparation(roots: Roots, drivers: Drivers, wanted: Shared) -> list[Action]:
    """What `prepare_computer` would do now, with reasons; nothing on a computer that is prepared. Changes nothing."""
    missing = await missing_packages((*PACKAGES, *wanted.packages), drivers.packages, drivers.computer)
    actions = [Action(f"package/{name}", Verb.CREATE, "is not installed; it is shared by all labs") for name in missing]
    if not wanted.images:
        return actions
    environment = drivers.open_environment()
    if wanted.ironic and not environment.complete(await environment.current(roots.cache)):
        actions.append(
            Action("environment/ironic", Verb.CREATE, "is not in the cache for this version and this Python")
        )
    lacking = await asyncio.to_thread(lacking_images, roots.images)
    return [*actions, *(Action(f"image/{name}", Verb.CREATE, why) for name, why in lacking.items())]


async def prepare_rehearsal(roots: Roots, bus: Bus, drivers: Drivers) -> BootstrapIso:
    """The live ISO for an installer's bootstrap machine; `rehearse` makes it too, where it may fetch packages."""
    return await ensure_bootstrap_iso(roots.images, drivers.processes, bus)


async def ensure_packages(
    wanted: Sequence[str], bus: Bus, packages: Packages, computer: Computer, *, install: bool
) -> None:  # fmt: skip
    """Install the packages that are missing; never upgrade, never remove."""
    with bus.step("packages") as step:
        missing = await missing_packages(wanted, packages, computer)
        if not missing:
            step.unchanged()
            return
        if not install:
            raise HypervisorError(
                "packages are missing on this computer",
                why=", ".join(missing),
                hint=f"install them: {packages.command(missing)}",
            )
        step.progress("reading the package lists")
        await packages.refresh()
        installed: list[str] = []
        # again: whether a split-off package is missing is known only once the one it was split from is installed
        while new := [name for name in missing if name not in installed]:
            step.progress(f"installing {len(new)}: {' '.join(new)}")
            await packages.install(new)
            installed += new
            missing = await missing_packages(wanted, packages, computer)
        step.detail = f"installed {' '.join(installed)}"


async def missing_packages(wanted: Sequence[str], packages: Packages, computer: Computer) -> list[str]:
    present = await packages.installed(wanted)
    return [
        *(name for name in wanted if name not in present),
        *(
            name
            for name, (whole, file) in libvirtd.SPLIT_OFF.items()
            if whole in present and not computer.has_file(file)
        ),
    ]
