"""`rackless why`: collect what is known, from a running lab, a dead one, an archive or an installer's folder, and ask the rules."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rackless.codec import BadValue, decode
from rackless.diagnosis.installer_run import read_run
from rackless.diagnosis.lab_evidence import LabEvidence
from rackless.diagnosis.lab_rules import LAB_RULES
from rackless.diagnosis.rule import Diagnosis, explain
from rackless.diagnosis.rules import installer
from rackless.errors import InputError, RacklessError
from rackless.operations.daemon_life import outdated
from rackless.operations.lab import AbsentLab, status
from rackless.operations.lab_registry import require_lab
from rackless.ports.drivers import Drivers
from rackless.protocol import messages as say
from rackless.protocol.client import ControlClient
from rackless.run.journal import Journal
from rackless.run.paths import LabPaths, Roots
from rackless.trust.expiry import expired

_LARGEST_MEMBER = 64 << 20


@dataclass(frozen=True, slots=True)
class WhyAnswer:
    about: str
    """What was looked at, for a person."""
    findings: Sequence[Diagnosis]
    rules: int
    looked_at: str = ""
    """`the daemon, 4 programs, 1 server`, for a person."""
    healed: Sequence[str] = ()
    """What the lab did about itself, and is no longer wrong."""

    def as_json(self) -> dict[str, Any]:
        return {
            "about": self.about,
            "rules": self.rules,
            "looked_at": self.looked_at,
            "healed": list(self.healed),
            "findings": [one.as_json() for one in self.findings],
        }


async def why_lab(name: str, roots: Roots, drivers: Drivers, subject: str = "") -> WhyAnswer:
    """What is stuck or wrong with a lab now, the deepest cause first."""
    paths = require_lab(name, roots)
    seen = await _look(name, paths, roots, drivers)
    return _answer(f"lab {name}", seen, subject)


async def _look(name: str, paths: LabPaths, roots: Roots, drivers: Drivers) -> LabEvidence:
    found = await status(name, roots)
    free = drivers.computer.free_bytes(paths.disks)
    over = [(file, ended.strftime("%Y-%m-%dT%H:%M:%SZ")) for file, ended in expired(paths.secrets, datetime.now(UTC))]
    memory = drivers.computer.memory().available
    if isinstance(found, AbsentLab):
        told = Journal(paths.journal, paths.goal).read().cut_off
        cut_off = ", ".join(f"{action.verb} {action.subject}" for action in told)
        kept = drivers.processes.find(paths.holder_pid) is not None
        return LabEvidence(
            name, found.daemon, kept=kept, free_bytes=free, memory_available=memory, expired=over, interrupted=cut_off
        )  # fmt: skip
    client = ControlClient(paths.socket)
    records, objects = (await client.look(say.HOSTS)).hosts, say.LabObjects()
    with suppress(RacklessError):  # a daemon of an earlier version does not know this question
        objects = await client.look(say.OBJECTS)
    answering = await client.daemon()
    build = outdated(answering) if answering is not None else ""
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
    )


def why_archive(archive: Path, subject: str = "") -> WhyAnswer:
    """The same of an archive that `rackless gather` wrote, on whatever computer."""
    files = _unpack(archive)
    name = archive.name
    try:
        recorded = json.loads(files["status.json"]) if "status.json" in files else {}
        known = decode(say.LabStatus, recorded) if "servers" in recorded else None
        records = tuple(json.loads(files.get("hosts.json", b"[]")))
        objects = decode(say.LabObjects, json.loads(files.get("objects.json", b"{}")))
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
    )
    return _answer(f"the archive {name}", seen, subject)


def _answer(about: str, seen: LabEvidence, subject: str) -> WhyAnswer:
    return WhyAnswer(about, explain(LAB_RULES, seen, subject), len(LAB_RULES), seen.summary(), seen.healed())


def _unpack(archive: Path) -> dict[str, bytes]:
    """The JSON files at the top of an archive, by name; read in memory, nothing is written."""
    files: dict[str, bytes] = {}
    try:
        with tarfile.open(archive, "r:gz") as packed:
            for member in packed:
                folder, _, name = member.name.partition("/")
                if member.isfile() and folder and name.endswith(".json") and "/" not in name:
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
