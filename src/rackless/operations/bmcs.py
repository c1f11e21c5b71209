"""What a person asks of a lab's BMCs, from outside the lab: where each one answers, its virtual drive, its boot override.

A BMC's address follows from lab.yaml, so it is shown for a stopped lab, too; power, media and boot override are asked of labd.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rackless.errors import LabError
from rackless.events import Bus
from rackless.operations.access import unknown_server
from rackless.operations.lab_registry import READING, current_plan, require_lab, require_root
from rackless.operations.offering import offer
from rackless.plan.model import PlannedServer
from rackless.protocol import messages as say
from rackless.protocol.client import ControlClient
from rackless.protocol.messages import BmcInside, BmcSeen, BootTarget
from rackless.run.paths import LabPaths, Roots
from rackless.spec.images import ImageFormat, ImageSpec
from rackless.trust.bmc_passwords import secret_of
from rackless.trust.identity import USERNAME


@dataclass(frozen=True, slots=True)
class BmcInfo:
    """One BMC: its addresses, its account, and its state."""

    server: str
    address: str
    redfish: str | None
    """The URL of its system; None where it answers IPMI only."""
    ipmi_port: int | None
    """None where it answers Redfish only."""
    metal3: str
    """Its address as a BareMetalHost has it."""
    username: str
    password_file: str
    """Only root may read it."""
    ca: str
    """The certificate that its own is signed with."""
    seen: BmcSeen | None
    """Its power, media and boot override; None when labd does not answer."""


def bmc_info(server: PlannedServer, paths: LabPaths, seen: BmcSeen | None = None) -> BmcInfo:
    own = server.bmc
    secret = secret_of(server.name) if own is not None and own.own_password else "bmc"
    return BmcInfo(
        server=server.name,
        address=str(server.bmc_address),
        redfish=server.redfish_url,
        ipmi_port=server.ipmi_port,
        metal3=server.bmc_url,
        username=own.username if own is not None else USERNAME,
        password_file=str(paths.secrets / f"{secret}.password"),
        ca=str(paths.pki / "ca.crt"),
        seen=seen,
    )


async def bmcs(name: str, roots: Roots) -> list[BmcInfo]:
    paths = require_lab(name, roots)
    client = ControlClient(paths.socket)
    found = (await client.look(say.BMCS)).bmcs if await client.alive() else ()
    seen = {bmc.server: bmc for bmc in found}
    return [bmc_info(server, paths, seen.get(server.name)) for server in current_plan(paths).servers]


async def bmc(name: str, server: str, roots: Roots) -> BmcInfo:
    known = await bmcs(name, roots)
    for one in known:
        if one.server == server:
            return one
    raise unknown_server(name, [server], [one.server for one in known])


async def bmc_inside(name: str, server: str, roots: Roots) -> BmcInside:
    """Its sensors, its log, and who asked it to change something."""
    paths = require_lab(name, roots)
    return await ControlClient(paths.socket).work(say.BMC, say.WantBmc(server), Bus())


def read_password(info: BmcInfo) -> str:
    require_root("read the passwords of BMCs", why=READING)
    try:
        return Path(info.password_file).read_text().strip()
    except FileNotFoundError as error:
        raise LabError(
            f"the BMC of {info.server} has no password yet",
            why="it gets one when it is first started",
            hint="`rackless up --until bmc` starts the BMCs",
        ) from error


async def insert_media(name: str, server: str, image: ImageSpec, roots: Roots, bus: Bus) -> BmcSeen:
    """Put an image into a BMC's drive: the BMC fetches a URL itself, a file is offered by the lab's file server first."""
    paths = require_lab(name, roots)
    if image.is_path:
        with bus.step("your image"):
            image = await offer(image.model_copy(update={"format": ImageFormat.LIVE_ISO}), paths)
    with bus.step(f"the drive of {server}", subject=f"server/{server}") as step:
        asked = say.InsertMedia(server, image.url)
        return await ControlClient(paths.socket).work(say.INSERT_MEDIA, asked, bus, step=step.id)


async def eject_media(name: str, server: str, roots: Roots) -> BmcSeen:
    paths = require_lab(name, roots)
    return await ControlClient(paths.socket).work(say.EJECT_MEDIA, say.EjectMedia(server), Bus())


async def set_boot(name: str, server: str, device: BootTarget, roots: Roots, *, once: bool) -> BmcSeen:
    paths = require_lab(name, roots)
    return await ControlClient(paths.socket).work(say.SET_BOOT, say.SetBoot(server, device, once), Bus())
