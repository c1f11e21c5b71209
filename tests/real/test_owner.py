"""The owner of a real lab, as a user of the pretend host without any right of its own."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.real.conftest import PretendHost

pytestmark = pytest.mark.real

OWNER, STRANGER = 4242, 4243
ASK = """\
import json, socket, sys
labd = socket.socket(socket.AF_UNIX)
labd.connect(sys.argv[1])
body = sys.argv[3].encode()
head = ["POST /%s HTTP/1.1" % sys.argv[2], "Host: labd", "Connection: close", "Content-Length: %d" % len(body), "", ""]
labd.sendall("\\r\\n".join(head).encode())
labd.sendall(body)
print(b"".join(iter(lambda: labd.recv(65536), b"")).decode())
"""


def as_user(host: PretendHost, uid: int, *argv: str) -> subprocess.CompletedProcess[str]:
    drop = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--inh-caps=-all"]
    return host.run(*drop, sys.executable, "-P", *argv, check=False)


def rackless(host: PretendHost, uid: int, *words: str) -> subprocess.CompletedProcess[str]:
    return as_user(host, uid, "-m", "rackless", *words)


def ask(host: PretendHost, uid: int, name: str, **asked: object) -> str:
    """Of labd, without the command that would refuse beforehand."""
    done = as_user(host, uid, "-c", ASK, str(host.folder / "run/lab/labd.sock"), name, json.dumps(asked))
    return done.stdout + done.stderr


def test_the_owner_uses_a_lab_without_root_and_reads_no_file_of_roots(
    public: PretendHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = public
    monkeypatch.setenv("SUDO_UID", str(OWNER))
    (host.seen(host.folder) / "lab.yaml").write_text("servers: {box: {count: 1, role: spare}}\n")
    secret = host.folder / "secret.iso"
    host.seen(secret).write_bytes(bytes(0x8001) + b"CD001" + b"root's alone" + bytes(4096))
    host.seen(secret).chmod(0o600)
    host.rackless("up", "--until", "bmc")

    done = rackless(host, OWNER, "status", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(rackless(host, OWNER, "power", "box-0", "on", "--json").stdout)["power"] == "on"
    assert json.loads(rackless(host, OWNER, "bmc", "boot", "box-0", "disk", "--json").stdout)["boot"] == "disk"
    assert json.loads(rackless(host, OWNER, "kubeconfig").stdout)["kind"] == "Config"
    for words in (["list", "--json"], ["bmc", "list", "--json"], ["host", "list", "--json"], ["events", "--json"]):
        done = rackless(host, OWNER, *words)
        assert done.returncode == 0, done.stderr
    assert "only root and the lab's owner" in rackless(host, STRANGER, "status").stderr

    for refused in (
        ["bmc", "media", "insert", "box-0", str(secret)], ["bmc", "show", "box-0", "--password"], ["expose", "bmc"],
        ["export", "hosts", "--show-secrets"], ["exec", "--", "cat", str(secret)], ["down"], ["destroy", "--yes"],
    ):  # fmt: skip
        done = rackless(host, OWNER, *refused)
        assert done.returncode != 0 and "only root can" in done.stderr, refused
        assert "root's alone" not in done.stdout
    image = {"url": str(secret), "checksum": "", "format": "live-iso"}
    for name, asked in (
        ("insert-media", {"server": "box-0", "image": str(secret)}),
        ("insert-media", {"server": "box-0", "image": f"file://{secret}"}),
        ("host", {"verb": "provision", "host": "box-0", "wait": False, "image": image}),
    ):
        answer = ask(host, OWNER, name, **asked)
        assert '"error"' in answer and "root's alone" not in answer, answer
    for name in ("stop", "rest", "remove", "stage"):
        assert "only root can ask labd" in ask(host, OWNER, name), name
    assert json.loads(rackless(host, OWNER, "bmc", "show", "box-0", "--json").stdout)["seen"]["media"] is None
