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

    host.rackless("host", "deprovision", "node-0", "--yes", timeout=UP)
    assert where(host)[::2] == ("available", None) and cleanings(host) > before

    # the agent is still there, and cleans at once
    before = cleanings(host)
    host.rackless("host", "clean", "node-0", "--yes", timeout=UP)
    assert where(host)[::2] == ("available", None) and cleanings(host) > before

    # one that must be booted, and cannot be; tried again by hand
    before = cleanings(host)
    host.rackless("power", "node-0", "off")
    host.rackless("bmc", "fault", "add", "failing-media")
    done = host.rackless("host", "clean", "node-0", "--yes", check=False, timeout=UP)
    assert done.returncode == 6 and "seen so far: " in done.stderr
    assert "preparation error: the BMC could not take in the image that the server is to boot from" in done.stderr
    host.rackless("bmc", "fault", "clear")
    assert cleanings(host) == before
    host.rackless("host", "retry", "node-0", timeout=UP)
    assert where(host)[::2] == ("available", None) and cleanings(host) > before

    # taken as it is: nothing is written, and `up` leaves it alone
    before = cleanings(host)
    host.rackless("host", "adopt", "node-0", timeout=UP)
    host.rackless("up", timeout=UP)
    assert where(host)[0] == "externally provisioned" and cleanings(host) == before

    # given back it is cleaned first, and becomes a node again
    host.rackless("host", "deprovision", "node-0", "--yes", timeout=UP)
    assert where(host)[::2] == ("available", None) and cleanings(host) > before
    host.rackless("up", timeout=UP)
    assert where(host) == ("provisioned", "on", "up")
