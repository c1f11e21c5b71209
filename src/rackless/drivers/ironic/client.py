"""A client of Ironic's API, and its failures as errors. Knows nothing of hosts or provisioning states.

Busy         409, 503: the node is locked or no worker is free; ask again
Unreachable  no answer, or an answer that makes no sense: Ironic is starting, gone or broken
├─ Untrusted somebody answered whose certificate is not signed by whom we trust
└─ Failed    Ironic answered that it failed, or that the BMC did
Refused      Ironic understood and will not do it; the message is Ironic's
"""

from __future__ import annotations

import base64
import copy
import json
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import aiohttp

from rackless.drivers.ironic.answered import AnsweredNodes

API_VERSION = "1.95"
"""1.89 has all of the flow; 1.95 adds `disable_power_off`."""

Json = dict[str, Any]

_NODE_FIELDS = (
    "uuid", "name", "driver", "driver_info", "boot_interface", "deploy_interface", "extra", "automated_clean", "network_data",
    "provision_state", "target_provision_state", "power_state", "target_power_state", "deploy_step", "clean_step",
    "instance_uuid", "instance_info", "last_error", "maintenance", "maintenance_reason", "fault", "reservation", "bios_interface",
)  # fmt: skip
"""What we read of a node. For a whole one Ironic also looks up its conductor, traits, allocation and links, each time."""


class Busy(Exception):
    pass


class IronicUnreachable(Exception):
    pass


class Untrusted(IronicUnreachable):
    pass


class IronicFailed(IronicUnreachable):
    pass


class IronicRefused(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def fault(body: str) -> str:
    """The sentence in an error of Ironic, which may be JSON in JSON, JSON, or text."""
    value: Any = body
    for _ in range(3):
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except ValueError:
                break
        if not isinstance(value, dict):
            break
        value = value.get("error_message") or value.get("faultstring") or value.get("error") or value.get("message")
    return str(value or "no reason given").strip()


class IronicClient:
    """One connection pool to one Ironic; close it when done."""

    def __init__(
        self,
        url: str,
        username: str,
        password: str,
        ca: Path | None,
        *,
        timeout: float = 30.0,
        database: Path | None = None,
    ) -> None:
        """Without a username no authentication is sent (`noauth`); `database` is the SQLite file of an Ironic of our own."""
        self._url = url.rstrip("/")
        basic = f"Basic {base64.b64encode(f'{username}:{password}'.encode()).decode()}"
        self._authorization = {"Authorization": basic} if username else {}
        self._ca = ca
        self._timeout = aiohttp.ClientTimeout(total=timeout)
        self._session: aiohttp.ClientSession | None = None
        self._answered = AnsweredNodes(database, _NODE_FIELDS) if database is not None else None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def drivers(self) -> set[str]:
        found = await self.call("GET", "/v1/drivers") or {}
        return {driver["name"] for driver in found.get("drivers", ())}

    async def node(self, name: str) -> Json | None:
        path = f"/v1/nodes/{quote(name, safe='')}?fields={','.join(_NODE_FIELDS)}"
        if self._answered is None:
            return await self._look(path)
        row = self._answered.look(name)
        if (found := self._answered.find(name, row)) is None:
            found = await self._look(path)
            self._answered.keep(name, row, found)
        return copy.deepcopy(found)

    async def nodes(self) -> dict[str, str]:
        """All nodes there are: ids by name."""
        found = await self.call("GET", "/v1/nodes?fields=uuid,name") or {}
        return {node["name"] or node["uuid"]: node["uuid"] for node in found.get("nodes", ())}

    async def unnamed(self) -> list[str]:
        """Ids of the nodes that Ironic has made itself, for agents it did not know: ours have names."""
        found = await self.call("GET", "/v1/nodes?provision_state=enroll&fields=uuid,name") or {}
        return [node["uuid"] for node in found.get("nodes", ()) if not node.get("name")]

    async def nodes_with_port(self, mac: str) -> list[str]:
        """Ids of the nodes with a port of this MAC address."""
        found = await self.call("GET", f"/v1/ports?address={quote(mac)}&fields=node_uuid")
        return [port["node_uuid"] for port in (found or {}).get("ports", ())]

    async def inventory(self, node: str) -> Json | None:
        return await self._look(f"/v1/nodes/{node}/inventory")

    async def last_failure(self, node: str) -> str:
        """The newest error in the node's history; empty when there is none, or no history."""
        found = await self._look(f"/v1/nodes/{node}/history?detail=true") or {}  # without it, cut at 255 characters
        errors = [
            event for event in found.get("history", ()) if event.get("severity") == "ERROR" and event.get("event")
        ]
        return str(max(errors, key=lambda event: str(event.get("created_at")))["event"]) if errors else ""

    async def create_node(self, body: Mapping[str, Any]) -> Json:
        return await self.call("POST", "/v1/nodes", body) or {}

    async def create_port(self, node: str, mac: str) -> None:
        await self.call("POST", "/v1/ports", {"node_uuid": node, "address": mac, "pxe_enabled": True})

    async def patch_node(self, node: str, values: Mapping[str, Any]) -> Json:
        """Set fields by path (`instance_info`, `driver_info/redfish_address`, …); None removes one."""
        patch = [
            {"op": "remove", "path": f"/{path}"} if value is None else {"op": "add", "path": f"/{path}", "value": value}
            for path, value in values.items()
        ]
        return await self.call("PATCH", f"/v1/nodes/{node}", patch) or {}

    async def provision(self, node: str, target: str, **arguments: Any) -> None:
        await self.call("PUT", f"/v1/nodes/{node}/states/provision", {"target": target, **arguments})

    async def power(self, node: str, target: str, **arguments: Any) -> None:
        await self.call("PUT", f"/v1/nodes/{node}/states/power", {"target": target, **arguments})

    async def validate(self, node: str) -> Json:
        return await self.call("GET", f"/v1/nodes/{node}/validate") or {}

    async def maintain(self, node: str, reason: str) -> None:
        await self.call("PUT", f"/v1/nodes/{node}/maintenance", {"reason": reason})

    async def end_maintenance(self, node: str) -> None:
        await self.call("DELETE", f"/v1/nodes/{node}/maintenance")

    async def delete_node(self, node: str) -> None:
        await self.call("DELETE", f"/v1/nodes/{node}")

    async def bios(self, node: str) -> list[Json]:
        """The firmware's settings, each with `name`, `value` and what the BMC's registry says of it; as Ironic last read them."""
        found = await self.call("GET", f"/v1/nodes/{node}/bios?detail=true") or {}
        return list(found.get("bios", ()))

    async def drives(self, node: str) -> list[Json]:
        """The BMC's virtual drives: `media_types`, `inserted`, `image`."""
        found: Any = await self.call("GET", f"/v1/nodes/{node}/vmedia")
        return list(found or ())

    async def insert(self, node: str, url: str) -> None:
        """Begin to put an image into the virtual CD drive; how that ended is in `last_error`."""
        await self.call("POST", f"/v1/nodes/{node}/vmedia", {"device_type": "cdrom", "image_url": url})

    async def eject(self, node: str) -> None:
        await self.call("DELETE", f"/v1/nodes/{node}/vmedia?device_types=cdrom")

    async def passthru(self, method: str, node: str, name: str, body: Mapping[str, Any]) -> Json:
        """Call a driver's own method, and wait for it."""
        return await self.call(method, f"/v1/nodes/{node}/vendor_passthru?method={name}", body) or {}

    async def _look(self, path: str) -> Json | None:
        try:
            return await self.call("GET", path)
        except IronicRefused as error:
            if error.status == 404:
                return None
            raise

    async def call(self, method: str, path: str, body: Mapping[str, Any] | Sequence[Any] | None = None) -> Json | None:
        if self._session is None:
            self._session = self._open()
        try:
            async with self._session.request(method, self._url + path, json=body) as answer:
                text = await answer.text()
        except (aiohttp.ClientConnectorCertificateError, ssl.SSLCertVerificationError) as error:
            raise Untrusted(str(error)) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise IronicUnreachable(f"{type(error).__name__}: {error}") from error
        if answer.status in (409, 503):
            raise Busy(fault(text))
        if answer.status >= 500:
            raise IronicFailed(f"HTTP {answer.status}: {fault(text)}")
        if answer.status >= 400:
            raise IronicRefused(answer.status, fault(text))
        try:
            return json.loads(text) if text else None
        except ValueError as error:
            raise IronicUnreachable(f"{method} {path} answered something else than JSON") from error

    def _open(self) -> aiohttp.ClientSession:
        # otherwise aiohttp's own, which has read the computer's certificates once: that takes 20 ms
        context = ssl.create_default_context(cafile=self._ca) if self._ca else True
        return aiohttp.ClientSession(
            timeout=self._timeout,
            connector=aiohttp.TCPConnector(ssl=context),
            headers={
                **self._authorization,
                "X-OpenStack-Ironic-API-Version": API_VERSION,
                "Accept": "application/json",
            },
        )
