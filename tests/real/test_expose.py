"""Other people's tools at ports of a pretend host: they reach the lab's BMCs, also while labd is dead, until the lab is gone."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.drivers.ironic.certificates import write_certificates
from tests.real.conftest import ROOT, PretendHost, kill
from tests.real.other_ironic import PASSWORD, USERNAME

pytestmark = pytest.mark.real

IRONIC_PORT = 6399
Call = Callable[..., Any]
"""A request to an Ironic: method, path, body."""
LAB = "servers: {box: {count: 1, role: spare}}\n"


def ipmi(host: PretendHost, port: int) -> str:
    password = str(host.folder / "state/lab/secrets/bmc.password")
    tool = ["ipmitool", "-I", "lanplus", "-C", "17", "-H", "127.0.0.1", "-p", str(port), "-U", "admin", "-f", password]
    return host.run(*tool, "power", "status").stdout


def redfish(host: PretendHost, port: int) -> dict[str, object]:
    """A GET that believes nobody but the lab's CA."""
    password = (host.folder / "state/lab/secrets/bmc.password").read_text().strip()
    config = host.folder / "curl"
    config.write_text(f'user = "admin:{password}"\n')
    get = ["curl", "-fsS", "--retry", "5", "--retry-all-errors", "-K", str(config)]
    get += ["--cacert", str(host.folder / "state/lab/secrets/tls/ca.crt")]
    found: dict[str, object] = json.loads(host.run(*get, f"https://127.0.0.1:{port}/redfish/v1/Systems/1").stdout)
    return found


def listening(host: PretendHost) -> list[str]:
    """The ports of the pretend host, without those of the lab's APIs."""
    lines = host.run("ss", "-Hlntu").stdout.splitlines()
    places = {line.split()[4] for line in lines}
    return sorted(place for place in places if not place.startswith("127.0.0.1:16"))


def test_bmcs_are_reached_from_the_host_while_labd_is_dead_and_not_after_the_lab(host: PretendHost) -> None:
    before = host.snapshot()
    (host.folder / "lab.yaml").write_text(LAB)
    host.rackless("up", "--until", "bmc")
    assert listening(host) == []
    done = json.loads(host.rackless("expose", "bmc", "--json").stdout)
    (port,) = {one["port"] for one in done["forwards"]}
    assert done["open"] and [one["id"] for one in done["forwards"]] == [
        f"tcp/127.0.0.1:{port}",
        f"udp/127.0.0.1:{port}",
    ]
    assert listening(host) == [f"127.0.0.1:{port}"]
    assert redfish(host, port)["PowerState"] == "Off"
    assert "off" in ipmi(host, port)

    labd = host.one("rackless.labd.main")
    kill(labd)
    assert listening(host) == [f"127.0.0.1:{port}"], "the holder keeps it"
    assert redfish(host, port)["PowerState"] == "Off"
    host.rackless("power", "box-0", "on")
    assert "on" in ipmi(host, port)
    assert host.one("rackless.labd.main") != labd

    host.rackless("down")
    assert listening(host) == []
    host.rackless("up", "--until", "bmc")
    assert listening(host) == [f"127.0.0.1:{port}"], "it comes back with the lab"
    assert "off" in ipmi(host, port) or "on" in ipmi(host, port)
    assert host.rackless("unexpose", "--all", "--json").stdout.count("127.0.0.1") == 2
    assert listening(host) == []
    host.rackless("expose", "bmc")
    host.rackless("destroy", "--yes")
    assert listening(host) == []
    for name in ("lab.yaml", "curl"):
        (host.folder / name).unlink()
    assert host.snapshot() == before


def test_an_iso_of_the_host_is_put_into_a_drive_and_a_secret_file_is_not_by_a_name_alone(host: PretendHost) -> None:
    (host.folder / "lab.yaml").write_text(LAB)
    (host.folder / "live.iso").write_bytes(bytes(0x8001) + b"CD001" + bytes(1 << 20))
    host.rackless("up", "--until", "bmc")
    done = json.loads(host.rackless("bmc", "media", "insert", "box-0", "live.iso", "--boot", "--json").stdout)
    assert done["media"].endswith(".iso") and (done["boot"], done["once"]) == ("cdrom", True)
    shown = json.loads(host.rackless("bmc", "show", "box-0", "--json").stdout)
    assert shown["seen"] == done and "password" not in shown
    assert json.loads(host.rackless("bmc", "media", "eject", "box-0", "--json").stdout)["media"] is None
    secret = host.folder / "secret.iso"
    secret.write_bytes((host.folder / "live.iso").read_bytes())
    socket_path = str(host.folder / "run/lab/labd.sock")
    answer = _post(socket_path, "insert-media", {"server": "box-0", "image": str(secret)})
    assert "is not offered to the lab" in answer


def test_an_ironic_outside_the_lab_switches_a_server_by_what_was_exported(host: PretendHost) -> None:
    (host.folder / "lab.yaml").write_text(LAB)
    host.rackless("up", "--until", "bmc")
    host.rackless("expose", "bmc")
    host.rackless("export", "ironic", "--exposed", "--json", "-o", "nodes.json")
    (node,) = json.loads((host.folder / "nodes.json").read_text())["nodes"]
    with ironic_outside(host) as call:
        ports = node.pop("ports")
        uuid = call("POST", "nodes", node)["uuid"]
        for port in ports:
            call("POST", "ports", {**port, "node_uuid": uuid})
        call("PUT", "nodes/box-0/states/provision", {"target": "manage"})
        await_node(call, "provision_state", "manageable")  # so it logged in, and saw the power
        call("PUT", "nodes/box-0/states/power", {"target": "power on"})
        await_node(call, "power_state", "power on")
        assert host.status()["servers"][0]["power"] == "on"


@contextmanager
def ironic_outside(host: PretendHost, address: str = "127.0.0.1", *more: str) -> Iterator[Call]:
    """Somebody's Ironic on the pretend host, which knows nothing of the lab."""
    folder = host.folder / "theirs"
    folder.mkdir()
    write_certificates(folder, address)
    config = host.folder / "theirs.curl"
    config.write_text(f'user = "{USERNAME}:{PASSWORD}"\nheader = "X-OpenStack-Ironic-API-Version: 1.88"\n')
    base = ["curl", "-sS", "--fail-with-body", "-K", str(config), "--cacert", str(folder / "ca.crt")]

    def call(method: str, path: str, body: object = None) -> Any:
        sent = ["-H", "Content-Type: application/json", "-d", json.dumps(body)] if body is not None else []
        done = host.run(*base, "-X", method, *sent, f"https://{address}:{IRONIC_PORT}/v1/{path}")
        return json.loads(done.stdout or "null")

    command = [sys.executable, "-m", "tests.real.other_ironic", str(folder), address, str(IRONIC_PORT), *more]
    process = subprocess.Popen(
        ["nsenter", "-t", str(host.pid), "-m", "-n", f"--wd={ROOT}", "--", *command],
        env=host.environment, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        yield call
    finally:
        process.terminate()
        process.wait(timeout=300)
        if process.stdout:
            process.stdout.close()


def await_node(call: Call, field: str, wanted: str, within: float = 300) -> None:
    deadline = time.monotonic() + within
    while (seen := call("GET", "nodes/box-0"))[field] != wanted:
        assert time.monotonic() < deadline and not seen["last_error"], f"{seen[field]}: {seen['last_error']}"
        time.sleep(0.5)


def _post(path: str, name: str, body: dict[str, object]) -> str:
    data = json.dumps(body).encode()
    with socket.socket(socket.AF_UNIX) as labd:
        labd.connect(path)
        labd.sendall(
            f"POST /{name} HTTP/1.1\r\nHost: labd\r\nConnection: close\r\nContent-Length: {len(data)}\r\n\r\n".encode()
            + data
        )
        return b"".join(iter(lambda: labd.recv(65536), b"")).decode()
