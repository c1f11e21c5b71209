"""Nodes join a real API of ours, over TLS, as the last step of an install lets them."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import IPv4Address
from pathlib import Path
from time import monotonic

import pytest

from rackless.api.process import ApiServer, ApiSettings
from rackless.cluster.reference import joining
from rackless.cluster.reference.keys import Keys
from rackless.cluster.reference.machines import machine_for
from rackless.controllers.nodes.approving import csr_controller
from rackless.controllers.nodes.life import node_life_controller
from rackless.controllers.runtime.runtime import Runtime
from rackless.drivers.clock import SystemClock
from rackless.drivers.fake.resources import MemoryResources
from rackless.drivers.kubernetes.resources import KubernetesResources
from rackless.drivers.nodes import objects, vip
from rackless.drivers.nodes.objects import Administrator
from rackless.drivers.nodes.observer import NetworkNodes
from rackless.events import Bus
from rackless.node import keypair, settings
from rackless.node.agent import SILENT_FOR, Agent
from rackless.node.facts import Facts
from rackless.plan.addressing import plan_lab
from rackless.plan.model import PlannedServer
from rackless.ports.api import Access
from rackless.ports.nodes import NodesUnreachable
from rackless.ports.provisioner import Image
from rackless.run.waiting import until
from rackless.spec.lab import LabSpec
from tests.node.cluster import facts

LOOPBACK = IPv4Address("127.0.0.1")
PLAN = plan_lab(LabSpec.model_validate({"servers": {"ctrl": {"role": "control-plane"}, "worker": {"count": 2}}}))
WORKER = next(server for server in PLAN.servers if server.name == "worker-0")
OTHER = next(server for server in PLAN.servers if server.name == "worker-1")
CTRL = PLAN.control_planes[0]


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> int:
    with socket.socket() as probe:
        probe.bind((str(LOOPBACK), 0))
        number = int(probe.getsockname()[1])
    monkeypatch.setattr(objects, "API_PORT", number)
    monkeypatch.setattr(vip, "API_PORT", number)
    return number


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    keys = Keys(tmp_path / "keys")
    for server in PLAN.servers:
        keys.ensure_invitation(server, PLAN)
    return keys


@pytest.fixture
async def administrator(keys: Keys, tmp_path: Path, port: int) -> AsyncIterator[Administrator]:
    async with ApiServer(ApiSettings(f"sqlite:{tmp_path}/objects.db", keys.api, port=port)):
        async with Administrator(LOOPBACK, keys.api_client()) as found, approver(keys, port):
            yield found


@asynccontextmanager
async def approver(keys: Keys, port: int) -> AsyncIterator[None]:
    """Whoever decides who may be a node: the Machines of the servers, and nobody else."""
    machines = MemoryResources()
    for server in PLAN.servers:
        host = {"metadata": {"name": server.name, "namespace": "metal3", "uid": str(server.uuid)}}
        made = await machines.apply(machine_for(server, host, Image("http://192.0.2.1/node.qcow2", "ab" * 32)))
        addresses = [("InternalIP", str(server.address)), ("InternalDNS", server.name), ("Hostname", server.name)]
        told = {"addresses": [{"type": kind, "address": address} for kind, address in addresses]}
        await machines.patch_status("Machine", made["metadata"]["name"], told)
    connection = KubernetesResources(administrators(keys, port), patience=5.0)
    runtime = Runtime(SystemClock(), Bus())
    csr_controller(runtime, machines, connection)
    deciding = asyncio.create_task(runtime.run())
    try:
        yield
    finally:
        deciding.cancel()
        await asyncio.gather(deciding, return_exceptions=True)
        await connection.close()


def administrators(keys: Keys, port: int) -> Access:
    folder = keys.api
    return Access(f"https://{LOOPBACK}:{port}", folder / "ca.crt", folder / "admin.crt", folder / "admin.key")


def agent(server: PlannedServer, keys: Keys, folder: Path, port: int, *, token: str | None = None) -> Agent:
    """As on the node, with what its Ignition config says."""
    given = keys.ensure_invitation(server, PLAN)
    described = {each["path"]: each for each in joining.files(server, PLAN, given)}
    places = {"kubeconfig": joining.KUBECONFIG, "node.json": joining.SETTINGS}
    for name, path in places.items():
        content = described[path]["contents"]["source"].partition("base64,")[2]
        (folder / name).write_bytes(base64.b64decode(content))
    told = settings.load(folder / "kubeconfig", folder / "node.json")
    told = told._replace(name=server.name, host=str(LOOPBACK), port=port, token=token or told.token)

    def look() -> Facts:
        return facts(addresses=(str(server.address),))

    return Agent(told, folder / server.name, look, lambda _: None, make_key=keypair.make)


async def live(agent: Agent, administrator: Administrator, keys: Keys, *, turns: int = 3000) -> list[str]:
    changed: list[str] = []
    admissions = [joining.admission(server, keys.token(server.name) or "") for server in PLAN.servers]
    for _ in range(turns):
        changed += await administrator.admit(admissions)
        await asyncio.to_thread(agent.step)
        if agent.served is not None:
            await asyncio.to_thread(agent.step)
            changed += await administrator.admit(admissions)
            break
        await asyncio.sleep(0.02)
    await asyncio.to_thread(agent.close)
    return changed


async def test_nodes_join_by_their_own_tokens_are_ready_and_get_their_roles(
    administrator: Administrator, keys: Keys, tmp_path: Path, port: int
) -> None:
    assert await vip.ask_api(LOOPBACK, keys.api_client()) == ""
    for server in (CTRL, WORKER):
        await live(agent(server, keys, tmp_path, port), administrator, keys)
    found = {node["metadata"]["name"]: node for node in await administrator.nodes()}
    assert joining.lacking(list(found.values()), ["ctrl-0", "worker-0"]) == ""
    assert "node-role.kubernetes.io/control-plane" in found["ctrl-0"]["metadata"]["labels"]
    assert [taint["effect"] for taint in found["ctrl-0"]["spec"]["taints"]] == ["NoSchedule"]
    assert "node-role.kubernetes.io/worker" in found["worker-0"]["metadata"]["labels"]
    assert "taints" not in found["worker-0"].get("spec", {})
    assert {"type": "InternalIP", "address": str(WORKER.address)} in found["worker-0"]["status"]["addresses"]


async def test_letting_in_is_done_once(administrator: Administrator, keys: Keys, tmp_path: Path, port: int) -> None:
    changed = await live(agent(WORKER, keys, tmp_path, port), administrator, keys)
    assert changed.count("role of worker-0") == 1 and changed.count("token of worker-0") == 1
    admissions = [joining.admission(server, keys.token(server.name) or "") for server in PLAN.servers]
    assert await administrator.admit(admissions) == []


async def test_a_node_does_not_become_another_by_its_own_token(
    administrator: Administrator, keys: Keys, tmp_path: Path, port: int
) -> None:
    stranger = agent(OTHER, keys, tmp_path, port, token=keys.token(WORKER.name))
    await live(stranger, administrator, keys, turns=5)
    connection = KubernetesResources(administrators(keys, port), patience=5.0)

    async def told() -> tuple[bool, str]:
        events = await connection.list("Event", namespace="default")
        said = [event["message"] for event in events if event["reason"] == "NotApproved"]
        return bool(said), " ".join(said)

    try:
        why = await until(told, what="the request to be judged", within=60, every=0.05, clock=SystemClock())
        [request] = await connection.list("CertificateSigningRequest")
    finally:
        await connection.close()
    assert "may do so for worker-0 only" in why and not (request.get("status") or {}).get("conditions")
    assert not stranger.ready and await administrator.nodes() == []


async def test_a_node_that_lost_its_certificate_comes_back_by_its_own_token(
    administrator: Administrator, keys: Keys, tmp_path: Path, port: int
) -> None:
    node = agent(WORKER, keys, tmp_path, port)
    await live(node, administrator, keys)
    for path in (tmp_path / WORKER.name).iterdir():
        path.unlink()
    again = agent(WORKER, keys, tmp_path, port)
    await live(again, administrator, keys)
    assert again.ready and again.served is not None


async def test_a_node_that_is_dismissed_is_gone_with_its_token(
    administrator: Administrator, keys: Keys, tmp_path: Path, port: int
) -> None:
    node = agent(WORKER, keys, tmp_path, port)
    await live(node, administrator, keys)
    admission = joining.admission(WORKER, keys.token(WORKER.name) or "")
    await administrator.dismiss(admission)
    await administrator.dismiss(admission)
    assert await administrator.nodes() == []
    (tmp_path / WORKER.name / "client.pem").unlink()
    said: list[str] = []
    late = agent(WORKER, keys, tmp_path, port)
    late.say = said.append
    await asyncio.to_thread(late.step)
    await asyncio.to_thread(late.close)
    assert "401" in said[0]


async def test_a_node_whose_agent_alone_has_stopped_is_not_ready_until_the_agent_says_otherwise(
    administrator: Administrator, keys: Keys, tmp_path: Path, port: int
) -> None:
    node = agent(WORKER, keys, tmp_path, port)
    await live(node, administrator, keys)
    connection = KubernetesResources(administrators(keys, port), patience=5.0)
    runtime = Runtime(SystemClock(), Bus())
    node_life_controller(runtime, connection, grace=0.2)
    watching = asyncio.create_task(runtime.run())
    try:
        lost = await until_lacking(administrator, "Kubelet stopped posting node status.")
        assert lost.startswith("worker-0 is not ready")
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        await connection.close()
    node.clock = node.clock._replace(steady=lambda: monotonic() + SILENT_FOR)
    await asyncio.to_thread(node.step)
    await asyncio.to_thread(node.close)
    assert joining.lacking(await administrator.nodes(), ["worker-0"]) == ""


async def until_lacking(administrator: Administrator, word: str) -> str:
    """What worker-0 lacks, as soon as it has this word in it."""

    async def lacks() -> tuple[bool, str]:
        found = joining.lacking(await administrator.nodes(), ["worker-0"])
        return word in found, found

    return await until(lacks, what="worker-0 to be lost", within=60, every=0.05, clock=SystemClock())


async def test_an_api_that_is_not_there_is_told_as_such(keys: Keys, port: int) -> None:
    tls = keys.api_client()
    with pytest.raises(NodesUnreachable):
        await NetworkNodes().objects(LOOPBACK, tls)
    with pytest.raises(NodesUnreachable):
        await NetworkNodes().admit(LOOPBACK, tls, [])


async def test_why_the_api_does_not_answer_is_told(port: int) -> None:
    assert (await vip.ask_api(LOOPBACK, ssl.create_default_context())).startswith("no answer (")


def test_what_a_cluster_lacks_is_told_by_node() -> None:
    ready = {"type": "Ready", "status": "True"}
    lost = {"type": "Ready", "status": "Unknown", "message": "Kubelet stopped posting node status."}
    there = [
        {"metadata": {"name": "a"}, "status": {"conditions": [ready], "daemonEndpoints": {"kubeletEndpoint": {"Port": 1}}}},
        {"metadata": {"name": "b"}, "status": {"conditions": [lost]}},
        {"metadata": {"name": "c"}, "status": {"conditions": [ready]}},
    ]  # fmt: skip
    assert joining.lacking(there, ["a"]) == ""
    assert joining.lacking(there, ["a", "b", "c", "d"]) == (
        "b is not ready (Kubelet stopped posting node status.), c has no certificate to serve with, d has not joined"
    )


def test_tokens_are_secrets_of_one_server_and_go_with_it(keys: Keys) -> None:
    tokens = {server.name: keys.token(server.name) for server in PLAN.servers}
    assert len(set(tokens.values())) == len(PLAN.servers)
    path = keys.folder / "tokens" / "worker-0"
    assert path.stat().st_mode & 0o777 == 0o600
    given = keys.ensure_invitation(WORKER, PLAN)
    assert given.token == tokens["worker-0"] and given.token not in repr(given)
    assert given.token not in repr(joining.admission(WORKER, given.token))
    assert (
        json.loads(joining.kubeconfig(PLAN, given))["clusters"][0]["cluster"]["server"]
        == f"https://{PLAN.api_vip}:6443"
    )
    keys.forget("worker-0")
    assert keys.token("worker-0") is None
