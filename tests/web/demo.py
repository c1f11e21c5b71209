"""A fake lab in the middle of an install, as a person would see it: for screenshots and for the tests in a browser."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from dataclasses import replace

from rackless.diagnosis.estimates import Estimates, load, save
from rackless.events import Event, Note, Outcome, StepFinished, StepStarted
from rackless.protocol import messages as say
from rackless.protocol.event_log import EventLog
from tests.web.fake_labd import FakeLabd, fault

CONSOLE = (
    b'\x1b[2J\x1b[H\x1b[0mBdsDxe: starting Boot0001 "UEFI Misc Device"\r\n'
    b"[    0.000000] Linux version 6.1.0-28-amd64 (Debian 6.1.119-1)\r\n"
    b"[    1.842117] virtio_net virtio0 enp1s0: renamed from eth0\r\n"
    b"[\x1b[0;32m  OK  \x1b[0m] Started \x1b[0;1;39metcd.service\x1b[0m - etcd key-value store.\r\n"
    b"[\x1b[0;32m  OK  \x1b[0m] Started \x1b[0;1;39mrackless-vip.service\x1b[0m - the API VIP.\r\n"
    b"[\x1b[0;31mFAILED\x1b[0m] Failed to start \x1b[0;1;39mchrony.service\x1b[0m.\r\n"
    b"[\x1b[0;32m  OK  \x1b[0m] Reached target \x1b[0;1;39mmulti-user.target\x1b[0m.\r\n\r\n"
    b"Debian GNU/Linux 12 ctrl-0 ttyS0\r\n\r\nctrl-0 login: "
)


def host(name: str, state: str, error: str = "") -> say.Record:
    at, ready = "2026-01-01T09:00:00Z", "False" if error else "True"
    conditions = [
        {"type": "Ready", "status": ready, "reason": state.capitalize(), "message": error, "lastTransitionTime": at},
        {"type": "Manageable", "status": ready, "reason": "Registered", "message": "", "lastTransitionTime": at},
    ]  # fmt: skip
    return {
        "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
        "metadata": {"name": name, "namespace": "openshift-machine-api", "creationTimestamp": at, "resourceVersion": "41"},
        "spec": {"online": True, "bootMACAddress": "02:00:00:00:00:01", "bmc": {"address": "redfish-virtualmedia://192.168.112.10/redfish/v1/Systems/1"}},
        "status": {
            "provisioning": {"state": state, "ID": "6f7a"}, "poweredOn": True, "operationalStatus": "error" if error else "OK",
            "errorMessage": error, "errorType": "registration error" if error else "",
            "errorCount": 1 if error else 0, "conditions": conditions,
        },
    }  # fmt: skip


def _metal() -> Iterator[say.MetalStatus]:
    """One that somebody let the lab have, and one that nobody has."""
    for unit, taken in (("rack1-u7", True), ("rack1-u8", False)):
        bmc, mac = f"redfish-virtualmedia://10.0.7.{unit[-1]}/redfish/v1/Systems/1", f"3c:ec:ef:00:00:0{unit[-1]}"
        state = "available" if taken else "unmanaged"
        yield say.MetalStatus(unit, bmc, mac, taken, "off" if taken else None, state, "")


def dress(labd: FakeLabd) -> None:
    """Two workers on their way, one of them in trouble, a fault that somebody asked for."""
    states = {"worker-0": ("starting", "inspecting", ""), "worker-1": ("on", "provisioning", "")}
    states["worker-2"] = ("off", "registering", "BMC https://192.168.112.15: login refused (HTTP 401)")
    for name, (power, state, error) in states.items():
        labd.set_server(name, power=power, host=state, error=error, node=None)
    wish = say.FaultWish("wrong-password", "worker-2", "login")
    labd.status = replace(labd.status, faults=(fault(1, wish),))
    labd.status = replace(labd.status, metal=tuple(_metal()))
    known: list[say.ServerStatus | say.MetalStatus] = [*labd.status.servers, *labd.status.metal]
    labd.hosts = tuple(host(one.name, one.host or "", one.error) for one in known)
    labd.objects = say.LabObjects(
        machines=tuple(
            {"kind": "Machine", "metadata": {"name": f"lab-master-{n}"}, "status": {"phase": "Running"}} for n in range(3)
        ),
        nodes=tuple(
            {
                "kind": "Node", "metadata": {"name": f"ctrl-{n}"},
                "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "NodeReady", "message": "it is ready"}]},
            }
            for n in range(3)
        ),
    )  # fmt: skip
    labd.object_events = tuple(_object_events())
    labd.set_server("worker-1", boot="cdrom", boot_once=True, media="http://192.168.111.1:8080/redfish/boot-6f7a.iso")
    for name in ("worker-0", "worker-1", "worker-2"):
        labd.set_server(name, machine=None)
    labd.insides["ctrl-0"] = _inside("ctrl-0")
    save(labd.paths.roots.durations, Estimates({"host: inspecting": [110.0], "host: provisioning": [190.0]}))
    labd.said["ctrl-0"] = CONSOLE
    for name in ("labd", "ironic", "libvirtd"):
        lines = (
            f"2026-01-01 09:{n // 60:02}:{n % 60:02} INFO {name}: step {n} of the power sync is done\n"
            for n in range(60)
        )
        (labd.paths.logs / f"{name}.log").write_text("".join(lines))


def _object_events() -> Iterator[say.Record]:
    at = "2026-01-01T09:0{}:00Z"
    for number, (kind, name, type_, reason, text) in enumerate(
        (
            (
                "BareMetalHost",
                "worker-2",
                "Warning",
                "RegistrationError",
                "BMC https://192.168.112.15: login refused (HTTP 401)",
            ),
            ("BareMetalHost", "worker-1", "Normal", "ProvisioningStarted", "Image provisioning started"),
            ("Node", "ctrl-0", "Normal", "NodeReady", "Node ctrl-0 status is now: NodeReady"),
            ("Machine", "lab-master-0", "Normal", "Claimed", "the host ctrl-0 is this Machine's"),
        )
    ):
        yield {
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": f"{name}.{number}", "namespace": "openshift-machine-api"},
            "involvedObject": {"kind": kind, "name": name}, "type": type_, "reason": reason, "message": text,
            "count": 4 - number, "lastTimestamp": at.format(9 - number), "source": {"component": "host"},
        }  # fmt: skip


def _inside(server: str) -> say.BmcInside:
    now = time.time()
    who, system = ("Redfish", "192.168.111.1", "admin"), "/redfish/v1/Systems/1"
    return say.BmcInside(
        server,
        sensors=(
            say.SensorSeen("Inlet Temp", 23.0, "°C", None, 45.0), say.SensorSeen("CPU Temp", 42.0, "°C", None, 95.0),
            say.SensorSeen("Fan 1", 5200.0, "rpm", 600.0, None), say.SensorSeen("Power", 56.0, "W", None, None),
        ),
        audit=(
            say.AuditSeen(now - 70, *who, f"POST {system}/Actions/ComputerSystem.Reset", "204", True, {"ResetType": "On"}),
            say.AuditSeen(now - 71, *who, f"PATCH {system}", "204", True, {"BootSourceOverrideTarget": "Hdd"}),
            say.AuditSeen(now - 95, "IPMI", "192.168.112.1", None, "login", "unauthorized name", False),
        ),
        log=(
            say.BmcLogSeen(now - 70, f"{server} was switched on.", False),
            say.BmcLogSeen(now - 80, "The drive was emptied.", False),
        ),
    )  # fmt: skip


def dress_ipi(labd: FakeLabd) -> None:
    """Three control planes that a bootstrap installs: one is written, one still inspected, one has a BMC that lets nobody in."""
    refused = "BMC https://192.168.112.22: login refused (HTTP 401)"
    for name, power, state, error in (
        ("ctrl-0", "on", "provisioning", ""), ("ctrl-1", "starting", "inspecting", ""),
        ("ctrl-2", "off", "registering", refused), ("worker-0", "off", None, ""), ("worker-1", "off", None, ""),
    ):  # fmt: skip
        labd.set_server(name, power=power, host=state, error=error, node=None, machine=None)
    labd.set_server("ctrl-0", boot="cdrom", boot_once=True, media="http://192.168.111.9:8080/redfish/boot-6f7a.iso")
    vip = say.VipStatus("192.168.111.5", ("bootstrap",), "bootstrap", False, "the bootstrap holds it")
    labd.status = replace(labd.status, vip=vip, etcd=None, parts=())
    labd.hosts = tuple(host(one.name, one.host, one.error) for one in labd.status.servers if one.host)
    usual = {"inspecting": 95.0, "provisioning": 150.0}
    known = {f"host: {phase} by_bootstrap=1": [seconds] for phase, seconds in usual.items()}
    before = load(labd.paths.roots.durations).durations
    save(labd.paths.roots.durations, Estimates({**before, **known, "control plane servers=5": [420.0]}))
    lines = (
        f"[  {n * 3 + 21}.114] bootstrap: ironic: ctrl-{n % 2} {'writes its image' if n % 2 else 'is inspected'}\n"
        for n in range(40)
    )
    (labd.paths.logs / "bootstrap.log").write_text("".join(lines))


def write_ipi_story(log: EventLog) -> None:
    """Six minutes of `up` with `method: ipi`, up to now."""
    story = _Story(time.time())
    for phase, ago, took in (
        ("this computer", 371, 2), ("networks", 369, 3), ("servers", 366, 7), ("BMCs", 359, 4), ("assets", 355, 6),
    ):  # fmt: skip
        story.step(phase, ago, took)
    story.step("node image", 372, 0.1, "image/node image", "unchanged")
    story.step("bootstrap machine", 349, None)
    story.step("bootstrap's API at the API VIP", 348, 96)
    story.step("manifests", 252, 14, detail="41 applied")
    story.step("control plane", 238, None)
    story.step("payload from the release server", 318, 38, "server/bootstrap")
    story.step("Ironic on the bootstrap", 279, 52, "server/bootstrap")
    for name, phase, ago, took_or_none in (
        ("ctrl-0", "registering", 224, 21.0), ("ctrl-1", "registering", 222, 94.0), ("ctrl-2", "registering", 219, 31.0),
        ("ctrl-0", "inspecting", 203, 92.0), ("ctrl-0", "preparing", 110, 18.0), ("ctrl-0", "provisioning", 91, None),
        ("ctrl-1", "inspecting", 64, None),
    ):  # fmt: skip
        wrong = "login refused (HTTP 401)" if name == "ctrl-2" else ""
        story.step(phase, ago, took_or_none, f"host/{name}", "failed" if wrong else "done", wrong, by_bootstrap=1.0)
    story.note("the control plane's keys are offered to its nodes", 227)
    story.write(log)


class _Story:
    """Steps and notes by how many seconds ago they began."""

    def __init__(self, now: float) -> None:
        self._now = now
        self._told: list[Event] = []
        self._numbers = itertools.count(1)

    def step(
        self, phase: str, ago: float, took: float | None, subject: str = "", outcome: Outcome = "done", detail: str = "",
        **numbers: float,
    ) -> None:  # fmt: skip
        name, at = f"d{next(self._numbers)}", self._now - ago
        self._told.append(StepStarted(name, None, subject, phase, at, numbers))
        if took is not None:
            self._told.append(StepFinished(name, outcome, took, detail, at + took))

    def note(self, said: str, ago: float) -> None:
        self._told.append(Note(None, "", self._now - ago, "info", "", "bootstrap-said", {"said": said}))

    def write(self, log: EventLog) -> None:
        for event in sorted(self._told, key=lambda one: one.at):
            log.append(event)


def write_story(log: EventLog, servers: list[str]) -> None:
    """Five minutes of `up`, up to now."""
    now = time.time()
    told: list[Event] = []
    numbers = itertools.count(1)

    def step(
        phase: str, ago: float, took: float | None, subject: str = "", outcome: Outcome = "done", detail: str = ""
    ) -> None:
        name = f"d{next(numbers)}"
        told.append(StepStarted(name, None, subject, phase, now - ago))
        if took is not None:
            told.append(StepFinished(name, outcome, took, detail, now - ago + took))

    for phase, ago, long in (
        ("this computer", 320, 9),
        ("lab", 310, 31),
        ("BMCs", 279, 6),
        ("provisioning engine", 272, 24),
    ):
        step(phase, ago, long)
    step("hosts", 247, None)
    goes_on = {"worker-0": "inspecting", "worker-1": "provisioning"}
    for order, name in enumerate(servers):
        at = {"worker-0": 49.0, "worker-1": 139.0, "worker-2": 58.0}.get(name, 246.0 - order * 4)
        for phase, usual in (("registering", 8.0), ("inspecting", 52.0), ("cleaning", 21.0), ("provisioning", 84.0)):
            subject, took = f"host/{name}", usual + order
            if name == "worker-2":
                step(phase, at, 4.0, subject, "failed", "login refused (HTTP 401)")
                break
            if goes_on.get(name) == phase:
                step(phase, at, None, subject)
                break
            step(phase, at, took, subject)
            at -= took
    why = {"server": "worker-2", "request": "Get Session Challenge", "why": "wrong password"}
    told.append(Note(None, "", now - 12, "warning", "server/worker-2", "ipmi-failed", why))
    told.append(Note(None, "", now - 3, "info", "", "leader-is", {"leader": "ctrl-0"}))
    for event in sorted(told, key=lambda one: one.at):
        log.append(event)
