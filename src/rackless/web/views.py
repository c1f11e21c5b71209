"""Every view of the page as JSON. What is asked is asked through the operations of the command line; nothing is changed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from rackless.codec import encode
from rackless.diagnosis.estimates import step_key
from rackless.errors import HypervisorError, InputError, LabError, RacklessError
from rackless.events import Event, StepStarted
from rackless.operations import hosts as host_operations
from rackless.operations.estimates import known_estimates
from rackless.operations.lab import AbsentLab, status
from rackless.operations.lab_events import kept_events, lab_events
from rackless.operations.why import why_lab
from rackless.plan.model import LabPlan
from rackless.plan.stages import STAGES
from rackless.protocol import messages as say
from rackless.protocol.client import ControlClient
from rackless.protocol.event_stream import EventsWanted
from rackless.protocol.failures import Failure
from rackless.run.paths import LabPaths
from rackless.web.lanes import lanes
from rackless.web.live import event_json
from rackless.web.site import WebSite

View = Mapping[str, Any]
KINDS = {
    "hosts": "BareMetalHost", "machines": "Machine", "nodes": "Node", "requests": "CertificateSigningRequest",
}  # fmt: skip
MOST_EVENTS = 2000
"""In one answer."""


async def labs_view(site: WebSite) -> View:
    found = []
    for name in site.labs():
        try:
            alive = await ControlClient(site.paths(name).socket).alive()
            found.append({"lab": name, "daemon": "running" if alive else "not running"})
        except HypervisorError:
            found.append({"lab": name, "daemon": "closed to you"})
    names, first = site.labs(), site.only or site.first
    return {"labs": found, "first": first if first in names else next(iter(names), None)}


async def rack_view(site: WebSite, lab: str) -> View:
    """The rack as it stands; while labd is away, as it was planned, and what was wrong with asking."""
    plan = site.plan(lab)
    places = _places(plan) if plan is not None else {"networks": [], "domain": "", "vips": {}}
    try:
        found = await status(lab, site.roots)
    except RacklessError as error:
        return _absent(lab, "not answering", plan, places) | {"trouble": encode(Failure.of(error))}
    if isinstance(found, AbsentLab):
        return _absent(lab, found.daemon, plan, places)
    return {**places, **encode(found), "goals": _goals(found.stages), "trouble": None}


def _goals(stages: Iterable[say.StageStatus]) -> list[dict[str, Any]]:
    """The words of `rackless up --until`, each with the stages that labd has for it."""
    goal_of = {stage.name: stage.goal for stage in STAGES}
    found: dict[str, list[say.StageStatus]] = {}
    for stage in stages:
        found.setdefault(goal_of.get(stage.name, stage.name), []).append(stage)
    return [{"name": goal, "reached": all(stage.reached for stage in its)} for goal, its in found.items()]


def _absent(lab: str, daemon: str, plan: LabPlan | None, places: View) -> dict[str, Any]:
    servers = [
        {
            "name": server.name, "role": server.role.value, "address": str(server.address), "bmc": server.bmc_origin,
            "power": None, "host": None, "error": "", "node": None, "machine": None, "boot": None, "boot_once": False,
            "media": None,
        }
        for server in (plan.servers if plan is not None else ())
    ]  # fmt: skip
    metal = [
        {
            "name": name, "bmc": host.bmc, "mac": host.mac, "taken": False, "power": None, "host": None, "error": "",
            "node": None, "machine": None,
        }
        for name, host in (plan.metal.items() if plan is not None else ())
    ]  # fmt: skip
    empty: dict[str, Any] = {name: [] for name in ("stages", "goals", "cut_off", "faults", "parts", "warnings")}
    gone = {"lab": lab, "daemon": daemon, "reached": None, "servers": servers, "metal": metal}
    return {**empty, **places, **gone, "api": None, "etcd": None, "vip": None, "trouble": None}


def _places(plan: LabPlan) -> dict[str, Any]:
    """The networks as lines: what answers on them, and who is plugged in."""
    cluster = plan.cluster
    services = [*(["DHCP"] if cluster.dhcp else []), "DNS", *(["NTP"] if cluster.ntp else [])]
    if plan.attached:
        services.append("a network of this computer")
    if plan.uplink.value != "none":
        services.append(f"uplink {plan.uplink.value}")
    found = [_network("cluster", str(cluster.gateway.network), cluster.bridge, services)]
    found.append(_network("baremetal", "", plan.baremetal.name, ["installer's VMs"]))
    router = plan.bmc_site.router
    how = ["Redfish", "IPMI", *([f"behind {router.ip}"] if router is not None else [])]
    found.append(_network("bmc", str(plan.bmc_site.network), plan.bmc.name, how))
    if plan.provisioning is not None:
        boots = ["PXE"] if plan.network_boot is not None or plan.provisioning_dhcp is not None else []
        cidr = str(plan.provisioning.addresses[0].network) if plan.provisioning.addresses else ""
        found.append(_network("provisioning", cidr, plan.provisioning.name, boots))
    for bridge in plan.extra:
        found.append(_network(bridge.name, ", ".join(str(one.network) for one in bridge.addresses), bridge.name, []))
    for vlan in plan.vlans:
        found.append(_network(vlan.name, str(vlan.address.network), vlan.bridge, [f"VLAN {vlan.tag}"]))
    for network in found:
        network["plugs"] = _plugs(plan, network["name"])
    vips = {"api": str(plan.api_vip), "ingress": str(plan.ingress_vip)}
    return {"networks": found, "domain": plan.domain, "vips": vips}


def _network(name: str, cidr: str, bridge: str, services: list[str]) -> dict[str, Any]:
    return {"name": name, "cidr": cidr, "bridge": bridge, "services": services}


def _plugs(plan: LabPlan, network: str) -> list[dict[str, str]]:
    """Servers by the NICs they have in it; in the BMCs' network, their BMCs."""
    if network == "bmc":
        return [{"server": server.name, "address": str(server.bmc_address)} for server in plan.servers]
    return [
        {"server": server.name, "address": str(nic.address or "")}
        for server in plan.servers
        for nic in server.nics
        if nic.network == network
    ]


async def host_records(paths: LabPaths) -> tuple[say.Record, ...]:
    return (await ControlClient(paths.socket).look(say.HOSTS)).hosts


def find_record(records: Iterable[Any], name: str) -> Any:
    return next((one for one in records if one["metadata"]["name"] == name), None)


async def install_view(site: WebSite, lab: str) -> View:
    """The steps as lanes, and where the install stands."""
    paths = site.paths(lab)
    told = await kept_events(paths, ["*"])
    rack = await rack_view(site, lab)
    chart = await draw_chart(site, lab, told, [server["name"] for server in rack["servers"]])
    standing = {name: rack[name] for name in ("daemon", "reached", "stages", "goals")}
    return {"lab": lab, **standing, **chart}


async def draw_chart(site: WebSite, lab: str, told: list[Event], names: list[str]) -> View:
    """With what this computer has learnt of how long steps take."""
    plan = site.plan(lab)
    servers = len(plan.servers) if plan is not None else 0

    def draw() -> View:
        known = known_estimates(site.roots)

        def learnt(step: StepStarted) -> float | None:
            usual = known.usual(step_key(step, servers))
            return usual.median if usual is not None else None

        return lanes(told, names, learnt)

    return await asyncio.to_thread(draw)


async def why_view(site: WebSite, lab: str) -> View:
    site.paths(lab)
    return (await why_lab(lab, site.roots, site.drivers, inside=False)).as_json()


async def objects_view(site: WebSite, lab: str) -> View:
    """Hosts, Machines, Nodes and certificate requests, word for word as the APIs have them."""
    paths = site.paths(lab)
    client = ControlClient(paths.socket)
    if not await client.alive():
        raise LabError(
            f"the lab {lab} is not running", why="its objects are in its API", hint="`rackless up` starts it"
        )
    objects, trouble = say.LabObjects(), None
    hosts = await host_records(paths)
    try:
        objects = await client.look(say.OBJECTS)
    except RacklessError as error:  # a daemon of an earlier version does not know this question
        trouble = encode(Failure.of(error))
    return {"hosts": encode(hosts), **encode(objects), "trouble": trouble}


async def object_view(site: WebSite, lab: str, kind: str, name: str) -> View:
    """One object, as YAML for a person, and the Kubernetes Events about it."""
    found = await objects_view(site, lab)
    record = find_record(found[kind], name) if kind in KINDS else None
    if record is None:
        raise InputError(f"there is no {name} among the {kind} of {lab}")
    text = await asyncio.to_thread(_yaml, record)  # a host with its hardware takes long enough to hold up other viewers
    return {"object": record, "yaml": text, **await _object_events(site, lab, KINDS[kind], name)}


def _yaml(record: Any) -> str:
    text: str = yaml.safe_dump(record, sort_keys=False, allow_unicode=True)
    return text


async def object_events_view(site: WebSite, lab: str) -> View:
    """Kubernetes Events of the lab's APIs, the latest first."""
    site.paths(lab)
    return await _object_events(site, lab)


async def _object_events(site: WebSite, lab: str, kind: str = "", name: str = "") -> dict[str, Any]:
    try:
        return {"events": encode(await host_operations.object_events(lab, kind, name, site.roots)), "trouble": None}
    except RacklessError as error:  # a daemon of an earlier version does not know this question
        return {"events": [], "trouble": encode(Failure.of(error))}


async def events_view(site: WebSite, lab: str, since: int, hear: tuple[str, ...]) -> View:
    found: list[dict[str, Any]] = []
    async for one in lab_events(site.paths(lab), EventsWanted(since, hear or ("*",), follow=False)):
        found.append(event_json(one, site.wording))
        if len(found) >= MOST_EVENTS:
            break
    return {"events": found}


def logs_view(site: WebSite, lab: str) -> View:
    return {"logs": [{"name": name, "bytes": path.stat().st_size} for name, path in _logs(site.paths(lab)).items()]}


def log_view(site: WebSite, lab: str, name: str, lines: int) -> View:
    known = _logs(site.paths(lab))
    if name not in known:
        raise InputError(f"there is no log {name}", why=f"there is {', '.join(known)}")
    with known[name].open("rb") as file:
        file.seek(max(0, file.seek(0, 2) - lines * 400))
        text = file.read().decode(errors="replace").splitlines()
    return {"name": name, "lines": text[-lines:]}


def _logs(paths: LabPaths) -> dict[str, Any]:
    """Of the lab's parts; what servers say is at their consoles."""
    return {path.stem: path for path in sorted(paths.logs.glob("*.log"))}
