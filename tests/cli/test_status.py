"""What `status` prints of a cluster, on its way and when it is there."""

import io
from typing import Any

from rich.console import Console

from rackless.cli.commands.status import render
from rackless.codec import decode
from rackless.protocol.messages import LabStatus

ETCD = {
    "healthy": 1,
    "members": [
        {"name": "ctrl-0", "healthy": True, "leader": True, "version": "3.5", "problem": ""},
        {"name": "ctrl-1", "healthy": False, "leader": False, "version": "", "problem": "no answer in time"},
    ],
    "leader": "ctrl-0",
    "complete": False,
    "detail": "1 of 2 members healthy, ctrl-0 leads",
}
VIP: dict[str, Any] = {
    "address": "192.0.2.5",
    "holders": [],
    "holder": None,
    "ready": False,
    "detail": "192.0.2.5 is held by nobody",
}
LAB: dict[str, Any] = {
    "lab": "lab", "domain": "lab.test", "daemon": "running", "stages": [], "cut_off": [], "servers": [], "api": None,
    "faults": [], "parts": [], "warnings": [], "vip": VIP,
}  # fmt: skip


def told(**more: Any) -> str:
    console = Console(file=io.StringIO(), width=120)
    render(decode(LabStatus, {**LAB, **more}), console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_what_is_still_to_come_is_not_told_as_a_failure() -> None:
    text = told(reached="engine", etcd=ETCD)
    assert "come when the hosts are provisioned" in text and "✗" not in text


def test_members_in_trouble_are_named_once() -> None:
    text = told(reached="cluster", etcd=ETCD)
    assert text.count("no answer in time") == 1 and "✗ API VIP: 192.0.2.5 is held by nobody" in text
    leaderless = {**ETCD, "leader": None, "detail": "0 of 2 members healthy (ctrl-1: no answer in time)"}
    assert told(reached="hosts", etcd=leaderless).count("no answer in time") == 1


def test_metal_stands_below_the_servers_and_says_whether_the_lab_may_have_it() -> None:
    metal = {"bmc": "redfish-virtualmedia://10.0.7.7/redfish/v1/Systems/1", "mac": "3c:ec:ef:00:00:07", "error": ""}
    ours = {**metal, "name": "rack1-u7", "taken": True, "power": "on", "host": "inspecting", "error": "it is slow"}
    theirs = {**metal, "name": "rack1-u8", "taken": False, "power": None, "host": "unmanaged"}
    lines = told(reached="hosts", etcd=None, metal=[ours, theirs]).splitlines()
    first, second = (
        next(line.split() for line in lines if line.startswith(name)) for name in ("rack1-u7 ", "rack1-u8 ")
    )
    assert first == ["rack1-u7", "metal", "on", "inspecting", "-", "-", "10.0.7.7"]
    assert second == ["rack1-u8", "metal", "unknown", "not", "taken", "-", "-", "10.0.7.7"]
    assert "rack1-u7: it is slow" in lines
