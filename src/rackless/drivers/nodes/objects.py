"""Nodes in the cluster's own API, as its administrator sees them: admitted, listed, dismissed."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Sequence
from typing import Any

import aiohttp

from rackless.ports.nodes import Admission
from rackless.spec.address import Ip

API_PORT = 6443
PATIENCE = 20.0
MERGE = "application/merge-patch+json"
NODES = "/api/v1/nodes"
TOKENS = "/api/v1/namespaces/kube-system/secrets"


class Administrator:
    """One connection to the API at this address."""

    def __init__(self, api: Ip, tls: ssl.SSLContext) -> None:
        host = f"[{api}]" if api.version == 6 else str(api)
        self._base = f"https://{host}:{API_PORT}"
        timeout = aiohttp.ClientTimeout(total=PATIENCE)
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls), timeout=timeout)

    async def __aenter__(self) -> Administrator:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._session.close()

    async def nodes(self) -> list[dict[str, Any]]:
        return await self._list(NODES)

    async def admit(self, admissions: Sequence[Admission]) -> list[str]:
        changed = []
        for admission in admissions:
            changed += [f"token of {admission.name}"] if await self._ensure_token(admission) else []
        wanted = {admission.name: dict(admission.labels) for admission in admissions}
        for node in await self._list(NODES):
            name, labels = node["metadata"]["name"], node["metadata"].get("labels") or {}
            if not wanted.get(name, {}).items() <= labels.items():
                await self._ask("PATCH", f"{NODES}/{name}", {"metadata": {"labels": wanted[name]}}, MERGE)
                changed.append(f"role of {name}")
        return changed

    async def dismiss(self, admission: Admission) -> None:
        for path in (f"{NODES}/{admission.name}", f"{TOKENS}/{_secret_name(admission)}"):
            await self._ask("DELETE", path, accept=(404,))

    async def _ensure_token(self, admission: Admission) -> bool:
        """False when it is there."""
        identity, _, secret = admission.token.partition(".")
        path = f"{TOKENS}/{_secret_name(admission)}"
        data = {
            "description": f"for {admission.name} to ask for its certificate with",
            "token-id": identity,
            "token-secret": secret,
            "usage-bootstrap-authentication": "true",
            "auth-extra-groups": admission.group,
        }
        found = await self._ask("GET", path, accept=(404,))
        if found.get("data") == {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}:
            return False
        if found.get("kind") == "Secret":
            await self._ask("DELETE", path, accept=(404,))
        body = {"metadata": {"name": _secret_name(admission)}, "type": "bootstrap.kubernetes.io/token"}
        await self._ask("POST", TOKENS, {**body, "stringData": data})
        return True

    async def _list(self, path: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await self._ask("GET", path))["items"]
        return found

    async def _ask(
        self, method: str, path: str, body: Any = None, kind: str = "application/json", accept: Sequence[int] = ()
    ) -> dict[str, Any]:
        headers = {"Content-Type": kind} if body is not None else {}
        async with self._session.request(method, self._base + path, json=body, headers=headers) as answer:
            if answer.status not in accept:
                answer.raise_for_status()
            found: dict[str, Any] = await answer.json(content_type=None)
            return found


def _secret_name(admission: Admission) -> str:
    return f"bootstrap-token-{admission.token.partition('.')[0]}"
