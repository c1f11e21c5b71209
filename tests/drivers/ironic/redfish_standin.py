"""The smallest BMC Ironic takes for one: a system with power, a boot override, and one virtual CD."""

import base64
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

SYSTEM = "/redfish/v1/Systems/1"
CD = "/redfish/v1/Managers/1/VirtualMedia/Cd"


def _link(path: str) -> dict[str, str]:
    return {"@odata.id": path}


@dataclass
class StandIn:
    username: str = "admin"
    password: str = "secret"
    power: str = "Off"
    media: str | None = None
    boot: dict[str, Any] = field(
        default_factory=lambda: {
            "BootSourceOverrideEnabled": "Disabled",
            "BootSourceOverrideTarget": "None",
            "BootSourceOverrideMode": "UEFI",
            "BootSourceOverrideTarget@Redfish.AllowableValues": ["None", "Pxe", "Cd", "Hdd"],
        }
    )
    heard: list[tuple[str, str]] = field(default_factory=list)

    @web.middleware
    async def _authenticate(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        self.heard.append((request.method, request.path))
        if request.path.rstrip("/") != "/redfish/v1":
            token = base64.b64encode(f"{self.username}:{self.password}".encode()).decode()
            if request.headers.get("Authorization") != f"Basic {token}":
                raise web.HTTPUnauthorized
        return await handler(request)

    def _resources(self) -> dict[str, dict[str, Any]]:
        return {
            "/redfish/v1": {
                "@odata.type": "#ServiceRoot.v1_5_0.ServiceRoot",
                "Id": "Root",
                "Name": "Root",
                "RedfishVersion": "1.6.0",
                "UUID": "00000000-0000-4000-8000-000000000001",
                "Systems": _link("/redfish/v1/Systems"),
                "Managers": _link("/redfish/v1/Managers"),
            },
            "/redfish/v1/Systems": {"Name": "Systems", "Members": [_link(SYSTEM)], "Members@odata.count": 1},
            SYSTEM: {
                "Id": "1",
                "Name": "server",
                "UUID": "00000000-0000-4000-8000-000000000001",
                "PowerState": self.power,
                "Boot": self.boot,
                "Links": {"ManagedBy": [_link("/redfish/v1/Managers/1")]},
                "Actions": {
                    "#ComputerSystem.Reset": {
                        "target": f"{SYSTEM}/Actions/ComputerSystem.Reset",
                        "ResetType@Redfish.AllowableValues": ["On", "ForceOff", "GracefulShutdown", "ForceRestart"],
                    }
                },
            },
            "/redfish/v1/Managers": {
                "Name": "Managers",
                "Members": [_link("/redfish/v1/Managers/1")],
                "Members@odata.count": 1,
            },
            "/redfish/v1/Managers/1": {
                "Id": "1",
                "Name": "BMC",
                "ManagerType": "BMC",
                "VirtualMedia": _link("/redfish/v1/Managers/1/VirtualMedia"),
            },
            "/redfish/v1/Managers/1/VirtualMedia": {"Name": "Media", "Members": [_link(CD)], "Members@odata.count": 1},
            CD: {
                "Id": "Cd",
                "Name": "CD",
                "MediaTypes": ["CD", "DVD"],
                "Image": self.media,
                "Inserted": self.media is not None,
                "WriteProtected": True,
                "Actions": {
                    "#VirtualMedia.InsertMedia": {"target": f"{CD}/Actions/VirtualMedia.InsertMedia"},
                    "#VirtualMedia.EjectMedia": {"target": f"{CD}/Actions/VirtualMedia.EjectMedia"},
                },
            },
        }

    async def _get(self, request: web.Request) -> web.Response:
        path = request.path.rstrip("/")
        found = self._resources().get(path)
        if found is None:
            raise web.HTTPNotFound
        return web.json_response({"@odata.id": path, **found})

    async def _reset(self, request: web.Request) -> web.Response:
        kind = (await request.json())["ResetType"]
        self.power = "Off" if kind in ("ForceOff", "GracefulShutdown") else "On"
        return web.Response(status=204)

    async def _patch(self, request: web.Request) -> web.Response:
        self.boot.update((await request.json()).get("Boot", {}))
        return web.Response(status=204)

    async def _insert(self, request: web.Request) -> web.Response:
        self.media = (await request.json())["Image"]
        return web.Response(status=204)

    async def _eject(self, request: web.Request) -> web.Response:
        self.media = None
        return web.Response(status=204)

    @asynccontextmanager
    async def serving(self, address: str, port: int, certificate: Path, key: Path) -> AsyncIterator[None]:
        app = web.Application(middlewares=[self._authenticate])
        app.router.add_post(f"{SYSTEM}/Actions/ComputerSystem.Reset", self._reset)
        app.router.add_patch(SYSTEM, self._patch)
        app.router.add_post(f"{CD}/Actions/VirtualMedia.InsertMedia", self._insert)
        app.router.add_post(f"{CD}/Actions/VirtualMedia.EjectMedia", self._eject)
        app.router.add_get("/{path:.*}", self._get)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate, key)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        try:
            await web.TCPSite(runner, address, port, ssl_context=context).start()
            yield
        finally:
            await runner.cleanup()
