"""bgpVIPConfig: VIPs announced by BGP."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rackless.installer.install_config.config import METAL, OVN, BgpPeer, Config
from rackless.installer.install_config.findings import RuleProblem
from rackless.installer.install_config.release import Release
from rackless.installer.install_config.rule import load_rule
from rackless.installer.install_config.rules.gates import enabled
from rackless.installer.install_config.values import parse_ip

_PATH = f"{METAL}.bgpVIPConfig"
_LAST_ASN = 2**32 - 1
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def bgp(config: Config) -> Iterator[RuleProblem]:
    metal = config.metal
    if metal is None:
        return
    for host in config.hosts:
        if host.bgp_peers and not metal.bgp:
            yield RuleProblem(
                f"{host.path}.bgpPeers", "it goes only with bgpVIPConfig", "add bgpVIPConfig", at=f"{host.at}.bgpPeers"
            )
    if not metal.bgp or not enabled(config, "BGPBasedVIPManagement"):
        return
    if config.networking.type != OVN:
        yield RuleProblem(_PATH, f"BGP VIPs need networkType {OVN}", f"use {OVN}")
    if not 1 <= metal.local_asn <= _LAST_ASN:
        yield RuleProblem(
            f"{_PATH}.localASN", f"an AS number is from 1 to {_LAST_ASN}", "write your AS number", at=_PATH
        )
    if not metal.bgp_peers:
        yield RuleProblem(f"{_PATH}.peers", "at least one peer is needed", "add the router", at=_PATH)
    for peers, path, at in [(metal.bgp_peers, f"{_PATH}.peers", f"{_PATH}.peers")] + [
        (host.bgp_peers, f"{host.path}.bgpPeers", f"{host.at}.bgpPeers") for host in config.hosts
    ]:
        if len(peers) > 16:
            yield RuleProblem(path, f"there are {len(peers)} peers, at most 16 are possible", "remove some", at=at)
        for peer in peers:
            yield from _peer(peer)
    for index, one in enumerate(metal.communities):
        if not re.fullmatch(r"\d+:\d+(:\d+)?", one):
            yield RuleProblem(
                f"{_PATH}.communities[{index}]", f"{one!r} is not a community", "write it as N:N or N:N:N"
            )


def _peer(peer: BgpPeer) -> Iterator[RuleProblem]:
    if parse_ip(peer.address) is None:
        yield RuleProblem(
            f"{peer.path}.peerAddress",
            f"{peer.address!r} is not an IP address",
            "write the router's address",
            at=peer.path,
        )
    if not 1 <= peer.asn <= _LAST_ASN:
        yield RuleProblem(
            f"{peer.path}.peerASN",
            f"an AS number is from 1 to {_LAST_ASN}",
            "write the router's AS number",
            at=peer.path,
        )
    if peer.port is not None and not 1 <= peer.port <= 65535:
        yield RuleProblem(f"{peer.path}.port", "a port is from 1 to 65535", "write the port", at=peer.path)
    for name, value in (("bfdEnabled", peer.bfd), ("ebgpMultiHop", peer.multi_hop)):
        if value not in ("", "true", "false"):
            yield RuleProblem(f"{peer.path}.{name}", f"{value!r} is not true or false", "write true or false")
    if bool(peer.hold_time) != bool(peer.keepalive_time):
        yield RuleProblem(
            f"{peer.path}.holdTime", "holdTime and keepaliveTime go together", "give both or none", at=peer.path
        )
    for name, value in (("holdTime", peer.hold_time), ("keepaliveTime", peer.keepalive_time)):
        length = seconds(value)
        if value and (length != int(length) or not 0 <= length <= 65535):
            yield RuleProblem(
                f"{peer.path}.{name}", f"{value} is not a whole number of seconds up to 65535", "write it as 90s"
            )


def seconds(text: str) -> float:
    sign = -1.0 if text.startswith("-") else 1.0
    return sign * sum(float(n) * _UNITS[u] for n, u in re.findall(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)", text))


RULES = (load_rule("bgp", bgp, since=Release(5, 1)),)
