"""Faults planted in real programs, one at a time: `rackless why` finds that one first, and nothing where nothing is wrong.

No server is switched on in these labs, so they cost little. `tests/diagnosis/data` is what such runs wrote.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rackless.diagnosis.evidence import read_console
from rackless.errors import FINDINGS
from rackless.lab.network_boot import read_log
from tests.real import planting
from tests.real.conftest import PretendHost

pytestmark = [pytest.mark.real, pytest.mark.long("why")]

LAB = "servers: {node: {role: worker, count: 1, memory: 1GiB}}\n"
BMC = "192.168.112.20"
UP = 900


def test_dnsmasq_and_firmware_say_what_the_rules_know(tmp_path: Path) -> None:
    planting.record(tmp_path)
    said = {
        name: read_log((tmp_path / f"dnsmasq-{name}.log").read_text().splitlines(), planting.SECOND, planting.ADDRESS)
        for name in ("pool-empty", "wrong-network", "leased-to-another", "well")
    }
    assert said["pool-empty"].refused == "no address available"
    assert said["wrong-network"].refused == "DHCP had no range for the network that it was asked on"
    assert said["leased-to-another"].refused == f"its address {planting.ADDRESS} is leased to {planting.FIRST}"
    assert said["well"].refused == "" and said["well"].offered == planting.ADDRESS
    consoles = {
        name: "\n".join(read_console(tmp_path / f"console-{name}.log"))
        for name in ("secure-boot", "uefi-bios-image", "bios-uefi-image")
    }
    assert "Access Denied" in consoles["secure-boot"]
    assert "Shell>" in consoles["uefi-bios-image"] and "No bootable device" in consoles["bios-uefi-image"]


def why(host: PretendHost, *more: str) -> list[dict[str, Any]]:
    done = host.rackless("why", "--json", *more, check=False)
    findings: list[dict[str, Any]] = json.loads(done.stdout)["findings"]
    assert done.returncode == (FINDINGS if findings else 0), done.stderr
    return findings


def rules(host: PretendHost) -> list[str]:
    return [one["rule"] for one in why(host)]


def await_rules(host: PretendHost, *wanted: str, within: float = 240) -> None:
    deadline, seen = time.monotonic() + within, ["nothing yet"]
    while time.monotonic() < deadline:
        if (seen := rules(host)) == list(wanted):
            return
        time.sleep(1)
    pytest.fail(f"{wanted} were not found, but {seen}")


def begin(host: PretendHost) -> None:
    (host.folder / "lab.yaml").write_text(LAB)
    host.rackless("up", "--until", "engine", timeout=UP)
    assert rules(host) == []


@contextmanager
def obstacle(host: PretendHost, verdict: str) -> Iterator[None]:
    """What Ironic sends to the BMC gets this verdict of a firewall."""
    host.rackless(
        "exec",
        "--",
        "nft",
        "add table inet obstacle; add chain inet obstacle leaving { type filter hook output priority -10; }",
    )
    host.rackless("exec", "--", "nft", f"add rule inet obstacle leaving ip daddr {BMC} tcp dport 443 {verdict}")
    yield
    host.rackless("exec", "--", "nft", "delete table inet obstacle")


def test_a_program_that_cannot_start_is_found_and_started_when_its_cause_is_gone(host: PretendHost) -> None:
    begin(host)
    configuration = host.folder / "state/lab/ironic/ironic.conf"
    away = configuration.rename(configuration.with_suffix(".away"))
    os.kill(int((host.folder / "run/lab/ironic.pid").read_text().split()[0]), signal.SIGKILL)
    await_rules(host, "lab/part-down")
    away.rename(configuration)
    host.rackless("why", "--fix", "--yes", check=False)  # labd itself may have been faster
    await_rules(host)
    assert '"part-ended"' in host.rackless("events", "--json").stdout


def test_a_daemon_and_its_keeper_that_were_killed_are_found_gone_and_started(host: PretendHost) -> None:
    begin(host)
    for file in ("holder.pid", "labd.pid"):
        os.kill(int((host.folder / "run/lab" / file).read_text().split()[0]), signal.SIGKILL)
    await_rules(host, "lab/daemon-gone")
    host.rackless("why", "--fix", "--yes", check=False)
    await_rules(host)


@pytest.mark.parametrize(
    ("verdict", "rule"),
    [("reject with tcp reset", "host/bmc-refused"), ("reject with icmp host-unreachable", "host/bmc-no-route")],
)
def test_a_bmc_that_refuses_and_one_that_nobody_leads_to_are_told_apart(
    verdict: str, rule: str, host: PretendHost
) -> None:
    begin(host)
    with obstacle(host, verdict):
        done = host.rackless("up", "--until", "hosts", check=False, timeout=UP)
        assert done.returncode == 6, done.stderr
        await_rules(host, rule)
        (found,) = why(host, "node-0")
        assert found["subject"] == "host/node-0" and found["fix"] == "retry-host"
