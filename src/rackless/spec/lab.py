"""One lab as a person describes it. Every field has a default, so that an empty file is a whole lab.

These are values: frozen, without behaviour, without knowledge of how anything is made.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import PlainSerializer, field_validator, model_validator

from rackless.spec.change import Change, setting
from rackless.spec.cluster import ClusterSpec
from rackless.spec.disks import DiskSpec
from rackless.spec.hosts import MetalHost
from rackless.spec.images import ImageSpec
from rackless.spec.members import HostName
from rackless.spec.networks import NetworksSpec, Provisioning
from rackless.spec.profiles import PROFILES, Profile
from rackless.spec.provisioner import ProvisionerSpec
from rackless.spec.remediation import Remediation
from rackless.spec.servers import GIB, MIB, Role, ServerGroup, WayToBoot, way_to_boot
from rackless.spec.units import DomainName, GroupName, LabName
from rackless.spec.value import Value

__all__ = ["GIB", "MIB", "LabSpec", "NetworksSpec", "Profile", "Role", "ServerGroup"]

Folder = Annotated[Path, PlainSerializer(str)]


class LabSpec(Value):
    """One lab, as a person describes it."""

    version: Literal[1] = setting("Version of this format.", Change.REFUSED, default=1)
    name: LabName = setting(
        "The lab's name; labs with different names run side by side.", Change.REFUSED, default="lab"
    )
    domain: DomainName = setting(
        "Base domain: servers are NAME.LAB.DOMAIN, the API is api.LAB.DOMAIN.",
        Change.RECREATE,
        default="rackless.test",
    )
    profile: Profile = setting(
        "Which servers there are when `servers` is not given: `tiny` (the reference cluster, also without KVM), "
        "`compact` (3 control planes for OpenShift), `full` (3 control planes and 2 workers).",
        Change.LIVE,
        default=Profile.TINY,
    )
    networks: NetworksSpec = setting("The networks of the lab.", Change.RECREATE, default=NetworksSpec())
    servers: dict[GroupName, ServerGroup] = setting(
        "Groups of servers by name; the name is the servers' prefix.",
        Change.LIVE,
        default_factory=lambda: dict(PROFILES[Profile.TINY]),
    )
    hosts: dict[HostName, MetalHost] = setting(
        "Servers of metal beside the lab's own, by name, known by their BMCs, which the lab must reach (`networks.uplink`). "
        "Nothing is asked of one before `rackless host take`; taken out of this list, it stays as it is.",
        Change.LIVE,
        default_factory=dict,
    )
    cluster: ClusterSpec = setting("The cluster on the servers.", Change.RECREATE, default=ClusterSpec())
    image: ImageSpec | None = setting(
        "An image of your own for all servers that are not spare; without it the node image of the reference cluster.",
        Change.RECREATE,
        default=None,
    )
    provisioner: ProvisionerSpec | None = setting(
        "An Ironic that runs already, instead of one of the lab's own.", Change.RECREATE, default=None
    )
    storage: Folder | None = setting(
        "Folder for the disks, made when it is missing; without it they are in the lab's own.",
        Change.RECREATE,
        default=None,
    )
    disk: DiskSpec = setting("How disks are kept.", Change.RESTART, default=DiskSpec())
    remediation: Remediation = setting(
        "Whether the lab does by itself what is safe and somebody would do by hand (a server whose agent was never heard of is "
        "restarted once, programs that ended are started, a host is tried again, a node's certificate approved): `auto`, `ask` "
        "(only `rackless why --fix`), or `off`. What it did is in `rackless events`.",
        Change.LIVE,
        default=Remediation.ASK,
    )
    memory_overcommit: bool = setting("Allow servers more memory than the computer has.", Change.LIVE, default=False)

    @field_validator("remediation", mode="before")
    @classmethod
    def _read_off(cls, given: Any) -> Any:
        """YAML reads a bare `off` as false."""
        return Remediation.OFF if given is False else given

    @model_validator(mode="before")
    @classmethod
    def _take_profile(cls, given: Any) -> Any:
        if isinstance(given, dict) and given.get("profile") in list(Profile) and given.get("servers") is None:
            return {**given, "servers": PROFILES[Profile(given["profile"])]}
        return given

    @model_validator(mode="before")
    @classmethod
    def _bring_a_network_to_boot_from(cls, given: Any) -> Any:
        """Adds the managed provisioning network when a server group boots over the network, unless the lab says otherwise."""
        if not isinstance(given, dict) or not isinstance(groups := given.get("servers"), dict):
            return given
        networks = given.get("networks", {})
        provisioning = networks.get("provisioning", {}) if isinstance(networks, dict) else None
        if (
            not isinstance(provisioning, dict)
            or "mode" in provisioning
            or not any(map(_boots_over_network, groups.values()))
        ):
            return given
        managed = {**networks, "provisioning": {**provisioning, "mode": Provisioning.MANAGED}}
        return {**given, "networks": managed}


def _boots_over_network(group: Any) -> bool:
    if isinstance(group, ServerGroup):
        return group.boot is WayToBoot.NETWORK
    return isinstance(group, dict) and way_to_boot(group.get("bmc"), group.get("boot"))[1] == WayToBoot.NETWORK
