"""The firewall of an uplink: nftables at both of its ends, rendered by pure functions.

The hypervisor's end does not trust the lab: its own services, the networks it is in, private and link-local addresses are refused
unless they are named. The lab's end refuses the same once more, in case somebody flushes the hypervisor's rules, and can tell
what the other end cannot: whether a packet comes from a guest or from the lab's own DNS server. Only the latter may ask the outer
name servers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, collapse_addresses

from rackless.spec.uplink import Reach

LAB_TABLE = "rackless_uplink"
OPENED = "opened"
"""The nftables set with the interfaces of the hypervisor on which a lab switched on forwarding: other labs read it."""
NOT_THE_INTERNET = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
            "192.168.0.0/16", "224.0.0.0/3",
        ),
    )
)  # fmt: skip
"""Private, of this computer, link-local, shared (where other labs' uplinks are), for groups, and reserved."""


@dataclass(frozen=True, slots=True)
class Gate:
    """One uplink: where it is, and what may be reached by it."""

    link: str
    """The hypervisor's end."""
    inside: str
    """The lab's end."""
    subnet: IPv4Network
    reach: tuple[Reach, ...]
    names: tuple[IPv4Address, ...]
    """The name servers that the lab asks."""
    host: tuple[IPv4Address, ...]
    """The hypervisor's own addresses."""
    networks: tuple[IPv4Network, ...]
    """The networks that the hypervisor is in, or has a route to."""
    opened: tuple[str, ...] = ()
    """Interfaces on which forwarding was switched on for replies to this lab …"""
    closed: tuple[str, ...] = ()
    """… and interfaces to which nothing but such replies may be forwarded from them, as nothing was forwarded before."""

    @property
    def table(self) -> str:
        return table_of(self.link)


def table_of(link: str) -> str:
    return link.replace("-", "_")


def render_host(gate: Gate) -> str:
    link = f'"{gate.link}"'
    own = [_rule("ip daddr", [reach.network], reach.port) for reach in gate.reach if _single(reach)]
    own += [_rule("", (), reach.port, "fib daddr type local") for reach in gate.reach if reach.network is None]
    lines = [
        f"  set {OPENED} {{",
        "    type ifname",
        *_elements(map(_quoted, gate.opened)),
        "  }",
        *_nearby(gate),
        *_chain("", "names", [_rule("ip daddr", gate.names, 53)] if gate.names else []),
        *_chain("", "gate", _passes(gate)),
        *_chain(
            "input", "input",
            [
                f"iifname != {link} accept",
                "ct state established,related accept",
                "jump names",
                *own,
                _REFUSE,
            ],
        ),
        *_chain(
            "forward", "forward",
            [
                f"oifname {link} ct state established,related accept",
                f"oifname {link} drop",
                f"iifname {link} ip saddr != {gate.subnet} drop",
                f"iifname {link} jump names",
                f"iifname {link} jump gate",
                *([f"iifname @{OPENED} oifname {{ {', '.join(map(_quoted, gate.closed))} }} drop"]
                  if gate.opened and gate.closed else []),
            ],
        ),
        "  chain postrouting {",
        "    type nat hook postrouting priority srcnat; policy accept;",
        f"    ip saddr {gate.subnet} oifname != {link} masquerade",
        "  }",
    ]  # fmt: skip
    return _table(gate.table, lines)


def render_lab(gate: Gate) -> str:
    inside = f'"{gate.inside}"'
    own = [_rule("ip daddr", [reach.network], reach.port) for reach in gate.reach if _single(reach)]
    own += [_rule("ip daddr", gate.host, reach.port) for reach in gate.reach if reach.network is None and gate.host]
    guests = [*own, *_passes(gate)]
    lines = [
        *_nearby(gate),
        *_chain("", "gate", guests),
        *_chain(
            "output", "output",
            [
                f"oifname != {inside} accept",
                *([_rule("ip daddr", gate.names, 53)] if gate.names else []),
                "jump gate",
            ],
        ),
        *_chain(
            "forward", "forward",
            [
                f"iifname {inside} ct state established,related accept",
                f"iifname {inside} drop",
                f"oifname {inside} jump gate",
            ],
        ),
        *_chain(
            "input", "input",
            [f"iifname != {inside} accept", "ct state established,related accept", "drop"],
        ),
        "  chain postrouting {",
        "    type nat hook postrouting priority srcnat; policy accept;",
        f"    oifname {inside} masquerade",
        "  }",
    ]  # fmt: skip
    return _table(LAB_TABLE, lines)


_REFUSE = "reject with icmp type admin-prohibited"
"""reject, not drop: the client gets an error at once instead of a timeout."""


def _passes(gate: Gate) -> list[str]:
    named = [_rule("ip daddr", [reach.network], reach.port) for reach in gate.reach if reach.network is not None]
    return [*named, f"ip daddr @nearby {_REFUSE}"]


def _nearby(gate: Gate) -> list[str]:
    own = [*gate.networks, *map(IPv4Network, gate.host)]
    networks = collapse_addresses([*NOT_THE_INTERNET, *own])
    return ["  set nearby {", "    type ipv4_addr", "    flags interval", *_elements(map(str, networks)), "  }"]


def _single(reach: Reach) -> bool:
    """A network that is named does not open the hypervisor, which may be in it; an address does, whosever it is."""
    return reach.network is not None and reach.network.prefixlen == reach.network.max_prefixlen


def _rule(match: str, values: Sequence[object], port: int | None, also: str = "") -> str:
    where = f"{match} {{ {', '.join(map(str, values))} }}" if values else also
    which = "" if port is None else f"meta l4proto {{ tcp, udp }} th dport {port}"
    return " ".join(part for part in (where, which, "accept") if part)


def _chain(hook: str, name: str, rules: Iterable[str]) -> list[str]:
    base = [f"    type filter hook {hook} priority filter; policy accept;"] if hook else []
    return [f"  chain {name} {{", *base, *(f"    {rule}" for rule in rules), "  }"]


def _elements(values: Iterable[str]) -> list[str]:
    found = list(values)
    return [f"    elements = {{ {', '.join(found)} }}"] if found else []


def _quoted(name: str) -> str:
    return f'"{name}"'


def _table(name: str, lines: Sequence[str]) -> str:
    return "\n".join([f"table ip {name}", f"delete table ip {name}", f"table ip {name} {{", *lines, "}", ""])
