"""From nothing to a node and back, every part the real one: libvirt, QEMU, Redfish, Ironic, its agent, Ignition, etcd."""

from __future__ import annotations

import json
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.real.conftest import PretendHost, leaked_secrets

pytestmark = pytest.mark.real

LAB = """\
servers:
  ctrl: {role: control-plane, count: 1}
"""


def await_state(host: PretendHost, state: str, within: float = 300) -> None:
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        done = host.rackless("status", "--json", check=False)
        if done.returncode == 0 and [s["host"] for s in json.loads(done.stdout).get("servers", [])] == [state]:
            return
        time.sleep(1)
    pytest.fail(f"the host was never {state}")


def kill(host: PretendHost, name: str) -> None:
    (pid,) = [pid for pid, command in host.inhabitants() if name in command]
    os.kill(pid, signal.SIGKILL)


def test_a_control_plane_is_provisioned_configured_by_ignition_and_taken_away_again(host: PretendHost) -> None:
    before = host.snapshot()
    (host.folder / "lab.yaml").write_text(LAB)

    # labd dies while the agent is at work; the server goes on, and so does the next `up`
    with ThreadPoolExecutor(1) as background:
        interrupted = background.submit(host.rackless, "up", check=False)
        await_state(host, "inspecting")
        kill(host, "rackless.daemon.labd")
        assert interrupted.result().returncode == 4
    host.rackless("up")

    # as seen from outside
    found = host.status()
    (server,) = found["servers"]
    assert (server["power"], server["host"], server["node"]) == ("on", "provisioned", "up")
    assert found["etcd"]["complete"] and found["etcd"]["leader"] == "ctrl-0"

    # as seen from inside the node
    inside = host.rackless(
        "ssh", "ctrl-0", "--",
        "cat /etc/hostname /etc/rackless-release; id -un; test -e /etc/ignition.done && echo ignited;"
        "systemctl is-active etcd; sudo -n cat /etc/ssh/ssh_host_ed25519_key.pub 2>/dev/null; lsblk -no SIZE /dev/sda",
    ).stdout.splitlines()  # fmt: skip
    assert inside[:4] == ["ctrl-0", "LAB=lab", "SERVER=ctrl-0", "ROLE=control-plane"]
    assert {"core", "ignited", "active"} <= set(inside)

    # no secret in a log, none readable by others
    assert leaked_secrets(host.folder / "state" / "lab") == []

    # and back
    host.rackless("host", "deprovision", "ctrl-0")
    (server,) = host.status()["servers"]
    assert (server["host"], server["node"]) == ("available", None)
    (host.folder / "lab.yaml").unlink()
    host.rackless("destroy", "--yes")
    assert host.snapshot() == before
