"""The program of the rehearsal's bootstrap machine: reads the installer's Ignition config, takes its VIP, serves its API.

It is started by the init of our live ISO, in a machine that has nothing else. What it says goes to the serial console, one JSON
object a line behind a mark, because that is all the hypervisor sees. It must not need what that image does not have (pydantic).
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface
from pathlib import Path
from typing import Any

from aiohttp import web

from rackless.cluster.openshift import ignition, rehearsal, site
from rackless.cluster.openshift.faults import InstallFault
from rackless.cluster.openshift.serving import MACHINE_CONFIG_PORT, ClusterApi, machine_config_context
from rackless.cluster.openshift.site import ClusterMetal, ClusterSite
from rackless.drivers.process import LocalProcesses
from rackless.errors import LabError, RacklessError
from rackless.installer.install_config.config import HostEntry
from rackless.installer.install_config.live import bmcs
from rackless.installer.install_config.live.probe import ProbeOutcome
from rackless.operations.rehearsal import full as rehearsal_full
from rackless.ports.process import Processes
from rackless.run.connections import GuardedRunner, GuardedTcpSite

MARK = "REHEARSAL "
_BUSYBOX = "/bin/busybox"
_NETWORK_SECONDS = 60.0
Tell = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True, slots=True)
class BootstrapPlace:
    """Where the machine's files are and which address its servers listen on; another one only for tests."""

    root: Path = Path("/")
    listen: str = "0.0.0.0"

    @property
    def run(self) -> Path:
        return self.root / "run/rehearsal"

    @property
    def disk(self) -> Path:
        """The one that the installer gives the machine for its data."""
        return self.root / "dev/vda"

    @property
    def config(self) -> Path:
        return self.run / "bootstrap.ign"

    @property
    def links(self) -> Path:
        return self.root / "sys/class/net"


def main(config: str) -> None:
    try:
        asyncio.run(play(Path(config), LocalProcesses(), tell, BootstrapPlace()))
    except (RacklessError, ignition.NoIgnition) as error:
        tell({"failed": str(error)})
        sys.exit(1)


def tell(what: Mapping[str, Any]) -> None:
    sys.stdout.write(f"\n{MARK}{json.dumps(dict(what))}\n")  # a line of its own, whatever the kernel has just said
    sys.stdout.flush()


async def play(
    config: Path, processes: Processes, tell: Tell, place: BootstrapPlace, step: float = rehearsal.STEP_SECONDS
) -> None:
    """Until cancelled: the installer destroys this machine when it has what it waits for. In a full rehearsal it returns when the
    machine may go on as a bootstrap that installs."""
    text = config.read_bytes()
    tell({"phase": "booted", "ignition_bytes": len(text)})
    known = site.read(ignition.read(text))
    fault = _fault(place)
    if known.static is not None:
        await _take_static(known.static, processes, place)
    link, own = await _await_address(known, processes)
    tell(
        {
            "phase": "network",
            "address": str(own),
            "interface": link,
            "mac": _mac(link, place),
            "name": socket.gethostname(),
        }
    )
    tell({"names": await _names(known, own)})
    if fault is InstallFault.API_NEVER_UP:
        tell({"waits": "the API, which this bootstrap never serves", "in_vain": True})
        await asyncio.Event().wait()

    async def ask(host: ClusterMetal) -> tuple[bool, str]:
        return await ask_bmc(host, processes)

    if (release := _release(place)) is not None:
        await _is_free(known.api_vip, link, processes, tell)
        if (boots := known.boot_network) is not None:
            _link_with(boots.mac, place)  # said here, where the hypervisor hears it
        await rehearsal_full.prepare(known, own, _mac(link, place), release, ask, tell, place.disk, place.config, fault)
        return
    await _take_vip(known.api_vip, link, processes, tell)
    async with ClusterApi(known, place.run, place.listen) as api, _machine_configs(known, place):
        tell({"phase": "api", "vip": str(known.api_vip), "serves": sorted({known.api, known.api_internal})})

        await rehearsal.play_bootstrap(known, api, ask, tell, fault, step)
        await asyncio.Event().wait()


async def ask_bmc(host: ClusterMetal, processes: Processes, within: float = 20.0) -> tuple[bool, str]:
    """Ask a BMC as the site's own Ironic would: at the manifest's address, with the Secret's account. Its certificate is not
    verified: a twin's BMC has one of the lab's CA, which the site does not know."""
    asked = HostEntry(
        path=host.name, at=host.name, name=host.name, role="", boot_mac=host.mac, boot_mode="", hardware_profile="",
        device_name="", bmc_address=host.bmc, bmc_username=host.username, bmc_password=host.password,
        verify_certificate=False, network_config=None, bgp_peers=(),
    )  # fmt: skip
    found = await bmcs.observe_host(asked, processes, within)
    bad = [probe for probe in found if probe.outcome in (ProbeOutcome.FAILED, ProbeOutcome.UNKNOWN)]
    chosen = bad[0] if bad else found[0]
    fix = f"; {chosen.fix}" if bad and chosen.fix else ""
    return not bad, f"{chosen.saw}{fix}"


async def _await_address(known: ClusterSite, processes: Processes) -> tuple[str, IPv4Interface]:
    """The link that has an address in the API VIP's network, by DHCP or as configured: then that one, whatever DHCP gave besides.
    Raises LabError when none gets one."""
    wanted = known.static.address if known.static is not None else None
    seen: list[str] = []
    try:
        async with asyncio.timeout(_NETWORK_SECONDS):
            while True:
                done = await processes.run([_BUSYBOX, "ip", "-o", "-4", "addr", "show"])
                seen = []
                for line in done.stdout.splitlines():
                    words = line.split()
                    address = IPv4Interface(words[words.index("inet") + 1])
                    seen.append(f"{words[1]} {address}")
                    if known.api_vip in address.network and words[1] != "lo" and wanted in (None, address):
                        return words[1], address
                await asyncio.sleep(0.2)
    except TimeoutError as error:
        what = f"the bootstrap machine has no address in the network of the API VIP {known.api_vip}"
        raise LabError(what, why=f"it has {', '.join(seen) or 'none at all'}") from error


async def _take_static(static: site.Static, processes: Processes, place: BootstrapPlace) -> None:
    link = _link_with(static.mac, place)
    with suppress(FileNotFoundError, ProcessLookupError):  # its lease would take the place of the fixed address
        os.kill(int((place.root / f"run/udhcpc.{link}.pid").read_text()), signal.SIGTERM)
    await processes.run([_BUSYBOX, "ip", "addr", "replace", str(static.address), "dev", link])
    if static.gateway is not None:
        await processes.run([_BUSYBOX, "ip", "route", "replace", "default", "via", str(static.gateway), "dev", link])
    if static.dns:
        (place.root / "etc/resolv.conf").write_text("".join(f"nameserver {server}\n" for server in static.dns))


def _link_with(mac: str, place: BootstrapPlace) -> str:
    """Our NIC with this MAC, or the first where none is named. Raises LabError."""
    links = {path.name: _mac(path.name, place) for path in sorted(place.links.iterdir()) if (path / "device").exists()}
    found = next((name for name, own in links.items() if mac in ("", own.lower())), None)
    if found is None:
        what = f"the bootstrap machine has no NIC with the MAC {mac}, which the installer's config names"
        raise LabError(what, why=f"it has {', '.join(links.values()) or 'none at all'}")
    return found


async def _is_free(vip: IPv4Address, link: str, processes: Processes, tell: Tell) -> None:
    found = await processes.run(
        [_BUSYBOX, "arping", "-D", "-q", "-c", "1", "-w", "1", "-I", link, str(vip)], check=False
    )
    tell({"vip": str(vip), "free": found.code == 0})


async def _take_vip(vip: IPv4Address, link: str, processes: Processes, tell: Tell) -> None:
    await _is_free(vip, link, processes, tell)
    await processes.run([_BUSYBOX, "ip", "addr", "replace", f"{vip}/32", "dev", link])
    await processes.run([_BUSYBOX, "arping", "-U", "-q", "-c", "1", "-I", link, str(vip)], check=False)


async def _names(known: ClusterSite, own: IPv4Interface) -> list[dict[str, Any]]:
    """DNS as this VM has it: forward for the VIPs, and back for its own address."""
    wanted = {
        known.api: str(known.api_vip),
        known.api_internal: str(known.api_vip),
        f"rehearsal.{known.apps}": str(known.ingress_vip),
    }
    loop = asyncio.get_running_loop()

    async def forward(name: str, vip: str) -> dict[str, Any]:
        try:
            found = sorted({str(one[4][0]) for one in await loop.getaddrinfo(name, None, family=socket.AF_INET)})
        except OSError as error:
            return {"name": name, "good": False, "saw": f"is not known: {error.strerror or error}", "wanted": vip}
        return {"name": name, "good": vip in found, "saw": ", ".join(found), "wanted": vip}

    results = list(await asyncio.gather(*(forward(name, vip) for name, vip in wanted.items())))
    try:
        back, _ = await loop.getnameinfo((str(own.ip), 0), socket.NI_NAMEREQD)
        results.append({"name": str(own.ip), "good": True, "saw": back, "wanted": "a name"})
    except OSError as error:
        results.append(
            {"name": str(own.ip), "good": False, "saw": f"has no name: {error.strerror or error}", "wanted": "a name"}
        )
    return results


@asynccontextmanager
async def _machine_configs(known: ClusterSite, place: BootstrapPlace) -> AsyncIterator[None]:
    """Port 22623, where masters get their configuration; a simulated one gets an empty one."""

    async def config(_: web.Request) -> web.Response:
        return web.json_response({"ignition": {"version": "3.2.0"}})

    application = web.Application()
    application.router.add_get("/config/{pool}", config)
    runner = GuardedRunner(application, most=256)
    await runner.setup()
    context = machine_config_context(known, place.run)
    await GuardedTcpSite(runner, place.listen, MACHINE_CONFIG_PORT, ssl_context=context).start()
    try:
        yield
    finally:
        await runner.cleanup()


def _mac(link: str, place: BootstrapPlace) -> str:
    return (place.links / link / "address").read_text().strip()


def _fault(place: BootstrapPlace) -> InstallFault | None:
    """What the hypervisor wants to go wrong, on the kernel's command line."""
    for word in (place.root / "proc/cmdline").read_text().split():
        name, _, value = word.partition("=")
        if name == "rehearsal.fail" and value.rstrip("-") in list(InstallFault):
            return InstallFault(value.rstrip("-"))
    return None


def _release(place: BootstrapPlace) -> str | None:
    """Where the hypervisor offers what a bootstrap installs with; none in a quick rehearsal."""
    for word in (place.root / "proc/cmdline").read_text().split():
        name, _, value = word.partition("=")
        if name == "rehearsal.release" and value.startswith("http://"):
            return value.rstrip("-")
    return None
