"""`rackless rehearse --bmcs real`: a site's own servers, asked through their BMCs. No lab is made, and no installer is run.

Nothing is written and no power is changed, but for what a person allows by name; and then every server is left as it was found.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from rackless.cluster.openshift.report import NOT_PROVEN_BY_ASKING, Report
from rackless.drivers import open_drivers
from rackless.errors import InputError
from rackless.events import Bus
from rackless.installer.install_config import bmc_address
from rackless.installer.install_config.checking import read_config
from rackless.installer.install_config.config import HostEntry
from rackless.installer.install_config.live import bmcs, metal
from rackless.installer.install_config.live.probe import Probe, ProbeOutcome, unknown
from rackless.installer.install_config.live.redfish import RedfishError, RedfishReader
from rackless.operations.rehearsal.rehearse import check_config, read_source
from rackless.ports.drivers import Drivers
from rackless.ports.process import Processes

_AT_ONCE = 16


class Allowed(StrEnum):
    """What may be done to servers besides asking."""

    MEDIA = "media"
    POWER = "power"


@dataclass(frozen=True, slots=True)
class MetalWanted:
    source: Path
    allowed: frozenset[Allowed] = frozenset()
    image: str = ""
    """The URL of an ISO that BMCs can fetch, to be put into their drives and taken out again."""
    within: float = 10.0
    """Seconds a BMC has for an answer."""


async def rehearse_metal(wanted: MetalWanted, bus: Bus, drivers: Drivers | None = None) -> Report:
    processes = (drivers or open_drivers()).processes
    if Allowed.MEDIA in wanted.allowed and not wanted.image.startswith(("http://", "https://")):
        raise InputError(
            "no disc is named that could be put into drives",
            why="a BMC fetches it from a web server",
            hint="name one with --image http://SERVER/SOME.iso",
        )
    text = read_source(wanted.source)
    config = read_config(text)
    if config is None or config.metal is None:
        raise InputError(f"{wanted.source} is no install-config for bare metal", hint="`rackless check install-config`")
    report = Report(f"{config.name}.{config.base_domain}", not_proven=NOT_PROVEN_BY_ASKING, installs=False)
    began = time.monotonic()
    # the site's bridges are where its installer will run, not here
    check_config(text, report, (config.metal.external_bridge, config.metal.provisioning_bridge))
    turn = asyncio.Semaphore(_AT_ONCE)

    async def one(host: HostEntry) -> list[Probe]:
        async with turn:
            with bus.step(f"BMC of {host.name}") as step:
                found = await _ask(host, wanted, processes)
                bad = [probe for probe in found if probe.outcome is ProbeOutcome.FAILED]
                step.detail = bad[0].saw if bad else found[0].saw
                return found

    with bus.step(f"the servers of {report.cluster}"):
        report.phases["BMCs"] = time.monotonic() - began
        for probe in [probe for found in await asyncio.gather(*map(one, config.hosts)) for probe in found]:
            report.add_probe(probe)
    report.seconds = time.monotonic() - began
    return report


async def _ask(host: HostEntry, wanted: MetalWanted, processes: Processes) -> list[Probe]:
    """What may only be asked first: a BMC that refuses the account is told nothing."""
    found = await bmcs.observe_host(host, processes, wanted.within)
    if any(probe.outcome is not ProbeOutcome.OK for probe in found if probe.subject == f"BMC of {host.name}"):
        return found
    address = bmc_address.parse(host.bmc_address)
    if not address.is_redfish:
        return [*found, *_not_by_ipmi(host, wanted.allowed)]
    client = RedfishReader(address, host.bmc_username, host.bmc_password, host.verify_certificate, wanted.within)
    found += await _tried(host, lambda: metal.examine_host(client, host))
    if Allowed.MEDIA in wanted.allowed and address.virtual_media:
        found += await _tried(host, lambda: [metal.try_media(client, host, wanted.image)])
    if Allowed.POWER in wanted.allowed:
        found += await _tried(host, lambda: [metal.try_power(client, host)])
    return found


async def _tried(host: HostEntry, work: Callable[[], list[Probe]]) -> list[Probe]:
    try:
        return await asyncio.to_thread(work)
    except RedfishError as error:
        return [Probe(f"BMC of {host.name}", ProbeOutcome.FAILED, "asked on", str(error), error.fix, host.path)]


def _not_by_ipmi(host: HostEntry, allowed: Collection[Allowed]) -> list[Probe]:
    return [
        unknown(f"{what.value} of {host.name}", "nothing", "is only tried by Redfish", "", host.path)
        for what in sorted(allowed)
    ]
