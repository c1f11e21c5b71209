"""An install as one timeline: the fourteen steps in the design of bare-metal IPI and the ten in an installer's lab on libvirt, from
the lab's events.

Where the design takes in one step what is seen as two, or in two what is seen as one, the table says so (`3–4`). What was done
counts from its first beginning to when it was first done: a lab that is stopped and started later is not installed again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from rackless.diagnosis.runs import Run, StepSpan
from rackless.events import Note


@dataclass(frozen=True, slots=True)
class InstallStep:
    name: str
    design: str
    """The design's number."""
    lab: str
    """The installer's lab's number, where it has such a step."""
    phases: tuple[str, ...]
    """What is seen of it: steps in the lab's events with one of these names."""
    kind: str = ""
    """The kind of their subject: empty for the lab as a whole."""
    role: str = ""
    """Of the hosts that count: `control-plane` or `worker`."""


CONTROL_PLANE, WORKER = "control-plane", "worker"
ADDRESS, FETCHED = "bootstrap-address", "machine-config-fetched"
"""Codes of notes."""
WRITTEN = InstallStep("image and Ignition config written to disk", "9", "6", ("provisioning",), "host", CONTROL_PLANE)
BOOTED = InstallStep("hosts boot from disk, Ignition runs", "10", "7", ())
JOINED = InstallStep("nodes join the temporary API", "11", "8", ("joining the cluster",), "node", CONTROL_PLANE)
AT_ADDRESS = InstallStep("bootstrap at its well-known address", "5", "", ())
STEPS = (
    InstallStep("hosts and their networks", "1", "", ("networks", "servers", "BMCs")),
    InstallStep("the installer and its assets", "2", "", ("images", "assets")),
    InstallStep("bootstrap machine started, on its networks", "3–4", "1", ("VM", "disc for the BMC", "server")),
    AT_ADDRESS,
    InstallStep("temporary API and etcd on the bootstrap", "11", "2", ("bootstrap's API at the API VIP",)),
    InstallStep("manifests pushed into the cluster", "12", "", ("manifests",)),
    InstallStep(
        "Ironic on the bootstrap", "6", "3", ("payload from the release server", "Ironic on the bootstrap"), "server"
    ),
    InstallStep("Ironic is told of the hosts", "6", "", ("registering",), "host", CONTROL_PLANE),
    InstallStep(
        "hosts boot the agent, which finds Ironic", "7–8", "4–5", ("inspecting", "preparing"), "host", CONTROL_PLANE
    ),
    WRITTEN,
    BOOTED,
    JOINED,
    InstallStep("control plane takes over the API and its VIP", "13", "9", ("hand-over",)),
    InstallStep("bootstrap machine destroyed", "13", "10", ("bootstrap machine taken away",)),
    InstallStep("metal3 launched on the control plane", "13", "", ("metal3 on the control plane",)),
    InstallStep("metal3 monitors hosts, and installs the workers", "14", "", ("workers",)),
)
_OF_THE_LAB = STEPS[0]
_BEGINS = "assets"


@dataclass(frozen=True, slots=True)
class SeenStep:
    step: InstallStep
    began: float
    """Seconds since the epoch."""
    seconds: float | None
    """None while it goes on."""
    outcome: str
    tries: int = 1


def install_timeline(runs: Sequence[Run], masters: Collection[str], workers: Collection[str]) -> list[SeenStep]:
    """The steps of the lab's last install that have begun, in the order in which they first did."""
    hosts = {CONTROL_PLANE: frozenset(masters), WORKER: frozenset(workers)}
    of_install = runs[_begin(runs) :]
    found = []
    for step in STEPS:
        spans = [span for run in (runs if step is _OF_THE_LAB else of_install) for span in run.spans]
        if seen := _see(step, [span for span in spans if _belongs(span, step, hosts)]):
            found.append(seen)
    notes = [note for run in of_install for note in run.notes]
    address = next((note for note in notes if note.code == ADDRESS), None)
    if address is not None:
        found.append(SeenStep(AT_ADDRESS, address.at, 0.0, "done"))
    written = next((each for each in found if each.step is WRITTEN), None)
    if written is not None and written.seconds is not None and written.outcome == "done":
        joined = next((each for each in found if each.step is JOINED), None)
        found.extend(_booted(written.began + written.seconds, notes, len(masters), joined))
    return sorted(found, key=lambda each: each.began)


def _begin(runs: Sequence[Run]) -> int:
    """The run in which the last install began: its assets got the name of another infrastructure."""
    begun, name = 0, ""
    for number, run in enumerate(runs):
        for span in run.spans:
            if span.phase == _BEGINS and span.outcome == "done" and span.detail != name:
                begun, name = number if name else 0, span.detail
    return begun


def _belongs(span: StepSpan, step: InstallStep, hosts: dict[str, frozenset[str]]) -> bool:
    kind, _, name = span.subject.partition("/")
    if kind != step.kind or span.phase not in step.phases:
        return False
    return not step.role or name in hosts[step.role]


def _see(step: InstallStep, spans: Sequence[StepSpan]) -> SeenStep | None:
    """Of each of its parts the spans up to the first that was done; those in which there was nothing to do count for nothing."""
    parts: dict[tuple[str, str], list[StepSpan]] = {}
    for span in spans:
        told = parts.setdefault((span.subject, span.phase), [])
        if span.outcome != "unchanged" and not (told and told[-1].outcome == "done"):
            told.append(span)
    counted = [told for told in parts.values() if told]
    if not counted:
        return None
    began = min(told[0].began for told in counted)
    last = [told[-1] for told in counted]
    tries = max(map(len, counted))
    if any(span.ended is None for span in last):
        return SeenStep(step, began, None, "running", tries)
    wrong = next((span.outcome for span in last if span.outcome != "done"), "done")
    return SeenStep(step, began, max(span.ended or began for span in last) - began, wrong, tries)


def _booted(began: float, notes: Iterable[Note], masters: int, joined: SeenStep | None) -> Iterator[SeenStep]:
    """From when the last host was written to when the last has fetched its config, which Ignition does at the first boot."""
    clients: dict[str, float] = {}
    for note in notes:
        if note.code == FETCHED and note.values.get("role") == "master":
            clients.setdefault(str(note.values.get("client")), note.at)
    if len(clients) >= masters > 0:
        yield SeenStep(BOOTED, began, max(0.0, max(clients.values()) - began), "done")
    elif joined is None or joined.seconds is None:
        yield SeenStep(BOOTED, began, None, "running")
