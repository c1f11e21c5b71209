"""An install as it is seen from the lab: a console that grows, an API that comes up."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from rackless.cli.words import message, title
from rackless.cluster.bootstrap.following import (
    BootstrapConsole,
    BootstrapFailed,
    Following,
    ProvisioningGivenUp,
    describe_lacking,
    require_tried,
    retry_failed,
)
from rackless.cluster.bootstrap.telling import render_line
from rackless.drivers.fake.clock import VirtualClock
from rackless.drivers.fake.resources import MemoryResources
from rackless.errors import GaveUp
from rackless.events import Bus, Event, Note, StepStarted
from rackless.ports.api import ApiUnreachable
from rackless.provisioning.baremetalhost import RETRY


class ComingUp(MemoryResources):
    """An API that answers from some moment on."""

    def __init__(self, clock: VirtualClock, at: float) -> None:
        super().__init__()
        self._clock, self._at = clock, at

    async def list(self, kind: str, **more: Any) -> Any:
        if self._clock.now() < self._at:
            raise ApiUnreachable("the API does not answer", why="connection refused")
        return await super().list(kind, **more)


def following(tmp_path: Path, at: float = 90.0) -> tuple[Following, VirtualClock, list[str]]:
    clock, bus, told = VirtualClock(), Bus(), list[str]()

    def hear(event: Event) -> None:
        if isinstance(event, Note) and event.level != "progress":
            told.append(message(event))

    bus.subscribe(hear)
    return Following(BootstrapConsole(tmp_path / "console.log"), ComingUp(clock, at), clock, bus), clock, told


async def test_it_waits_for_the_api_and_tells_every_manifest(tmp_path: Path) -> None:
    followed, clock, told = following(tmp_path)
    lines = [
        "Booting...",
        render_line({"manifest": "Secret a/b", "file": "x", "refused": "no such namespace"}),
        render_line({"manifest": "Namespace a", "file": "x", "made": True, "done": 1, "of": 2}),
        render_line({"manifest": "Secret a/b", "file": "x", "made": False, "done": 2, "of": 2}),
        render_line({"phase": "manifests applied", "count": 2}),
    ]
    (tmp_path / "console.log").write_text("\n".join(lines) + "\n")
    await clock.run(followed.await_api())
    assert 90 <= clock.now() < 92
    await clock.run(followed.await_manifests())
    assert told == [
        "Secret a/b is not taken yet: no such namespace",
        "1/2 Namespace a made",
        "2/2 Secret a/b was there",
    ]


async def test_a_bootstrap_that_says_it_cannot_go_on_is_believed(tmp_path: Path) -> None:
    followed, clock, _ = following(tmp_path, at=1e9)
    (tmp_path / "console.log").write_text(render_line({"failed": "the manifest x cannot be read"}) + "\n")
    with pytest.raises(BootstrapFailed) as raised:
        await clock.run(followed.await_api())
    assert "the manifest x cannot be read" in raised.value.why and "console.log" in raised.value.hint


async def test_what_it_told_before_counts_and_a_failure_of_before_does_not(tmp_path: Path) -> None:
    lines = [
        render_line({"failed": "no way to the release server"}),
        render_line({"phase": "manifests applied", "count": 2}),
    ]
    (tmp_path / "console.log").write_text("\n".join(lines) + "\n")
    followed, clock, told = following(tmp_path, at=0)
    await clock.run(followed.await_api())
    await clock.run(followed.await_manifests())
    assert told == []


async def test_a_machine_that_is_off_is_not_waited_for(tmp_path: Path) -> None:
    followed, clock, _ = following(tmp_path, at=1e9)
    followed.alive = lambda: clock.now() < 30
    with pytest.raises(BootstrapFailed, match="is off"):
        await clock.run(followed.await_api())
    assert clock.now() == 30


async def test_an_api_that_never_answers_is_given_up_with_what_was_seen_last(tmp_path: Path) -> None:
    followed, clock, _ = following(tmp_path, at=1e9)
    with pytest.raises(GaveUp, match="bootstrap's API") as raised:
        await clock.run(followed.await_api())
    assert "connection refused" in raised.value.why


def host(state: str, error: str = "") -> dict[str, Any]:
    return {
        "apiVersion": "metal3.io/v1alpha1",
        "kind": "BareMetalHost",
        "metadata": {
            "name": "ctrl-0",
            "namespace": "openshift-machine-api",
            "labels": {"installer.openshift.io/role": "control-plane"},
        },
        "spec": {},
        "status": {"provisioning": {"state": state}, "errorMessage": error},
    }


def node(ready: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "ctrl-0"},
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    }


async def test_the_control_plane_is_there_when_its_hosts_are_provisioned_and_its_nodes_ready(tmp_path: Path) -> None:
    followed, clock, told = following(tmp_path, at=0)
    api = followed.api

    async def go_on() -> None:
        for record in (
            host("inspecting"),
            host("provisioning", "no image"),
            host("provisioned"),
            node("False"),
            node("True"),
        ):
            await api.apply(record)
            place = record["metadata"].get("namespace")
            await api.patch_status(record["kind"], "ctrl-0", record["status"], namespace=place)
            await clock.sleep(10)

    async def both() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(go_on())
            group.create_task(followed.await_control_plane())

    steps: list[str] = []

    def hear(event: Event) -> None:
        if isinstance(event, StepStarted):
            steps.append(title(event))

    followed.bus.subscribe(hear)
    await clock.run(both())
    assert steps == ["control plane", "ctrl-0: inspecting", "ctrl-0: joining the cluster"]
    assert told == []
    assert 40 <= clock.now() <= 50


async def test_a_host_that_is_not_tried_any_more_ends_the_wait_in_one_sentence_and_the_next_run_tries_it_again(
    tmp_path: Path,
) -> None:
    followed, clock, told = following(tmp_path, at=0)
    failed = host("provisioning", "no disk is large enough")
    failed["status"] |= {"errorType": "provisioning error", "provisioningFailCount": 4}
    place = failed["metadata"]["namespace"]
    await followed.api.apply(failed)
    await followed.api.patch_status("BareMetalHost", "ctrl-0", failed["status"], namespace=place)
    with pytest.raises(ProvisioningGivenUp, match="ctrl-0 cannot be provisioned: it was tried 5 times") as raised:
        await clock.run(followed.await_control_plane())
    assert raised.value.why == "no disk is large enough" and clock.now() < 10
    hosts = await followed.api.list("BareMetalHost", namespace=place)
    require_tried([{**each, "status": {**each["status"], "provisioningFailCount": 3}} for each in hosts])

    await retry_failed(hosts, followed.api, followed.bus)
    (asked,) = await followed.api.list("BareMetalHost", namespace=place)
    assert asked["metadata"]["annotations"] == {RETRY: ""} and told == ["ctrl-0 has failed, and is tried again"]
    require_tried([asked])  # its controller has not looked yet
    await retry_failed([asked], followed.api, followed.bus)
    assert len(told) == 1


async def test_the_bootstrap_may_go_when_the_api_says_that_it_is_complete(tmp_path: Path) -> None:
    followed, clock, _ = following(tmp_path, at=20)

    async def complete() -> None:
        await clock.sleep(60)
        metadata = {"name": "bootstrap", "namespace": "kube-system"}
        await followed.api.apply(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"status": "complete"}}
        )

    async def both() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(complete())
            group.create_task(followed.await_hand_over())

    await clock.run(both())
    assert 60 <= clock.now() <= 64


def test_a_control_plane_lacks_something_until_its_nodes_have_certificates_to_serve_with() -> None:
    served = {"status": {**node("True")["status"], "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}}}}
    for hosts, nodes, said in (
        ([], [], "no host"),
        ([host("provisioning")], [], "ctrl-0 is provisioning"),
        ([host("available")], [], "ctrl-0 is available, and stays so: its BareMetalHost says `online: false`"),
        ([host("provisioned")], [], "has not joined"),
        ([host("provisioned")], [node("False")], "is not ready"),
        ([host("provisioned")], [node("True")], "no certificate to serve with"),
    ):
        assert said in describe_lacking(hosts, nodes)
    assert describe_lacking([host("provisioned")], [{**node("True"), **served}]) == ""


def test_what_a_server_told_before_it_became_the_bootstrap_is_not_its_own(tmp_path: Path) -> None:
    """It may have been the bootstrap of an earlier install, whose manifests were applied."""
    log = tmp_path / "console.log"
    log.write_text(f"{render_line({'phase': 'manifests applied', 'count': 42})}\n")
    console = BootstrapConsole(log, begin=log.stat().st_size)
    with log.open("a") as out:
        out.write(f"{render_line({'phase': 'manifests', 'count': 43})}\n")
    assert console.look() == [{"phase": "manifests", "count": 43}] == console.told
