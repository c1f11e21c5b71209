"""The API as a process: opens the store, puts the parts together, serves until it is told to stop."""

from __future__ import annotations

import asyncio
import gc
import signal
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from aiohttp import web

from rackless.api.access.authentication import Tokens
from rackless.api.access.pki import Authority, ensure_kubeconfig
from rackless.api.access.rbac import Authorizer
from rackless.api.bootstrap import ensure_defaults, ensure_definitions
from rackless.api.definitions.host_rules import host_problems
from rackless.api.definitions.hosts import HOSTS
from rackless.api.definitions.machines import MACHINES
from rackless.api.edge.resources import Resources
from rackless.api.edge.server import Edge, tls_context
from rackless.api.keeping import Keeper
from rackless.api.kinds.builtin import BUILTIN
from rackless.api.operations import Objects
from rackless.api.registry import Registry
from rackless.api.stores.port import Store, Unreachable
from rackless.api.watching import Hub
from rackless.errors import InputError, MachineError

RULES = {"baremetalhosts.metal3.io": host_problems}


@dataclass(frozen=True, slots=True)
class Settings:
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
    """TLS to etcd: whom we believe, and who we are."""


def open_store(description: str, ca: Path | None = None, cert: Path | None = None, key: Path | None = None) -> Store:
    scheme, _, rest = description.partition(":")
    if scheme == "sqlite" and rest:
        from rackless.api.stores.sqlite import SqliteStore

        return SqliteStore(Path(rest))
    if scheme == "etcd" and rest:
        from rackless.api.stores.etcd import EtcdStore
        from rackless.api.stores.rpc import Credentials

        return EtcdStore(rest.split(","), Credentials(ca, cert, key) if ca else None)
    raise InputError(
        f"{description!r} is no store", hint="say sqlite:FILE or etcd:https://127.0.0.1:2379 (several with commas)"
    )


class Api:
    """A running API; `url` is where."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._stack = AsyncExitStack()
        self.url = ""
        self.objects: Objects | None = None

    async def __aenter__(self) -> Api:
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
        except Unreachable as error:
            raise MachineError(
                f"the store {settings.store} cannot be opened", why=str(error), hint="see that it runs, and start again"
            ) from error
        stack.push_async_callback(store.close)
        registry = Registry(BUILTIN, RULES)
        registry.follow(store)
        objects = self.objects = Objects(store, registry, Hub(store))
        await ensure_defaults(objects)
        if settings.kinds:
            await ensure_definitions(objects, (*HOSTS, *MACHINES))
        authority = Authority(settings.pki)
        authorizer = Authorizer(store)
        tokens = Tokens(store, authority.ensure_token_key)
        hosts = ["127.0.0.1", "localhost", "kubernetes", "kubernetes.default.svc", *settings.names]
        hosts += [settings.address, *filter(None, [urlsplit(settings.advertise).hostname])]
        context = tls_context(*authority.ensure_serving(hosts), authority.certificate_file)
        edge = Edge(
            Resources(objects, authorizer, tokens),
            registry,
            authorizer,
            tokens,
            lambda: store.problem,
            urlsplit(settings.advertise).hostname or settings.address,
        )
        runner = web.ServerRunner(web.Server(edge, access_log=None), shutdown_timeout=0.5)
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        stack.callback(objects.hub.close)
        site = web.TCPSite(runner, settings.address, settings.port, ssl_context=context, backlog=1024)
        try:
            await site.start()
        except OSError as error:
            raise MachineError(
                f"cannot listen on {settings.address}:{settings.port}", why=str(error), hint="choose another --port"
            ) from error
        port = runner.addresses[0][1]
        self.url = f"https://{settings.address}:{port}"
        if settings.kubeconfig:
            ensure_kubeconfig(authority, settings.kubeconfig, settings.advertise or self.url)
        keeper = Keeper(objects, authority, settings.compact_every)
        stack.push_async_callback(keeper.stop)
        keeper.start()


async def serve(settings: Settings, started: Callable[[str], None]) -> None:
    """Until SIGTERM or SIGINT; `started` hears the URL."""
    # What is there when we are up stays; looking through it again and again would cost as much as serving.
    gc.disable()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with Api(settings) as api:
        started(api.url)
        gc.freeze()
        gc.set_threshold(20_000, 50, 100)
        gc.enable()
        await stop.wait()
