"""A fake lab in the middle of an install, as a person would see it: for screenshots and for the tests in a browser."""

from __future__ import annotations

import time
from dataclasses import replace

from rackless.events import Note, StepFinished, StepStarted
from rackless.protocol import messages as say
from rackless.protocol.event_log import EventLog
from tests.web.fake_labd import FakeLabd, fault

CONSOLE = (
    b'\x1b[2J\x1b[H\x1b[0mBdsDxe: starting Boot0001 "UEFI Misc Device"\r\n'
    b"[    0.000000] Linux version 6.1.0-28-amd64 (Debian 6.1.119-1)\r\n"
    b"[    1.842117] virtio_net virtio0 enp1s0: renamed from eth0\r\n"
    b"[\x1b[0;32m  OK  \x1b[0m] Started \x1b[0;1;39metcd.service\x1b[0m - etcd key-value store.\r\n"
    b"[\x1b[0;32m  OK  \x1b[0m] Started \x1b[0;1;39mkeepalived.service\x1b[0m - Keepalive Daemon.\r\n"
    b"[\x1b[0;31mFAILED\x1b[0m] Failed to start \x1b[0;1;39mchrony.service\x1b[0m.\r\n"
    b"[\x1b[0;32m  OK  \x1b[0m] Reached target \x1b[0;1;39mmulti-user.target\x1b[0m.\r\n\r\n"
    b"Debian GNU/Linux 12 ctrl-0 ttyS0\r\n\r\nctrl-0 login: "
)


def host(name: str, state: str, error: str = "") -> say.Record:
    at = "2026-01-01T09:00:00Z"
    conditions = [
        {"type": "Ready", "status": "False" if error else "True", "reason": "Provisioned", "message": "", "lastTransitionTime": at},
        {"type": "Manageable", "status": "True", "reason": "Registered", "message": "", "lastTransitionTime": at},
    ]  # fmt: skip
    return {
        "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
        "metadata": {"name": name, "namespace": "openshift-machine-api", "creationTimestamp": at, "resourceVersion": "41"},
        "spec": {"online": True, "bootMACAddress": "02:00:00:00:00:01", "bmc": {"address": "redfish-virtualmedia://192.168.112.10/redfish/v1/Systems/1"}},
        "status": {
            "provisioning": {"state": state, "ID": "6f7a"}, "poweredOn": True, "operationalStatus": "error" if error else "OK",
            "errorMessage": error, "errorCount": 1 if error else 0, "conditions": conditions,
        },
    }  # fmt: skip


def dress(labd: FakeLabd) -> None:
    """Two workers on their way, one of them in trouble, a fault that somebody asked for."""
    states = {"worker-0": ("starting", "inspecting", ""), "worker-1": ("on", "provisioning", "")}
    states["worker-2"] = ("off", "registering", "BMC https://192.168.112.15: login refused (HTTP 401)")
    for name, (power, state, error) in states.items():
        labd.set_server(name, power=power, host=state, error=error, node=None)
    wish = say.FaultWish("wrong-password", "worker-2", "login")
    labd.status = replace(labd.status, faults=(fault(1, wish),))
    labd.hosts = tuple(host(one.name, one.host or "", one.error) for one in labd.status.servers)
    labd.objects = say.LabObjects(
        machines=tuple(
            {"kind": "Machine", "metadata": {"name": f"lab-master-{n}"}, "status": {"phase": "Running"}} for n in range(3)
        ),
        nodes=tuple(
            {
                "kind": "Node", "metadata": {"name": f"ctrl-{n}"},
                "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "node agent is ready"}]},
            }
            for n in range(3)
        ),
    )  # fmt: skip
    labd.said["ctrl-0"] = CONSOLE
    for name in ("labd", "ironic", "libvirtd"):
        lines = (
            f"2026-01-01 09:{n // 60:02}:{n % 60:02} INFO {name}: step {n} of the power sync is done\n"
            for n in range(60)
        )
        (labd.paths.logs / f"{name}.log").write_text("".join(lines))


def write_story(log: EventLog, servers: list[str]) -> None:
    """Five minutes of `up`, up to now."""
    now, number = time.time(), 0

    def begin(phase: str, ago: float, subject: str = "", parent: str | None = None) -> str:
        nonlocal number
        number += 1
        log.append(StepStarted(f"d{number}", parent, subject, phase, now - ago))
        return f"d{number}"

    def end(step: str, ago: float, took: float, outcome: str = "done", detail: str = "") -> None:
        log.append(StepFinished(step, outcome, took, detail, now - ago))  # type: ignore[arg-type]

    for phase, ago, took in (
        ("this computer", 320, 9),
        ("lab", 310, 31),
        ("BMCs", 279, 6),
        ("provisioning engine", 272, 24),
    ):
        end(begin(phase, ago), ago - took, took)
    hosts = begin("hosts", 247)
    for order, name in enumerate(servers):
        worker = name.startswith("worker")
        at = 246.0 - order * 4
        for phase, took in (("registering", 8.0), ("inspecting", 52.0), ("cleaning", 21.0), ("provisioning", 84.0)):
            step = begin(phase, at, f"host/{name}", hosts)
            if worker and phase == "registering" and name.endswith("2"):
                end(step, at - 4, 4, "failed", "login refused (HTTP 401)")
                break
            if worker and phase == ("inspecting" if name.endswith("0") else "provisioning"):
                break
            at -= took + order
            end(step, at, took + order)
    log.append(
        Note(
            None,
            "",
            now - 12,
            "warning",
            "server/worker-2",
            "ipmi-failed",
            {"server": "worker-2", "request": "Get Session Challenge", "why": "wrong password"},
        )
    )
    log.append(Note(None, "", now - 3, "info", "", "leader-is", {"leader": "ctrl-0"}))
