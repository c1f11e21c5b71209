"""Ironic's API without Ironic: one node in the state a test puts it in, and what was asked of it."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import encode_basic_auth, web

NODE: dict[str, Any] = {
    "uuid": "node-1",
    "name": "ctrl-0",
    "provision_state": "manageable",
    "target_provision_state": None,
    "power_state": "power off",
    "target_power_state": None,
    "last_error": None,
    "maintenance": False,
    "maintenance_reason": None,
    "fault": None,
    "instance_uuid": None,
    "instance_info": {},
    "driver": "redfish",
    "boot_interface": "redfish-virtual-media",
    "driver_info": {},
    "extra": {},
    "deploy_interface": "direct",
    "automated_clean": True,
    "deploy_step": {},
    "clean_step": {},
    "reservation": None,
}


@dataclass
class IronicStandIn:
    node: dict[str, Any] | None = None
    inventory: dict[str, Any] | None = None
    history: list[dict[str, str]] | None = None
    ports: list[dict[str, str]] = field(default_factory=list)
    answer: tuple[int, str] | None = None
    """Answer every change with this status and text instead of doing it."""
    validation: dict[str, Any] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    """Every change that was asked for: `PUT provision manage`, `PATCH instance_info`, …"""
    bodies: list[Any] = field(default_factory=list)
    url: str = ""
    account: tuple[str, str] | None = None
    """Who may come in; None lets everybody."""
    drivers: tuple[str, ...] = ("redfish",)
    bios: list[dict[str, Any]] = field(default_factory=list)
    drive: str | None = None
    """What is in the virtual CD drive."""
    subscriptions: list[str] = field(default_factory=list)

    def put(self, **fields: Any) -> None:
        self.node = {**NODE, **(self.node or {}), **fields}

    @web.middleware
    async def _changes(self, request: web.Request, handler: Any) -> web.StreamResponse:
        if self.account and request.headers.get("Authorization") != encode_basic_auth(*self.account):
            return web.json_response({"error_message": "Authorization required"}, status=401)
        if request.method != "GET" and self.answer:
            status, text = self.answer
            return web.json_response({"error_message": f'{{"faultstring": "{text}"}}'}, status=status)
        return await handler(request)  # type: ignore[no-any-return]

    async def _get_node(self, request: web.Request) -> web.Response:
        if self.node is None or request.match_info["node"] not in (self.node["name"], self.node["uuid"]):
            return web.json_response({"error_message": "not here"}, status=404)
        return web.json_response(self.node)

    async def _list(self, request: web.Request) -> web.Response:
        return web.json_response({"nodes": [self.node] if self.node else []})

    async def _create(self, request: web.Request) -> web.Response:
        body = await request.json()
        self._note("POST node", body)
        self.node = {**NODE, "provision_state": "enroll", **body}
        return web.json_response(self.node, status=201)

    async def _create_port(self, request: web.Request) -> web.Response:
        body = await request.json()
        self._note("POST port", body)
        self.ports.append(body)
        return web.json_response(body, status=201)

    async def _list_ports(self, request: web.Request) -> web.Response:
        return web.json_response(
            {"ports": [port for port in self.ports if port["address"] == request.query["address"]]}
        )

    async def _patch(self, request: web.Request) -> web.Response:
        assert self.node
        body = await request.json()
        self._note("PATCH " + " ".join(change["path"].strip("/") for change in body), body)
        for change in body:
            place, path = self.node, change["path"].strip("/")
            if "/" in path:
                field_, _, path = path.partition("/")
                place = self.node[field_] = dict(self.node[field_])
            if change["op"] == "remove" and place is not self.node:
                del place[path]
            else:
                place[path] = change.get("value")
        return web.json_response(self.node)

    async def _provision(self, request: web.Request) -> web.Response:
        body = await request.json()
        self._note(f"PUT provision {body['target']}", body)
        return web.Response(status=202)

    async def _power(self, request: web.Request) -> web.Response:
        body = await request.json()
        self._note(f"PUT power {body['target']}", body)
        return web.Response(status=202)

    async def _maintenance(self, request: web.Request) -> web.Response:
        self._note(f"{request.method} maintenance", None)
        return web.Response(status=202)

    async def _inventory(self, request: web.Request) -> web.Response:
        if self.inventory is None:
            return web.json_response({"error_message": "none"}, status=404)
        return web.json_response({"inventory": self.inventory, "plugin_data": {}})

    async def _history(self, request: web.Request) -> web.Response:
        if self.history is None:
            return web.json_response({"error_message": "none"}, status=404)
        whole = request.query.get("detail") == "true"
        return web.json_response(
            {
                "history": [
                    event if whole else {**event, "event": event["event"][:251] + "..."} for event in self.history
                ]
            }
        )

    async def _bios(self, request: web.Request) -> web.Response:
        assert request.query["detail"] == "true"
        return web.json_response({"bios": self.bios})

    async def _drives(self, request: web.Request) -> web.Response:
        cd = {"media_types": ["CD", "DVD"], "inserted": self.drive is not None, "image": self.drive}
        return web.json_response(
            [cd, {"media_types": ["USBStick"], "inserted": True, "image": "http://192.0.2.9/stick"}]
        )

    async def _insert(self, request: web.Request) -> web.Response:
        body = await request.json()
        self._note("POST vmedia", body)
        return web.Response(status=204)

    async def _eject(self, request: web.Request) -> web.Response:
        self._note(f"DELETE vmedia {request.query['device_types']}", None)
        return web.Response(status=204)

    async def _passthru(self, request: web.Request) -> web.Response:
        body, method = await request.json(), request.query["method"]
        self._note(f"{request.method} {method}", body)
        if method == "create_subscription":
            self.subscriptions.append(body["Destination"])
            return web.json_response({"Id": str(len(self.subscriptions)), "Destination": body["Destination"]})
        if int(body["id"]) > len(self.subscriptions):
            return web.json_response({"error_message": "Redfish exception occurred"}, status=404)
        return web.Response(status=200)

    async def _validate(self, request: web.Request) -> web.Response:
        return web.json_response(self.validation)

    async def _delete(self, request: web.Request) -> web.Response:
        self._note("DELETE node", None)
        self.node = None
        return web.Response(status=204)

    def _note(self, what: str, body: Any) -> None:
        self.asked.append(what)
        self.bodies.append(body)

    async def _drivers(self, request: web.Request) -> web.Response:
        return web.json_response({"drivers": [{"name": name} for name in self.drivers]})

    @asynccontextmanager
    async def serving(self, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
        app = web.Application(middlewares=[self._changes])
        node = "/v1/nodes/{node}"
        app.add_routes([
            web.post("/v1/nodes", self._create),
            web.get("/v1/nodes", self._list),
            web.post("/v1/ports", self._create_port),
            web.get("/v1/ports", self._list_ports),
            web.get("/v1/drivers", self._drivers),
            web.get(node, self._get_node),
            web.patch(node, self._patch),
            web.delete(node, self._delete),
            web.get(f"{node}/inventory", self._inventory),
            web.get(f"{node}/history", self._history),
            web.get(f"{node}/validate", self._validate),
            web.get(f"{node}/bios", self._bios),
            web.get(f"{node}/vmedia", self._drives),
            web.post(f"{node}/vmedia", self._insert),
            web.delete(f"{node}/vmedia", self._eject),
            web.post(f"{node}/vendor_passthru", self._passthru),
            web.delete(f"{node}/vendor_passthru", self._passthru),
            web.put(f"{node}/states/provision", self._provision),
            web.put(f"{node}/states/power", self._power),
            web.put(f"{node}/maintenance", self._maintenance),
            web.delete(f"{node}/maintenance", self._maintenance),
        ])  # fmt: skip
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        try:
            yield f"{'https' if tls else 'http'}://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()
