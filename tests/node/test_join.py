"""The node agent and a real API of ours, over TLS: what it is allowed, what is kept from it, and its own port."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from rackless.api.access import keys
from rackless.api.process import ApiServer
from rackless.api.process import ApiSettings as ApiSettings
from rackless.node import health as health_module
from rackless.node import keypair, settings, status
from rackless.node.agent import Agent, AgentClock
from rackless.node.health import AgentHealth
from rackless.node.main import answer
from tests.node.cluster import facts

TOKEN = ("abcdef", "0123456789abcdef")
APPROVED = {"type": "Approved", "status": "True", "reason": "test", "message": "by the test"}


class Cluster:
    """An API with one bootstrap token, and its administrator."""

    def __init__(self, folder: Path, port: int, session: aiohttp.ClientSession) -> None:
        self.folder, self.session = folder, session
        self.base = f"https://127.0.0.1:{port}"
        ca = (folder / "pki" / "ca.crt").read_text()
        self.settings = settings.AgentSettings("worker-0", "127.0.0.1", port, ca, ".".join(TOKEN), TAINTS)

    async def ask(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> dict[str, Any]:
        headers = {"Content-Type": kind}
        async with self.session.request(method, self.base + path, json=body, headers=headers) as given:
            found: dict[str, Any] = await given.json(content_type=None)
            assert given.status < 300, found
            return found

    async def approve(self) -> list[str]:
        requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
        pending = [each for each in (await self.ask("GET", requests))["items"] if not each.get("status")]
        for each in pending:
            each["status"] = {"conditions": [APPROVED]}
            await self.ask("PUT", f"{requests}/{each['metadata']['name']}/approval", each)
        return [each["spec"]["username"] for each in pending]


TAINTS = ({"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"},)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    async with ApiServer(ApiSettings(f"sqlite:{tmp_path}/objects.db", tmp_path / "pki", port=port)):
        keys.ensure_kubeconfig(keys.ensure_authority(tmp_path / "pki"), tmp_path / "kubeconfig", "https://127.0.0.1")
        tls = ssl.create_default_context(cafile=tmp_path / "pki" / "ca.crt")
        tls.load_cert_chain(tmp_path / "pki" / "admin.crt", tmp_path / "pki" / "admin.key")
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls)) as session:
            found = Cluster(tmp_path, port, session)
            identity, secret = TOKEN
            token = {"token-id": identity, "token-secret": secret, "usage-bootstrap-authentication": "true"}
            await found.ask(
                "POST",
                "/api/v1/namespaces/kube-system/secrets",
                {
                    "metadata": {"name": f"bootstrap-token-{identity}"},
                    "type": "bootstrap.kubernetes.io/token",
                    "stringData": token,
                },
            )
            yield found


@pytest.fixture
def agent(cluster: Cluster) -> Agent:
    said: list[str] = []
    return Agent(cluster.settings, cluster.folder / "node", lambda: facts(), said.append, make_key=keypair.make)


async def join(agent: Agent, cluster: Cluster) -> list[str]:
    """As many steps as it takes, and nobody waits; who asked for certificates."""
    asked = []
    for _ in range(40):
        await asyncio.to_thread(agent.step)
        asked += await cluster.approve()
        if agent.served is not None:
            await asyncio.to_thread(agent.step)
            await asyncio.to_thread(agent.close)
            return asked
        await asyncio.sleep(0.02)
    raise AssertionError("it did not join")


async def test_a_node_joins_by_token_and_is_ready_by_its_own_certificate(agent: Agent, cluster: Cluster) -> None:
    assert await join(agent, cluster) == ["system:bootstrap:abcdef", "system:node:worker-0"]
    node = await cluster.ask("GET", "/api/v1/nodes/worker-0")
    told = {each["type"]: each["status"] for each in node["status"]["conditions"]}
    assert told == {"Ready": "True", "MemoryPressure": "False", "DiskPressure": "False", "PIDPressure": "False"}
    assert node["spec"]["taints"] == [dict(TAINTS[0])]
    assert node["status"]["nodeInfo"]["kubeletVersion"] == status.VERSION
    assert node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"] == status.PORT
    lease = await cluster.ask("GET", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/worker-0")
    assert (lease["spec"]["holderIdentity"], lease["spec"]["leaseDurationSeconds"]) == ("worker-0", 40)
    assert lease["metadata"]["ownerReferences"][0]["uid"] == node["metadata"]["uid"]


async def test_what_stands_in_the_api_is_seen_as_said_and_not_said_again(agent: Agent, cluster: Cluster) -> None:
    await join(agent, cluster)
    before = await cluster.ask("GET", "/api/v1/nodes/worker-0")
    now = agent.clock.steady()
    agent.clock = AgentClock(lambda: now + 70)
    await asyncio.to_thread(agent.step)
    await asyncio.to_thread(agent.close)
    after = await cluster.ask("GET", "/api/v1/nodes/worker-0")
    assert before["metadata"]["resourceVersion"] == after["metadata"]["resourceVersion"]


async def test_the_clusters_labels_taints_and_conditions_are_left_as_they_are(agent: Agent, cluster: Cluster) -> None:
    await join(agent, cluster)
    theirs = {"metadata": {"labels": {"node-role.kubernetes.io/worker": ""}}, "spec": {"unschedulable": True}}
    await cluster.ask("PATCH", "/api/v1/nodes/worker-0", theirs, "application/merge-patch+json")
    other = {"status": {"conditions": [{"type": "NetworkUnavailable", "status": "False"}]}}
    await cluster.ask("PATCH", "/api/v1/nodes/worker-0/status", other, "application/strategic-merge-patch+json")
    now = agent.clock.steady()
    agent.clock = AgentClock(lambda: now + 400)
    await asyncio.to_thread(agent.step)
    await asyncio.to_thread(agent.close)
    node = await cluster.ask("GET", "/api/v1/nodes/worker-0")
    assert "node-role.kubernetes.io/worker" in node["metadata"]["labels"] and node["spec"]["unschedulable"]
    assert "NetworkUnavailable" in {each["type"] for each in node["status"]["conditions"]}


async def test_a_token_is_good_for_no_word_about_a_node(agent: Agent, cluster: Cluster) -> None:
    tls = ssl.create_default_context(cadata=cluster.settings.ca)
    headers = {"Authorization": f"Bearer {cluster.settings.token}"}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls), headers=headers) as session:
        body = status.node("worker-0", ())
        async with session.post(f"{cluster.base}/api/v1/nodes", json=body) as given:
            assert given.status == 403


async def test_an_api_of_another_authority_is_not_spoken_to(agent: Agent, cluster: Cluster, tmp_path: Path) -> None:
    keys.ensure_authority(tmp_path / "other")
    other = (tmp_path / "other" / "ca.crt").read_text()
    told = settings.AgentSettings("worker-0", "127.0.0.1", cluster.settings.port, other, cluster.settings.token)
    said: list[str] = []
    stranger = Agent(told, tmp_path / "pki2", lambda: facts(), said.append, make_key=keypair.make)
    assert await asyncio.to_thread(stranger.step) == 1.0
    assert "CERTIFICATE_VERIFY_FAILED" in said[0]


async def test_a_joined_node_answers_on_its_port_to_who_has_a_certificate_of_the_cluster(
    agent: Agent, cluster: Cluster
) -> None:
    await join(agent, cluster)
    health = AgentHealth(cluster.settings.ca, 0, lambda path: answer(agent, path))
    try:
        assert agent.served is not None
        health.serve_with(agent.served.path)
        tls = ssl.create_default_context(cadata=cluster.settings.ca)
        tls.check_hostname = False  # its certificate is for the node's address, which is not on this computer

        def ask(path: str) -> tuple[int, str]:
            from http.client import HTTPSConnection

            connection = HTTPSConnection("127.0.0.1", health.port, timeout=5, context=tls)
            try:
                connection.request("GET", path)
                given = connection.getresponse()
                return given.status, given.read().decode()
            finally:
                connection.close()

        async def asked(path: str) -> tuple[int, str]:
            question = asyncio.create_task(asyncio.to_thread(ask, path))
            await asyncio.to_thread(health.wait, 5.0)
            return await question

        with pytest.raises((OSError, ConnectionError)):
            await asked("/healthz")
        tls.load_cert_chain(cluster.folder / "pki" / "admin.crt", cluster.folder / "pki" / "admin.key")
        assert await asked("/healthz") == (200, "ok")
        code, text = await asked("/metrics")
        assert code == 200 and 'expiration_seconds{certificate="serving"}' in text
        assert (await asked("/exec"))[0] == 404
    finally:
        health.close()


async def test_a_byte_now_and_then_holds_the_agent_up_no_longer_than_silence(
    agent: Agent, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    await join(agent, cluster)
    monkeypatch.setattr(health_module, "PATIENCE", 0.5)
    health = AgentHealth(cluster.settings.ca, 0, lambda path: answer(agent, path))
    try:
        assert agent.served is not None
        health.serve_with(agent.served.path)
        tls = ssl.create_default_context(cadata=cluster.settings.ca)
        tls.check_hostname = False
        tls.load_cert_chain(cluster.folder / "pki" / "admin.crt", cluster.folder / "pki" / "admin.key")

        def drip() -> None:
            with (
                socket.create_connection(("127.0.0.1", health.port or 0)) as line,
                tls.wrap_socket(line) as secured,
                suppress(OSError),
            ):
                for byte in b"GET /healthz HTTP/1.1" * 10:
                    secured.sendall(bytes([byte]))
                    time.sleep(0.1)

        dripping = asyncio.create_task(asyncio.to_thread(drip))
        begun = time.monotonic()
        await asyncio.to_thread(health.wait, 30.0)
        assert time.monotonic() - begun < 10, "of 21 seconds of bytes"
        await dripping
    finally:
        health.close()


def test_settings_are_read_from_a_kubeconfig_in_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "_own_name", lambda: "worker-0")
    path, more = tmp_path / "kubeconfig", tmp_path / "node.json"
    cluster = {
        "server": "https://[fd00:7::5]:6443",
        "certificate-authority-data": base64.b64encode(b"PEM").decode(),
    }
    described = {"clusters": [{"cluster": cluster}], "users": [{"user": {"token": "abcdef.0123456789abcdef"}}]}
    path.write_text(json.dumps(described))
    more.write_text(json.dumps({"taints": [{"key": "a", "effect": "NoSchedule"}]}))
    found = settings.load(path, more)
    assert (found.host, found.port, found.ca) == ("fd00:7::5", 6443, "PEM")
    assert found.taints == ({"key": "a", "effect": "NoSchedule"},)
    assert "0123456789abcdef" not in repr(found)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"clusters": [{"cluster": {"server": "http://x"}}], "users": [{}]}'])
def test_settings_that_cannot_be_used_are_told_with_their_place(text: str, tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(text)
    with pytest.raises(settings.BadSettings, match="kubeconfig is not a kubeconfig in JSON"):
        settings.load(path, None)
