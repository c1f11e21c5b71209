"""`ports.nodes.Nodes` over the network of the namespace we are in."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from rackless.drivers.nodes import vip
from rackless.drivers.nodes.etcd import Observer
from rackless.drivers.nodes.objects import Administrator
from rackless.ports.nodes import Admission, NodesUnreachable, Vip
from rackless.spec.address import Ip

SSH_PORT = 22
CONNECT_WITHIN = 2.0


class NetworkNodes:
    async def ssh_banner(self, address: str, within: float) -> str | None:
        try:
            async with asyncio.timeout(CONNECT_WITHIN):
                reader, writer = await asyncio.open_connection(address, SSH_PORT)
            try:
                async with asyncio.timeout(within):
                    line = await reader.readline()
            finally:
                writer.close()
        except (OSError, TimeoutError):
            return None
        text = line.decode(errors="replace").strip()
        return text if text.startswith("SSH-") else None

    def members(self, servers: Sequence[tuple[str, str]], tls: ssl.SSLContext, patience: float) -> Observer:
        return Observer(servers, tls, patience)

    async def vip(self, address: Ip, bridge: str, names: Mapping[str, str], tls: ssl.SSLContext) -> Vip:
        return await vip.observe(address, bridge, names, tls)

    async def objects(self, api: Ip, tls: ssl.SSLContext) -> list[dict[str, Any]]:
        async with _administrator(api, tls) as administrator:
            return await administrator.nodes()

    async def admit(self, api: Ip, tls: ssl.SSLContext, admissions: Sequence[Admission]) -> list[str]:
        async with _administrator(api, tls) as administrator:
            return await administrator.admit(admissions)

    async def dismiss(self, api: Ip, tls: ssl.SSLContext, admission: Admission) -> None:
        async with _administrator(api, tls) as administrator:
            await administrator.dismiss(admission)


@asynccontextmanager
async def _administrator(api: Ip, tls: ssl.SSLContext) -> AsyncIterator[Administrator]:
    try:
        async with Administrator(api, tls) as administrator:
            yield administrator
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
        raise NodesUnreachable(str(error) or type(error).__name__) from error
