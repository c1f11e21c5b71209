"""Nodes in a real API of ours, over TLS, as the last step of an install writes them."""

from __future__ import annotations

import json
import socket
import ssl
from ipaddress import IPv4Address
from pathlib import Path

import aiohttp
import pytest

from rackless.api.access import pki
from rackless.api.process import Api, Settings
from rackless.cluster.reference import nodes, vip
from rackless.plan.addressing import plan_lab
from rackless.spec.lab import LabSpec

LOOPBACK = IPv4Address("127.0.0.1")
PLAN = plan_lab(LabSpec.model_validate({"servers": {"ctrl": {"role": "control-plane"}, "worker": {}}}))


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> int:
    with socket.socket() as probe:
        probe.bind((str(LOOPBACK), 0))
        number = int(probe.getsockname()[1])
    monkeypatch.setattr(nodes, "API_PORT", number)
    monkeypatch.setattr(vip, "API_PORT", number)
    return number


async def test_nodes_are_written_once_with_their_roles_and_addresses_and_no_word_of_being_ready(
    tmp_path: Path, port: int
) -> None:
    settings = Settings(f"sqlite:{tmp_path}/objects.db", tmp_path / "pki", port=port)
    async with Api(settings):
        pki.ensure_kubeconfig(pki.Authority(tmp_path / "pki"), tmp_path / "kubeconfig", "https://127.0.0.1")
        tls = ssl.create_default_context(cafile=tmp_path / "pki" / "ca.crt")
        tls.load_cert_chain(tmp_path / "pki" / "admin.crt", tmp_path / "pki" / "admin.key")
        assert await vip.ask_api(LOOPBACK, tls) == ""
        assert await nodes.ensure_nodes(LOOPBACK, tls, PLAN.servers) == ["ctrl-0", "worker-0"]
        assert await nodes.ensure_nodes(LOOPBACK, tls, PLAN.servers) == []
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls)) as session:
            async with session.get(f"https://127.0.0.1:{port}/api/v1/nodes") as answer:
                found = json.loads(await answer.read())["items"]
    assert [node["metadata"]["name"] for node in found] == ["ctrl-0", "worker-0"]
    assert "node-role.kubernetes.io/control-plane" in found[0]["metadata"]["labels"]
    assert {"type": "InternalIP", "address": str(PLAN.servers[1].address)} in found[1]["status"]["addresses"]
    assert "conditions" not in found[0]["status"]


async def test_why_the_api_does_not_answer_is_told(port: int) -> None:
    assert (await vip.ask_api(LOOPBACK, ssl.create_default_context())).startswith("no answer (")
