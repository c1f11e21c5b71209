"""What is seen of every set of nodes from outside, be it over a network or of a fake.

Over the network there are a real API of ours with real node agents, a real etcd, and namespaces on a bridge that hold an
address; what an ssh server says first comes from a listener that says nothing else.
"""

from __future__ import annotations

import asyncio
import base64
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from rackless.api.process import ApiServer, ApiSettings
from rackless.cluster.reference import joining
from rackless.cluster.reference.keys import Keys
from rackless.drivers import namespaces as ns
from rackless.drivers.clock import SystemClock
from rackless.drivers.fake.nodes import FakeNodes
from rackless.drivers.nodes import etcd, objects, observer, vip
from rackless.drivers.nodes.observer import NetworkNodes
from rackless.node import keypair, settings
from rackless.node.agent import Agent
from rackless.plan.addressing import plan_lab
from rackless.plan.model import PlannedServer
from rackless.ports.nodes import Members, Nodes, NodesUnreachable, Quorum, Vip
from rackless.run.waiting import until
from rackless.spec.lab import LabSpec
from rackless.trust.authority import BOTH_USES, Authority
from tests.api.conftest import Etcd, debian_program, free_ports
from tests.node.cluster import facts
from tests.own_network import own_network

LOOPBACK = IPv4Address("127.0.0.1")
PLAN = plan_lab(
    LabSpec.model_validate({"servers": {"ctrl": {"role": "control-plane", "count": 3}, "worker": {"count": 1}}})
)
WORKER = next(server for server in PLAN.servers if server.name == "worker-0")
WITHIN = 120.0
"""Seconds for what others do in their own time; on the fake nobody waits."""


# ssh


@asynccontextmanager
async def greeting(text: bytes, port: int) -> AsyncIterator[None]:
    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(text)
        with suppress(OSError):
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(greet, str(LOOPBACK), port)
    try:
        yield
    finally:
        server.close()
        await server.wait_closed()


@pytest.mark.parametrize("kind", ["network", "fake"])
async def test_a_node_is_there_when_its_ssh_server_speaks(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (port,) = free_ports(1)
    monkeypatch.setattr(observer, "SSH_PORT", port)
    up: set[str] = set()
    nodes: Nodes = NetworkNodes() if kind == "network" else FakeNodes(up.__contains__)
    assert await nodes.ssh_banner(str(LOOPBACK), 5.0) is None
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(greeting(b"SSH-2.0-node\r\n", port))
        up.add(str(LOOPBACK))
        assert str(await nodes.ssh_banner(str(LOOPBACK), 30.0)).startswith("SSH-2.0-")
    up.clear()
    assert await nodes.ssh_banner(str(LOOPBACK), 5.0) is None


async def test_whoever_says_something_else_than_ssh_is_no_node(monkeypatch: pytest.MonkeyPatch) -> None:
    (port,) = free_ports(1)
    monkeypatch.setattr(observer, "SSH_PORT", port)
    async with greeting(b"220 mail\r\n", port):
        assert await NetworkNodes().ssh_banner(str(LOOPBACK), 5.0) is None


# the cluster's API


@dataclass
class ApiSite:
    nodes: Nodes
    keys: Keys
    run_agent: Callable[[PlannedServer], Awaitable[None]]
    """The node's agent does what it can do now …"""
    approve_all: Callable[[], Awaitable[None]]
    """… and whoever approves certificates in that cluster does."""
    start_api: Callable[[], Awaitable[None]]
    stop_api: Callable[[], Awaitable[None]]

    async def admit(self, *servers: PlannedServer) -> list[str]:
        admissions = [joining.admission(server, self.keys.token(server.name) or "") for server in servers]
        return await self.nodes.admit(LOOPBACK, self.keys.api_client(), admissions)

    async def objects(self) -> list[dict[str, Any]]:
        return await self.nodes.objects(LOOPBACK, self.keys.api_client())

    async def join(self, server: PlannedServer) -> list[str]:
        """Until it is ready and has its role; all that was changed for it."""
        changed: list[str] = []

        async def ready() -> tuple[bool, str]:
            changed.extend(await self.admit(server))
            await self.run_agent(server)
            await self.approve_all()
            changed.extend(await self.admit(server))
            lacks = joining.lacking(await self.objects(), [server.name])
            return not lacks, lacks

        await until(ready, what=f"{server.name} to join", within=WITHIN, every=0.02, clock=SystemClock())
        return changed


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    keys = Keys(tmp_path / "keys")
    for server in (*PLAN.control_planes[:1], WORKER):
        keys.ensure_invitation(server, PLAN)
    return keys


@pytest.fixture(params=["network", "fake"])
async def site(
    request: pytest.FixtureRequest, keys: Keys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[ApiSite]:
    if request.param == "fake":
        yield fake_api(keys)
        return
    (port,) = free_ports(1)
    monkeypatch.setattr(objects, "API_PORT", port)
    agents: dict[str, Agent] = {}
    stack = AsyncExitStack()

    async def start_api() -> None:
        await stack.enter_async_context(ApiServer(ApiSettings(f"sqlite:{tmp_path}/objects.db", keys.api, port=port)))

    async def run_agent(server: PlannedServer) -> None:
        if server.name not in agents:
            agents[server.name] = make_agent(server, keys, tmp_path, port)
        await asyncio.to_thread(agents[server.name].step)

    async def approve_all() -> None:
        """As kubectl does it."""
        decided = {"conditions": [{"type": "Approved", "status": "True", "reason": "ByHand", "message": "a test's"}]}
        base = f"https://{LOOPBACK}:{port}/apis/certificates.k8s.io/v1/certificatesigningrequests"
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=keys.api_client())) as session:
            async with session.get(base) as answer:
                pending = [each for each in (await answer.json())["items"] if not each.get("status")]
            for each in pending:
                name = each["metadata"]["name"]
                async with session.put(f"{base}/{name}/approval", json={**each, "status": decided}) as answer:
                    assert answer.status == 200, await answer.text()

    yield ApiSite(NetworkNodes(), keys, run_agent, approve_all, start_api, stack.aclose)
    for agent in agents.values():
        await asyncio.to_thread(agent.close)
    await stack.aclose()


def make_agent(server: PlannedServer, keys: Keys, folder: Path, port: int) -> Agent:
    """As on the node, with what its Ignition config says."""
    own = folder / server.name
    own.mkdir()
    described = {each["path"]: each for each in joining.files(server, PLAN, keys.ensure_invitation(server, PLAN))}
    for name, path in {"kubeconfig": joining.KUBECONFIG, "node.json": joining.SETTINGS}.items():
        (own / name).write_bytes(base64.b64decode(described[path]["contents"]["source"].partition("base64,")[2]))
    told = settings.load(own / "kubeconfig", own / "node.json")
    told = told._replace(name=server.name, host=str(LOOPBACK), port=port)
    looks = facts(addresses=(str(server.address),))
    return Agent(told, own / "state", lambda: looks, lambda _: None, make_key=keypair.make)


def fake_api(keys: Keys) -> ApiSite:
    up: set[str] = set()
    nodes = FakeNodes(up.__contains__, control_planes=("api",))
    asked: set[str] = set()

    async def run_agent(server: PlannedServer) -> None:
        if server.name not in nodes.admitted or server.name in asked:
            return
        asked.add(server.name)

    async def approve_all() -> None:
        up.update(asked)

    async def start_api() -> None:
        up.add("api")

    async def stop_api() -> None:
        up.discard("api")

    return ApiSite(nodes, keys, run_agent, approve_all, start_api, stop_api)


async def test_a_node_joins_once_it_is_let_in_and_has_the_role_it_was_given(site: ApiSite) -> None:
    await site.start_api()
    assert await site.objects() == []
    await site.run_agent(WORKER)
    assert await site.objects() == [], "nobody knows its token"
    changed = await site.join(WORKER)
    assert changed.count("token of worker-0") == 1 and changed.count("role of worker-0") == 1
    (node,) = await site.objects()
    assert node["metadata"]["name"] == "worker-0" and "node-role.kubernetes.io/worker" in node["metadata"]["labels"]
    await site.run_agent(WORKER)
    assert await site.admit(WORKER) == [], "all of it is done once"


async def test_a_node_that_is_dismissed_is_gone_and_does_not_come_back_by_its_token(site: ApiSite) -> None:
    await site.start_api()
    await site.join(WORKER)
    admission = joining.admission(WORKER, site.keys.token("worker-0") or "")
    for _ in range(2):
        await site.nodes.dismiss(LOOPBACK, site.keys.api_client(), admission)
        assert await site.objects() == []
    assert "token of worker-0" in await site.admit(WORKER), "who is let in again is let in anew"


async def test_an_api_that_is_away_is_told_as_such_by_every_question(site: ApiSite) -> None:
    admission = joining.admission(WORKER, site.keys.token("worker-0") or "")

    async def assert_away() -> None:
        for ask in (
            lambda: site.objects(),
            lambda: site.admit(WORKER),
            lambda: site.nodes.dismiss(LOOPBACK, site.keys.api_client(), admission),
        ):
            with pytest.raises(NodesUnreachable):
                await ask()

    await assert_away()
    await site.start_api()
    assert await site.objects() == []
    await site.stop_api()
    await assert_away()


# etcd


@dataclass
class EtcdSite:
    nodes: Nodes
    servers: list[tuple[str, str]]
    tls: ssl.SSLContext
    stop: Callable[[str], None]
    """One member, by its name, is killed."""


@pytest.fixture(params=[pytest.param("network", marks=pytest.mark.real), "fake"])
def quorum(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    names = ["ctrl-0", "ctrl-1", "ctrl-2"]
    if request.param == "fake":
        up = set(names)
        yield EtcdSite(
            FakeNodes(up.__contains__), [(name, name) for name in names], ssl.create_default_context(), up.remove
        )
        return
    program = debian_program("etcd-server", "usr/bin/etcd")
    if program is None:
        pytest.skip("etcd-server cannot be had here")
    addresses = [f"127.0.0.{number}" for number in (1, 2, 3)]
    client = free_port_of_all(addresses)
    monkeypatch.setattr(etcd, "CLIENT_PORT", client)
    authority = Authority.ensure(tmp_path / "pki", "etcd")
    serving = authority.ensure_leaf("serving", addresses, uses=BOTH_USES)
    ports = free_ports(6)
    members = {
        name: Etcd(program, tmp_path, name, (client, *ports[2 * number : 2 * number + 2]))
        for number, name in enumerate(names)
    }
    with ExitStack() as stack:
        for each, address in zip(members.values(), addresses, strict=True):
            each.url = f"https://{address}:{client}"
            each.more = ("--cert-file", str(serving.certificate), "--key-file", str(serving.key), "--client-cert-auth",
                         "--trusted-ca-file", str(authority.certificate))  # fmt: skip
            each.members = [other.membership for other in members.values()]
            each.launch()
            stack.callback(each.kill)
        tls = ssl.create_default_context(cafile=authority.certificate)
        tls.load_cert_chain(serving.certificate, serving.key)
        yield EtcdSite(NetworkNodes(), list(zip(names, addresses, strict=True)), tls, lambda name: members[name].kill())


def free_port_of_all(addresses: list[str]) -> int:
    """Free at each of them."""
    while True:
        with ExitStack() as stack:
            (port,) = free_ports(1)
            with suppress(OSError):
                for address in addresses:
                    stack.enter_context(socket.socket()).bind((address, port))
                return port


async def until_seen(members: Members, wanted: Callable[[Quorum], bool]) -> Quorum:
    found: list[Quorum] = []

    async def seen() -> tuple[bool, str]:
        found.append(await members.observe())
        return wanted(found[-1]), found[-1].describe()

    await until(seen, what="etcd to be seen so", within=WITHIN, every=0.2, clock=SystemClock())
    return found[-1]


async def test_a_quorum_is_what_its_members_say_and_is_lost_with_most_of_them(quorum: EtcdSite) -> None:
    async with quorum.nodes.members(quorum.servers, quorum.tls, 30.0) as members:
        whole = await until_seen(members, lambda seen: seen.complete)
        assert whole.healthy == 3 and whole.leader in {"ctrl-0", "ctrl-1", "ctrl-2"}
        assert all(member.version and not member.problem for member in whole.members)
        quorum.stop("ctrl-2")
        # connections that were open are lost first, then nobody listens; who leads is elected
        gone = ["no etcd listening"]
        rest = await until_seen(members, lambda seen: problems(seen) == ["", "", *gone] and seen.leader is not None)
        assert rest.healthy == 2 and not rest.complete and rest.leader in ("ctrl-0", "ctrl-1")
        quorum.stop("ctrl-1")
        lost = await until_seen(members, lambda seen: problems(seen) == ["no leader yet", *gone, *gone])
        assert lost.healthy == 0 and lost.leader is None and not lost.complete


def problems(seen: Quorum) -> list[str]:
    return [member.problem for member in seen.members]


# the address of the API


@dataclass
class VipSite:
    look: Callable[[], Awaitable[Vip]]
    hold: Callable[[str], Awaitable[None]]
    """A control plane, by its name, takes the address; its API answers there."""
    let_go: Callable[[str], Awaitable[None]]


VIP = IPv4Address("192.0.2.5")
BRIDGE = "contract0"
MACS = {"02:00:00:00:00:10": "ctrl-0", "02:00:00:00:00:11": "ctrl-1"}
VipStory = Callable[[VipSite], Coroutine[Any, Any, None]]


@pytest.fixture(params=[pytest.param("network", marks=pytest.mark.real), "fake"])
def tell_of_vip(request: pytest.FixtureRequest, keys: Keys, tmp_path: Path) -> Callable[[VipStory], None]:
    def tell(story: VipStory) -> None:
        if request.param == "fake":
            asyncio.run(story(fake_vip(keys)))
            return
        rooms = {name: ns.ThreadRoom(name) for name in MACS.values()}
        try:
            with own_network() as there:
                there(lambda: live_with_vip(story, keys, tmp_path, rooms))
        finally:
            for room in rooms.values():
                room.close()

    return tell


def fake_vip(keys: Keys) -> VipSite:
    up: set[str] = set()
    nodes = FakeNodes(up.__contains__)

    async def hold(name: str) -> None:
        up.add(name)

    async def let_go(name: str) -> None:
        up.discard(name)

    return VipSite(lambda: nodes.vip(VIP, BRIDGE, MACS, keys.api_client()), hold, let_go)


async def live_with_vip(story: VipStory, keys: Keys, folder: Path, rooms: Mapping[str, ns.ThreadRoom]) -> None:
    """Each control plane is a namespace on a bridge; a listener in it leads to one API, which is on our side."""
    ip("link", "set", "lo", "up")
    ip("link", "add", BRIDGE, "type", "bridge")
    ip("address", "add", "192.0.2.1/24", "dev", BRIDGE)
    ip("link", "set", BRIDGE, "up")
    for mac, name in MACS.items():
        ip("link", "add", name, "type", "veth", "peer", "name", "eth0", "address", mac)
        ip("link", "set", name, "master", BRIDGE, "up")
        ip("link", "set", "eth0", "netns", str(rooms[name].path))
        rooms[name].call(lambda: ip("link", "set", "eth0", "up"))
    async with AsyncExitStack() as stack:
        pki = ApiSettings(f"sqlite:{folder}/objects.db", keys.api, port=0, names=(str(VIP),))
        api = await stack.enter_async_context(ApiServer(pki))
        behind = int(api.url.rpartition(":")[2])
        open_at: dict[str, asyncio.Server] = {}

        async def hold(name: str) -> None:
            def listen() -> socket.socket:
                ip("address", "add", f"{VIP}/24", "dev", "eth0")
                return socket.create_server((str(VIP), vip.API_PORT))

            async def lead(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                ours = await asyncio.open_connection(str(LOOPBACK), behind)
                await asyncio.gather(pass_on(reader, ours[1]), pass_on(ours[0], writer))

            open_at[name] = await asyncio.start_server(lead, sock=rooms[name].call(listen))
            ip("neighbour", "flush", "dev", BRIDGE)  # as whoever takes an address makes others do, by a gratuitous ARP

        async def let_go(name: str) -> None:
            open_at.pop(name).close()
            rooms[name].call(lambda: ip("address", "flush", "dev", "eth0"))

        nodes = NetworkNodes()
        try:
            await story(VipSite(lambda: nodes.vip(VIP, BRIDGE, MACS, keys.api_client()), hold, let_go))
        finally:
            for name in list(open_at):
                await let_go(name)


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


def test_the_address_is_held_by_whoever_answers_for_it(tell_of_vip: Callable[[VipStory], None]) -> None:
    async def story(site: VipSite) -> None:
        async def until_so(wanted: Callable[[Vip], bool]) -> Vip:
            found: list[Vip] = []

            async def seen() -> tuple[bool, str]:
                found.append(await site.look())
                return wanted(found[-1]), found[-1].describe()

            await until(seen, what="the address to be seen so", within=WITHIN, every=0.2, clock=SystemClock())
            return found[-1]

        nobody = await site.look()
        assert nobody.holders == () and not nobody.ready and nobody.problem == "no answer"
        await site.hold("ctrl-0")
        held = await until_so(lambda seen: seen.ready)
        assert held.holder == "ctrl-0" and held.address == VIP
        await site.let_go("ctrl-0")
        assert not (await until_so(lambda seen: seen.holders == ())).ready
        await site.hold("ctrl-1")
        assert (await until_so(lambda seen: seen.ready)).holder == "ctrl-1"

    tell_of_vip(story)
