"""`rackless why`: collects evidence from a running lab, a stopped one, an archive or an installer's folder, and applies the
diagnosis rules."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rackless.codec import decode
from rackless.diagnosis.bootstrap_evidence import BOOTSTRAP, BootstrapEvidence, read_archive, read_console
from rackless.diagnosis.installer_run import read_run
from rackless.diagnosis.lab_evidence import LabEvidence
from rackless.diagnosis.lab_rules import LAB_RULES
from rackless.diagnosis.rule import Diagnosis, explain
from rackless.diagnosis.rules import bootstrap, installer
from rackless.errors import InputError, RacklessError
from rackless.events import count
from rackless.operations.archives import end_of, unpack
from rackless.operations.computer_signs import ComputerSigns, look_at_computer
from rackless.operations.daemon_life import outdated
from rackless.operations.lab import AbsentLab, status
from rackless.operations.lab_registry import require_lab
from rackless.operations.lab_signs import LabSigns, better, look_for_signs, suffers
from rackless.ports.drivers import Drivers
from rackless.protocol import messages as say
from rackless.protocol.client import ControlClient
from rackless.run.paths import LabPaths, Roots

_LOOKS, _BETWEEN_LOOKS = 3, 2.0
"""How often a cluster that is not well is looked at, and the seconds in between."""


@dataclass(frozen=True, slots=True)
class WhyAnswer:
    about: str
    """What was looked at, for a person."""
    findings: Sequence[Diagnosis]
    rules: int
    looked_at: str = ""
    """`the daemon, 4 programs, 1 server`, for a person."""
    healed: Sequence[str] = ()
    """Failures that labd has repaired by itself."""
    here: bool = False
    """Whether it is about a lab of this computer, that something can be done about."""

    def as_json(self) -> dict[str, Any]:
        return {
            "about": self.about,
            "rules": self.rules,
            "looked_at": self.looked_at,
            "healed": list(self.healed),
            "findings": [one.as_json() for one in self.findings],
        }


async def why_lab(name: str, roots: Roots, drivers: Drivers, subject: str = "", *, inside: bool = True) -> WhyAnswer:
    """What is stuck or wrong with a lab now, the deepest cause first. Without `inside` nobody goes into the lab to ask DHCP, DNS
    and sick nodes, which takes seconds: for those who look again and again."""
    paths = require_lab(name, roots)
    seen = await _look(name, paths, roots, drivers, inside=inside)
    answer = _with_installer(replace(_answer(f"lab {name}", seen, subject), here=True), paths, subject)
    if seen.stands or seen.status is None or (install := _install(name, paths)) is None:
        return answer
    found = sorted([*answer.findings, *explain(bootstrap.RULES, install, subject)], key=lambda one: one.depth)
    return replace(answer, findings=found, rules=answer.rules + len(bootstrap.RULES))


async def _look(name: str, paths: LabPaths, roots: Roots, drivers: Drivers, *, inside: bool = True) -> LabEvidence:
    found = await status(name, roots)
    if inside and not isinstance(found, AbsentLab):
        found = await _steadied(found, roots, drivers)
    computer = look_at_computer(paths, drivers)
    if isinstance(found, AbsentLab):
        return _of_computer(LabEvidence(name, found.daemon), computer)
    client = ControlClient(paths.socket)
    records, objects = (await client.look(say.HOSTS)).hosts, say.LabObjects()
    with suppress(RacklessError):  # a daemon of an earlier version does not know this question
        objects = await client.look(say.OBJECTS)
    answering = await client.daemon()
    build = outdated(answering) if answering is not None else ""
    signs = await look_for_signs(paths, found, drivers) if inside else LabSigns()
    seen = LabEvidence(
        lab=name,
        daemon="running",
        status=found,
        hosts=records,
        machines=objects.machines,
        nodes=objects.nodes,
        requests=objects.requests,
        build=build,
        logs=signs.logs,
        surroundings=signs.surroundings,
        processors=signs.processors,
    )
    return _of_computer(seen, computer)


def _of_computer(seen: LabEvidence, computer: ComputerSigns) -> LabEvidence:
    """With what this computer tells; at what an `up` was cut off is in a running daemon's status."""
    over = [(one[0], one[-1]) for one in computer.expired]
    return replace(
        seen, free_bytes=computer.free_bytes, memory_available=computer.memory_available, expired=over, kept=computer.kept,
        described=computer.described, interrupted=computer.interrupted if seen.status is None else "",
    )  # fmt: skip


async def _steadied(first: say.LabStatus, roots: Roots, drivers: Drivers) -> say.LabStatus:
    """Look again, where the cluster is not well: what is so at one moment only is no fault."""
    seen = first
    for _ in range(_LOOKS - 1):
        if not suffers(seen):
            break
        await drivers.clock.sleep(_BETWEEN_LOOKS)
        again = await status(seen.lab, roots)
        if isinstance(again, AbsentLab):
            break
        seen = better(seen, again)
    return seen


def why_archive(archive: Path, subject: str = "") -> WhyAnswer:
    """The same of an archive that `rackless gather` wrote, on whatever computer, or `rackless install gather bootstrap`."""
    files = {name.partition("/")[2]: data for name, data in unpack(archive, _wanted, _OF_A_LAB).items()}
    try:
        return (_why_bootstrap if "absent.json" in files else _why_lab_archive)(archive, files, subject)
    except (
        ValueError,
        TypeError,
        AttributeError,
        LookupError,
        RecursionError,
    ) as error:  # the rules rely on an API's objects
        raise InputError(f"{archive} cannot be read as an archive of `rackless gather`", why=str(error)) from error


_OF_A_LAB = ("status.json", "hosts.json", "objects.json", "signs.json", "computer.json")


def _wanted(member: str) -> bool:
    """The JSON files at the top of an archive, and all of a bootstrap machine's."""
    folder, _, name = member.partition("/")
    of_bootstrap = folder.startswith("bootstrap-") and name.startswith(("console/", "machine/", "objects/"))
    return (name.endswith(".json") and "/" not in name) or of_bootstrap


def _why_lab_archive(archive: Path, files: Mapping[str, bytes], subject: str) -> WhyAnswer:
    if not files.keys() & set(_OF_A_LAB):
        raise InputError(
            f"there is nothing to judge in {archive}",
            why=f"none of {', '.join(_OF_A_LAB)} is in it",
            hint="name an archive that `rackless gather` wrote; of a lab that was never up there is nothing to know",
        )
    recorded = json.loads(files.get("status.json", b"{}"))
    known = decode(say.LabStatus, recorded) if "servers" in recorded else None
    objects = decode(say.LabObjects, json.loads(files.get("objects.json", b"{}")))
    signs = decode(LabSigns, json.loads(files.get("signs.json", b"{}")))
    seen = LabEvidence(
        lab=recorded.get("lab", archive.name),
        daemon="running" if known else recorded.get("daemon", "not running"),
        status=known,
        hosts=decode(_Recorded, {"hosts": json.loads(files.get("hosts.json", b"[]"))}).hosts,
        machines=objects.machines,
        nodes=objects.nodes,
        requests=objects.requests,
        logs=signs.logs,
        surroundings=signs.surroundings,
        processors=signs.processors,
    )
    told = decode(ComputerSigns, json.loads(files.get("computer.json", b"{}")))
    return _answer(f"the archive {archive.name}", _of_computer(seen, told), subject)


@dataclass(frozen=True, slots=True)
class _Recorded:
    hosts: tuple[say.Record, ...]


def _why_bootstrap(archive: Path, files: Mapping[str, bytes], subject: str) -> WhyAnswer:
    seen = read_archive(archive.name, files)
    looked = ", ".join(
        count(len(some), what) for some, what in ((seen.told, "console"), (seen.hosts, "host"), (seen.files, "answer"))
    )
    about = f"the bootstrap machine of the archive {archive.name}"
    return WhyAnswer(about, explain(bootstrap.RULES, seen, subject), len(bootstrap.RULES), looked)


def _with_installer(answer: WhyAnswer, paths: LabPaths, subject: str) -> WhyAnswer:
    """With what stopped the openshift-install that makes the lab's cluster, where one was run and has not come to its end."""
    try:
        run = read_run(paths.install)
    except InputError:  # none was run, or only root may look
        return answer
    found = [] if run.complete else explain(installer.RULES, run, subject)
    merged = sorted([*answer.findings, *found], key=lambda one: one.depth)
    return replace(answer, findings=merged, rules=answer.rules + len(installer.RULES))


def _install(name: str, paths: LabPaths) -> BootstrapEvidence | None:
    """An install that the lab's bootstrap machine goes through now, by what is on the consoles; None where there is none."""
    consoles = paths.console("any").parent
    told = {path.stem: read_console(end_of(path).decode(errors="replace")) for path in sorted(consoles.glob("*.log"))}
    if not any(machine.endswith(BOOTSTRAP) for machine in told):
        return None
    seen = BootstrapEvidence(name, told, ended=False)
    return None if seen.phase("complete") is not None else seen


def _answer(about: str, seen: LabEvidence, subject: str) -> WhyAnswer:
    return WhyAnswer(about, explain(LAB_RULES, seen, subject), len(LAB_RULES), seen.summary(), seen.healed())


def why_installer(folder: Path, subject: str = "") -> WhyAnswer:
    """What stopped somebody's openshift-install, from the folder that it was given."""
    found = explain(installer.RULES, read_run(folder), subject)
    return WhyAnswer(f"the installer's run in {folder}", found, len(installer.RULES))
