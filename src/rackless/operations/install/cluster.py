"""`rackless install create cluster`: makes the bootstrap machine of an install in a lab and follows it.

The assets come from `operations/install/assets.py`, the VM is made inside the lab by `operations/bootstrap/vm.py`; here that
process is started, and what the bootstrap prints on its console becomes events. The lab must have reached the goal `bmc` and no
further: one engine (Ironic) at a time provisions hosts, and from here on that is the bootstrap's.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from rackless.cluster.bootstrap import vm
from rackless.cluster.bootstrap.completing import ClusterFollowing
from rackless.cluster.bootstrap.following import BootstrapConsole, Following, InfrastructureFailed
from rackless.cluster.reference.keys import Keys
from rackless.drivers.ironic.environment import pinned_packages as ironic_packages
from rackless.errors import InputError, LabError
from rackless.events import Bus
from rackless.images import live
from rackless.images.catalogue import DeployImage, NodeImage, ensure_deploy_image, ensure_node_image
from rackless.images.payload import PayloadImage, ensure_payload
from rackless.installer.assets.certificates import ADMIN_CERTIFICATE, API_CA, ETCD_CA
from rackless.installer.assets.ignition import control_plane
from rackless.installer.assets.ignition.merging import merge
from rackless.installer.assets.metadata import FILE as METADATA
from rackless.installer.assets.release import FILE as RELEASE_FILE
from rackless.installer.assets.release import NODE, PAYLOAD, ReleaseFile, render_release
from rackless.installer.install_config.config import BareMetalPlatform
from rackless.lab.acceleration import remembered_kvm
from rackless.lab.api_forward import host_url
from rackless.lab.files import FOR_BMCS
from rackless.lab.files import PORT as FILES_PORT
from rackless.lab.servers import disk_folder, mounts
from rackless.operations.access import inside_command
from rackless.operations.bootstrap.server import ServerSetting
from rackless.operations.bootstrap.vm import VmSetting
from rackless.operations.images import register_use
from rackless.operations.install import assets
from rackless.operations.lab_registry import current_plan, locked, recorded_spec, require_lab, require_root
from rackless.operations.own_events import OwnEvents, own_events
from rackless.plan.addressing import plan_lab
from rackless.plan.model import LabPlan
from rackless.plan.stages import GOALS
from rackless.ports.api import Access, ApiConnection
from rackless.ports.drivers import Drivers
from rackless.protocol import messages as say
from rackless.protocol.client import ControlClient
from rackless.protocol.exchange import Nothing
from rackless.run.files import write_secret
from rackless.run.journal import Journal
from rackless.run.paths import LabPaths, Roots
from rackless.run.supplies import Supplies, save_supplies
from rackless.trust.kubeconfig_reading import read_kubeconfig

_INSIDE = "rackless.operations.bootstrap.vm"
_BY_BMC = "rackless.operations.bootstrap.server"
_CONSOLE = ".console"
_VM_WITHIN = 120.0
_BMC_WITHIN = 600.0
NEEDED, TAKEN = "bmc", "engine"
"""The stage that a lab must have reached for an install, and the one that it must not have reached."""


@dataclass(frozen=True, slots=True)
class InstallFolder:
    """What an install's folder says of it."""

    folder: Path
    cluster: str
    infrastructure: str
    metal: BareMetalPlatform

    @property
    def bridges(self) -> tuple[tuple[str, str], ...]:
        cluster = (self.metal.external_bridge, self.metal.external_mac)
        second = (self.metal.provisioning_bridge, self.metal.provisioning_mac)
        return (cluster,) if self.metal.disabled else (cluster, second)

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "auth/kubeconfig"


async def create_cluster(
    folder: Path, lab: str | None, roots: Roots, bus: Bus, drivers: Drivers, *, goal: str = GOALS[-1]
) -> None:
    """Make a bootstrap machine, wait until it has installed the control plane and handed over, then until the cluster has its
    workers; stop at one of INSTALL_GOALS, go on where an earlier run stopped."""
    require_root("make a bootstrap machine", drivers.computer)
    paths = require_lab(lab or assets.find_cluster_name(folder), roots)
    with locked(paths, drivers.processes):
        # in the lab's log, where its timeline is read
        async with own_events(bus, paths, drivers) as own, own.telling(paths, drivers.clock):
            await _create(folder, paths, bus, own, drivers, goal)


async def _create(folder: Path, paths: LabPaths, shown: Bus, own: OwnEvents, drivers: Drivers, goal: str) -> None:
    bus, plan = own.bus, await ready_plan(paths)
    supplies = await prepare_install(paths.roots, bus, drivers)
    with bus.step("assets") as step:
        if not assets.has_release(folder):
            write_secret(folder / RELEASE_FILE, render_release(supplies.release(plan)))
        if goal == "manifests":
            places = assets.create(folder, "manifests", bus)
            step.detail = f"in {', '.join(map(str, places))}" if places else "are part of later assets already"
            return
        assets.create(folder, "ignition-configs", bus)
        found = load_folder(folder)
        _refuse_other_lab(found, plan, paths)
        step.detail = found.infrastructure
    if goal == "ignition":
        return
    _lay_keys(folder, paths)
    await _offer_release(supplies, paths, shown, own)
    async with open_api(found, paths, drivers) as api:
        require_running = partial(_require_running, paths, drivers)
        cluster = ClusterFollowing(api, drivers.clock, bus, require_running, retries=True)
        if not assets.has_handed_over(folder) and not await cluster.has_bootstrapped():
            with bus.step("bootstrap machine"):
                name = machine_name(found, plan)
                if plan.bootstrap_on:
                    await _ensure_server(found, supplies, plan, paths, bus, drivers)
                else:
                    await _ensure_vm(found, supplies, plan, paths, bus, drivers)
                console = open_console(found, plan, paths)
                pid_file = paths.inner_run / "libvirt/qemu" / f"{name}.pid"
                following = Following(console, api, drivers.clock, bus, pid_file.exists, require_running, retries=True)
                if following.has_let_go:
                    await _ensure_control_plane_on(plan, paths, bus)
                with following.phases:
                    await following.await_api()
                    await following.await_manifests()
                    await following.await_control_plane()
                    await following.await_hand_over()
        assets.note_hand_over(folder)
        await retire_machine(found, plan, paths, bus, drivers)
        if plan.bootstrap_on:
            await cluster.release_host(plan.bootstrap_on)
        if goal != "bootstrap":
            await cluster.await_complete()


async def await_bootstrap(folder: Path, lab: str | None, roots: Roots, bus: Bus, drivers: Drivers) -> None:
    """Wait until the bootstrap machine has handed over; nothing is made, and the machine may be gone already."""
    require_root("reach the cluster's API", drivers.computer)
    found = load_folder(folder)
    paths = require_lab(lab or found.cluster, roots)
    async with open_api(found, paths, drivers) as api:
        console = open_console(found, current_plan(paths), paths)
        require_running = partial(_require_running, paths, drivers)
        following = Following(console, api, drivers.clock, bus, require_lab=require_running)
        with following.phases:
            await following.await_api()
            await following.await_hand_over()


async def await_install(folder: Path, lab: str | None, roots: Roots, bus: Bus, drivers: Drivers) -> None:
    """Wait until the cluster looks after its hosts and its workers have joined; nothing is made."""
    require_root("reach the cluster's API", drivers.computer)
    found = load_folder(folder)
    paths = require_lab(lab or found.cluster, roots)
    async with open_api(found, paths, drivers) as api:
        await ClusterFollowing(api, drivers.clock, bus, partial(_require_running, paths, drivers)).await_complete()


def _require_running(paths: LabPaths, drivers: Drivers) -> None:
    """Raises LabError when nobody holds the lab's networks any more: its cluster cannot be reached then, however long one waits."""
    if drivers.processes.find(paths.holder_pid) is None:
        raise LabError(
            f"the lab {paths.name} does not run any more",
            why="the process that holds its networks has ended",
            hint="the same command starts it again and goes on",
        )


def machine_name(found: InstallFolder, plan: LabPlan) -> str:
    """The name of the server that the bootstrap runs on, which may be a VM of its own."""
    return plan.bootstrap_on or vm.name_of(found.infrastructure)


def open_console(found: InstallFolder, plan: LabPlan, paths: LabPaths) -> BootstrapConsole:
    """From where the bootstrap began: the server may have been the bootstrap of an earlier install, and has told other things."""
    log, begun = paths.console(machine_name(found, plan)), _disc(found, paths).with_suffix(_CONSOLE)
    begin = int(begun.read_text()) if plan.bootstrap_on and begun.exists() else 0
    return BootstrapConsole(log, begin if log.exists() and log.stat().st_size >= begin else 0)


async def _ensure_control_plane_on(plan: LabPlan, paths: LabPaths, bus: Bus) -> None:
    """One that went off during the hand-over may have taken etcd's majority along; then no controller can switch it on."""
    control = ControlClient(paths.socket)
    for server in plan.control_planes:
        if (await control.work(say.POWER, say.PressPower(server.name, "status"), bus)).power == "off":
            with bus.step("switched on again", subject=f"server/{server.name}"):
                await control.work(say.POWER, say.PressPower(server.name, "on"), bus)


async def retire_machine(found: InstallFolder, plan: LabPlan, paths: LabPaths, bus: Bus, drivers: Drivers) -> None:
    with bus.step("bootstrap machine taken away") as step:
        setting = _server_setting if plan.bootstrap_on else _setting
        if not (await _inside(setting("retire", found, plan, paths), paths, drivers))["changed"]:
            step.unchanged("there was none")
        if plan.bootstrap_on:
            _disc(found, paths).unlink(missing_ok=True)


def _lay_keys(folder: Path, paths: LabPaths) -> None:
    """Copy the install's keys to where labd looks for its cluster's: with them it asks etcd and the API for their health."""
    etcd, api, admin = (assets.load_pair(folder, each) for each in (ETCD_CA, API_CA, ADMIN_CERTIFICATE))
    Keys(paths.cluster_keys).take(*((each.certificate, each.key) for each in (etcd, api, admin)))


def load_folder(folder: Path) -> InstallFolder:
    """Raises InputError where no install was begun."""
    try:
        metadata = json.loads((folder / METADATA).read_text())
        config = assets.load_install_config(folder)
        assert config.metal is not None
        return InstallFolder(folder, str(metadata["clusterName"]), str(metadata["infraID"]), config.metal)
    except (FileNotFoundError, KeyError, ValueError) as error:
        raise InputError(
            f"no install was begun in {folder}", why=str(error), hint="`rackless install create cluster --dir DIR`"
        ) from error


@dataclass(frozen=True, slots=True)
class _Supplies:
    """What an install takes from the hypervisor's cache."""

    deploy: DeployImage
    node: NodeImage
    payload: PayloadImage

    @property
    def files(self) -> dict[str, tuple[str, Path, str]]:
        """For each name in release.json: the file's name on the release server, its path in the cache, its checksum."""
        node, payload = self.node, self.payload
        return {
            NODE: (f"node-{node.sha256[:16]}.qcow2", node.qcow2, node.sha256),
            PAYLOAD: (f"payload-{payload.sha256[:16]}.img", payload.path, payload.sha256),
        }

    def release(self, plan: LabPlan) -> dict[str, ReleaseFile]:
        url = f"http://{plan.gateway.ip}:{FILES_PORT}"
        return {what: ReleaseFile(f"{url}/{name}", sha256) for what, (name, _, sha256) in self.files.items()}


async def prepare_install(roots: Roots, bus: Bus, drivers: Drivers) -> _Supplies:
    """The images and the payload that an install pulls from the release server: the first time they are built of packages."""
    with bus.step("images"):
        boot = await ensure_deploy_image(roots.images, drivers.processes, bus)
        node = await ensure_node_image(roots.images, drivers.processes, bus)
        deploy = {"vmlinuz": boot.kernel, "initramfs": boot.initramfs, "esp": boot.esp}
        return _Supplies(
            boot, node, await ensure_payload(roots.images, drivers.processes, bus, ironic_packages(), deploy)
        )


async def ready_plan(paths: LabPaths) -> LabPlan:
    """The lab's plan. Raises LabError when the lab has no BMCs yet, or has provisioned hosts itself."""
    spec = recorded_spec(paths)
    reached = Journal(paths.journal, paths.goal).read().reached
    if spec is None or NEEDED not in reached or not await ControlClient(paths.socket).alive():
        raise LabError(
            f"the lab {paths.name} has no BMCs yet, or does not run",
            hint=f"`rackless up --name {paths.name} --until bmc`",
        )
    if TAKEN in reached:
        raise LabError(
            f"the lab {paths.name} installs its hosts itself",
            why="hosts are looked after by one engine at a time, and this lab's own has begun",
            hint="make a lab for the install: `rackless up --until bmc` with another --name",
        )
    return plan_lab(spec)


def _refuse_other_lab(found: InstallFolder, plan: LabPlan, paths: LabPaths) -> None:
    wrong = [
        f"{what} is {given} in the install-config and {planned} in the lab"
        for what, given, planned in (
            ("the API VIP", found.metal.api_vips[0], str(plan.api_vip)),
            ("the bridge for the bootstrap machine", found.metal.external_bridge, plan.baremetal.name),
        )
        if given != planned
    ]
    if wrong:
        raise InputError(
            f"this install is not for the lab {paths.name}",
            why="; ".join(wrong),
            hint=f"`rackless install-config --name {paths.name}` writes one that is",
        )


async def _offer_release(supplies: _Supplies, paths: LabPaths, shown: Bus, own: OwnEvents) -> None:
    """Have labd serve the node image and the payload at the lab's gateway address, until the lab is destroyed. From here on
    labd's own engine leaves the hosts to the install."""
    paths.release.mkdir(exist_ok=True)
    for name, path, _ in supplies.files.values():
        if not (paths.release / name).exists():
            (paths.release / name).unlink(missing_ok=True)
            (paths.release / name).symlink_to(path)
    await ControlClient(paths.socket).work(say.SERVE_RELEASE, Nothing(), shown, told=own.take())


async def _ensure_vm(
    found: InstallFolder, supplies: _Supplies, plan: LabPlan, paths: LabPaths, bus: Bus, drivers: Drivers
) -> None:
    kvm = (remembered_kvm(paths.roots.cache, drivers.computer) or (False, ""))[0]
    deploy, node = supplies.deploy, supplies.node
    used = paths.state / "install-supplies.json"  # the VM's disk reads the node image for as long as it is there
    save_supplies(used, Supplies(None, deploy.kernel, deploy.initramfs, deploy.esp, node.qcow2, node.sha256, kvm))
    register_use(paths, used)
    setting = replace(
        _setting("ensure", found, plan, paths),
        bridges=found.bridges,
        image=str(supplies.node.qcow2),
        config=str((found.folder / "bootstrap.ign").absolute()),
        kvm=kvm,
    )
    with bus.step("VM") as step:
        if (await _inside(setting, paths, drivers))["changed"]:
            step.detail = f"{vm.name_of(found.infrastructure)} on {found.metal.external_bridge}"
        else:
            step.unchanged("it runs")


async def _ensure_server(
    found: InstallFolder, supplies: _Supplies, plan: LabPlan, paths: LabPaths, bus: Bus, drivers: Drivers
) -> None:
    """The same bootstrap on one of the servers: nothing but its BMC is needed."""
    server, disc = plan.server(plan.bootstrap_on), _disc(found, paths)
    assert server is not None
    with bus.step("disc for the BMC") as step:
        config = json.loads((found.folder / "bootstrap.ign").read_text())
        nic = {"storage": {"files": [control_plane.link(server.mac)]}}  # the one that a VM would have is nobody's here
        text = json.dumps(merge(config, nic))
        written = disc.with_suffix(".sha256")
        digest = hashlib.sha256(f"{text}{supplies.node.sha256}".encode()).hexdigest()
        if disc.exists() and written.exists() and written.read_text() == digest:
            step.unchanged("is there")
        else:
            disc.parent.mkdir(mode=0o700, exist_ok=True)
            await live.build(drivers.processes, supplies.node.qcow2, supplies.deploy.esp, text, disc)
            write_secret(written, digest)
    with bus.step("server") as step:
        log = paths.console(server.name)
        before = log.stat().st_size if log.exists() else 0
        if (await _inside(_server_setting("ensure", found, plan, paths), paths, drivers))["changed"]:
            disc.with_suffix(_CONSOLE).write_text(str(before))
            step.detail = f"{server.name} starts from virtual media"
        else:
            step.unchanged("it runs")


def _disc(found: InstallFolder, paths: LabPaths) -> Path:
    """Only a BMC is given it, and only while it fetches it: the cluster's keys are on it."""
    return paths.release / FOR_BMCS / f"{vm.name_of(found.infrastructure)}.iso"


def _server_setting(action: str, found: InstallFolder, plan: LabPlan, paths: LabPaths) -> ServerSetting:
    (host,) = [host for host in found.metal.hosts or () if host.name == plan.bootstrap_on]
    image = f"http://{plan.gateway.ip}:{FILES_PORT}/{FOR_BMCS}/{_disc(found, paths).name}"
    return ServerSetting(
        action, host.name, image, host.bmc_address, host.bmc_username, host.bmc_password, host.verify_certificate
    )


def _setting(action: str, found: InstallFolder, plan: LabPlan, paths: LabPaths) -> VmSetting:
    return VmSetting(
        action,
        found.infrastructure,
        str(paths.state),
        str(disk_folder(plan, paths)),
        str(paths.console(vm.name_of(found.infrastructure))),
        {str(ours): str(theirs) for ours, theirs in mounts(plan, paths).items()},
    )


async def _inside(setting: VmSetting | ServerSetting, paths: LabPaths, drivers: Drivers) -> dict[str, Any]:
    file = paths.state / "bootstrap-vm.json"
    write_secret(file, setting.dump())
    program, within = (_INSIDE, _VM_WITHIN) if isinstance(setting, VmSetting) else (_BY_BMC, _BMC_WITHIN)
    try:
        argv = [sys.executable, "-P", "-m", program, str(file)]
        done = await drivers.processes.run(
            inside_command(paths.name, argv, paths.roots, drivers), check=False, within=within
        )
    finally:
        file.unlink(missing_ok=True)
    try:
        answer = json.loads(done.stdout.strip().splitlines()[-1])
    except (ValueError, IndexError):
        answer = {"failed": "the bootstrap machine could not be made", "why": done.stderr.strip()[-1000:], "hint": ""}
    if "failed" in answer:
        raise InfrastructureFailed(answer["failed"], why=answer["why"], hint=answer["hint"])
    assert isinstance(answer, dict)
    return answer


@asynccontextmanager
async def open_api(found: InstallFolder, paths: LabPaths, drivers: Drivers) -> AsyncIterator[ApiConnection]:
    """The cluster's API as its administrator, through the holder's port forward on the hypervisor's loopback."""
    url = host_url(paths.cluster_port)
    if url is None:
        raise LabError(f"the lab {paths.name} has no way to its cluster's API", hint="give it a control plane")
    with tempfile.TemporaryDirectory(prefix="rackless-install-") as keep:
        access, _ = read_kubeconfig(found.kubeconfig, Path(keep))
        api = drivers.open_api(Access(url, access.ca, access.certificate, access.key, access.token), patience=0.0)
        try:
            yield api
        finally:
            await api.close()
