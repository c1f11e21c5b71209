"""The embedded Kubernetes API with the cluster's own certificates, which the installer and its kubeconfig trust."""

from __future__ import annotations

import os
import ssl
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType

from rackless.api.duties.defaults import SYSTEM, ensure_definitions
from rackless.api.objects.operations import Objects, ObjectTarget, now
from rackless.api.objects.writes import Context
from rackless.api.process import ApiServer, ApiSettings
from rackless.cluster.openshift import payload
from rackless.cluster.openshift.payload import Json
from rackless.cluster.openshift.site import SERVING, ClusterSite
from rackless.trust.sni import show_by_name

PORT = 6443
MACHINE_CONFIG_PORT = 22623


class ClusterApi:
    """Serves from the moment it is entered; `put` writes an object as it is, status and all."""

    def __init__(self, site: ClusterSite, folder: Path, address: str, port: int = PORT) -> None:
        self._site = site
        self._folder = folder
        self._address = address
        self._port = port
        self._stack = AsyncExitStack()
        self._objects: Objects | None = None
        self.url = ""

    async def __aenter__(self) -> ClusterApi:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        context = serving_context(self._site, self._folder)
        settings = ApiSettings(
            store=f"sqlite:{self._folder / 'objects.sqlite'}",
            pki=self._folder / "pki",
            address=self._address,
            port=self._port,
            kinds=False,
            tls=context,
        )
        api = await self._stack.enter_async_context(ApiServer(settings))
        self._objects, self.url = api.objects, api.url
        await ensure_definitions(self.objects, payload.definitions())
        for name in payload.NAMESPACES:
            await self.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    @property
    def objects(self) -> Objects:
        assert self._objects is not None, "not entered"
        return self._objects

    async def put(self, body: Json) -> None:
        group, slash, _ = body["apiVersion"].rpartition("/")
        kind = self.objects.registry.by_kind(group if slash else "", body["kind"])
        assert kind is not None, f"{body['apiVersion']} {body['kind']} is not served"
        metadata = body["metadata"]
        namespace, name = metadata.get("namespace", ""), metadata["name"]
        context = Context(SYSTEM, now())
        target = ObjectTarget(kind, kind.storage, namespace, name)
        wanted = {key: value for key, value in metadata.items() if key != "creationTimestamp"}
        if self.objects.store.get(target.key) is None:
            await self.objects.create(kind, kind.storage, namespace, {**body, "metadata": wanted}, context, dry=False)
            return
        await self.objects.patch(
            target, lambda old: {**body, "metadata": {**old["metadata"], **wanted}}, context, dry=False
        )


def serving_context(site: ClusterSite, folder: Path) -> ssl.SSLContext:
    """A TLS context that chooses the certificate by SNI and accepts client certificates of the cluster's CAs."""
    contexts = [_context(site, name, folder) for name in SERVING]
    main, _ = contexts[0]
    show_by_name(main, contexts)
    return main


def machine_config_context(site: ClusterSite, folder: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*_files(site, "machine-config-server", folder))
    return context


def _context(site: ClusterSite, name: str, folder: Path) -> tuple[ssl.SSLContext, Path]:
    certificate, key = _files(site, name, folder)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=site.client_ca)
    context.load_cert_chain(certificate, key)
    context.verify_mode = ssl.CERT_OPTIONAL
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context, certificate


def _files(site: ClusterSite, name: str, folder: Path) -> tuple[Path, Path]:
    certificate, key = site.tls(name)
    places = folder / f"{name}.crt", folder / f"{name}.key"
    for place, content in zip(places, (certificate, key), strict=True):
        descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
    return places
