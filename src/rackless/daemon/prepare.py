"""Getting this machine ready: Debian packages, Ironic's environment, the images. Done on the host, shared by all labs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rackless.drivers.ironic import requirements as ironic_requirements
from rackless.drivers.ironic.environment import ensure_environment
from rackless.drivers.process import LocalProcesses
from rackless.errors import MachineError
from rackless.events import Bus
from rackless.images import requirements as image_requirements
from rackless.images.catalogue import ensure_deploy_image, ensure_node_image
from rackless.lab import libvirtd, network_boot
from rackless.lab.acceleration import probe_kvm
from rackless.run.files import write
from rackless.run.paths import Roots

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
class Supplies:
    """What was made ready on the host and is used inside the lab."""

    ironic: Path | None
    """Its virtualenv; None where somebody else's Ironic is used."""
    kernel: Path
    initramfs: Path
    esp: Path
    node: Path
    node_sha256: str
    kvm: bool


def save_supplies(path: Path, supplies: Supplies) -> None:
    write(path, json.dumps(asdict(supplies), default=str, indent=2) + "\n")


def load_supplies(path: Path) -> Supplies:
    found = json.loads(path.read_text())
    folders = {name: Path(found[name]) for name in ("kernel", "initramfs", "esp", "node")}
    ironic = Path(found["ironic"]) if found["ironic"] else None
    return Supplies(ironic, **folders, node_sha256=found["node_sha256"], kvm=found["kvm"])


async def prepare_machine(
    roots: Roots,
    bus: Bus,
    *,
    install: bool = True,
    images: bool = True,
    ironic: bool = True,
    packages: Sequence[str] = (),
) -> Supplies | None:
    """Packages first; then, unless only a bare lab is wanted, the images and, if it is ours to run, Ironic."""
    with bus.step("this machine"):
        await ensure_packages((*PACKAGES, *packages), bus, install=install)
        if not images:
            return None
        processes = LocalProcesses()
        async with asyncio.TaskGroup() as group:
            venv = group.create_task(ensure_environment(roots.cache, processes, bus)) if ironic else None
            deploy = group.create_task(ensure_deploy_image(roots.images, processes, bus))
            node = group.create_task(ensure_node_image(roots.images, processes, bus))
        boot, disk = deploy.result(), node.result()
        kvm = await probe_kvm(boot.kernel, roots.cache, processes, bus)
        return Supplies(
            venv.result() if venv else None, boot.kernel, boot.initramfs, boot.esp, disk.qcow2, disk.sha256, kvm
        )


async def ensure_packages(wanted: Sequence[str], bus: Bus, *, install: bool) -> None:
    """Install the Debian packages that are missing; never upgrade, never remove."""
    processes = LocalProcesses()
    with bus.step("packages") as step:
        missing = await missing_packages(wanted)
        if not missing:
            step.unchanged()
            return
        command = ("apt-get", "install", "--yes", "--no-install-recommends", "--no-upgrade")
        if not install:
            raise MachineError(
                "packages are missing on this machine",
                why=", ".join(missing),
                hint=f"install them: {' '.join([*command, *missing])}",
            )
        quiet = {"DEBIAN_FRONTEND": "noninteractive"}
        step.progress("reading the package lists")
        await processes.run(["apt-get", "update", "--quiet"], env=quiet)
        installed: list[str] = []
        # once more, for what only an installed package tells to be missing
        while new := [name for name in missing if name not in installed]:
            step.progress(f"installing {len(new)}: {' '.join(new)}")
            await processes.run([*command, *new], env=quiet)
            installed += new
            missing = await missing_packages(wanted)
        step.detail = f"installed {' '.join(installed)}"


async def missing_packages(wanted: Sequence[str]) -> list[str]:
    done = await LocalProcesses().run(
        ["dpkg-query", "--show", "--showformat=${Package} ${db:Status-Status}\n", *wanted], check=False
    )
    present = {line.split()[0] for line in done.stdout.splitlines() if line.endswith(" installed")}
    return [
        *(name for name in wanted if name not in present),
        *(name for name, (whole, file) in libvirtd.SPLIT_OFF.items() if whole in present and not file.exists()),
    ]
