"""A stand-in for the installer: asks a cluster what the real one asks, in its order, with its patience cut short.

Version, BareMetalHosts by a watch that begins with what is there, the bootstrap's ConfigMap, etcd; then, elsewhere, the
ClusterVersion, the ingress CA, the operators, the console's route. Only GETs, by the admin's client certificate.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import yarl

from tests.cluster.openshift.bootstrap_config import DOMAIN, Made

_HOSTS = "/apis/metal3.io/v1alpha1/namespaces/openshift-machine-api/baremetalhosts"


class StandIn:
    def __init__(self, made: Made, folder: Path, address: str = "127.0.0.1") -> None:
        self.address = address
        self.context = ssl.create_default_context(cadata=made.root.certificate)
        pem = folder / "admin.pem"
        pem.write_text("".join(made.admin))
        self.context.load_cert_chain(pem)
        self.steps: list[str] = []

    async def bootstrap(self, port: int) -> None:
        """Until the bootstrap may go."""
        async with self._client(port) as self.client:
            self.port = port
            await self._version()
            done: set[str] = set()
            wanted = 0
            async for kind, host in self._watch(_HOSTS):
                if kind == "BOOKMARK":
                    wanted = wanted or len(done) + 1
                elif (host["metadata"].get("labels") or {}).get("installer.openshift.io/role") == "control-plane":
                    state = host["status"]["provisioning"]["state"]
                    done.add(host["metadata"]["name"]) if state == "provisioned" else None
                if len(done) == 3:
                    break
            self.steps.append("hosts provisioned")
            async for _, found in self._watch("/api/v1/namespaces/kube-system/configmaps", "metadata.name=bootstrap"):
                if (found.get("data") or {}).get("status") == "complete":
                    break
            self.steps.append("bootstrap complete")
            etcd = "/apis/operator.openshift.io/v1/etcds/cluster"
            while not _true(await self._get(etcd), "EtcdBootstrapMemberRemoved"):  # noqa: ASYNC110 - as the installer does
                await asyncio.sleep(0.02)
            self.steps.append("etcd member removed")

    async def cluster(self, port: int) -> None:
        async with self._client(port) as self.client:
            self.port = port
            watch = self._watch("/apis/config.openshift.io/v1/clusterversions", "metadata.name=version")
            async for kind, version in watch:
                if kind != "BOOKMARK" and _true(version, "Available") and not _true(version, "Failing"):
                    assert not _true(version, "Progressing")
                    break
            self.steps.append("version available")
            found = await self._get("/api/v1/namespaces/openshift-config-managed/configmaps/default-ingress-cert")
            assert "BEGIN CERTIFICATE" in found["data"]["ca-bundle.crt"]
            operators = (await self._get("/apis/config.openshift.io/v1/clusteroperators"))["items"]
            assert operators and not any(_true(one, "Progressing") for one in operators)
            self.steps.append(f"{len(operators)} operators")
            route = await self._get("/apis/route.openshift.io/v1/namespaces/openshift-console/routes/console")
            assert route["status"]["ingress"][0]["conditions"][0] == {"type": "Admitted", "status": "True"}
            self.steps.append("console")

    def _client(self, port: int) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60))

    async def _request(self, path: str, **query: str) -> aiohttp.ClientResponse:
        url = yarl.URL(f"https://{self.address}:{self.port}{path}").with_query(query)
        return await self.client.get(url, ssl=self.context, server_hostname=f"api.{DOMAIN}")

    async def _version(self) -> None:
        async with await self._request("/version") as answer:
            assert answer.status == 200 and "gitVersion" in await answer.json()
        self.steps.append("version")

    async def _get(self, path: str) -> dict[str, Any]:
        async with await self._request(path) as answer:
            assert answer.status == 200, (path, answer.status, await answer.text())
            found: dict[str, Any] = await answer.json()
            return found

    async def _watch(self, path: str, fields: str = "") -> AsyncIterator[tuple[str, dict[str, Any]]]:
        query = {"watch": "true", "sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan",
                 "allowWatchBookmarks": "true"}  # fmt: skip
        if fields:
            query["fieldSelector"] = fields
        async with await self._request(path, **query) as answer:
            assert answer.status == 200, (path, answer.status, await answer.text())
            async for line in answer.content:
                event = json.loads(line)
                yield event["type"], event["object"]


def _true(found: dict[str, Any], kind: str) -> bool:
    conditions = (found.get("status") or {}).get("conditions") or []
    return any(one["type"] == kind and one["status"] == "True" for one in conditions)
