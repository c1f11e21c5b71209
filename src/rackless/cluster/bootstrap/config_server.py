"""The machine-config server: gives each new machine the rendered Ignition config of its role, over TLS, on port 22623.

Machines that ask have nothing yet to show who they are, so whoever reaches the server may read what it has: the folder holds
rendered configs and no authority's key. A role is a file of that folder and nothing else.
"""

from __future__ import annotations

import re
import ssl
from pathlib import Path

from aiohttp import web

from rackless.cluster.bootstrap.telling import Tell
from rackless.run.connections import ClientPatience, GuardedRunner, GuardedTcpSite

PORT = 22623
MOST_CONNECTIONS = 512
EACH_CONNECTIONS = 16
"""Of one address: whoever reaches the server may ask, and a new machine asks once."""
MEDIA = "application/vnd.coreos.ignition+json"
_ROLE = re.compile(r"[a-z][a-z0-9-]{0,62}")


def application(folder: Path, tell: Tell) -> web.Application:
    async def config(request: web.Request) -> web.Response:
        role = request.match_info["role"]
        file = folder / f"{role}.ign"
        if not _ROLE.fullmatch(role) or not file.is_file():
            raise web.HTTPNotFound
        if request.method == "GET":
            tell({"machine-config": role, "to": request.remote or ""})
        return web.Response(body=file.read_bytes(), content_type=MEDIA)

    async def healthy(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    app = web.Application()
    app.router.add_get("/config/{role}", config)
    app.router.add_get("/healthz", healthy)
    return app


async def listen(
    folder: Path, certificate: Path, key: Path, tell: Tell, *, address: str = "", port: int = PORT
) -> web.AppRunner:
    """On every address, the VIP's too once it is here."""
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate, key)
    runner = GuardedRunner(
        application(folder, tell), ClientPatience(header=10.0), most=MOST_CONNECTIONS, each=EACH_CONNECTIONS
    )
    await runner.setup()
    await GuardedTcpSite(runner, address or None, port, ssl_context=tls).start()
    return runner
