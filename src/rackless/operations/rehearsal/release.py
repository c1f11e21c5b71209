"""What a full rehearsal's bootstrap installs with, at the lab's gateway: node image, payload, and the bootstrap's own system."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from rackless.drivers.ironic.environment import pinned_packages as ironic_packages
from rackless.events import Bus
from rackless.images.cache import digest
from rackless.images.catalogue import ensure_deploy_image, ensure_node_image
from rackless.images.payload import ensure_payload
from rackless.images.rootcut import cut_root
from rackless.installer.assets.release import NODE, PAYLOAD, ReleaseFile, render_release
from rackless.lab.acceleration import remembered_kvm
from rackless.lab.files import PORT
from rackless.operations.images import register_use
from rackless.operations.rehearsal.full import ROOT
from rackless.plan.model import LabPlan
from rackless.ports.drivers import Drivers
from rackless.ports.process import Processes
from rackless.protocol import messages as say
from rackless.protocol.client import ControlClient
from rackless.protocol.exchange import Nothing
from rackless.run.files import write
from rackless.run.paths import LabPaths
from rackless.run.supplies import Supplies, save_supplies

LIST = "release.json"


def list_url(plan: LabPlan) -> str:
    return f"http://{plan.gateway.ip}:{PORT}/{LIST}"


async def offer_release(plan: LabPlan, paths: LabPaths, bus: Bus, drivers: Drivers) -> str:
    """Have labd serve it until the lab is destroyed; the URL of the list. From here on the hosts are the installer's."""
    processes, images = drivers.processes, paths.roots.images
    with bus.step("images"):
        boot = await ensure_deploy_image(images, processes, bus)
        node = await ensure_node_image(images, processes, bus)
        deploy = {"vmlinuz": boot.kernel, "initramfs": boot.initramfs, "esp": boot.esp}
        payload = await ensure_payload(images, processes, bus, ironic_packages(), deploy)
    kvm = (remembered_kvm(paths.roots.cache, drivers.computer) or (False, ""))[0]
    used = paths.state / "install-supplies.json"
    save_supplies(used, Supplies(None, boot.kernel, boot.initramfs, boot.esp, node.qcow2, node.sha256, kvm))
    register_use(paths, used)
    with bus.step("release server"):
        folder = paths.release
        folder.mkdir(exist_ok=True)
        url = f"http://{plan.gateway.ip}:{PORT}"
        root = folder / "bootstrap.ext4"
        await extract_root(node.qcow2, root, processes)
        _link(folder / "node.qcow2", node.qcow2)
        _link(folder / "payload.img", payload.path)
        listed = {
            NODE: ReleaseFile(f"{url}/node.qcow2", node.sha256),
            PAYLOAD: ReleaseFile(f"{url}/payload.img", payload.sha256),
            ROOT: ReleaseFile(f"{url}/{root.name}", await asyncio.to_thread(digest, root)),
        }
        write(folder / LIST, render_release(listed))
        await ControlClient(paths.socket).work(say.SERVE_RELEASE, Nothing(), bus)
    return list_url(plan)


def _link(place: Path, target: Path) -> None:
    place.unlink(missing_ok=True)
    place.symlink_to(target)


async def extract_root(disk: Path, target: Path, processes: Processes) -> None:
    """The root file system of a node image, as a file."""
    with tempfile.TemporaryDirectory(prefix="rackless-root-", dir=target.parent) as scratch:
        raw = Path(scratch) / "disk.raw"
        await processes.run(["qemu-img", "convert", "-f", "qcow2", "-O", "raw", disk, raw])
        await asyncio.to_thread(cut_root, raw, target)
