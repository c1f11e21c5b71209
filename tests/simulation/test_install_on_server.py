"""A bootstrap on one of the servers, on fakes: the whole way, with the real installer, controllers and hand-over."""

from __future__ import annotations

import logging
from pathlib import Path
from unittest.mock import patch

import pytest

from rackless.drivers.fake.script import Call, Script
from rackless.simulation.__main__ import load_everything
from rackless.simulation.story import Scenario, live_through

LAB = (
    "name: lab\nservers: {{ctrl: {{role: control-plane, count: {}}}, worker: {{count: {}, memory: 3GiB}}}}\n"
    "cluster: {{method: ipi, bootstrap: {{on: worker-0}}}}"
)


@pytest.mark.slow
@pytest.mark.parametrize(("masters", "workers"), [(1, 1), (3, 2)])
def test_it_installs_the_control_plane_and_its_own_server_last(tmp_path: Path, masters: int, workers: int) -> None:
    logging.disable()
    load_everything()
    calls: list[str] = []
    note = Script._note

    def noted(script: Script, call: Call) -> None:
        calls.append(str(call))
        note(script, call)

    with patch.object(Script, "_note", noted):
        lived = live_through(Scenario(0, LAB.format(masters, workers), ("up", "up"), ()), tmp_path)
    assert lived.wrong == []

    def where(what: str) -> int:
        """Of the first such call."""
        return next(number for number, call in enumerate(calls) if call.startswith(what))

    started, ended = where("hypervisor.insert_media worker-0"), where("hypervisor.eject_media worker-0")
    provisioned = [where(f"provisioner.provision ctrl-{number}") for number in range(masters)]
    assert started < min(provisioned) and max(provisioned) < ended < where("provisioner.provision worker-0")
    assert not any("-bootstrap" in call for call in calls if call.startswith("hypervisor.ensure"))
