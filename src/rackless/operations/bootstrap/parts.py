"""What systemd units of a bootstrap machine start: applying manifests, and the machine-config server. The node image has no
pydantic: spec and plan are not imported."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rackless.cluster.bootstrap import config_server
from rackless.cluster.bootstrap.manifests import NotTaken, apply, load_manifests
from rackless.cluster.bootstrap.telling import Tell
from rackless.drivers.clock import SystemClock
from rackless.drivers.kubernetes.client import Client, HttpRefused
from rackless.ports.api import ApiUnreachable
from rackless.trust.kubeconfig_reading import read_kubeconfig

PATIENCE_SECONDS = 20.0
"""Seconds for which one request is retried while the API does not answer."""


async def apply_manifests(root: Path, kubeconfig: Path, tell: Tell) -> None:
    with tempfile.TemporaryDirectory(prefix="rackless-manifests-") as folder:
        access, _ = read_kubeconfig(kubeconfig, Path(folder))
        clock = SystemClock()
        client = Client(access, clock, PATIENCE_SECONDS)
        try:
            found = load_manifests(root)
            tell({"phase": "manifests", "count": len(found)})
            await apply(found, ApiObjects(client), clock, tell)
            tell({"phase": "manifests applied", "count": len(found)})
        finally:
            await client.close()


async def serve_machine_configs(
    folder: Path, certificate: Path, key: Path, address: str, port: int, tell: Tell
) -> None:
    runner = await config_server.listen(folder, certificate, key, tell, address=address, port=port)
    roles = sorted(path.stem for path in folder.glob("*.ign"))
    tell({"phase": "machine-config server", "roles": roles, "port": port})
    try:
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()


class ApiObjects:
    """`ObjectStore` in a Kubernetes API: objects of any kind that the API's discovery lists."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._kinds: dict[str, dict[str, tuple[str, bool]]] = {}

    async def create(self, thing: Mapping[str, Any]) -> bool:
        version = str(thing["apiVersion"])
        try:
            path = await self._path(version, thing)
            await self._client.call("POST", path, dict(thing), query={"fieldValidation": "Strict"})
        except HttpRefused as refusal:
            if refusal.code == 409:
                return False
            self._kinds.pop(version, None)  # it may be defined by now
            raise NotTaken(refusal.why or refusal.what) from refusal
        except ApiUnreachable as error:
            raise NotTaken("the API does not answer", why=error.why) from error
        return True

    async def _path(self, version: str, thing: Mapping[str, Any]) -> str:
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        if version not in self._kinds:
            listed = (await self._client.call("GET", root))["resources"]
            self._kinds[version] = {
                each["kind"]: (each["name"], each["namespaced"]) for each in listed if "/" not in each["name"]
            }
        if thing["kind"] not in self._kinds[version]:
            del self._kinds[version]
            raise NotTaken(f"the API knows no kind {thing['kind']} of {version}")
        plural, namespaced = self._kinds[version][thing["kind"]]
        namespace = f"/namespaces/{thing['metadata'].get('namespace') or 'default'}" if namespaced else ""
        return f"{root}{namespace}/{plural}"
