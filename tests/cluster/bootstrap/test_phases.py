"""Steps made from what is seen of machines that somebody else works on."""

from __future__ import annotations

from typing import Any

import pytest

from rackless.cli.words import title
from rackless.cluster.bootstrap.phases import SeenPhases
from rackless.diagnosis.estimates import step_key
from rackless.events import Bus, Event, StepFinished, StepStarted


def heard() -> tuple[Bus, list[str]]:
    bus, told, titles = Bus(), list[str](), dict[str, str]()

    def hear(event: Event) -> None:
        match event:
            case StepStarted():
                titles[event.step] = title(event)
                told.append(f"> {title(event)}")
            case StepFinished():
                told.append(f"{event.outcome} {titles[event.step]}{f' ({event.detail})' if event.detail else ''}")

    bus.subscribe(hear)
    return bus, told


def host(state: str, error: str = "") -> dict[str, Any]:
    return {"metadata": {"name": "m0"}, "status": {"provisioning": {"state": state}, "errorMessage": error}}


def node(ready: str) -> dict[str, Any]:
    return {"metadata": {"name": "m0"}, "status": {"conditions": [{"type": "Ready", "status": ready}]}}


def test_each_state_in_which_somebody_works_is_a_step() -> None:
    bus, told = heard()
    with SeenPhases(bus, "cluster") as phases:
        for state in ("", "registering", "registering", "inspecting", "available", "provisioning"):
            phases.see_hosts([host(state)], [])
        phases.see_hosts([host("provisioned")], [])
        phases.see_hosts([host("provisioned")], [node("False")])
        phases.see_hosts([host("provisioned")], [node("True")])
    assert told == [
        "> m0: registering", "done m0: registering", "> m0: inspecting", "done m0: inspecting",
        "> m0: provisioning", "done m0: provisioning",
        "> m0: joining the cluster", "done m0: joining the cluster",
    ]  # fmt: skip


def test_an_error_ends_a_step_and_the_next_try_is_another() -> None:
    bus, told = heard()
    with SeenPhases(bus, "cluster") as phases:
        for seen in (host("inspecting"), host("inspecting", "no lease"), host("inspecting")):
            phases.see_hosts([seen])
    assert told == [
        "> m0: inspecting", "failed m0: inspecting (no lease)", "> m0: inspecting", "cancelled m0: inspecting",
    ]  # fmt: skip


def test_they_belong_to_the_step_they_were_made_in_and_end_with_it() -> None:
    bus, parents = Bus(), dict[str, str | None]()

    def hear(event: Event) -> None:
        if isinstance(event, StepStarted):
            parents[event.phase] = event.parent

    bus.subscribe(hear)
    with pytest.raises(KeyboardInterrupt), bus.step("whole") as whole, SeenPhases(bus, "cluster") as phases:
        with bus.step("part"):
            phases.see("server/bootstrap", "Ironic")
        raise KeyboardInterrupt
    assert parents == {"whole": None, "part": whole.id, "Ironic": whole.id}


def test_how_long_it_takes_is_learnt_apart_for_each_who_does_it() -> None:
    bus, keys = Bus(), list[str]()

    def hear(event: Event) -> None:
        if isinstance(event, StepStarted):
            keys.append(step_key(event, 4))

    bus.subscribe(hear)
    for by in ("bootstrap", "cluster"):
        with SeenPhases(bus, by) as phases:
            phases.see("host/m0", "inspecting")
    assert keys == ["host: inspecting by_bootstrap=1", "host: inspecting by_cluster=1"]
