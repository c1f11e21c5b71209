"""`rackless why`: collects evidence from a running lab, a stopped one, an archive or an installer's folder, and applies the
diagnosis rules."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rackless.codec import BadValue, decode
from rackless.diagnosis.bootstrap_evidence import BOOTSTRAP, BootstrapEvidence, read_archive, read_console
from rackless.diagnosis.installer_run import read_run
from rackless.diagnosis.lab_evidence import LabEvidence
from rackless.diagnosis.lab_rules import LAB_RULES
from rackless.diagnosis.rule import Diagnosis, explain
from rackless.diagnosis.rules import bootstrap, installer
from rackless.errors import InputError, RacklessError
from rackless.events import count
from rackless.operations.archives import end_of
from rackless.operations.daemon_life import outdated
from rackless.operations.lab import AbsentLab, status
from rackless.operations.lab_registry import require_lab
from rackless.operations.lab_signs import LabSigns, better, look_for_signs, suffers
from rackless.ports.drivers import Drivers
from rackless.protocol import messages as say
from rackless.protocol.client import ControlClient
from rackless.run.journal import Journal
from rackless.run.paths import LabPaths, Roots
from rackless.trust.expiry import expired

_LARGEST_MEMBER = 64 << 20
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
    free = drivers.computer.free_bytes(paths.disks)
    over = [(file, ended.strftime("%Y-%m-%dT%H:%M:%SZ")) for file, ended in expired(paths.secrets, datetime.now(UTC))]
    memory = drivers.computer.memory().available
    if isinstance(found, AbsentLab):
        told = Journal(paths.journal, paths.goal).read().cut_off
        cut_off = ", ".join(f"{action.verb} {action.subject}" for action in told)
        kept = drivers.processes.find(paths.holder_pid) is not None
        return LabEvidence(
            name, found.daemon, kept=kept, described=paths.spec.exists(), free_bytes=free,
            memory_available=memory, expired=over, interrupted=cut_off,
        )  # fmt: skip
    client = ControlClient(paths.socket)
    records, objects = (await client.look(say.HOSTS)).hosts, say.LabObjects()
    with suppress(RacklessError):  # a daemon of an earlier version does not know this question
        objects = await client.look(say.OBJECTS)
    answering = await client.daemon()
    build = outdated(answering) if answering is not None else ""
    signs = await look_for_signs(paths, found, drivers) if inside else LabSigns()
    return LabEvidence(
        lab=name,
        daemon="running",
        kept=True,
        status=found,
        hosts=records,
        machines=objects.machines,
        nodes=objects.nodes,
        requests=objects.requests,
        free_bytes=free,
        memory_available=memory,
        expired=over,
        build=build,
        logs=signs.logs,
        surroundings=signs.surroundings,
        processors=signs.processors,
    )


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
    files = _unpack(archive)
    name = archive.name
    if "absent.json" in files:
        return _why_bootstrap(archive, files, subject)
    try:
        recorded = json.loads(files["status.json"]) if "status.json" in files else {}
        known = decode(say.LabStatus, recorded) if "servers" in recorded else None
        records = tuple(json.loads(files.get("hosts.json", b"[]")))
        objects = decode(say.LabObjects, json.loads(files.get("objects.json", b"{}")))
        signs = decode(LabSigns, json.loads(files.get("signs.json", b"{}")))
    except (ValueError, BadValue) as error:
        raise InputError(f"{archive} cannot be read as an archive of `rackless gather`", why=str(error)) from error
    daemon = "running" if known else recorded.get("daemon", "not running")
    seen = LabEvidence(
        lab=recorded.get("lab", name),
        daemon=daemon,
        status=known,
        hosts=records,
        machines=objects.machines,
        nodes=objects.nodes,
        requests=objects.requests,
        logs=signs.logs,
        surroundings=signs.surroundings,
        processors=signs.processors,
    )
    return _answer(f"the archive {name}", seen, subject)


def _why_bootstrap(archive: Path, files: Mapping[str, bytes], subject: str) -> WhyAnswer:
    try:
        seen = read_archive(archive.name, files)
    except (ValueError, AttributeError) as error:
        raise InputError(f"{archive} cannot be read as an archive of a bootstrap machine", why=str(error)) from error
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


def _unpack(archive: Path) -> dict[str, bytes]:
    """The JSON files at the top of an archive by name, and all of a bootstrap machine's; read in memory, nothing is written."""
    files: dict[str, bytes] = {}
    try:
        with tarfile.open(archive, "r:gz") as packed:
            for member in packed:
                folder, _, name = member.name.partition("/")
                wanted = name.endswith(".json") and "/" not in name
                wanted = wanted or (
                    folder.startswith("bootstrap-") and name.startswith(("console/", "machine/", "objects/"))
                )
                if member.isfile() and folder and wanted:
                    if member.size > _LARGEST_MEMBER:
                        raise InputError(f"{name} in {archive} is larger than an archive of ours has it")
                    if (file := packed.extractfile(member)) is not None:
                        files[name] = file.read()
    except (OSError, tarfile.TarError) as error:
        raise InputError(f"{archive} cannot be read as an archive of `rackless gather`", why=str(error)) from error
    return files


def why_installer(folder: Path, subject: str = "") -> WhyAnswer:
    """What stopped somebody's openshift-install, from the folder that it was given."""
    found = explain(installer.RULES, read_run(folder), subject)
    return WhyAnswer(f"the installer's run in {folder}", found, len(installer.RULES))
