"""What a person can ask of one host, asked of a server that really boots."""

from __future__ import annotations

import json

import pytest

from tests.real.conftest import PretendHost

pytestmark = [pytest.mark.real, pytest.mark.long]

LAB = "servers: {node: {role: worker, count: 1, memory: 1GiB}}\n"
UP = 1500
STEP = "erase devices metadata"


def where(host: PretendHost) -> tuple[str, str, str | None]:
    (server,) = host.status()["servers"]
    return server["host"], server["power"], server["node"]


def events(host: PretendHost) -> list[dict[str, object]]:
    return [json.loads(line) for line in (host.folder / "state/lab/logs/events.jsonl").read_text().splitlines()]


def cleanings(host: PretendHost) -> int:
    return sum(event.get("message") == STEP for event in events(host))


def test_a_host_is_deprovisioned_cleaned_retried_adopted_and_given_back(host: PretendHost) -> None:
    (host.folder / "lab.yaml").write_text(LAB)
    host.rackless("up", timeout=UP)
    assert where(host) == ("provisioned", "on", "up")
    before = cleanings(host)

    host.rackless("host", "deprovision", "node-0", timeout=UP)
    assert where(host)[::2] == ("available", None) and cleanings(host) > before

    # a clean that fails, and is tried again by hand
    host.rackless("bmc", "fault", "add", "stuck-power")
    done = host.rackless("host", "clean", "node-0", check=False, timeout=UP)
    assert done.returncode == 6 and "preparation error: " in done.stderr and "seen so far: " in done.stderr
    host.rackless("bmc", "fault", "clear")
    before = cleanings(host)
    host.rackless("host", "retry", "node-0", timeout=UP)
    assert where(host)[::2] == ("available", None) and cleanings(host) > before

    # taken as it is: nothing is written, and `up` leaves it alone
    before = cleanings(host)
    host.rackless("host", "adopt", "node-0", timeout=UP)
    host.rackless("up", timeout=UP)
    assert where(host)[0] == "externally provisioned" and cleanings(host) == before

    # given back it is cleaned first, and becomes a node again
    host.rackless("host", "deprovision", "node-0", timeout=UP)
    assert where(host)[::2] == ("available", None) and cleanings(host) > before
    host.rackless("up", timeout=UP)
    assert where(host) == ("provisioned", "on", "up")
