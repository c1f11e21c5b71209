"""DNS as the hosts will see it: api, api-int and anything under apps."""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections.abc import Awaitable, Callable

from rackless.installer.install_config.config import METAL, Config
from rackless.installer.install_config.live.probe import Probe, failed, ok, unknown, warning
from rackless.installer.install_config.values import Address, parse_ip

Resolve = Callable[[str], Awaitable[frozenset[Address]]]


async def resolve(name: str) -> frozenset[Address]:
    """By this computer's resolver; empty where there is no such name. Raises OSError where nobody answers."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        if error.errno in (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)):
            return frozenset()
        raise
    return frozenset(address for entry in found if (address := parse_ip(str(entry[4][0]))))


async def observe(config: Config, ask: Resolve = resolve, within: float = 10.0) -> list[Probe]:
    metal = config.metal
    if metal is None:
        return []
    domain = f"{config.name}.{config.base_domain.removesuffix('.')}"
    # a name nobody has made a record for: only a wildcard can answer it
    some_app = f"rackless-{secrets.token_hex(4)}.apps.{domain}"
    wanted = [
        ("API", f"api.{domain}", metal.api_vips, f"{METAL}.apiVIPs", True),
        ("API", f"api-int.{domain}", metal.api_vips, f"{METAL}.apiVIPs", False),
        ("ingress", some_app, metal.ingress_vips, f"{METAL}.ingressVIPs", True),
    ]
    return list(await asyncio.gather(*(_one(*entry, ask, within) for entry in wanted)))


async def _one(
    what: str, name: str, vips: tuple[str, ...], path: str, needed: bool, ask: Resolve, within: float
) -> Probe:
    subject, did = f"DNS {_shown(name)}", f"asked this computer's resolver for {name}"
    try:
        async with asyncio.timeout(within):
            found = await ask(name)
    except (OSError, TimeoutError, UnicodeError) as error:
        return unknown(subject, did, f"no answer ({error or 'timed out'})", "check /etc/resolv.conf", path)
    want = {address for address in map(parse_ip, vips) if address}
    said = ", ".join(sorted(map(str, found))) or "no such name"
    if not found:
        if not needed:
            return ok(subject, did, "no such name, and none is needed outside the cluster", path)
        return failed(subject, did, said, f"add a record for {_shown(name)} → {', '.join(vips)}", path)
    if found == want:
        return ok(subject, did, said, path)
    if found & want and not found - want:
        return warning(subject, did, f"{said} only", f"add the other {what} VIP to the record", path)
    return failed(subject, did, f"{said}, which is not the {what} VIP", f"make it {', '.join(vips)}", path)


def _shown(name: str) -> str:
    return f"*.{name.partition('.')[2]}" if name.startswith("rackless-") else name
