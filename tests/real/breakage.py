"""Kills of what a host's way to a node hangs on, in a phase of one's choice; and `up` again until it is there."""

from __future__ import annotations

import json
import random
import subprocess
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from tests.real.conftest import PretendHost
from tests.real.conftest import kill as end

VICTIMS = {"labd": "rackless.labd.main", "Ironic": "ironic: ", "QEMU": "qemu-system-x86_64"}
PHASES = ("inspecting", "preparing", "provisioning")
SPAN = {"inspecting": 15.0, "preparing": 3.0, "provisioning": 20.0}
"""Seconds after a phase has begun within which the kill comes."""
RUNS = 3


@dataclass(frozen=True)
class Kill:
    victim: str
    phase: str
    after: float

    @classmethod
    def of(cls, seed: int) -> Kill:
        chance = random.Random(seed)
        phase = chance.choice(PHASES)
        return cls(chance.choice(list(VICTIMS)), phase, chance.uniform(0, SPAN[phase]))


def provision_through(host: PretendHost, kill: Kill) -> None:
    """`up`, interrupted; whatever it says then is the truth, and `up` again brings the host there."""
    with ThreadPoolExecutor(1) as background:
        running = background.submit(host.rackless, "up", check=False, timeout=1500)
        await_phase(host, kill.phase, running)
        time.sleep(kill.after)
        end(*await_victims(host, kill.victim))
        done = running.result()
    for _ in range(RUNS):
        if done.returncode == 0:
            return
        check_told(done, kill)
        done = host.rackless("up", check=False, timeout=1500)
    assert done.returncode == 0, f"{kill}\n{done.stdout}\n{done.stderr}"


def await_phase(
    host: PretendHost, phase: str, running: Future[subprocess.CompletedProcess[str]], within: float = 900
) -> None:
    """Or a later one, when it was over between two looks."""
    wanted = (*PHASES[PHASES.index(phase) :], "provisioned")
    deadline = time.monotonic() + within
    while time.monotonic() < deadline and not running.done():
        done = host.rackless("status", "--json", check=False)
        servers = json.loads(done.stdout).get("servers", []) if done.returncode == 0 else []
        if servers and servers[0]["host"] in wanted:
            return
        time.sleep(0.5)
    if running.done():
        done = running.result()
        pytest.fail(f"`up` ended before the host was {phase}\n{done.stdout}\n{done.stderr}")
    pytest.fail(f"the host was never {phase}")


def await_victims(host: PretendHost, victim: str, within: float = 60) -> list[int]:
    """A server may be between two starts, or not started yet; a kill of nothing would prove nothing."""
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        if found := [pid for pid, command in host.inhabitants() if VICTIMS[victim] in command]:
            return found
        time.sleep(0.2)
    pytest.fail(f"there was no {victim} to kill")


def check_told(done: subprocess.CompletedProcess[str], kill: Kill) -> None:
    """A failure has the host, its phase and its kind in it, and what was seen; or says that the daemon went away."""
    said = done.stdout + done.stderr
    if kill.victim == "labd":
        assert done.returncode == 4, f"{kill}\n{said}"
        return
    assert "failed while" in said and " error: " in said and "seen so far: " in said, f"{kill}\n{said}"
    if kill.victim == "QEMU":
        assert "the server went off" in said, f"{kill}\n{said}"
