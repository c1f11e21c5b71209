"""Faults of servers that boot, planted in a whole lab, and what `rackless why` and its remedies do about them; and a lab that is
made on a computer without a processor to spare, in which nothing is wrong.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rackless.diagnosis.remedy import read_tried
from rackless.errors import FINDINGS
from tests.real.conftest import PretendHost, kill
from tests.real.test_lab_life import start, wait_for

pytestmark = [pytest.mark.real, pytest.mark.long("why-hosts")]

LAB = "servers: {node: {role: worker, count: 1, memory: 1GiB}}\n"
WHOLE = "servers: {ctrl: {role: control-plane, count: 1, memory: 2GiB}}\n"
IPI = "servers: {ctrl: {role: control-plane, count: 1, memory: 2GiB}}\ncluster: {method: ipi}\n"
UP = 2400
NEVER, LATE = 25, 240
"""Seconds after which Ironic gives an agent up: before any has started, and after it has."""


def why(host: PretendHost, *more: str) -> dict[str, Any]:
    done = host.rackless("why", "--json", *more, check=False)
    answer: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == (FINDINGS if answer["findings"] else 0), done.stderr
    return answer


def rules(host: PretendHost) -> list[str]:
    return [one["rule"] for one in why(host)["findings"]]


def await_rule(host: PretendHost, wanted: str, within: float) -> dict[str, Any]:
    """A host that fails is tried again within seconds: what `why` says meanwhile is nothing, or this and nothing else."""
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        found = why(host)["findings"]
        if [one["rule"] for one in found] == [wanted]:
            finding: dict[str, Any] = found[0]
            return finding
        assert found == [], f"{wanted} was awaited, and {found} found"
        time.sleep(0.5)
    pytest.fail(f"{wanted} was not found")


def begin(host: PretendHost, seconds: int, more: str = "") -> None:
    """A lab without hosts, whose Ironic waits for an agent so long."""
    (host.folder / "lab.yaml").write_text(LAB + more)
    host.rackless("up", "--until", "engine", timeout=UP)
    configuration = host.folder / "state/lab/ironic/ironic.conf"
    patience = f"check_provision_state_interval = 5\ninspect_wait_timeout = {seconds}\n"
    text = configuration.read_text()
    assert "inspect_wait_timeout = 900\n" in text
    configuration.write_text(text.replace("inspect_wait_timeout = 900\n", patience))
    written = host.folder / "run/lab/ironic.pid"
    before = int(written.read_text().split()[0])
    kill(before)
    wait_for(lambda: written.exists() and int(written.read_text().split()[0]) != before)
    listens = ("exec", "--", "ss", "-Hltn", "sport = :6385")
    wait_for(lambda: host.rackless(*listens, check=False).stdout.strip() != "", within=300)


def qemus(host: PretendHost) -> list[int]:
    return [pid for pid, command in host.inhabitants() if "qemu-system-x86_64" in command]


def events(host: PretendHost, code: str) -> list[dict[str, Any]]:
    lines = map(json.loads, host.rackless("events", "--json").stdout.splitlines())
    return [line for line in lines if line.get("code") == code]


def test_a_server_that_is_switched_off_while_it_is_inspected_and_one_that_hangs_are_told_apart(
    host: PretendHost,
) -> None:
    begin(host, LATE)
    log = host.folder / "state/lab/logs/ironic.log"
    with ThreadPoolExecutor(1) as background:
        running = background.submit(host.rackless, "up", "--until", "hosts", check=False, timeout=UP)
        wait_for(lambda: qemus(host) != [], within=300)
        host.rackless("power", "node-0", "off")
        found = await_rule(host, "host/server-off", within=120)
        assert found["subject"] == "host/node-0" and found["fix"] is None
        running.result()
    lookups = log.read_text().count("/v1/lookup")
    wait_for(lambda: log.read_text().count("/v1/lookup") > lookups, within=900)
    (hangs,) = qemus(host)
    os.kill(hangs, signal.SIGSTOP)
    found = await_rule(host, "host/agent-lost", within=LATE + 300)
    assert found["fix"] == "restart-server" and "the agent last called" in str(found["evidence"])
    host.rackless("up", "--until", "hosts", timeout=UP)
    assert hangs not in qemus(host) and rules(host) == []


@pytest.mark.parametrize("by", ["person", "lab"])
def test_a_server_whose_agent_is_never_heard_of_is_restarted_once(by: str, host: PretendHost) -> None:
    begin(host, NEVER, "remediation: auto\n" if by == "lab" else "")
    assert host.rackless("up", "--until", "hosts", check=False, timeout=UP).returncode == 6
    log = host.folder / "state/lab/remedies.jsonl"
    deadline = time.monotonic() + 900
    while not log.exists() and time.monotonic() < deadline:
        if by == "person":
            why(host, "--fix", "--yes")
        time.sleep(1)
    (tried,) = read_tried(log.read_text())
    assert (tried.remedy.cure, tried.remedy.name, tried.by) == ("restart-server", "node-0", by)
    assert tried.remedy.rule in ("host/no-kernel", "host/agent-silent")
    (applied,) = events(host, "remedy-applied")
    assert (applied["data"]["by"], applied["data"]["rule"]) == (by, tried.remedy.rule)
    audit = (host.folder / "state/lab/logs/events.jsonl").read_text()
    assert '"restart-server"' in audit
    again = time.monotonic() + 600
    while not events(host, "remedy-in-vain") and time.monotonic() < again:  # it fails as before: nothing has changed
        if by == "person":
            why(host, "--fix", "--yes")
        time.sleep(1)
    assert events(host, "remedy-in-vain"), "and it is told"
    same = [one for one in read_tried(log.read_text()) if one.remedy == tried.remedy]
    assert len(same) == 1, "never twice without a change"


def test_a_disk_that_qemu_may_not_read_is_named_and_the_host_goes_on_when_it_may(host: PretendHost) -> None:
    begin(host, LATE)
    disks = host.folder / "state/lab/disks"
    mode = disks.stat().st_mode & 0o7777
    disks.chmod(0o700)  # as a person does who tidies up
    with ThreadPoolExecutor(1) as background:
        running = background.submit(host.rackless, "up", "--until", "hosts", check=False, timeout=UP)
        found = await_rule(host, "host/image-permission", within=600)
        assert str(disks) in found["message"] and found["fix"] == "retry-host"
        running.result()
    disks.chmod(mode)
    deadline = time.monotonic() + 300
    while not qemus(host) and time.monotonic() < deadline:
        why(host, "--fix", "--yes")
    assert qemus(host) != []


def test_nothing_is_found_in_a_lab_that_is_slow_while_it_is_made_nor_when_it_is_whole(host: PretendHost) -> None:
    (host.folder / "lab.yaml").write_text(WHOLE)
    looks = 0
    with ThreadPoolExecutor(1) as background, busy():
        running = background.submit(host.rackless, "up", check=False, timeout=UP)
        wait_for(lambda: (host.folder / "run/lab/labd.sock").exists(), within=60)
        while not running.done():
            found = [one for one in rules(host) if not one.startswith("lab/daemon")]  # it may not answer yet
            assert found == [], f"after {looks} looks"
            looks += 1
            time.sleep(5)
        done = running.result()
        assert done.returncode == 0, done.stdout + done.stderr
        for _ in range(5):
            assert rules(host) == []
    assert looks > 10
    host.rackless("gather", "--output", "lab.tar.gz")
    assert why(host, "--archive", "lab.tar.gz")["findings"] == []
    (qemu,) = qemus(host)
    os.kill(qemu, signal.SIGSTOP)  # and when the node hangs, it is the cluster that is not well
    try:
        wait_for(lambda: "cluster/no-quorum" in rules(host), within=300)
    finally:
        os.kill(qemu, signal.SIGCONT)
    wait_for(lambda: rules(host) == [], within=600)


@contextmanager
def busy() -> Iterator[None]:
    """Somebody else's work on each processor."""
    spins = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for spin in spins:
            spin.kill()
            spin.wait()


def test_a_bootstrap_machine_that_never_says_a_word_is_told_from_its_archive(host: PretendHost) -> None:
    (host.folder / "lab.yaml").write_text(IPI)
    up = start(host, "up", "--no-install")
    try:
        wait_for(lambda: qemus(host) != [], within=600)
        machine = next(pid for pid in qemus(host))
        os.kill(machine, signal.SIGSTOP)
    finally:
        up.kill()
        up.wait()
    folder: Path = host.folder / "state/lab/install"
    host.rackless("install", "gather", "bootstrap", "--dir", str(folder), "--output", "silent.tar.gz")
    answer = why(host, "--archive", "silent.tar.gz")
    assert [one["rule"] for one in answer["findings"]] == ["bootstrap/silent"]
    assert "wrote nothing on its console" in answer["findings"][0]["message"]
