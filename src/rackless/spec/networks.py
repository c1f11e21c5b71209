"""The networks of lab.yaml: cluster, provisioning, BMC, extra ones, names, and the way out."""

from __future__ import annotations

from enum import StrEnum
from ipaddress import IPv4Network
from typing import Any

from pydantic import field_validator, model_validator

from rackless.spec.attach import AttachSpec
from rackless.spec.change import Change, setting
from rackless.spec.discover import Discover
from rackless.spec.link import LinkSpec
from rackless.spec.units import Address, AddressRange, Cidr, InterfaceName, Mac, RecordName, split_range
from rackless.spec.uplink import UplinkSpec
from rackless.spec.value import Value


class Dhcp(StrEnum):
    INSTALLER = "installer"
    STATIC_ONLY = "static-only"
    OPEN = "open"
    THEIRS = "theirs"
    NONE = "none"

    @property
    def answers(self) -> bool:
        """Whether the lab does."""
        return self not in (Dhcp.THEIRS, Dhcp.NONE)

    @classmethod
    def _missing_(cls, value: object) -> Dhcp | None:
        """`reserved` is what `installer` was called."""
        return cls.INSTALLER if value == "reserved" else None


class Provisioning(StrEnum):
    DISABLED = "disabled"
    MANAGED = "managed"
    UNMANAGED = "unmanaged"


class BmcAccess(StrEnum):
    DIRECT = "direct"
    ROUTED = "routed"


class BootstrapSpec(Value):
    """The VM that an installer makes for itself."""

    mac: Mac | None = setting(
        "MAC of the installer's bootstrap VM; without it one is derived from the lab's name. It has a reservation.",
        Change.LIVE,
        default=None,
    )
    address: Address | None = setting(
        "Address reserved for the bootstrap VM; without it the 9th of the network.", Change.LIVE, default=None
    )
    range: AddressRange | None = setting(
        "Addresses for installers that choose a random MAC, given only to the prefix 52:54:00; without it the 10th "
        "to the 19th.",
        Change.LIVE,
        default=None,
    )


class RouteSpec(Value):
    """A static route that DHCP hands out (option 121, which then also carries the default route)."""

    to: Cidr = setting("Where the route leads.", Change.LIVE)
    via: Address = setting("Through which address of the cluster network.", Change.LIVE)
    audience: tuple[str, ...] = setting(
        "Who gets it: names of server groups, or `bootstrap` for installer-made VMs; empty is everybody.",
        Change.LIVE,
        default=(),
    )


class ClusterNetwork(Value):
    cidr: Cidr = setting(
        "The addresses of this network. A lab has its own namespace, so labs may share them.",
        Change.RECREATE,
        default=IPv4Network("192.168.111.0/24"),
    )
    gateway: Address | None = setting(
        "The lab's own address on it, where DHCP, DNS, NTP and the way out are; without it the 1st of the network.",
        Change.RECREATE,
        default=None,
    )
    bridge: InterfaceName = setting(
        "The bridge that installers put their machines on; joined to this network.",
        Change.RECREATE,
        default="baremetal",
    )
    api_vip: Address | None = setting(
        "Virtual address of the API; without it the 5th of the network.", Change.RECREATE, default=None
    )
    ingress_vip: Address | None = setting(
        "Virtual address of the applications (*.apps); without it the 4th of the network.",
        Change.RECREATE,
        default=None,
    )
    dhcp: Dhcp = setting(
        "Who gets an address: `installer` the servers and what an installer makes; `static-only` nobody but those with a "
        "reservation; `open` everybody, from the bootstrap's range; `theirs`: the lab does not answer, because somebody else "
        "does on the network that is attached, which is the default with `attach`; `none`: nobody answers, so an install "
        "(`cluster.method: ipi`, or one of your own) tells its bootstrap and every server their addresses.",
        Change.LIVE,
        default=Dhcp.INSTALLER,
    )
    mtu: int | None = setting(
        "The largest packet, in bytes, on its bridges and NICs; DHCP tells it to clients. Without it the kernel's 1500.",
        Change.RESTART,
        default=None,
        ge=576,
        le=9216,
    )
    link: LinkSpec | None = setting(
        "How slow and lossy the way to the servers is: what the lab, and everything behind its gateway, sends to them. Between "
        "servers, and from them, it is as ever.",
        Change.LIVE,
        default=None,
    )
    attach: AttachSpec | None = setting(
        "A bridge or a NIC of the hypervisor that becomes the wire of this network; `attach: br0` is short for its device. "
        "`down` and `destroy` give it back as it was.",
        Change.LIVE,
        default=None,
    )
    bootstrap: BootstrapSpec = setting("The installer's bootstrap VM.", Change.LIVE, default=BootstrapSpec())
    routes: tuple[RouteSpec, ...] = setting(
        "Static routes that DHCP hands out. With `attach` the lab itself takes those for everybody, too: its way to BMCs behind a "
        "router of the site; one that is taken out of this list goes at the next `down`.",
        Change.LIVE,
        default=(),
    )

    @model_validator(mode="before")
    @classmethod
    def _leave_dhcp_to_others(cls, given: Any) -> Any:
        """A network of others has a DHCP server as a rule, and two would fight."""
        if isinstance(given, dict) and given.get("attach") and "dhcp" not in given:
            return {**given, "dhcp": Dhcp.THEIRS}
        return given


class ProvisioningNetwork(Value):
    mode: Provisioning = setting(
        "`disabled`: hosts boot by virtual media. `managed`: whoever provisions the hosts brings DHCP and TFTP; that is "
        "the lab's Ironic once it runs, or an installer when the lab is made `--until bmc`. `unmanaged`: the lab answers "
        "DHCP as somebody else's server at a site would, and leads servers by iPXE to an install's Ironic, at the 2nd address of "
        "the network (its bootstrap) or the 3rd (its cluster); not to the lab's own (`cluster.method: direct`). Without it: "
        "`managed` when a group boots over the network, else `disabled`.",
        Change.RECREATE,
        default=Provisioning.DISABLED,
    )
    cidr: Cidr = setting("The addresses of this network.", Change.RECREATE, default=IPv4Network("172.22.0.0/24"))
    gateway: Address | None = setting(
        "The lab's own address on it; without it the 1st of the network.", Change.RECREATE, default=None
    )
    bridge: InterfaceName = setting("Its bridge.", Change.RECREATE, default="provisioning")
    discover: Discover = setting(
        "Servers that nobody has described and that boot from this network: `off` leaves them without an answer; with `url` "
        "or `mdns` they boot the agent, which is told where Ironic is or asks for it by multicast DNS, and become unmanaged "
        "hosts with what is in them. Needs `mode: managed`.",
        Change.RECREATE,
        default=Discover.OFF,
    )

    @field_validator("discover", mode="before")
    @classmethod
    def _read_off(cls, given: Any) -> Any:
        """YAML reads a bare `off` as false."""
        return Discover.OFF if given is False else given


class BmcNetwork(Value):
    cidr: Cidr = setting(
        "The addresses of the BMCs; servers and BMCs have the same host number.",
        Change.RECREATE,
        default=IPv4Network("192.168.112.0/24"),
    )
    access: BmcAccess = setting(
        "`direct`: reachable through the gateway. `routed`: behind a router of their own, so that a static route is "
        "really needed, as at sites with a management network.",
        Change.RECREATE,
        default=BmcAccess.DIRECT,
    )
    router: Address | None = setting(
        "With `routed`: the router's address on the cluster network; without it the 2nd.",
        Change.RECREATE,
        default=None,
    )
    allow: tuple[Cidr, ...] = setting(
        "Who may talk to the BMCs, besides the lab itself: networks, addresses, and ranges such as "
        "192.168.111.30-192.168.111.39, which are read as the networks they are made of. Empty is everybody who can reach them.",
        Change.LIVE,
        default=(),
    )

    @field_validator("allow", mode="before")
    @classmethod
    def _split_ranges(cls, given: Any) -> Any:
        if not isinstance(given, list | tuple):
            return given
        return [part for one in given for part in (split_range(one) if isinstance(one, str) and "-" in one else [one])]


class ExtraNetwork(Value):
    """One more network: with a bridge of its own and another NIC in every server, or tagged on the cluster's wire."""

    cidr: Cidr = setting("The addresses of this network; the lab has the first.", Change.RECREATE)
    vlan: int | None = setting(
        "Tag of a VLAN on the cluster network's wire; without it the network has a bridge and NICs of its own.",
        Change.RECREATE,
        default=None,
        ge=1,
        le=4094,
    )
    mtu: int | None = setting(
        "The largest packet, in bytes, on its bridge and NICs; without it the kernel's 1500. Not for a VLAN, which has its wire's.",
        Change.RESTART,
        default=None,
        ge=576,
        le=9216,
    )


class DnsSpec(Value):
    records: dict[RecordName, Address] = setting(
        "More names: relative to the lab's domain, or ending with a dot; `*.` in front catches all below.",
        Change.LIVE,
        default={},
    )
    forward: tuple[Address, ...] = setting(
        "Name servers that are asked for everything else; empty keeps all questions in the lab, or, with an uplink, "
        "asks those of the hypervisor.",
        Change.LIVE,
        default=(),
    )


class NetworksSpec(Value):
    cluster: ClusterNetwork = setting(
        "Where the servers, the VIPs, DHCP, DNS and NTP are.",
        Change.RECREATE,
        default=ClusterNetwork(),
    )
    bmc: BmcNetwork = setting(
        "Where every server's BMC has an address of its own, on the standard ports.",
        Change.RECREATE,
        default=BmcNetwork(),
    )
    provisioning: ProvisioningNetwork = setting(
        "The network for PXE, on the servers' first NIC.", Change.RECREATE, default=ProvisioningNetwork()
    )
    extra: dict[InterfaceName, ExtraNetwork] = setting("More networks, by name.", Change.RECREATE, default={})
    dns: DnsSpec = setting("Names beyond those of the servers.", Change.LIVE, default=DnsSpec())
    uplink: UplinkSpec = setting("The way out; `uplink: nat` is short for its mode.", Change.LIVE, default=UplinkSpec())
