"""The API as a process: opens the store, puts the parts together, serves until it is told to stop."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
import ssl
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from aiohttp import web

from rackless.api.access import keys
from rackless.api.access.authentication import Tokens
from rackless.api.access.rbac import Authorizer
from rackless.api.definitions.hosts import HOSTS
from rackless.api.definitions.machines import MACHINES
from rackless.api.definitions.rules import RULES
from rackless.api.duties.defaults import ensure_defaults, ensure_definitions
from rackless.api.duties.readiness import measure, readiness
from rackless.api.duties.upkeep import Upkeep
from rackless.api.edge.resources import ResourceRequests
from rackless.api.edge.server import Edge, tls_context
from rackless.api.kinds.builtin import BUILTIN
from rackless.api.metrics import Metrics
from rackless.api.objects.operations import Objects
from rackless.api.objects.registry import Registry
from rackless.api.objects.watching import Hub
from rackless.api.offload import Offload
from rackless.api.stores.port import Store, StoreUnreachable
from rackless.errors import HypervisorError, InputError
from rackless.run.connections import ClientPatience, GuardedServer, GuardedSite, allow_many_files


@dataclass(frozen=True, slots=True)
class ApiSettings:
    store: str
    """`sqlite:FILE` or `etcd:URL[,URL…]`."""
    pki: Path
    """Where the CA is, or is to be made, with all that it signs for us."""
    address: str = "127.0.0.1"
    port: int = 6443
    """0 takes a free one; the kubeconfig says which."""
    kubeconfig: Path | None = None
    names: tuple[str, ...] = field(default=())
    """More names and addresses the serving certificate is for."""
    compact_every: float = 300.0
    kinds: bool = True
    """Whether the kinds of hosts and machines are defined from the start."""
    advertise: str = ""
    """The URL that clients are told, where it is not ours: that of a load balancer before several of us."""
    store_ca: Path | None = None
    store_cert: Path | None = None
    store_key: Path | None = None
    """TLS to etcd: CA, client certificate and key."""
    patience: ClientPatience = field(default_factory=ClientPatience)
    """How long clients may take."""
    tls: ssl.SSLContext | None = None
    """A TLS context to serve with, instead of a certificate of the API's own CA."""


def open_store(description: str, ca: Path | None = None, cert: Path | None = None, key: Path | None = None) -> Store:
    scheme, _, rest = description.partition(":")
    if scheme == "sqlite" and rest:
        from rackless.api.stores.sqlite import SqliteStore

        return SqliteStore(Path(rest))
    if scheme == "etcd" and rest:
        from rackless.api.stores.etcd import EtcdStore
        from rackless.api.stores.rpc import EtcdCredentials

        return EtcdStore(rest.split(","), EtcdCredentials(ca, cert, key) if ca else None)
    raise InputError(
        f"{description!r} is no store", hint="say sqlite:FILE or etcd:https://127.0.0.1:2379 (several with commas)"
    )


class ApiServer:
    """A running API; `url` is where."""

    def __init__(self, settings: ApiSettings) -> None:
        self._settings = settings
        self._stack = AsyncExitStack()
        self.url = ""
        self.objects: Objects | None = None
        self.keeper: Upkeep | None = None

    async def __aenter__(self) -> ApiServer:
        async with AsyncExitStack() as stack:
            await self._open(stack)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._stack.aclose()

    async def _open(self, stack: AsyncExitStack) -> None:
        settings = self._settings
        store = open_store(settings.store, settings.store_ca, settings.store_cert, settings.store_key)
        try:
            await store.open()
        except StoreUnreachable as error:
            raise HypervisorError(
                f"the store {settings.store} cannot be opened", why=str(error), hint="see that it runs, and start again"
            ) from error
        stack.push_async_callback(store.close)
        registry = Registry(BUILTIN, RULES)
        registry.follow(store)
        offload = Offload()
        stack.push_async_callback(offload.close)
        objects = self.objects = Objects(store, registry, Hub(store), offload)
        await ensure_defaults(objects)
        if settings.kinds:
            await ensure_definitions(objects, (*HOSTS, *MACHINES))
        authority = keys.ensure_authority(settings.pki)
        authorizer = Authorizer(store)
        tokens = Tokens(store, lambda: keys.ensure_token_key(settings.pki))
        if keys.has_token_key(settings.pki):  # a damaged one is told now, not to the first who brings a token
            keys.ensure_token_key(settings.pki)
        hosts = ["127.0.0.1", "localhost", "kubernetes", "kubernetes.default.svc", *settings.names]
        hosts += [settings.address, *filter(None, [urlsplit(settings.advertise).hostname])]
        serving = keys.ensure_serving(authority, hosts)
        context = settings.tls or tls_context(
            serving.certificate, serving.key, authority.certificate, keys.named_certificates(settings.pki),
            keys.client_authorities(settings.pki),
        )  # fmt: skip
        keeper = self.keeper = Upkeep(objects, authority, settings.compact_every)
        metrics = Metrics()
        edge = Edge(
            ResourceRequests(objects, authorizer, tokens),
            registry,
            authorizer,
            tokens,
            lambda: readiness(store, keeper),
            metrics,
            urlsplit(settings.advertise).hostname or settings.address,
        )
        server = GuardedServer(edge, settings.patience)
        measure(metrics, objects, keeper, server)
        runner = web.ServerRunner(server, shutdown_timeout=0.5)
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        stack.callback(objects.hub.close)
        try:
            family = socket.AF_INET6 if ":" in settings.address else socket.AF_INET
            listening = socket.create_server((settings.address, settings.port), family=family, backlog=1024)
            await GuardedSite(runner, listening, ssl_context=context, backlog=1024).start()
        except OSError as error:
            raise HypervisorError(
                f"cannot listen on {settings.address}:{settings.port}", why=str(error), hint="choose another --port"
            ) from error
        port = runner.addresses[0][1]
        self.url = f"https://{settings.address}:{port}"
        if settings.kubeconfig:
            keys.ensure_kubeconfig(authority, settings.kubeconfig, settings.advertise or self.url)
        stack.push_async_callback(keeper.stop)
        keeper.start()


async def serve(settings: ApiSettings, started: Callable[[str], None]) -> None:
    """Until SIGTERM or SIGINT; `started` hears the URL."""
    allow_many_files()
    # What is there when we are up stays; looking through it again and again would cost as much as serving.
    gc.disable()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with ApiServer(settings) as api:
        started(api.url)
        gc.freeze()
        gc.set_threshold(20_000, 50, 100)
        gc.enable()
        await stop.wait()
