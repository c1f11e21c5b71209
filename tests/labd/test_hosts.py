"""Hosts of servers that go: taken down in good order, or let go when that is not possible."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rackless.cli.words import message
from rackless.drivers import open_drivers
from rackless.drivers.fake.provisioner import Fault
from rackless.errors import LabError
from rackless.events import Note
from rackless.labd.hosts import LabHosts
from rackless.plan.addressing import plan_lab
from rackless.ports.resources import Record
from rackless.provisioning.baremetalhost import KIND
from rackless.run.paths import LabPaths, Roots
from rackless.run.supervise import KeptProcesses
from rackless.spec.load import parse
from tests.provisioning.site import Site

PLAN = plan_lab(parse("servers: {node: {count: 2}}", "x"))


def hosts_of(site: Site, folder: Path, *, engine: bool = True) -> LabHosts:
    async def nothing() -> None:
        return None

    paths = LabPaths(Roots(folder / "state", folder / "run", folder / "cache"), "lab")
    site.resources.close = nothing  # type: ignore[attr-defined]
    api = SimpleNamespace(open=lambda patience: site.resources, started=True)
    identity = SimpleNamespace(authority=lambda: SimpleNamespace(certificate=Path("ca.crt")))
    drivers = replace(open_drivers(), clock=site.clock)
    processes = KeptProcesses(open_drivers().processes, paths.run, site.bus)
    found = LabHosts(
        PLAN, paths, cast(Any, identity), cast(Any, api), cast(Any, site.resources), processes, drivers, site.bus,
        evidence=lambda _: "",
        lost=lambda _: "",
    )  # fmt: skip
    if engine:
        site.provisioner.close = nothing  # type: ignore[attr-defined]
        found._provisioner = cast(Any, site.provisioner)
    return found


async def provisioned(site: Site) -> None:
    await site.add("node-0", "node-1")
    async with site.controlled():
        await site.until_state("node-0", "node-1")


async def test_a_provisioned_host_is_cleaned_and_deleted_and_the_others_stay(tmp_path: Path) -> None:
    site = Site()
    await provisioned(site)
    hosts = hosts_of(site, tmp_path)
    await site.clock.run(hosts.retire("node-0"))
    assert site.work("node-0")[-2:] == ["deprovision", "power"]
    assert await site.resources.get(KIND, "node-0") is None
    assert (await site.host("node-1")).status.state == "provisioned"
    await hosts.stop_provisioning()


async def test_a_host_that_cannot_be_reached_is_let_go_in_the_end(tmp_path: Path) -> None:
    site = Site()
    await provisioned(site)
    hosts = hosts_of(site, tmp_path)
    site.provisioner.faults += [
        Fault(work, "node-0", "the BMC does not answer", 99) for work in ("register", "deprovision")
    ]
    await site.clock.run(hosts.retire("node-0"), within=100_000)
    assert await site.resources.get(KIND, "node-0") is None
    assert "the BMC does not answer" in str(site.seen)
    await hosts.stop_provisioning()


async def test_without_an_engine_a_host_is_let_go_and_it_is_said_why(tmp_path: Path) -> None:
    site = Site()
    await provisioned(site)
    hosts = hosts_of(site, tmp_path, engine=False)

    async def refuse(*, checked: bool = True) -> None:
        raise LabError("Ironic does not stay up")

    hosts.ensure_provisioning = refuse  # type: ignore[method-assign]
    await site.clock.run(hosts.retire("node-0"))
    assert await site.resources.get(KIND, "node-0") is None
    notes = [message(event) for event in site.seen if isinstance(event, Note)]
    assert "node-0 is let go as it is: Ironic does not stay up" in notes
    await asyncio.sleep(0)


async def test_the_power_button_is_kept_also_when_the_record_is_written_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site()
    await provisioned(site)
    get, meddled = site.resources.get, 0

    async def meddle(kind: str, name: str) -> Record | None:
        nonlocal meddled
        record = await get(kind, name)
        if record is not None and not meddled:
            meddled = 1
            await site.resources.patch_status(kind, name, {**record["status"], "errorCount": 7})
        return record

    monkeypatch.setattr(site.resources, "get", meddle)
    await hosts_of(site, tmp_path).keep_power("node-0", online=False)
    record = await get(KIND, "node-0")
    assert meddled and record is not None and record["spec"]["online"] is False
