"""The controllers as a process of their own, against any Kubernetes API: `rackless controllers run`."""

from __future__ import annotations

import asyncio
import os
import socket
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from rackless.controllers import metrics
from rackless.controllers.health.controller import health_controller
from rackless.controllers.host import host_controller
from rackless.controllers.leader import Leader
from rackless.controllers.machines.controller import machine_controller
from rackless.controllers.machines.sets import machineset_controller
from rackless.controllers.nodes.approving import csr_controller
from rackless.controllers.nodes.life import node_life_controller
from rackless.controllers.runtime.runtime import Runtime
from rackless.drivers import open_drivers
from rackless.drivers.fake.provisioner import FakeProvisioner
from rackless.drivers.kubernetes.pods import KubernetesPods
from rackless.drivers.kubernetes.resources import KubernetesResources
from rackless.errors import InputError
from rackless.events import Bus
from rackless.ports.api import NAMESPACE, Access
from rackless.ports.drivers import Drivers
from rackless.ports.ironic import ForeignAccess, Guest
from rackless.ports.pods import Pods
from rackless.ports.provisioner import Provisioner
from rackless.ports.resources import Resources
from rackless.run.connections import GuardedRunner
from rackless.trust.kubeconfig_reading import read_kubeconfig

LEASE = "rackless-controllers"
MOST_CONNECTIONS = 256
"""HTTP connections to `/healthz`, `/readyz` and `/metrics` at once."""
PATIENCE = 30.0
"""Seconds for which one request is retried while the API does not answer."""


@dataclass(frozen=True, slots=True)
class Settings:
    kubeconfig: Path
    nodes_kubeconfig: Path | None = None
    controllers: tuple[str, ...] = ()
    namespace: str = ""
    ironic: ForeignAccess | None = None
    pretend: bool = False
    """Provision nothing and say so: for trying things out."""
    elect: bool = True
    identity: str = ""
    listen: tuple[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Connections:
    resources: Resources
    """Where hosts and Machines are."""
    nodes: Resources
    """Where Nodes and their requests are."""
    provisioner: Provisioner | None
    pods: Pods | None = None
    """Those of the Nodes."""


_Add = Callable[[Runtime, Connections], object]


def _host(runtime: Runtime, to: Connections) -> object:
    if to.provisioner is None:
        raise InputError(
            "the host controller needs a provisioner",
            hint="name an Ironic with --ironic URL, try things out with --pretend, or leave `host` out of --controllers",
        )
    return host_controller(runtime, to.resources, to.provisioner)


CONTROLLERS: Mapping[str, _Add] = {
    "host": _host,
    "machine": lambda runtime, to: machine_controller(runtime, to.resources, to.nodes, pods=to.pods),
    "machineset": lambda runtime, to: machineset_controller(runtime, to.resources, to.nodes),
    "health": lambda runtime, to: health_controller(runtime, to.resources, to.nodes),
    "csr": lambda runtime, to: csr_controller(runtime, to.resources, to.nodes),
    "node": lambda runtime, to: node_life_controller(runtime, to.nodes),
}
"""By the names that `--controllers` takes."""


def check_names(names: Sequence[str]) -> tuple[str, ...]:
    """Raises InputError."""
    if unknown := [name for name in names if name not in CONTROLLERS]:
        raise InputError(f"there is no controller {', '.join(unknown)}", hint=f"there are {', '.join(CONTROLLERS)}")
    if not names:
        raise InputError("no controller is named", hint=f"there are {', '.join(CONTROLLERS)}")
    return tuple(dict.fromkeys(names))


async def run(settings: Settings, bus: Bus, drivers: Drivers | None = None) -> None:
    """Run the controllers until cancelled, or until another process holds the Lease (raises LostLeadership)."""
    drivers = drivers or open_drivers()
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rackless-controllers-")))
        to = await _connect(settings, drivers, folder, stack)
        runtime = Runtime(drivers.clock, bus)
        for name in settings.controllers:
            CONTROLLERS[name](runtime, to)
        identity = settings.identity or f"{socket.gethostname()}_{os.getpid()}"

        def told(holder: str) -> None:
            bus.tell("leader-is", level="info", leader=holder)

        leader = Leader(to.resources, LEASE, identity, drivers.clock, told=told)
        leader.leading = not settings.elect
        if settings.listen is not None:
            await _serve(settings.listen, runtime, leader, stack)
        bus.tell("controllers-ready", level="info", controllers=", ".join(settings.controllers))
        await (leader.lead(runtime.run) if settings.elect else runtime.run())


async def _connect(settings: Settings, drivers: Drivers, folder: Path, stack: AsyncExitStack) -> Connections:
    def open_one(path: Path, name: str) -> tuple[KubernetesResources, Access]:
        keep = folder / name
        keep.mkdir(mode=0o700)
        access, namespace = read_kubeconfig(path, keep)
        wanted = settings.namespace or namespace or NAMESPACE
        found = KubernetesResources(access, namespace=wanted, patience=PATIENCE, clock=drivers.clock)
        stack.push_async_callback(found.close)
        return found, access

    resources, access = open_one(settings.kubeconfig, "hosts")
    other = settings.nodes_kubeconfig
    nodes, access = open_one(other, "nodes") if other is not None else (resources, access)
    pods = KubernetesPods(access, patience=PATIENCE, clock=drivers.clock)
    stack.push_async_callback(pods.close)
    provisioner: Provisioner | None = FakeProvisioner(drivers.clock) if settings.pretend else None
    if settings.ironic is not None:
        engine = drivers.reach_provisioning(settings.ironic)
        await engine.check()
        opened = engine.open(Guest(f"{resources.namespace}~"))
        stack.push_async_callback(opened.close)
        provisioner = opened
    return Connections(resources, nodes, provisioner, pods)


async def _serve(listen: tuple[str, int], runtime: Runtime, leader: Leader, stack: AsyncExitStack) -> None:
    async def show(_: web.Request) -> web.Response:
        page = metrics.page(runtime, leading=leader.leading)
        return web.Response(body=page.encode(), headers={"Content-Type": metrics.MEDIA})

    async def alive(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def ready(_: web.Request) -> web.Response:
        """A process that waits for the Lease is ready, too: it would act at once."""
        lacking = runtime.lacking if leader.leading else []
        return web.Response(status=503 if lacking else 200, text=f"waits for {', '.join(lacking)}" if lacking else "ok")

    app = web.Application()
    app.add_routes([web.get("/metrics", show), web.get("/healthz", alive), web.get("/readyz", ready)])
    runner = GuardedRunner(app, most=MOST_CONNECTIONS)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    try:
        await web.TCPSite(runner, *listen).start()
    except OSError as error:
        raise InputError(
            f"{listen[0]}:{listen[1]} cannot be listened on", why=str(error), hint="--listen another"
        ) from error


def run_until_stopped(settings: Settings, bus: Bus) -> None:
    """In a loop of its own, until SIGINT or SIGTERM."""
    import signal

    async def whole() -> None:
        task = asyncio.ensure_future(run(settings, bus))
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        try:
            await task
        except asyncio.CancelledError:
            bus.tell("controllers-ended", level="info")

    asyncio.run(whole())
