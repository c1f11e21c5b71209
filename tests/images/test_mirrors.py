"""The computer's own mirrors and proxies are used for what images are made of: apt's and pip's configuration counts.

Everything here talks to a server on loopback; what it stands in for is an address where nobody listens.
"""

import gzip
import hashlib
import shutil
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from rackless.drivers.process import LocalProcesses
from rackless.errors import CommandFailed
from rackless.images import agent, packages, python
from rackless.images.sources import Sources

needs_apt = pytest.mark.skipif(not Path("/usr/lib/apt/apt-helper").exists(), reason="apt is not here")


@dataclass
class Server:
    """Answers what it has, and keeps what it was asked for."""

    port: int = 0
    files: dict[str, bytes] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found.asked.append(self.path)
            content = found.files.get(self.path)
            self.send_response(200 if content is not None else 404)
            self.send_header("Content-Length", str(len(content or b"")))
            self.end_headers()
            self.wfile.write(content or b"")

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        found.port = listening.server_address[1]
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        try:
            yield found
        finally:
            listening.shutdown()
            thread.join()


@needs_apt
async def test_packages_are_fetched_through_apts_proxy(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = b"a package"
    server.files["http://127.0.0.2:9/pool/tiny_1_all.deb"] = content
    conf = tmp_path / "apt.conf"
    conf.write_text(f'Acquire::http::Proxy "http://127.0.0.1:{server.port}";\n')
    monkeypatch.setenv("APT_CONFIG", str(conf))
    wanted = packages.Package(
        "tiny_1_all.deb", "http://127.0.0.2:9/pool/tiny_1_all.deb", len(content), hashlib.sha256(content).hexdigest()
    )
    assert await packages.fetch(LocalProcesses(), [wanted], tmp_path / "debs") == len(content)
    assert (tmp_path / "debs/tiny_1_all.deb").read_bytes() == content
    assert server.asked == ["http://127.0.0.2:9/pool/tiny_1_all.deb"]


@needs_apt
async def test_a_package_that_a_mirror_changed_is_not_taken(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.files["http://127.0.0.2:9/tiny_1_all.deb"] = b"another one"
    conf = tmp_path / "apt.conf"
    conf.write_text(f'Acquire::http::Proxy "http://127.0.0.1:{server.port}";\nAcquire::Retries "0";\n')
    monkeypatch.setenv("APT_CONFIG", str(conf))
    wanted = packages.Package("tiny_1_all.deb", "http://127.0.0.2:9/tiny_1_all.deb", 9, "ab" * 32)
    with pytest.raises(CommandFailed):
        await packages.fetch(LocalProcesses(), [wanted], tmp_path / "debs")
    assert not (tmp_path / "debs/tiny_1_all.deb").exists()


def make_repository(folder: Path) -> None:
    tree = folder / "tiny"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "DEBIAN/control").write_text(
        "Package: tiny\nVersion: 1:2.0\nArchitecture: all\nMaintainer: nobody <nobody@example.test>\nDescription: tiny\n"
    )
    deb = folder / "tiny_2.0_all.deb"
    subprocess.run(["dpkg-deb", "--build", "--root-owner-group", tree, deb], check=True, capture_output=True)
    shutil.rmtree(tree)
    control = subprocess.run(["dpkg-deb", "--field", deb], check=True, capture_output=True, text=True).stdout
    content = deb.read_bytes()
    listed = f"{control}Filename: ./{deb.name}\nSize: {len(content)}\nSHA256: {hashlib.sha256(content).hexdigest()}\n"
    (folder / "Packages.gz").write_bytes(gzip.compress(listed.encode()))


@needs_apt
async def test_packages_are_resolved_from_the_machines_own_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("mirror", "lists/partial", "cache/archives/partial", "parts", "scratch"):
        (tmp_path / name).mkdir(parents=True)
    make_repository(tmp_path / "mirror")
    (tmp_path / "sources.list").write_text(f"deb [trusted=yes] file:{tmp_path}/mirror ./\n")
    conf = tmp_path / "apt.conf"
    conf.write_text(
        f'Dir::Etc::sourcelist "{tmp_path}/sources.list";\nDir::Etc::sourceparts "{tmp_path}/parts";\n'
        f'Dir::State::lists "{tmp_path}/lists";\nDir::Cache "{tmp_path}/cache";\nAPT::Sandbox::User "root";\n'
    )
    monkeypatch.setenv("APT_CONFIG", str(conf))
    await LocalProcesses().run(["apt-get", "update", "--quiet"])
    (found,) = await packages.resolve(LocalProcesses(), Sources(tmp_path / "lists"), ["tiny"], tmp_path / "scratch")
    assert (found.name, found.version) == ("tiny", "1:2.0")
    assert found.uri.startswith(f"file:{tmp_path}/mirror/")


@pytest.mark.slow
async def test_the_agents_packages_come_from_pips_own_index(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not list(Path("/usr/share/python-wheels").glob("pip-*.whl")) or not Path("/usr/bin", python.PYTHON).exists():
        pytest.skip(f"python3-pip-whl or {python.PYTHON} is not here")
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    conf = tmp_path / "pip.conf"
    conf.write_text(
        f"[global]\nindex-url = http://127.0.0.1:{server.port}/mirror/simple\nextra-index-url =\nfind-links =\n"
        "retries = 0\ntimeout = 5\n"
    )
    monkeypatch.setenv("PIP_CONFIG_FILE", str(conf))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with pytest.raises(CommandFailed):
        await python.run_pip(
            LocalProcesses(), Path("/"), agent.REQUIREMENTS, tmp_path, "download", "--dest", tmp_path / "out"
        )
    assert server.asked and all(path.startswith("/mirror/simple/") for path in server.asked)
