"""The nouns of lab.yaml. Every field has a default, so that an empty file is a whole lab.

These are values: frozen, without behaviour, without knowledge of how anything is made.
"""

from __future__ import annotations

from enum import StrEnum
from ipaddress import IPv4Network
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from rackless.spec.units import Cidr, DomainName, GroupName, LabName, Size

MIB = 1 << 20
GIB = 1 << 30


class Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Role(StrEnum):
    CONTROL_PLANE = "control-plane"
    WORKER = "worker"
    SPARE = "spare"


class NetworkSpec(Value):
    cidr: Cidr = Field(
        description="The addresses of this network. A lab has its own namespace, so labs may share them."
    )


class NetworksSpec(Value):
    cluster: NetworkSpec = Field(
        default=NetworkSpec(cidr=IPv4Network("192.168.111.0/24")),
        description="Where the servers, the VIPs, DHCP and DNS are. The gateway is its first address.",
    )
    bmc: NetworkSpec = Field(
        default=NetworkSpec(cidr=IPv4Network("192.168.112.0/24")),
        description="Where every server's BMC has an address of its own, on the standard ports.",
    )


class ServerGroup(Value):
    """Servers of one kind: group `ctrl` of three makes ctrl-0, ctrl-1 and ctrl-2."""

    role: Role = Field(
        default=Role.WORKER,
        description="What the servers become: control-plane, worker, or spare (defined, not provisioned by `up`).",
    )
    count: int = Field(default=1, ge=0, le=200, description="How many servers.")
    memory: Size = Field(
        default=1 * GIB,
        ge=768 * MIB,
        description="Memory of each server. The deploy agent needs 768MiB; 1GiB leaves the node room.",
    )
    vcpus: int = Field(default=1, ge=1, le=64, description="Virtual CPUs of each server.")
    disk: Size = Field(
        default=8 * GIB, ge=2 * GIB, description="Size of the system disk; thin, so it costs what is used."
    )


def _default_groups() -> dict[GroupName, ServerGroup]:
    return {
        "ctrl": ServerGroup(role=Role.CONTROL_PLANE, count=3),
        "worker": ServerGroup(role=Role.WORKER, count=1),
    }


class LabSpec(Value):
    """One lab, as a person describes it."""

    version: Literal[1] = Field(default=1, description="Version of this format.")
    name: LabName = Field(default="lab", description="The lab's name; labs with different names run side by side.")
    domain: DomainName = Field(
        default="rackless.test", description="Base domain: servers are NAME.LAB.DOMAIN, the API is api.LAB.DOMAIN."
    )
    networks: NetworksSpec = Field(default=NetworksSpec(), description="The networks of the lab.")
    servers: dict[GroupName, ServerGroup] = Field(
        default_factory=_default_groups, description="Groups of servers by name; the name is the servers' prefix."
    )
