"""The process beside the installer in a rehearsal: serves the live ISO, watches the bootstrap machine, and plays the cluster once
the installer has destroyed that machine.

A process of its own in the lab's namespaces, started by `operations/rehearsal/run.py`, which reads what it says: one JSON object a
line. It ends on SIGTERM, which it also gets when that dies, and then deletes the API VIP that it added to the bridge.

Beside a real install it serves no ISO and plays nothing: it tells when the bootstrap machine is there and when it is gone. In a lab
that stays after a quick rehearsal (`--stand-in`) labd runs it to answer as the cluster.
"""

from __future__ import annotations

import asyncio
import base64
import json
import signal
import ssl
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from aiohttp import web

from rackless.cluster.bootstrap.following import describe_state
from rackless.cluster.bootstrap.phases import is_ready
from rackless.cluster.bootstrap.telling import read_line as read_installing
from rackless.cluster.bootstrap.vm import VCPUS
from rackless.cluster.openshift import ignition, libvirt_proxy, rehearsal, site
from rackless.cluster.openshift.faults import PLAYED_AFTERWARDS, InstallFault
from rackless.cluster.openshift.payload import MACHINE_API
from rackless.cluster.openshift.serving import MACHINE_CONFIG_PORT, ClusterApi
from rackless.cluster.openshift.site import ClusterSite
from rackless.cluster.openshift.waiting import VainWait
from rackless.drivers.process import LocalProcesses
from rackless.errors import LabError, RacklessError
from rackless.images.bootstrap_iso import NO_FAULT, NO_RELEASE
from rackless.images.cache import digest
from rackless.ports.process import Processes
from rackless.run.connections import GuardedRunner
from rackless.run.files import write_secret

MARK = "REHEARSAL "
ISO_NAME, DISK_NAME = "rehearsal.iso", "rehearsal.qcow2"
CONFIG = "bootstrap.ign"
"""The installer's config, where it is kept."""
_KARGS = b"COREOS_KARG_EMBED_AREA"
_LOOK_SECONDS = 0.5
_LIBVIRT = "/run/libvirt/libvirt-sock"


@dataclass(frozen=True, slots=True)
class StageSetting:
    iso: str
    """The live ISO, or a disk image for an installer that boots one; empty where the installer gets its own."""
    ignition_offset: int
    ignition_bytes: int
    folder: str
    """The rehearsal's own; secrets lie in it."""
    bridge: str
    """Where the VIP goes when the bootstrap machine is gone."""
    proxy: str = ""
    """A socket for the installer's libvirt, where what it defines has to be mended."""
    fault: str = ""
    known: tuple[str, ...] = ()
    """Domains that were there before."""
    release: str = ""
    """The URL of the list of what a bootstrap installs with; with one the rehearsal is a full one."""
    consoles: str = "/var/log/libvirt/qemu"
    """The folder with the logs of serial consoles, inside the lab."""
    remember: bool = False
    """Whether the installer's config is kept in `folder`, for who stands in for the cluster later."""

    aliases: tuple[str, ...] = ()
    """Further addresses of the lab's gateway: the site's name servers and routers, which somebody has to be."""
    native: bool = False
    """Whether guests are not emulated."""

    @property
    def by_disk(self) -> bool:
        """Whether the bootstrap machine boots a disk image, and gets the installer's config from its firmware."""
        return self.iso.endswith(".qcow2")

    def dump(self) -> str:
        return json.dumps(asdict(self))


def main() -> None:
    if sys.argv[1] == "--kubeconfig":
        sys.exit(asyncio.run(_ask_by_kubeconfig(Path(sys.argv[2]))))
    standing = sys.argv[1] == "--stand-in"
    setting = StageSetting(**json.loads(Path(sys.argv[-1]).read_text()))
    try:
        asyncio.run(_run_until_signalled(setting, standing=standing))
    except (RacklessError, ignition.NoIgnition) as error:
        if isinstance(error, ignition.NoIgnition):
            error = LabError(str(error))
        tell({"failed": str(error)})
        sys.exit(error.exit_code)


async def _run_until_signalled(setting: StageSetting, *, standing: bool) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    stage = RehearsalStage(setting, LocalProcesses())
    await (stage.stand_in(stop) if standing else stage.run(stop))


def tell(what: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(dict(what)) + "\n")
    sys.stdout.flush()


class RehearsalStage:
    def __init__(
        self, setting: StageSetting, processes: Processes, tell: Callable[[Mapping[str, Any]], None] = tell
    ) -> None:
        self._setting = setting
        self._processes = processes
        self._tell = tell
        self._folder = Path(setting.folder)
        self._fault = InstallFault(setting.fault) if setting.fault else None
        self._vain = VainWait(None, ())
        self._told_vain = False

    async def run(self, stop: asyncio.Event) -> None:
        """Serve and play until `stop` is set; a failure is told, and then `stop` is waited for all the same."""
        async with AsyncExitStack() as served:
            if self._setting.iso:
                served.push_async_callback((await self._serve_iso()).cleanup)
            if self._setting.proxy:
                vcpus = VCPUS if self._setting.release or not self._setting.iso else 1
                vcpus = 0 if self._setting.native else vcpus
                served.callback((await libvirt_proxy.listen(self._setting.proxy, _LIBVIRT, vcpus)).close)
            for alias in self._setting.aliases:
                # the lab's dnsmasq answers on every address of its bridge
                await self._processes.run(["ip", "address", "replace", f"{alias}/32", "dev", self._setting.bridge])
                if not self._setting.remember:  # a lab that stays may have nodes that were told of it
                    served.push_async_callback(self._remove_address, f"{alias}/32")
            self._tell({"phase": "stage ready"})
            work = asyncio.create_task(self._play())
            ended = asyncio.create_task(stop.wait())
            await asyncio.wait([work, ended], return_when=asyncio.FIRST_COMPLETED)
            if work.done() and (error := work.exception()) is not None:
                self._tell({"failed": f"{type(error).__name__}: {error}"})
            await ended
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)

    async def stand_in(self, stop: asyncio.Event) -> None:
        """Answer as the cluster of a quick rehearsal that is over, until `stop` is set. Raises NoIgnition."""
        known = site.read(ignition.read(await asyncio.to_thread((self._folder / CONFIG).read_bytes)))
        work = asyncio.create_task(self._play_cluster(known))
        ended = asyncio.create_task(stop.wait())
        await asyncio.wait([work, ended], return_when=asyncio.FIRST_COMPLETED)
        work.cancel()
        (result,) = await asyncio.gather(work, return_exceptions=True)
        ended.cancel()
        if isinstance(result, Exception):
            raise result

    # the ISO

    async def _serve_iso(self) -> GuardedRunner:
        iso = Path(self._setting.iso)
        played = (*_IN_THE_MACHINE, *PLAYED_AFTERWARDS) if self._setting.release else _IN_THE_MACHINE
        words = {"fail": (NO_FAULT, self._fault.value)} if self._fault in played and self._fault else {}
        if self._setting.release:
            words["release"] = (NO_RELEASE, self._setting.release)
        name = DISK_NAME if self._setting.by_disk else ISO_NAME
        if words:
            iso = await asyncio.to_thread(_marked, iso, self._folder / name, words)
        # an installer that boots a disk image keeps what it has fetched, and knows it again by its checksum
        checksum = f"?sha256={await asyncio.to_thread(digest, iso)}" if self._setting.by_disk else ""
        if self._fault is InstallFault.ISO_DAMAGED:
            iso = await asyncio.to_thread(_damaged, iso, self._folder / f"damaged-{name}")

        async def send(request: web.Request) -> web.StreamResponse:
            if self._fault is InstallFault.ISO_MISSING:
                self._tell({"fault": InstallFault.ISO_MISSING.value})
                raise web.HTTPNotFound
            self._tell({"phase": "ISO asked for"})
            return web.FileResponse(iso)

        application = web.Application()
        application.router.add_get(f"/{name}", send)
        runner = GuardedRunner(application, most=256)
        await runner.setup()
        place = web.TCPSite(runner, "127.0.0.1", 0)
        await place.start()
        self._tell({"iso": f"http://127.0.0.1:{runner.addresses[0][1]}/{name}{checksum}"})
        return runner

    # the computer, and what comes after it

    async def _play(self) -> None:
        machine = await self._await_machine()
        if not self._setting.iso:
            await self._await_gone(machine)
            self._tell({"phase": "bootstrap machine gone"})
            return
        known = await self._read_site(machine)
        if self._setting.release:
            self._vain = VainWait(self._fault, [host.name for host in known.hosts if host.control_plane])
        heard = asyncio.create_task(self._listen(machine, known))
        try:
            await self._await_gone(machine)
        finally:
            heard.cancel()
        self._tell({"phase": "bootstrap machine gone"})
        if self._setting.release:  # the cluster that stands there has the API and its VIP
            await asyncio.Event().wait()
        await self._play_cluster(known)

    async def _play_cluster(self, known: ClusterSite) -> None:
        vip = f"{known.api_vip}/32"
        await self._processes.run(["ip", "address", "replace", vip, "dev", self._setting.bridge])
        try:
            async with ClusterApi(known, self._folder / "cluster-api", str(known.api_vip)) as api:
                await rehearsal.play_cluster(known, api, self._tell, self._fault)
                await asyncio.Event().wait()
        finally:
            await self._remove_address(vip)

    async def _remove_address(self, address: str) -> None:
        with suppress(RacklessError):
            await self._processes.run(["ip", "address", "delete", address, "dev", self._setting.bridge])

    async def _domains(self) -> set[str]:
        done = await self._processes.run(["virsh", "--quiet", "--readonly", "list", "--name"], check=False)
        return set(done.stdout.split())

    async def _await_machine(self) -> str:
        while True:
            for name in sorted(await self._domains() - set(self._setting.known)):
                if name.endswith("-bootstrap"):
                    self._tell({"phase": "bootstrap machine runs", "machine": name})
                    return name
            await asyncio.sleep(_LOOK_SECONDS)

    async def _await_gone(self, machine: str) -> None:
        while machine in await self._domains():  # noqa: ASYNC110 - what we wait for is in libvirt
            await asyncio.sleep(_LOOK_SECONDS)

    async def _read_site(self, machine: str) -> ClusterSite:
        """From the volume that the installer has made of our ISO, or of its config alone."""
        setting = self._setting
        volume = f"{machine}.ign" if setting.by_disk else f"{machine.removesuffix('-bootstrap')}-live-provisioner"
        done = await self._processes.run(["virsh", "--quiet", "vol-path", volume, "--pool", machine])
        place = Path(done.stdout.strip())
        if setting.by_disk:
            text = await asyncio.to_thread(place.read_bytes)
        else:
            text = await asyncio.to_thread(
                ignition.read_from_iso, place, setting.ignition_offset, setting.ignition_bytes
            )
        found = site.read(ignition.read(text))
        if setting.remember:
            write_secret(self._folder / CONFIG, text.decode())
        self._tell(
            {
                "phase": "ignition read",
                "bytes": len(text),
                "hosts": len(found.hosts),
                "infrastructure": found.infrastructure,
            }
        )
        return found

    async def _listen(self, machine: str, known: ClusterSite) -> None:
        """Pass on what the bootstrap says on its serial console."""
        log = Path(self._setting.consoles) / f"{machine}-serial0.log"
        position, rest = 0, b""
        while True:
            with suppress(FileNotFoundError):
                with log.open("rb") as file:
                    file.seek(position)
                    new = file.read()
                position += len(new)
                *lines, rest = (rest + new).split(b"\n")
                for line in lines:
                    await self._hear(line.decode(errors="replace").strip(), machine, known)
            await asyncio.sleep(_LOOK_SECONDS)

    async def _hear(self, line: str, machine: str, known: ClusterSite) -> None:
        if (installs := read_installing(line)) is not None:
            self._tell({"installs": installs})
            await self._hear_installing(installs, machine)
            return
        if not line.startswith(MARK):
            return
        try:
            said = json.loads(line.removeprefix(MARK))
        except ValueError:
            return
        self._tell({"bootstrap": said})
        if said.get("phase") == "api":
            self._tell({"machine_config": await _ask_machine_config(known)})
            await self._switch_off(machine)

    async def _hear_installing(self, installs: Mapping[str, Any], machine: str) -> None:
        """Of a full rehearsal that is to fail: what its installer waits for in vain is told once."""
        if installs.get("phase") == "manifests applied" and await self._switch_off(machine):
            waits = "its bootstrap machine, which is off"
        else:
            waits = self._vain.hear(installs)
        if waits and not self._told_vain:
            self._told_vain = True
            self._tell({"waits": waits, "in_vain": True})

    async def _switch_off(self, machine: str) -> bool:
        if self._fault is not InstallFault.BOOTSTRAP_OFF:
            return False
        self._tell({"fault": InstallFault.BOOTSTRAP_OFF.value})
        await self._processes.run(["virsh", "--quiet", "destroy", machine], check=False)
        return True


_IN_THE_MACHINE = (
    InstallFault.API_NEVER_UP,
    InstallFault.HOST_ERROR,
    InstallFault.CONFIG_MAP_MISSING,
    InstallFault.ETCD_STAYS,
)


def _marked(iso: Path, target: Path, words: Mapping[str, tuple[str, str]]) -> Path:
    """The ISO with other values on its kernel's command line; `words` has, by name, the one that is there and the new one."""
    content = iso.read_bytes()
    for name, (there, value) in words.items():
        if len(value) > len(there):
            raise LabError(f"{value} is too long for the kernel's command line of the live ISO")
        content = content.replace(
            f"rehearsal.{name}={there}".encode(), f"rehearsal.{name}={value.ljust(len(there), '-')}".encode()
        )
    target.write_bytes(content)
    return target


def _damaged(iso: Path, target: Path) -> Path:
    """Without the place for kernel arguments, which an installer looks for; a disk image is another than its checksum says."""
    content = iso.read_bytes()
    target.write_bytes(content.replace(_KARGS, b"#" * len(_KARGS)) if _KARGS in content else content[::-1])
    return target


async def _ask_machine_config(known: ClusterSite) -> dict[str, Any]:
    """Ask the machine-config server as a master does: by its name in DNS, verified with the cluster's root CA."""
    url = f"https://{known.api_internal}:{MACHINE_CONFIG_PORT}/config/master"
    context = ssl.create_default_context(cadata=known.root_ca)
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=20)) as client,
            client.get(url, ssl=context) as answer,
        ):
            return {"url": url, "good": answer.status == 200, "saw": f"answers {answer.status}"}
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        return {"url": url, "good": False, "saw": str(error) or type(error).__name__}


async def _ask_by_kubeconfig(path: Path) -> int:
    """What stands there, asked with the installer's kubeconfig, as one JSON object; returns the exit code."""
    config = yaml.safe_load(path.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    context = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    with tempfile.NamedTemporaryFile(dir=path.parent) as file:
        for part in ("client-certificate-data", "client-key-data"):
            file.write(base64.b64decode(user[part]) + b"\n")
        file.flush()
        context.load_cert_chain(file.name)
    server = cluster["server"]
    async with aiohttp.ClientSession() as client:

        async def get(path: str) -> tuple[int, dict[str, Any]]:
            async with client.get(f"{server}{path}", ssl=context) as answer:
                return answer.status, await answer.json()

        code, version = await get("/apis/config.openshift.io/v1/clusterversions/version")
        _, nodes = await get("/api/v1/nodes")
        _, hosts = await get(f"/apis/metal3.io/v1alpha1/namespaces/{MACHINE_API}/baremetalhosts")
    conditions = {one["type"]: one["status"] for one in version.get("status", {}).get("conditions", [])}
    found = {
        "server": server,
        "available": conditions.get("Available", "unknown"),
        "nodes": {one["metadata"]["name"]: is_ready(one) for one in nodes.get("items", ())},
        "hosts": {one["metadata"]["name"]: describe_state(one) for one in hosts.get("items", ())},
        "claimed": [one["metadata"]["name"] for one in hosts.get("items", ()) if one["spec"].get("consumerRef")],
    }
    sys.stdout.write(json.dumps(found) + "\n")
    return 0 if code == 200 else 1


if __name__ == "__main__":
    main()
