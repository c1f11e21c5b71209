"""An install by a bootstrap that stops on its way, on fakes: `up --until manifests|ignition|bootstrap`, and `up` goes on."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import pytest

from rackless.drivers.fake.script import Call, Script
from rackless.operations.install.lab import install_lab
from rackless.simulation.__main__ import load_everything
from rackless.simulation.errands import Errands
from rackless.simulation.story import Scenario, live_through

LAB = "name: lab\nservers: {ctrl: {role: control-plane, count: 1}, worker: {count: 1}}\ncluster: {method: ipi}"
MINE = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: mine, namespace: kube-system}\n"


def _stopped(goal: str, look: Callable[[Path], None], folder: Path) -> list[str]:
    """What was changed until it stopped; the whole story goes on to a finished cluster."""
    logging.disable()
    load_everything()
    calls: list[str] = []
    note = Script._note

    def noted(script: Script, call: Call) -> None:
        calls.append(str(call))
        note(script, call)

    async def stopping(errands: Errands) -> None:
        person = errands.person
        await person.up("bmc")
        work = install_lab(person.spec, person.roots, person.bus, goal=goal, drivers=person.world.drivers())
        await person.run("up", work)
        look(person.paths.install)
        calls.append("stopped")

    with patch.object(Script, "_note", noted), patch.object(Errands, "hear", stopping):
        lived = live_through(Scenario(0, LAB, ("events", "up"), ()), folder)
    assert lived.wrong == []
    return calls[: calls.index("stopped")]


@pytest.mark.slow
def test_at_its_manifests_which_may_be_added_to(tmp_path: Path) -> None:
    def add(install: Path) -> None:
        assert (install / "openshift/99_openshift-cluster-api_hosts-0.yaml").exists() and not list(
            install.glob("*.ign")
        )
        (install / "manifests/mine.yaml").write_text(MINE)

    calls = _stopped("manifests", add, tmp_path)
    assert [call for call in calls if call.startswith("hypervisor.ensure lab-")] == []


@pytest.mark.slow
def test_at_its_ignition_configs(tmp_path: Path) -> None:
    def look(install: Path) -> None:
        assert sorted(path.name for path in install.glob("*.ign")) == ["bootstrap.ign", "master.ign", "worker.ign"]

    calls = _stopped("ignition", look, tmp_path)
    assert [call for call in calls if call.startswith("hypervisor.ensure lab-")] == []


@pytest.mark.slow
def test_when_its_bootstrap_is_gone(tmp_path: Path) -> None:
    calls = _stopped("bootstrap", lambda install: None, tmp_path)
    assert any(call.startswith("provisioner.provision ctrl-0") for call in calls)
    assert any(call.startswith("hypervisor.retire lab-") for call in calls)
    assert not any(call.startswith("provisioner.provision worker-0") for call in calls)
