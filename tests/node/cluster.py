"""A cluster that a node agent can join, in one process and in virtual time: what it stores, and how it may fail."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from rackless.node import keypair
from rackless.node.agent import Agent, AgentClock
from rackless.node.api import Answer, Api, Away, Json
from rackless.node.certificates import Pair
from rackless.node.facts import DiskRoom, Facts
from rackless.node.settings import AgentSettings

NODES, LEASES = "/api/v1/nodes", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
DAY = 86400.0
NOW = 1_800_000_000.0


@dataclass
class FakeCluster:
    wall: float = NOW
    """What its own clock says."""
    lifetime: float = 365 * DAY
    objects: dict[str, Json] = field(default_factory=dict)
    asked: list[tuple[str, str, str]] = field(default_factory=list)
    """Who, verb, path."""
    away: str = ""
    approves: bool = True
    knows_token: bool = True
    knows_certificates: bool = True
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    def open(self, settings: AgentSettings, pair: Pair | None) -> Api:
        return _Session(self, pair)

    def sign(self, request: bytes) -> str:
        asked = x509.load_pem_x509_csr(request)
        since = datetime.fromtimestamp(self.wall, UTC)
        signed = (
            x509.CertificateBuilder()
            .subject_name(asked.subject)
            .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "fake")]))
            .public_key(asked.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(since)
            .not_valid_after(since + timedelta(seconds=self.lifetime))
            .sign(self.key, hashes.SHA256())
        )
        return base64.b64encode(signed.public_bytes(serialization.Encoding.PEM)).decode()

    def ready(self, name: str) -> str | None:
        """The status of the node's condition Ready, as kubectl shows it."""
        node = self.objects.get(f"{NODES}/{name}", {})
        told = {each["type"]: each["status"] for each in node.get("status", {}).get("conditions", ())}
        return told.get("Ready")

    def condition(self, name: str, kind: str) -> Json:
        (found,) = [each for each in self.objects[f"{NODES}/{name}"]["status"]["conditions"] if each["type"] == kind]
        return dict(found)

    def renewed(self, name: str) -> str:
        return str(self.objects[f"{LEASES}/{name}"]["spec"]["renewTime"])

    @property
    def requests(self) -> list[Json]:
        return [found for path, found in self.objects.items() if path.startswith(REQUESTS)]


@dataclass
class _Session:
    cluster: FakeCluster
    pair: Pair | None

    def request(self, method: str, path: str, body: Json | None = None, kind: str = "application/json") -> Answer:
        cluster = self.cluster
        cluster.asked.append(("node" if self.pair else "token", method, path))
        if cluster.away:
            raise Away(cluster.away)
        known = cluster.knows_token if self.pair is None else cluster.knows_certificates and self._good()
        if not known:
            return Answer(401, {"message": "Unauthorized"})
        objects = cluster.objects
        match method:
            case "POST":
                assert body is not None
                path = f"{path}/{body['metadata']['name']}"
                if path in objects:
                    return Answer(409, {"message": "already exists"})
                objects[path] = {**body, "metadata": {**body["metadata"], "uid": f"uid-{len(objects)}"}}
                if path.startswith(REQUESTS) and cluster.approves:
                    self._approve(objects[path])
                return Answer(201, objects[path])
            case "PATCH" if path.removesuffix("/status") in objects:
                assert body is not None
                place = path.removesuffix("/status")
                objects[place] = _merged(objects[place], body)
                return Answer(200, objects[place])
            case "GET" if path in objects:
                return Answer(200, objects[path])
        return Answer(404, {"message": "not found"})

    def _good(self) -> bool:
        return self.pair is not None and self.pair.since <= self.cluster.wall < self.pair.until

    def _approve(self, found: Json) -> None:
        request = base64.b64decode(found["spec"]["request"])
        found["status"] = {"conditions": [{"type": "Approved"}], "certificate": self.cluster.sign(request)}

    def close(self) -> None:
        pass


def _merged(old: Any, new: Any) -> Any:
    if not isinstance(new, dict) or not isinstance(old, dict):
        return new
    return {**old, **{key: _merged(old.get(key), value) for key, value in new.items()}}


@dataclass
class World:
    """A node and its cluster; time passes when the agent waits."""

    folder: Path
    cluster: FakeCluster = field(default_factory=FakeCluster)
    steady: float = 1000.0
    wall: float = NOW
    """What the node's own clock says; the cluster's is apart."""
    facts: Facts = field(default_factory=lambda: facts())
    said: list[str] = field(default_factory=list)
    make_key: Any = keypair.make
    agent: Agent = field(init=False)

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        """The agent anew, as after a kill: it knows what it has written down."""
        clock = AgentClock(lambda: self.steady, lambda: self.wall)
        self.agent = Agent(
            SETTINGS, self.folder, lambda: self.facts, self.said.append, self.cluster.open, clock, self._key
        )

    def _key(self, subject: str, names: Sequence[str], addresses: Sequence[str], key: Path, request: Path) -> None:
        self.make_key(subject, names, addresses, key, request)

    def run(self, seconds: float) -> None:
        end = self.steady + seconds
        steps = 0
        while True:
            wait = self.agent.step()
            steps += 1
            assert steps < seconds * 3 + 100, f"a busy loop: {self.said[-3:]}"
            if self.steady + wait > end:
                self.pass_time(end - self.steady)
                return
            self.pass_time(wait)

    def pass_time(self, seconds: float) -> None:
        self.steady += seconds
        self.wall += seconds
        self.cluster.wall += seconds


SETTINGS = AgentSettings("worker-0", "192.0.2.5", 6443, "CA", "abcdef.0123456789abcdef")


def facts(**changes: Any) -> Facts:
    gib = 1 << 30
    known: dict[str, Any] = {
        "processors": 2,
        "memory": DiskRoom(2 * gib, gib),
        "disk": DiskRoom(10 * gib, 5 * gib),
        "inodes": DiskRoom(1000, 900),
        "pids": DiskRoom(32768, 32000),
        "addresses": ("192.0.2.10",),
        "system": "Debian GNU/Linux 12 (bookworm)",
    }
    return Facts(**{**known, **changes})
