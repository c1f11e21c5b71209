"""What the node agent is made of: keys by openssl, addresses by netlink, dates out of certificates, facts of a system."""

from __future__ import annotations

import base64
import os
import socket
import ssl
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509

from rackless.api.access import keys
from rackless.node import addresses, der, keypair
from rackless.node.addresses import Address, choose
from rackless.node.facts import DiskRoom, look
from rackless.node.health import respond
from rackless.trust.keys import load_key
from rackless.trust.requests import read_request
from tests.node.cluster import facts


def test_the_agent_loads_the_standard_library_and_nothing_heavy() -> None:
    """25 MB are little: what is loaded is what it costs."""
    code = "import sys, rackless.node.main; print('\\n'.join(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    ours = {name for name in found if name.startswith("rackless.")}
    assert all(name.startswith("rackless.node") for name in ours)
    heavy = ("asyncio", "cryptography", "aiohttp", "pydantic", "logging", "subprocess", "yaml", "threading", "orjson",
             "http", "email", "dataclasses", "inspect")  # fmt: skip
    loaded = {name.partition(".")[0] for name in found}
    started_with = subprocess.run(
        [sys.executable, "-c", "import sys; print('\\n'.join(sys.modules))"], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not (loaded - {name.partition(".")[0] for name in started_with}) & set(heavy)


def test_a_key_is_for_its_owner_only(tmp_path: Path) -> None:
    key, request = tmp_path / "key", tmp_path / "csr"
    keypair.make("system:node:n", [], [], key, request)
    assert key.stat().st_mode & 0o777 == 0o600 and "BEGIN CERTIFICATE REQUEST" in request.read_text()
    secret = load_key(key)
    asked = x509.load_pem_x509_csr(request.read_bytes())
    assert secret.curve.name == "secp256r1" and asked.public_key() == secret.public_key()


def test_two_keys_are_two(tmp_path: Path) -> None:
    for name in ("a", "b"):
        keypair.make("system:node:n", [], [], tmp_path / name, tmp_path / f"{name}.csr")
    assert (tmp_path / "a").read_bytes() != (tmp_path / "b").read_bytes()


def test_a_key_that_cannot_be_written_is_an_error_that_says_so(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        keypair.make("system:node:n", [], [], tmp_path / "no/key", tmp_path / "csr")


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("/nonexistent/openssl", "No such file"),
        ("/usr/bin/false", "ended with"),
        ("/usr/bin/true", "answered without one"),
    ],
)
def test_a_program_that_makes_no_key_is_an_error_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, why: str
) -> None:
    monkeypatch.setattr(keypair, "OPENSSL", program)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError, match=f"no key could be made.*{why}"):
        keypair.make("system:node:n", [], [], tmp_path / "key", tmp_path / "csr")
    assert not list(tmp_path.iterdir()) and len(os.listdir("/proc/self/fd")) == before


def test_a_file_that_could_not_be_written_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "client.pem"
    path.write_text("old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        keypair.write_private(path, b"new")
    assert path.read_text() == "old" and [each.name for each in tmp_path.iterdir()] == ["client.pem"]


def test_dates_are_read_out_of_a_certificate(tmp_path: Path) -> None:
    keys.ensure_authority(tmp_path)
    certificate = x509.load_pem_x509_certificate((tmp_path / "ca.crt").read_bytes())
    since, until = der.validity((tmp_path / "ca.crt").read_text())
    assert datetime.fromtimestamp(since, UTC) == certificate.not_valid_before_utc
    assert datetime.fromtimestamp(until, UTC) == certificate.not_valid_after_utc


def test_what_is_no_certificate_is_a_value_error_wherever_it_ends(tmp_path: Path) -> None:
    keys.ensure_authority(tmp_path)
    whole = ssl.PEM_cert_to_DER_cert((tmp_path / "ca.crt").read_text())
    for length in range(0, 140, 7):
        with pytest.raises(ValueError):
            der.validity(ssl.DER_cert_to_PEM_cert(whole[:length]))
    with pytest.raises(ValueError):
        der.validity("nothing")


V4, V6 = socket.AF_INET, socket.AF_INET6


def test_the_address_on_the_clusters_network_is_the_nodes_and_the_vip_is_not() -> None:
    found = [Address("127.0.0.1", V4, 8), Address("172.22.0.11", V4, 24), Address("192.0.2.5", V4, 32)]
    found += [Address("192.0.2.6", V4, 32), Address("192.0.2.10", V4, 24), Address("fe80::1", V6, 64)]
    assert choose(found, "192.0.2.5") == ("192.0.2.10",)


def test_a_node_of_two_families_has_one_address_of_each() -> None:
    found = [Address("192.0.2.10", V4, 24), Address("fd00:7::10", V6, 64), Address("fd00:7::11", V6, 128)]
    assert set(choose(found, "fd00:7::5")) == {"192.0.2.10", "fd00:7::10"}


def test_a_node_that_is_reached_through_a_router_has_an_address_too() -> None:
    assert choose([Address("198.51.100.7", V4, 24)], "192.0.2.5") == ("198.51.100.7",)


def test_the_kernel_is_asked_for_addresses() -> None:
    assert all(socket.inet_pton(each.family, each.text) for each in addresses.observe())


def test_netlink_that_is_cut_off_ends_quietly() -> None:
    assert list(addresses.messages(b"\x01\x00\x00\x00" + b"\0" * 12)) == []
    assert addresses.read(b"\x02\x18\0\0\0\0\0\0" + b"\x01\0\x02\0") is None


def test_facts_are_read_from_proc_and_what_is_not_there_is_left_empty(tmp_path: Path) -> None:
    for name, text in {
        "proc/meminfo": "MemTotal:  2048 kB\nMemFree: 1 kB\nMemAvailable:  1024 kB\n",
        "proc/loadavg": "0.00 0.01 0.05 1/123 4567\n",
        "proc/sys/kernel/pid_max": "1000\n",
        "etc/os-release": 'NAME="x"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n',
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = look(("192.0.2.10",), tmp_path)
    assert found.memory == DiskRoom(2 << 20, 1 << 20) and found.pids == DiskRoom(1000, 877)
    assert found.system == "Debian GNU/Linux 12 (bookworm)" and found.machine_id == ""


@pytest.mark.parametrize(
    ("changes", "pressed"),
    [
        ({"memory": DiskRoom(2 << 30, 99 << 20)}, "memory_pressure"),
        ({"disk": DiskRoom(1000, 99)}, "disk_pressure"),
        ({"inodes": DiskRoom(1000, 49)}, "disk_pressure"),
        ({"pids": DiskRoom(1000, 99)}, "pid_pressure"),
    ],
)
def test_pressure_is_felt_where_little_is_left(changes: dict[str, DiskRoom], pressed: str) -> None:
    kinds = ("memory_pressure", "disk_pressure", "pid_pressure")
    assert {kind for kind in kinds if getattr(facts(**changes), kind)} == {pressed}
    assert not any(getattr(facts(), kind) for kind in kinds)


@pytest.mark.parametrize(
    ("question", "code"),
    [
        (b"GET /healthz HTTP/1.1\r\n\r\n", 200),
        (b"GET /healthz?verbose HTTP/1.1\r\n\r\n", 200),
        (b"POST /healthz HTTP/1.1\r\n\r\n", 405),
        (b"\x16\x03\x01", 400),
        (b"", 400),
        (b"GET / SMTP\r\n\r\n", 400),
    ],
)
def test_questions_are_answered_or_refused(question: bytes, code: int) -> None:
    given = respond(question, lambda path: (200, "ok") if path == "/healthz" else (404, ""))
    assert given.startswith(f"HTTP/1.1 {code} ".encode())


@pytest.mark.parametrize(
    ("names", "hosts"),
    [
        ((), ()),
        (("worker-0",), ("192.0.2.7", "2001:db8::7")),
        (tuple(f"n{n}.example" for n in range(40)), ("192.0.2.1",)),
    ],
)
def test_a_request_is_read_as_it_was_meant(tmp_path: Path, names: tuple[str, ...], hosts: tuple[str, ...]) -> None:
    """By the library that the API reads it with, which also checks the signature."""
    keypair.make("system:node:wörker", names, hosts, tmp_path / "key", tmp_path / "csr")
    asked = read_request(base64.b64encode((tmp_path / "csr").read_bytes()).decode())
    assert (asked.name, asked.organizations) == ("system:node:wörker", ("system:nodes",))
    found = asked.alternatives
    told = [str(each.value) for each in found] if found is not None else []
    assert told == [*names, *hosts]
