"""Servers of lab.yaml that are named one by one, because a site has them so: with their MACs, addresses and BMCs."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator

from rackless.spec.change import Change, setting
from rackless.spec.images import NearbyFile
from rackless.spec.units import Address, Mac
from rackless.spec.value import Value

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,61}[a-z0-9])?")
_SERIAL = re.compile(r"[A-Za-z0-9._-]{1,20}")
_SYSTEM = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def _check_name(value: str) -> str:
    if not _NAME.fullmatch(value) or ".." in value:
        raise ValueError(f"{value!r} is not a host's name; use lower-case letters, digits, '-' and '.'")
    return value


def _check_serial(value: str) -> str:
    if not _SERIAL.fullmatch(value):
        raise ValueError(f"{value!r} is not a disk's serial number; use up to 20 letters, digits, '-', '_' and '.'")
    return value


def _check_system(value: str) -> str:
    if not _SYSTEM.fullmatch(value):
        raise ValueError(f"{value!r} is not the id of a system, such as 1 or System.Embedded.1")
    return value


HostName = Annotated[str, AfterValidator(_check_name)]
DiskSerial = Annotated[str, AfterValidator(_check_serial)]
SystemId = Annotated[str, AfterValidator(_check_system)]


class MemberBmc(Value):
    """Where one server's BMC answers, and to which account. Several may share an address, by port or by the id of their system."""

    address: Address | None = setting(
        "Its address; it may be the gateway's. Without it the one that follows from the server's number.",
        Change.RECREATE,
        default=None,
    )
    port: int | None = setting(
        "Its port; without it the usual one: 443, with `http` 80, for IPMI 623.",
        Change.RECREATE,
        default=None,
        ge=1,
        le=65535,
    )
    http: bool = setting("Redfish by plain HTTP, without TLS.", Change.RECREATE, default=False)
    system: SystemId = setting(
        "What the system is called behind /redfish/v1/Systems/, as System.Embedded.1 of one vendor.",
        Change.RECREATE,
        default="1",
    )
    username: str = setting("Who may log in.", Change.RECREATE, default="admin", min_length=1, max_length=64)
    password_file: NearbyFile | None = setting(
        "A file with the password; a relative path counts from this file. Without it the lab's own password.",
        Change.RECREATE,
        default=None,
    )


class Member(Value):
    """One server of a group, as a site has it."""

    name: HostName = setting("The server's name.", Change.RECREATE)
    mac: Mac | None = setting(
        "MAC of the NIC it boots from: on the provisioning network where there is one, else on the cluster's.",
        Change.RECREATE,
        default=None,
    )
    cluster_mac: Mac | None = setting(
        "MAC of its NIC on the cluster network, where that is another one.", Change.RECREATE, default=None
    )
    address: Address | None = setting(
        "Its address on the cluster network; without it the one that follows from its number.",
        Change.RECREATE,
        default=None,
    )
    disk_serial: DiskSerial | None = setting(
        "Serial number of its system disk; without it one that follows from its name.", Change.RESTART, default=None
    )
    bmc: MemberBmc = setting("Its BMC.", Change.RECREATE, default=MemberBmc())
