"""`rackless why --fix`: applies the safe remedies of what `why` found. labd applies them; only starting labd itself is done
here."""

from __future__ import annotations

import time

from rackless.diagnosis.remedy import Cure, Remedy, TriedRemedy, read_tried
from rackless.errors import InputError, LabError
from rackless.events import Bus
from rackless.operations.daemon_life import ensure_labd
from rackless.operations.lab_registry import locked, recorded_spec, require_lab, require_root
from rackless.operations.own_events import own_events
from rackless.ports.drivers import Drivers
from rackless.protocol import messages as say
from rackless.protocol.client import ControlClient
from rackless.protocol.messages import RemedyOutcome
from rackless.run.files import write
from rackless.run.paths import Roots
from rackless.spec.remediation import Remediation


async def apply(name: str, remedy: Remedy, roots: Roots, bus: Bus, drivers: Drivers) -> RemedyOutcome:
    paths = require_lab(name, roots)
    require_root("repair a lab", drivers.computer)
    if remedy.cure is not Cure.START_DAEMON:
        asked = say.ApplyRemedy(remedy.rule, remedy.subject)
        return await ControlClient(paths.socket).work(say.REMEDY, asked, bus)
    spec = recorded_spec(paths)
    if spec is None:
        raise InputError(f"nobody knows any more what the lab {name} is", hint="`rackless up` with its lab.yaml")
    if spec.remediation is Remediation.OFF:
        raise LabError("this lab does nothing about what is wrong with it", why="its description says remediation: off")
    with locked(paths, drivers.processes):
        async with own_events(bus, paths, drivers) as own:
            # a daemon that ends again is started again: a person asks each time
            tried = read_tried(paths.remedies.read_text()) if paths.remedies.exists() else []
            write(
                paths.remedies, "".join(one.to_line() for one in (*tried, TriedRemedy(remedy, time.time(), "person")))
            )
            with own.bus.step(remedy.cure.value, subject=remedy.subject):
                await ensure_labd(spec, paths, own.bus, drivers)
            own.bus.tell(
                "remedy-applied", level="info", subject=remedy.subject,
                did=remedy.offer, why="it did not run", by="person", rule=remedy.rule,
            )  # fmt: skip
    return RemedyOutcome(True, remedy.offer)
