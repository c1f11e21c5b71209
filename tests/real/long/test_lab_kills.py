"""Every kind of process of a lab, killed at several moments of `up`; it goes on, and `destroy` is exact afterwards.

Seeded: the same moments every time, counted from when the victim is first seen.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time

import pytest

from tests.real.conftest import PretendHost
from tests.real.test_lab_life import describe, start

pytestmark = [pytest.mark.real, pytest.mark.long]

LAB = "servers: {node: {count: 2}}\nnetworks: {bmc: {access: routed}, provisioning: {mode: unmanaged}}\n"
VICTIMS = {
    "holder": "rackless.holder.main",
    "labd": "rackless.labd.main",
    "libvirtd": "libvirtd",
    "dnsmasq": "/cluster.conf",
    "API": "rackless api serve",
    "everything": "",
}
MOMENTS = range(4)
SPAN = 2.5
"""Seconds after its appearance within which the victim is killed: about as long as the rest of `up` takes."""


def find(host: PretendHost, words: str) -> list[int]:
    return [pid for pid, command in host.inhabitants() if words in command]


def kill(pids: list[int]) -> None:
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def interrupt(host: PretendHost, up: subprocess.Popen[bytes], victim: str, moment: float) -> None:
    if victim == "command":
        time.sleep(moment)
        up.kill()
        return
    while up.poll() is None and not find(host, VICTIMS[victim]):
        time.sleep(0.02)
    time.sleep(moment)
    kill(find(host, VICTIMS[victim]))


@pytest.mark.parametrize("seed", MOMENTS)
@pytest.mark.parametrize("victim", [*VICTIMS, "command"])
def test_up_goes_on_after_a_kill_and_destroy_is_exact(host: PretendHost, victim: str, seed: int) -> None:
    before = host.snapshot()
    describe(host, LAB)
    moment = SPAN * (seed + random.Random(f"{victim}/{seed}").random()) / len(MOMENTS)
    with start(host, "up", "--until", "bmc") as up:
        try:
            interrupt(host, up, victim, moment)
            up.wait(timeout=120)
        finally:
            up.kill()
    host.rackless("up", "--until", "bmc")
    plan = json.loads(host.rackless("plan", "--until", "bmc", "--json").stdout)
    assert {action["verb"] for action in plan["actions"]} == {"keep"}
    found = host.status()
    assert [server["power"] for server in found["servers"]] == ["off", "off"] and found["reached"] == "bmc"
    for name, words in VICTIMS.items():
        # dnsmasq has a helper that looks like itself
        assert len(find(host, words)) == (2 if name == "dnsmasq" else 1) or name == "everything", name
    assert "192.168.111.20" in host.rackless("exec", "--", "getent", "hosts", "node-0.lab.rackless.test").stdout
    host.rackless("destroy", "--yes")
    (host.folder / "lab.yaml").unlink()
    assert host.snapshot() == before
    assert host.inhabitants() == []


@pytest.mark.parametrize("seed", MOMENTS)
def test_a_killed_destroy_is_finished_by_the_next(host: PretendHost, seed: int) -> None:
    before = host.snapshot()
    describe(host, LAB)
    host.rackless("up", "--until", "bmc")
    with start(host, "destroy", "--yes") as destroy:
        time.sleep(0.2 + 0.3 * seed + 0.3 * random.Random(f"destroy/{seed}").random())
        destroy.kill()
    host.rackless("destroy", "--yes")
    (host.folder / "lab.yaml").unlink()
    assert host.snapshot() == before
    assert host.inhabitants() == []


@pytest.mark.parametrize("seed", MOMENTS)
def test_up_goes_on_after_a_killed_down(host: PretendHost, seed: int) -> None:
    describe(host, LAB)
    host.rackless("up", "--until", "bmc")
    host.rackless("power", "node-1", "on")
    with start(host, "down", "--force") as down:
        time.sleep(0.3 + 0.4 * seed + 0.4 * random.Random(f"down/{seed}").random())
        down.kill()
    host.rackless("up", "--until", "bmc")
    plan = json.loads(host.rackless("plan", "--until", "bmc", "--json").stdout)
    assert {action["verb"] for action in plan["actions"]} == {"keep"}
    assert [server["power"] for server in host.status()["servers"]] == ["off", "on"]
