"""What a viewer may do: the operations of the command line, asked for with typed values."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml
from aiohttp import web

from rackless.codec import BadValue, decode, encode
from rackless.errors import InputError, LabError
from rackless.events import Bus
from rackless.operations import bmcs as bmc_operations
from rackless.operations import hosts as host_operations
from rackless.operations import lab as lab_operations
from rackless.operations import servers as server_operations
from rackless.operations.access import find_server
from rackless.operations.lab_registry import recorded_spec
from rackless.protocol.messages import BootTarget, ClearFaults, FaultWish, HostVerb, HostWish, PowerAction
from rackless.spec.images import ImageSpec
from rackless.spec.load import parse
from rackless.web.site import WebSite

T = TypeVar("T")
SCREEN_SECONDS = 4.0
"""How long a picture is shown to everybody who asks for it."""
MOST_CAPTURE_SECONDS, MOST_CAPTURE_MIB = 120.0, 16
_VERBS = ("inspect", "clean", "retry", "deprovision")
"""Of a host, those that need nothing but its name."""


@dataclass(frozen=True, slots=True)
class PowerAsked:
    action: PowerAction


@dataclass(frozen=True, slots=True)
class VerbAsked:
    verb: HostVerb


@dataclass(frozen=True, slots=True)
class BootAsked:
    device: BootTarget
    once: bool = True


@dataclass(frozen=True, slots=True)
class MediaAsked:
    url: str | None
    """None ejects what is in the drive."""
    boot: bool = False
    """Also have the next start be from it."""


@dataclass(frozen=True, slots=True)
class CaptureAsked:
    seconds: float = 10.0
    network: str | None = None


@dataclass(frozen=True, slots=True)
class PlanAsked:
    text: str
    """A lab.yaml."""


@dataclass(frozen=True, slots=True)
class LinkAsked:
    read_only: bool = True


def read_asked(kind: type[T], value: object) -> T:
    try:
        return decode(kind, value)
    except BadValue as error:
        raise InputError("this cannot be asked", why=str(error)) from error


async def press_power(site: WebSite, lab: str, server: str, asked: PowerAsked) -> Any:
    site.paths(lab)
    return encode(await server_operations.power(lab, server, asked.action, site.roots))


async def ask_of_host(site: WebSite, lab: str, server: str, asked: VerbAsked) -> Any:
    """It is not waited for: what comes of it is in the events."""
    site.paths(lab)
    if asked.verb not in _VERBS:
        raise InputError(f"{asked.verb} needs more than a host", hint=f"`rackless host {asked.verb} --help`")
    return encode(await host_operations.wish(lab, HostWish(asked.verb, server, wait=False), site.roots, Bus()))


async def choose_boot(site: WebSite, lab: str, server: str, asked: BootAsked) -> Any:
    site.paths(lab)
    return encode(await bmc_operations.set_boot(lab, server, asked.device, site.roots, once=asked.once))


async def change_media(site: WebSite, lab: str, server: str, asked: MediaAsked) -> Any:
    """A URL, which the BMC fetches by itself. No path: whoever has the link would have this computer's files read as root."""
    site.paths(lab)
    if asked.url is None:
        return encode(await bmc_operations.eject_media(lab, server, site.roots))
    if not asked.url.startswith(("http://", "https://")):
        raise InputError(
            "an image is given by its URL here, with http:// or https://",
            hint=f"`rackless bmc media insert {server} FILE` offers a file of this computer",
        )
    try:
        image = ImageSpec.model_validate({"url": asked.url})
    except ValueError as error:
        raise InputError(f"{asked.url} is no URL of an image") from error
    seen = await bmc_operations.insert_media(lab, server, image, site.roots, Bus())
    if asked.boot:
        seen = await bmc_operations.set_boot(lab, server, "cdrom", site.roots, once=True)
    return encode(seen)


async def capture_packets(site: WebSite, lab: str, server: str, asked: CaptureAsked) -> bytes:
    """A pcap file. One of a lab at a time, for a while, and only so large: it is held in memory until it is handed over."""
    site.paths(lab)
    if not 1 <= asked.seconds <= MOST_CAPTURE_SECONDS:
        raise InputError(
            f"packets are recorded here for 1 to {MOST_CAPTURE_SECONDS:g} seconds", hint="`rackless capture` goes on"
        )
    if lab in site.captures:
        raise LabError("packets are being recorded already", hint="wait until that ends")
    site.captures.add(lab)
    try:
        with tempfile.TemporaryDirectory(prefix="rackless-web-") as scratch:
            target = Path(scratch, "packets.pcap")
            wanted = server_operations.CaptureWanted(asked.seconds, asked.network, MOST_CAPTURE_MIB)
            await server_operations.capture_apart(lab, server, target, wanted, site.roots, site.drivers)
            return target.read_bytes()
    finally:
        site.captures.discard(lab)


async def add_fault(site: WebSite, lab: str, asked: FaultWish) -> Any:
    site.paths(lab)
    return encode(await host_operations.add_fault(host_operations.lab_socket(lab, site.roots), asked))


async def clear_faults(site: WebSite, lab: str, asked: ClearFaults) -> Any:
    site.paths(lab)
    socket = host_operations.lab_socket(lab, site.roots)
    return {"cleared": await host_operations.clear_faults(socket, asked.ids)}


async def take_picture(site: WebSite, lab: str, server: str) -> bytes:
    """The screen as a PNG; one picture at a time, and the same for all who ask within a few seconds."""
    paths = site.paths(lab)
    find_server(lab, server, paths)
    async with site.pictures.lock(lab):
        kept = site.pictures.kept.get((lab, server))
        if kept is not None and time.monotonic() - kept[0] < SCREEN_SECONDS:
            return kept[1]
        with tempfile.TemporaryDirectory(prefix="rackless-web-") as scratch:
            target = Path(scratch, "screen.png")
            await server_operations.screenshot(lab, server, target, site.roots, site.drivers)
            picture = target.read_bytes()
        site.pictures.kept[lab, server] = (time.monotonic(), picture)
        return picture


def description_view(site: WebSite, lab: str) -> Mapping[str, Any]:
    """What the lab was made from, as a lab.yaml: its servers, and every other field that is not as usual."""
    spec = recorded_spec(site.paths(lab))
    if spec is None:
        return {"lab": lab, "text": f"name: {lab}\n"}
    groups = {name: group.model_dump(mode="json", exclude_defaults=True) for name, group in spec.servers.items()}
    fields = {"name": lab, **spec.model_dump(mode="json", exclude_defaults=True), "servers": groups}
    return {"lab": lab, "text": yaml.safe_dump(fields, sort_keys=False, allow_unicode=True)}


async def plan_edit(site: WebSite, lab: str, asked: PlanAsked) -> Mapping[str, Any]:
    """What `up` would do with this description instead; nothing is changed."""
    site.paths(lab)
    spec = await asyncio.to_thread(parse, asked.text, "lab.yaml", folder=Path("/"))
    if spec.name != lab:
        raise InputError(f"this describes the lab {spec.name}, and not {lab}", hint="leave its name as it is")
    actions = await lab_operations.plan(spec, site.roots, drivers=site.drivers)
    return {"lab": lab, "actions": [asdict(action) for action in actions]}


def make_link(site: WebSite, request: web.Request, asked: LinkAsked) -> Mapping[str, Any]:
    """For one more browser: it can be used once."""
    token = site.access.make_link(read_only=asked.read_only)
    return {"url": f"{site.scheme}://{request.host}/?token={token}", "read_only": asked.read_only}
