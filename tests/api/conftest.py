from __future__ import annotations

import io
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from rackless.api.process import ApiServer, ApiSettings
from rackless.trust.authority import BOTH_USES, Authority, Use, subject_name
from rackless.trust.keys import key_pem, make_key
from tests import kept

ROOT = Path(__file__).parents[2]
Json = dict[str, Any]

HOSTS = "/apis/metal3.io/v1alpha1/namespaces/default/baremetalhosts"
BOTH = ["sqlite", pytest.param("etcd", marks=pytest.mark.real)]
"""For `api`, indirectly: on both stores."""
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"


def widget_definition() -> Json:
    """A small definition with a bit of everything."""
    schema: Json = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "required": ["size"],
                "properties": {
                    "size": {"type": "integer", "minimum": 1},
                    "color": {"type": "string", "enum": ["red", "blue"], "default": "red"},
                    "replicas": {"type": "integer"},
                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                    "port": {"x-kubernetes-int-or-string": True},
                    "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
                    "parts": {
                        "type": "array",
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["name"],
                        "items": {
                            "type": "object",
                            "required": ["name"],
                            "properties": {"name": {"type": "string"}, "weight": {"type": "integer"}},
                        },
                    },
                },
            },
            "status": {"type": "object", "properties": {"phase": {"type": "string"}, "replicas": {"type": "integer"}}},
        },
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
        },
        "additionalPrinterColumns": [
            {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
            {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ],
    }
    older = {**version, "name": "v1beta1", "storage": False, "deprecated": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wi"], "categories": ["all"]},
            "versions": [version, older],
        },
    }


def widget(name: str, **spec: Any) -> Json:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": name},
        "spec": {"size": 1, **spec},
    }


class Client:
    """The administrator, over HTTPS; `call` gives the code and the decoded body."""

    def __init__(self, url: str, pki: Path) -> None:
        self.url = url
        self.pki = pki
        self.session: aiohttp.ClientSession | None = None

    def context(self, certificate: bool = True) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.pki / "ca.crt"))
        if certificate:
            context.load_cert_chain(self.pki / "admin.crt", self.pki / "admin.key")
        return context

    async def __aenter__(self) -> Client:
        self.session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=self.context(), limit=200))
        return self

    async def __aexit__(self, *exception: object) -> None:
        assert self.session
        await self.session.close()

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        media: str = "application/json",
        accept: str = "",
        **query: Any,
    ) -> tuple[int, Any]:
        assert self.session
        headers = {"Content-Type": media} if body is not None else {}
        if accept:
            headers["Accept"] = accept
        import orjson

        data = body if isinstance(body, bytes | io.BytesIO) or body is None else orjson.dumps(body)
        async with self.session.request(
            method, self.url + path, data=data, headers=headers, params={k: str(v) for k, v in query.items()}
        ) as response:
            raw = await response.read()
            self.headers = response.headers
            return response.status, orjson.loads(raw) if "json" in response.content_type else raw.decode()

    async def get(self, path: str, **query: Any) -> tuple[int, Any]:
        return await self.call("GET", path, **query)

    async def create(self, path: str, body: Any, **query: Any) -> Json:
        code, answer = await self.call("POST", path, body, **query)
        assert code == 201, answer
        assert isinstance(answer, dict)
        return answer

    async def merge(self, path: str, body: Any, **query: Any) -> tuple[int, Any]:
        return await self.call("PATCH", path, body, media="application/merge-patch+json", **query)


def settings(tmp_path: Path, store: str = "", **more: Any) -> ApiSettings:
    return ApiSettings(
        store or f"sqlite:{tmp_path}/objects.db", tmp_path / "pki", port=0, kubeconfig=tmp_path / "kubeconfig", **more
    )


_STARTED_BEFORE: dict[str, bytes] = {}
"""By name, the files of an API that was started once and stopped: its objects and its keys."""


async def lay_down_a_start(objects: Path, folder: Path) -> None:
    """What the first start of an API leaves: its definitions, its CA and what that signed, half the work of a start."""
    if not _STARTED_BEFORE:
        with tempfile.TemporaryDirectory(prefix="rackless-test-") as scratch:
            async with ApiServer(settings(Path(scratch))):
                pass
            files = [Path(scratch, "objects.db"), *Path(scratch, "pki").iterdir()]
            _STARTED_BEFORE.update({str(file.relative_to(scratch)): file.read_bytes() for file in files})
    (folder / "pki").mkdir(mode=0o700)
    for name, content in _STARTED_BEFORE.items():
        place = objects if name == "objects.db" else folder / name
        place.touch(mode=0o600)
        place.write_bytes(content)


@pytest.fixture
async def api(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[ApiServer]:
    """An API whose file is in memory where the computer has such a place: the disk is not what these tests are about.

    It is not its first start. Parametrized with `etcd` it is on a real etcd, and it is.
    """
    if getattr(request, "param", "sqlite") == "etcd":
        async with ApiServer(settings(tmp_path, "etcd:" + request.getfixturevalue("etcd"))) as running:
            yield running
        return
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=memory, prefix="rackless-test-") as folder:
        await lay_down_a_start(Path(folder, "objects.db"), tmp_path)
        async with ApiServer(settings(tmp_path, f"sqlite:{folder}/objects.db")) as running:
            yield running


@pytest.fixture
async def client(api: ApiServer, tmp_path: Path) -> AsyncIterator[Client]:
    async with Client(api.url, tmp_path / "pki") as found:
        await found.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", widget_definition())
        yield found


def debian_program(package: str, program: str) -> Path | None:
    """A program of a Debian package, unpacked into a cache; None where that cannot be done."""
    found = shutil.which(program.rpartition("/")[2])
    if package != "kubernetes-client" and found:
        return Path(found)
    target = kept.CACHE / package
    path = target / program
    with kept.alone(package):
        if path.exists():
            return path
        target.mkdir(parents=True, exist_ok=True)
        try:
            subprocess.run(["apt-get", "download", package], cwd=target, check=True, capture_output=True)
            archive = next(target.glob("*.deb"))
            subprocess.run(["dpkg", "-x", archive, target], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError, StopIteration):
            return None
        return path if path.exists() else None


def free_ports(count: int) -> list[int]:
    """Each another one: all are taken at once, and let go when all are known."""
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]


def issue_client(
    authority: Authority, user: str, groups: Sequence[str] = (), uses: Sequence[Use] = (Use.CLIENT,)
) -> tuple[bytes, bytes]:
    """A certificate and its key, both in PEM."""
    key = make_key()
    return authority.sign(key.public_key(), subject_name(user, groups), uses=uses), key_pem(key)


class Etcd:
    """A real etcd that can be stopped and started again."""

    def __init__(self, program: Path, folder: Path, name: str = "default", ports: Sequence[int] = ()) -> None:
        self._program, self._folder, self._name = program, folder, name
        self.more: tuple[str, ...] = ()
        self.url, peer, self._health = (f"http://127.0.0.1:{port}" for port in ports or free_ports(3))
        self._peer = peer
        self.membership = f"{name}={peer}"
        self.members = [self.membership]

    def secure(self, pki: Path) -> None:
        """From the next start on: TLS on both sides, only for clients with a certificate of this CA."""
        authority = Authority.ensure(pki, "etcd")
        leaf = authority.ensure_leaf("serving", ["127.0.0.1"], uses=BOTH_USES)
        self.url = self.url.replace("http:", "https:")
        self.more = ("--cert-file", str(leaf.certificate), "--key-file", str(leaf.key), "--client-cert-auth",
                     "--trusted-ca-file", str(authority.certificate))  # fmt: skip

    def start(self) -> None:
        self.launch()
        self.await_health()

    def launch(self) -> None:
        slowly = ("--heartbeat-interval", "500", "--election-timeout", "5000") if len(self.members) > 1 else ()
        with (self._folder / "etcd.log").open("ab") as log:
            self.process = subprocess.Popen(
                [self._program, "--name", self._name, "--data-dir", self._folder / self._name, "--listen-client-urls", self.url,
                 "--advertise-client-urls", self.url, "--listen-peer-urls", self._peer,
                 "--initial-advertise-peer-urls", self._peer, "--initial-cluster", ",".join(self.members),
                 *slowly, "--listen-metrics-urls", self._health, "--log-level", "error", *self.more],
                stdout=log, stderr=log,
            )  # fmt: skip

    def await_health(self) -> None:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            try:
                with urllib.request.urlopen(f"{self._health}/health", timeout=10) as answer:
                    if b"true" in answer.read():
                        return
            except OSError:
                pass
            time.sleep(0.1)
        raise AssertionError((self._folder / "etcd.log").read_text())

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def etcd_process(tmp_path: Path) -> Iterator[Etcd]:
    program = debian_program("etcd-server", "usr/bin/etcd")
    if program is None:
        pytest.skip("etcd-server cannot be had here")
    found = Etcd(program, tmp_path)
    found.start()
    yield found
    found.stop()


@pytest.fixture
def etcd_quorum(tmp_path: Path) -> Iterator[list[Etcd]]:
    """Three members."""
    program = debian_program("etcd-server", "usr/bin/etcd")
    if program is None:
        pytest.skip("etcd-server cannot be had here")
    ports = free_ports(9)
    found = [Etcd(program, tmp_path, f"m{number}", ports[3 * number : 3 * number + 3]) for number in range(3)]
    for each in found:
        each.members = [other.membership for other in found]
        each.launch()
    try:
        for each in found:
            each.await_health()
        yield found
    finally:
        for each in found:
            each.kill()


@pytest.fixture
def etcd(etcd_process: Etcd) -> str:
    return etcd_process.url


class Running:
    """The served API: where its kubeconfig is."""

    def __init__(self, folder: Path, store: str = "") -> None:
        self.folder = folder
        self.store = store or f"sqlite:{folder}/objects.db"
        self.kubeconfig = folder / "kubeconfig"
        (self.port,) = free_ports(1)

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "rackless", "api", "serve", "--store", self.store,
                 "--port", str(self.port), "--kubeconfig-out", str(self.kubeconfig)],
                stdout=log, stderr=log,
            )  # fmt: skip
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                if self.kubeconfig.exists():
                    return
            except OSError:
                pass
            time.sleep(0.05)
        raise AssertionError((self.folder / "log").read_text())

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    found = Running(tmp_path_factory.mktemp("api"))
    found.start()
    yield found
    found.process.terminate()
    found.process.wait()
    assert "Traceback" not in (found.folder / "log").read_text()
