"""Hosts of metal in lab.yaml. They exist without the lab and somebody may be using them, so the lab takes one only when told to."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator

from rackless.spec.change import Change, setting
from rackless.spec.images import NearbyFile
from rackless.spec.servers import ServerFirmware
from rackless.spec.units import Mac
from rackless.spec.value import Value

_ADDRESS = re.compile(r"(redfish-virtualmedia|redfish)(\+https?)?://[^/\s@?#]+/\S+|ipmi://[^/\s@?#]+")


def _check_address(value: str) -> str:
    if not _ADDRESS.fullmatch(value):
        raise ValueError(
            f"{value!r} is not where a BMC answers; write redfish-virtualmedia://HOST/redfish/v1/Systems/ID, redfish://… or ipmi://HOST"
        )
    return value


BmcUrl = Annotated[str, AfterValidator(_check_address)]


class MetalHost(Value):
    """A server that the lab did not make. Nothing is asked of it before somebody says `rackless host take NAME`."""

    bmc: BmcUrl = setting(
        "Where its BMC answers, as Metal3 writes it: `redfish-virtualmedia://10.0.7.7/redfish/v1/Systems/1`.",
        Change.LIVE,
    )
    mac: Mac = setting("MAC of the NIC it boots from.", Change.LIVE)
    username: str = setting("Who may log in at its BMC.", Change.LIVE, default="admin", min_length=1, max_length=64)
    password_file: NearbyFile = setting(
        "A file with the password; a relative path counts from this file. `up` keeps a copy that only root can read.",
        Change.LIVE,
    )
    insecure: bool = setting(
        "Take whatever certificate the BMC shows. Else it must be one of the lab's CA.", Change.LIVE, default=False
    )
    firmware: ServerFirmware = setting("UEFI or BIOS.", Change.LIVE, default=ServerFirmware.UEFI)
