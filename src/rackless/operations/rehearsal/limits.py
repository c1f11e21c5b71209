"""What a full rehearsal is otherwise than the site, and what it cannot install: seen in the install-config, before all else."""

from __future__ import annotations

from string import ascii_lowercase

from rackless.cluster.openshift import driving
from rackless.cluster.openshift.report import BOOT_NETWORK, FULL_SUBJECTS, NOT_PROVEN_IN_FULL, Report
from rackless.errors import InputError
from rackless.installer.install_config import bmc_address
from rackless.installer.install_config.checking import read_config
from rackless.installer.install_config.config import BareMetalPlatform
from rackless.installer.install_config.values import parse_ip
from rackless.installer.twin.root_disks import read_hints
from rackless.installer.twin.site import ARBITERS
from rackless.plan.model import LabPlan, PlannedServer
from rackless.spec.disks import DiskBus

FULL_DEVIATIONS = (
    "servers get the reference system, written by Ironic, where the manifests say install_coreos",
    "certificates of BMCs are not verified: the twin's are of the lab's CA",
)


def refuse_full(text: str, *, routed: bool = False) -> None:
    """Before anything is made: what the bootstrap of a full rehearsal cannot install. `routed` says that the lab's BMCs are behind
    a router of their own. Raises InputError."""
    config = read_config(text)
    if config is None or config.metal is None:
        return  # said better by the rules
    for host in config.hosts:
        driving.refuse_host(host.name, host.bmc_address, config.metal.provisioning)
        if (at := _in_boot_network(host.bmc_address, config.metal)) is not None:
            raise InputError(
                f"a full rehearsal cannot install {host.name}",
                why=f"its BMC {at} is in the provisioning network, and in the twin BMCs do not answer there",
                hint="rehearse it with --quick",
            )
        if routed and not config.metal.disabled and not driving.boots_by_network(host.bmc_address):
            raise InputError(
                f"a full rehearsal cannot install {host.name}",
                why="its BMC fetches discs on the provisioning network, where the bootstrap is, and no router leads there",
                hint="rehearse it with --quick, or without --bmc-access routed",
            )


def _in_boot_network(address: str, metal: BareMetalPlatform) -> object:
    """The BMC's address, where it is in the network that hosts boot from."""
    try:
        place = parse_ip(bmc_address.parse(address).host)
    except bmc_address.BmcAddressError:
        return None
    return place if not metal.disabled and metal.cidr is not None and place in metal.cidr else None


def unfit_hints(text: str, plan: LabPlan) -> dict[str, list[str]]:
    """Root device hints that no disk of the lab's server fits, by host: with them nothing could be installed on it."""
    config = read_config(text)
    if config is None:
        return {}
    found = {}
    for name, hints in read_hints(config).items():
        server = plan.server(name)
        if server is not None and (unfit := [hint for hint, value in hints.items() if not _fits(hint, value, server)]):
            found[name] = unfit
    return found


def _fits(hint: str, value: object, server: PlannedServer) -> bool:
    if (hint, value) in server.root_device:
        return True
    stem = "/dev/vd" if server.disk_bus is DiskBus.VIRTIO else "/dev/sd"
    return {
        "deviceName": value in [f"{stem}{ascii_lowercase[place]}" for place in range(len(server.disks))],
        "serialNumber": value == server.disk_serial,
        "minSizeGigabytes": isinstance(value, int) and value <= max(server.disks) >> 30,
    }.get(hint, False)


def announce_full(report: Report, text: str) -> None:
    """What the report of a full rehearsal tells besides a quick one's: its lines, and what is otherwise than at the site."""
    report.not_proven, report.subjects = NOT_PROVEN_IN_FULL, FULL_SUBJECTS
    report.deviations += FULL_DEVIATIONS
    config = read_config(text)
    if config is None or config.metal is None:
        return
    if not config.metal.disabled:
        report.subjects = (*FULL_SUBJECTS, BOOT_NETWORK)
    if config.arbiter is not None:
        report.deviations = [one for one in report.deviations if one != ARBITERS]
        report.deviations.append("arbiters are control planes like the others")
