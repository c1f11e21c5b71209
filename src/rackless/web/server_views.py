"""One server as JSON: its hardware, its BMC, its host, its timeline. Nothing is changed."""

from __future__ import annotations

import asyncio
from typing import Any

from rackless.codec import encode
from rackless.errors import RacklessError
from rackless.lab.servers import disk_files
from rackless.operations import bmcs as bmc_operations
from rackless.operations import hosts as host_operations
from rackless.operations.access import find_server
from rackless.operations.lab_events import kept_events
from rackless.plan.model import LabPlan, PlannedServer
from rackless.protocol import messages as say
from rackless.protocol.failures import Failure
from rackless.run.paths import LabPaths
from rackless.web.site import WebSite
from rackless.web.views import View, draw_chart, find_record, host_records, rack_view


async def server_view(site: WebSite, lab: str, server: str) -> View:
    paths = site.paths(lab)
    hardware = find_server(lab, server, paths)
    rack = await rack_view(site, lab)
    record, trouble = None, None
    if rack["daemon"] == "running":
        try:
            record = find_record(await host_records(paths), server)
        except RacklessError as error:  # an API that does not answer takes nothing from the rest of the view
            trouble = encode(Failure.of(error))
    return {
        "server": next((one for one in rack["servers"] if one["name"] == server), None),
        "hardware": _hardware(hardware),
        "disks": await asyncio.to_thread(_disks, hardware, site.plan(lab), paths),
        "faults": [one for one in rack["faults"] if one["server"] in (None, server)],
        "host": record,
        "daemon": rack["daemon"],
        "trouble": trouble,
    }


def _hardware(server: PlannedServer) -> View:
    return {
        "uuid": str(server.uuid),
        "vcpus": server.vcpus,
        "memory_mib": server.memory_mib,
        "firmware": server.firmware.value,
        "secure_boot": server.secure_boot,
        "tpm": server.tpm,
        "disks": list(server.disks),
        "bmc_url": server.bmc_url,
        "fqdn": server.fqdn,
        "nics": [
            {"network": nic.network, "mac": nic.mac, "bridge": nic.bridge, "address": str(nic.address or "")}
            for nic in server.nics
        ],
    }


def _disks(server: PlannedServer, plan: LabPlan | None, paths: LabPaths) -> list[View]:
    """`used` are the bytes on this computer's disk; None where there is no file, or not for us."""
    files = disk_files(server, plan, paths) if plan is not None else []
    found: list[View] = []
    for file, size in zip(files, server.disks, strict=False):
        try:
            used: int | None = file.stat().st_blocks * 512
        except OSError:
            used = None
        found.append({"file": str(file), "bytes": size, "used": used})
    return found


async def bmc_view(site: WebSite, lab: str, server: str) -> View:
    """Where a server's BMC answers, how it stands, what its sensors show, and who asked it to change something."""
    site.paths(lab)
    info = await bmc_operations.bmc(lab, server, site.roots)
    inside, trouble = say.BmcInside(server), None
    if info.seen is not None:
        try:
            inside = await bmc_operations.bmc_inside(lab, server, site.roots)
        except RacklessError as error:  # a daemon of an earlier version does not know this question
            trouble = encode(Failure.of(error))
    faults = await _faults(site, lab) if info.seen is not None else []
    mine = [one for one in faults if one["server"] in (None, server)]
    return {**encode(info), **encode(inside), "faults": mine, "trouble": trouble}


async def faults_view(site: WebSite, lab: str) -> View:
    site.paths(lab)
    return {"faults": await _faults(site, lab)}


async def _faults(site: WebSite, lab: str) -> list[Any]:
    found: list[Any] = encode(await host_operations.faults(host_operations.lab_socket(lab, site.roots)))
    return found


async def timeline_view(site: WebSite, lab: str, server: str) -> View:
    """A server's own steps, as lanes."""
    paths = site.paths(lab)
    find_server(lab, server, paths)
    told = await kept_events(paths, [f"{kind}/{server}" for kind in ("host", "server", "node")])
    return {"lab": lab, "server": server, **await draw_chart(site, lab, told, [server])}
