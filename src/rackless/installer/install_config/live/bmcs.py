"""Every BMC: is it there, does it take the account, can it do what its scheme needs?"""

from __future__ import annotations

import asyncio
import time
from email.utils import parsedate_to_datetime

from rackless.errors import CommandFailed, GaveUp, HypervisorError
from rackless.installer.install_config import bmc_address
from rackless.installer.install_config.bmc_address import BmcAddress
from rackless.installer.install_config.config import Config, HostEntry
from rackless.installer.install_config.live import redfish
from rackless.installer.install_config.live.probe import Probe, failed, ok, unknown, warning
from rackless.ports.process import Processes

_SKEW = 300.0
_AT_ONCE = 16


async def observe(config: Config, processes: Processes, within: float = 10.0) -> list[Probe]:
    turn = asyncio.Semaphore(_AT_ONCE)

    async def one(host: HostEntry) -> list[Probe]:
        async with turn:
            return await _one(host, processes, within)

    return [probe for found in await asyncio.gather(*map(one, config.hosts)) for probe in found]


async def observe_host(host: HostEntry, processes: Processes, within: float = 10.0) -> list[Probe]:
    return await _one(host, processes, within)


async def _one(host: HostEntry, processes: Processes, within: float) -> list[Probe]:
    subject, path = f"BMC of {host.name}", f"{host.path}.bmc"
    try:
        address = bmc_address.parse(host.bmc_address)
    except bmc_address.BmcAddressError as error:
        return [failed(subject, "read its address", str(error), "correct bmc.address", path)]
    if address.is_redfish:
        return await _redfish(subject, path, host, address, within)
    if address.scheme.driver == "ipmi":
        return [await _ipmi(subject, path, host, address, processes, within)]
    return [unknown(subject, "nothing", f"how to ask a BMC of type {address.name} is not known here", "", path)]


async def _redfish(subject: str, path: str, host: HostEntry, address: BmcAddress, within: float) -> list[Probe]:
    client = redfish.RedfishReader(address, host.bmc_username, host.bmc_password, host.verify_certificate, within)
    did = f"read its system at {address.transport}://{address.host}:{address.port}{address.path} as {host.bmc_username}"
    try:
        said = await asyncio.to_thread(redfish.examine, client)
    except redfish.RedfishError as error:
        return [failed(subject, did, str(error), error.fix, path)]
    return [ok(subject, did, said, path), *_clock(subject, path, client.date)]


def _clock(subject: str, path: str, date: str) -> list[Probe]:
    """A BMC whose clock is far off logs nonsense and refuses certificates."""
    try:
        skew = parsedate_to_datetime(date).timestamp() - time.time()
    except (ValueError, TypeError, OverflowError):
        return []
    if abs(skew) < _SKEW:
        return []
    saw = f"it is {abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} this computer"
    return [
        warning(f"clock of the {subject}", "read its Date header", saw, "set the BMC's clock, or this computer's", path)
    ]


async def _ipmi(
    subject: str, path: str, host: HostEntry, address: BmcAddress, processes: Processes, within: float
) -> Probe:
    did = f"asked {address.host}:{address.port} for its power state by IPMI as {host.bmc_username}"
    there = ["-H", address.host, "-p", str(address.port), "-U", host.bmc_username]
    command = ["ipmitool", "-I", "lanplus", *there, "-E", "-R", "1", "-N", "2"]
    try:
        done = await processes.run(
            [*command, "chassis", "power", "status"], env={"IPMI_PASSWORD": host.bmc_password}, within=within
        )
    except HypervisorError:
        return unknown(subject, did, "ipmitool is not installed here", "install ipmitool", path)
    except (CommandFailed, GaveUp) as error:
        said = (
            error.output.strip().splitlines()[-1]
            if isinstance(error, CommandFailed) and error.output.strip()
            else "no answer"
        )
        return failed(subject, did, said, "check address, route, account, and that IPMI over LAN is on", path)
    return ok(subject, did, done.stdout.strip(), path)
