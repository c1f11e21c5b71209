"""What can be wrong with a lab's own parts: the hypervisor's disk and memory, labd, the processes it supervises, faults that were
asked for."""

from __future__ import annotations

from collections.abc import Iterator

from rackless.diagnosis.blackouts import FULL
from rackless.diagnosis.lab_evidence import LabEvidence
from rackless.diagnosis.remedy import Cure
from rackless.diagnosis.rule import CauseRule, Depth, Evidence, RootCause
from rackless.events import count
from rackless.run.supervise import HOPELESS

STEADY_SECONDS = 60.0
"""A program that has been started three times and runs for less may be about to end again."""
SCARCE_MEMORY = 128 << 20
"""Bytes; below it the kernel is about to end a process, and a QEMU is the largest."""


def _no_room(seen: LabEvidence) -> Iterator[RootCause]:
    if seen.free_bytes is not None and seen.free_bytes < FULL:
        yield RootCause(
            "hypervisor/disk",
            "the file system of the servers' disks is full: a server stops at its next write",
            (Evidence("file system of the servers' disks", f"{seen.free_bytes >> 20} MiB free"),),
            "free disk space (`df -h` shows where); servers that stopped go on by themselves. `rackless images prune` removes "
            "cached images that no lab uses",
        )


def _no_memory(seen: LabEvidence) -> Iterator[RootCause]:
    if seen.memory_available is not None and seen.memory_available < SCARCE_MEMORY:
        yield RootCause(
            "hypervisor/memory",
            "this computer has almost no memory left: its kernel will kill a server",
            (Evidence("/proc/meminfo", f"{seen.memory_available >> 20} MiB available"),),
            "stop a lab (`rackless down`) or another program; `rackless plan` tells what a lab needs",
        )


def _daemon_restarts(seen: LabEvidence) -> Iterator[RootCause]:
    if seen.daemon == "not running" and seen.kept:
        yield RootCause(
            "lab/labd", "the lab's daemon (labd) ended, and is being started again",
            (Evidence("control socket", "nobody answers"), Evidence("holder", "it runs, and keeps the daemon running")),
            "ask again in a few seconds; if it ends whenever it starts, `rackless logs labd` says why",
        )  # fmt: skip


def _undescribed(seen: LabEvidence) -> Iterator[RootCause]:
    if seen.daemon == "not running" and not seen.kept and not seen.described:
        yield RootCause(
            "lab/labd", "`rackless up` was interrupted before it had saved the lab's description: there is no lab yet",
            (Evidence("the lab's folder", "no description of the lab"), Evidence("control socket", "nobody answers")),
            "run `rackless up` with its lab.yaml again, or `rackless destroy`",
        )  # fmt: skip


def _daemon_gone(seen: LabEvidence) -> Iterator[RootCause]:
    if seen.daemon == "not running" and not seen.kept and seen.described:
        last = (
            (Evidence("journal", f"the last `up` was interrupted at: {seen.interrupted}"),) if seen.interrupted else ()
        )
        yield RootCause(
            "lab/labd",
            "the lab's daemon (labd) does not run, though nobody stopped the lab: the computer was restarted, or labd was killed",
            (Evidence("control socket", "nobody answers"), *last),
            "`rackless up` starts it; servers that run are taken over as they are",
        )


def _stopped(seen: LabEvidence) -> Iterator[RootCause]:
    if seen.daemon == "stopped":
        yield RootCause(
            "lab/labd", "the lab is stopped, by `rackless down`",
            (Evidence("the lab's folder", "the list of servers to start again is there"),), "`rackless up` starts it",
        )  # fmt: skip


def _cut_off(seen: LabEvidence) -> Iterator[RootCause]:
    if seen.status is not None and seen.status.cut_off:
        yield RootCause(
            "lab/up", f"the last `rackless up` was interrupted at: {', '.join(seen.status.cut_off)}",
            (Evidence("journal", "stages that began and did not end"),), "run `rackless up` again: it goes on there",
        )  # fmt: skip


def _part_down(seen: LabEvidence) -> Iterator[RootCause]:
    for part in seen.status.parts if seen.status else ():
        if not part.running:
            log = (Evidence("log", part.log),) if part.log else ()
            yield RootCause(
                f"part/{part.name}", f"{part.name} does not run: {part.reason or 'it ended'}",
                (Evidence("labd", f"started again {part.restarts} times"), *log),
                f"its log says why (`rackless logs {part.name}`); labd starts it again by itself, less and less often",
            )  # fmt: skip


def _part_dies_again(seen: LabEvidence) -> Iterator[RootCause]:
    for part in seen.status.parts if seen.status else ():
        young = part.up_seconds is not None and part.up_seconds < STEADY_SECONDS
        if part.running and young and part.restarts >= HOPELESS:
            log = (Evidence("log", part.log),) if part.log else ()
            yield RootCause(
                f"part/{part.name}", f"{part.name} does not stay up: it was started {part.restarts} times, and {part.reason}",
                (Evidence("labd", f"it runs for {part.up_seconds:.0f} s now"), *log),
                f"its log says why: `rackless logs {part.name}`",
            )  # fmt: skip


def _certificates_over(seen: LabEvidence) -> Iterator[RootCause]:
    if seen.expired:
        yield RootCause(
            "lab/certificates",
            f"{count(len(seen.expired), 'certificate')} of the lab expired: TLS connections that need one are refused",
            tuple(Evidence(f"secrets/{file}", "expired", ended) for file, ended in seen.expired),
            "`rackless up` renews those of the lab's own programs; a node renews its own when it runs and its clock is right",
        )  # fmt: skip


def _other_version(seen: LabEvidence) -> Iterator[RootCause]:
    if seen.build:
        yield RootCause(
            "lab/labd", "the lab's daemon (labd) is of another version than this `rackless`",
            (Evidence("control socket", seen.build),), "`rackless up` restarts it with this version; servers run on meanwhile",
        )  # fmt: skip


def _fault_asked_for(seen: LabEvidence) -> Iterator[RootCause]:
    for fault in seen.status.faults if seen.status else ():
        if fault.happened:
            yield RootCause(
                f"bmc/{fault.server}" if fault.server else "bmc/all",
                f"a BMC fault that somebody injected is at work: {fault.text}",
                (Evidence("labd", f"it happened {fault.happened} times"),), f"`rackless bmc fault clear {fault.id}` removes it",
            )  # fmt: skip


RULES: tuple[CauseRule[LabEvidence], ...] = (
    CauseRule(
        "lab/no-room",
        "servers stop (paused), writes fail",
        Depth.HYPERVISOR,
        _no_room,
        "on fakes only: its test in a real lab was not seen to its end",
    ),
    CauseRule(
        "lab/no-memory",
        "servers are killed",
        Depth.HYPERVISOR,
        _no_memory,
    ),
    CauseRule(
        "lab/daemon-restarts",
        "commands say that the daemon does not run",
        Depth.DAEMON,
        _daemon_restarts,
        "on fakes only: its test in a real lab was not seen to its end",
    ),
    CauseRule(
        "lab/not-begun", "commands say that the daemon does not run", Depth.DAEMON, _undescribed, "on fakes only"
    ),
    CauseRule(
        "lab/daemon-gone",
        "commands say that the daemon does not run",
        Depth.DAEMON,
        _daemon_gone,
        cure=Cure.START_DAEMON,
    ),
    CauseRule(
        "lab/part-down",
        "libvirtd, dnsmasq, Ironic or the API does not answer",
        Depth.DAEMON,
        _part_down,
        cure=Cure.START_PARTS,
    ),
    CauseRule(
        "lab/part-dies-again",
        "Ironic, libvirtd, dnsmasq or the API answers now and then",
        Depth.DAEMON,
        _part_dies_again,
    ),
    CauseRule("lab/certificates-over", "TLS is refused after a long stop", Depth.DAEMON, _certificates_over),
    CauseRule(
        "lab/fault-asked-for",
        "a BMC misbehaves",
        Depth.BMC,
        _fault_asked_for,
        "on fakes only: its test in a real lab was not seen to its end",
    ),
    CauseRule(
        "lab/other-version",
        "a command and the daemon do not understand each other",
        Depth.PERSON,
        _other_version,
        "on fakes only",
    ),
    CauseRule(
        "lab/up-cut-off",
        "servers, networks or programs of the lab are missing",
        Depth.PERSON,
        _cut_off,
        "on fakes only",
    ),
    CauseRule(
        "lab/stopped",
        "nothing of the lab runs",
        Depth.PERSON,
        _stopped,
        "on fakes only: its test in a real lab was not seen to its end",
    ),
)
