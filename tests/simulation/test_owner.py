"""Who asked for a lab through sudo uses it without: labd knows them by their number, and lets them do what is theirs."""

from __future__ import annotations

import os
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from rackless.errors import HypervisorError, InputError, LabError
from rackless.events import Bus
from rackless.operations import access, bmcs, hosts, servers
from rackless.operations import lab as operations
from rackless.protocol import messages as say
from rackless.protocol.client import ControlClient
from rackless.protocol.exchange import Exchange, Nothing
from rackless.protocol.messages import HostWish, WishedImage
from rackless.spec.load import parse
from tests.simulation.person import Person

T = TypeVar("T")
OWNER, STRANGER = 4242, 4243
LAB = "name: lab\nservers: {node: {count: 1}, spare: {role: spare, count: 1}}"
ROOT_ONLY: list[tuple[Exchange[Any, Any], object]] = [
    (say.STOP, Nothing()),
    (say.PAUSE, say.PauseServers(force=True)),
    (say.REMOVE, say.CarryOutLosses(())),
    (say.REACH, say.ReachGoal("lab")),
    (say.BEGIN, say.BeginUp(("lab",))),
    (say.FORGET_NODES, Nothing()),
    (say.TELL, Nothing()),
]


@pytest.fixture(autouse=True)
def through_sudo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDO_UID", str(OWNER))
    monkeypatch.setattr(os, "chown", lambda *_, **__: None)  # the file in a test's folder stays the test's


@pytest.fixture
def person(person: Person) -> Person:
    person.spec = parse(LAB, "lab.yaml")
    return person


async def as_user(person: Person, uid: int, work: Coroutine[Any, Any, T]) -> T:
    person.world.computer.is_root = False
    try:
        return await person.world.processes.as_process("theirs", work, uid=uid)
    finally:
        person.world.computer.is_root = True


def test_the_owner_looks_switches_asks_and_is_given_a_kubeconfig(person: Person) -> None:
    async def story() -> None:
        await person.up("hosts")
        roots, bus = person.roots, Bus()

        async def mine(work: Coroutine[Any, Any, T]) -> T:
            return await as_user(person, OWNER, work)

        assert isinstance(await mine(operations.status("lab", roots)), say.LabStatus)
        assert (await mine(servers.power("lab", "spare-0", "on", roots))).power == "on"
        assert (await mine(bmcs.set_boot("lab", "spare-0", "disk", roots, once=True))).boot == "disk"
        assert [host["kind"] for host in await mine(hosts.hosts("lab", roots))] == ["BareMetalHost"] * 2
        done = await mine(hosts.wish("lab", HostWish("inspect", "spare-0", wait=True), roots, bus))
        assert done.state == "available"
        given = await mine(access.kubeconfig("lab", roots, person.world.drivers(), cluster=False))
        assert given.text == access.host_kubeconfig("lab", roots) and not given.cluster
        with pytest.raises(LabError, match="has no cluster yet"):
            await mine(access.kubeconfig("lab", roots, person.world.drivers(), cluster=True))

    person.live(story)


def test_only_root_makes_stops_and_removes(person: Person) -> None:
    async def story() -> None:
        await person.up("lab")
        client = ControlClient(person.paths.socket)
        for exchange, asked in ROOT_ONLY:
            with pytest.raises(HypervisorError, match=f"only root can ask labd to {exchange.name}"):
                await as_user(person, OWNER, client.work(exchange, asked, Bus()))
        assert await person.run("alive", client.alive())

    person.live(story)


def test_every_request_says_whether_it_is_roots() -> None:
    """One that is added is the owner's unless somebody thought of it: this is the list of those that are."""
    found = {one.name for one in vars(say).values() if isinstance(one, Exchange) and one.works and not one.root}
    assert found == {
        "host", "power", "insert-media", "eject-media", "set-boot", "kubeconfig", "scale", "remedy", "add-fault", "clear-faults",
        "bmc", "object-events", "console", "screen", "ssh-keys",
    }  # fmt: skip


def test_nobody_else_is_told_anything(person: Person) -> None:
    async def story() -> None:
        await person.up("lab")
        client = ControlClient(person.paths.socket)
        for work in (
            client.look(say.STATUS),
            client.work(say.POWER, say.PressPower("spare-0", "off"), Bus()),
            client.work(say.KUBECONFIG, say.WantKubeconfig(), Bus()),
        ):
            with pytest.raises(HypervisorError, match="only root and the lab's owner may talk to it"):
                await as_user(person, STRANGER, work)

    person.live(story)


def test_labd_reads_no_file_that_the_owner_names(person: Person) -> None:
    secret = person.folder / "shadow"
    secret.write_bytes(bytes(0x8001) + b"CD001" + b"root:secret")

    async def story() -> None:
        await person.up("hosts")
        client = ControlClient(person.paths.socket)

        async def refused(kind: type[Exception], words: str, exchange: Exchange[Any, Any], asked: object) -> None:
            with pytest.raises(kind, match=words):
                await as_user(person, OWNER, client.work(exchange, asked, Bus()))

        for named in (str(secret), f"file://{secret}", "../../shadow"):
            not_offered = "is not offered to the lab"
            await refused(LabError, not_offered, say.INSERT_MEDIA, say.InsertMedia("spare-0", named))
            for verb in ("provision", "adopt"):
                asked = HostWish(verb, "spare-0", wait=False, image=WishedImage(named))
                await refused(LabError, not_offered, say.HOST, asked)
        asked = HostWish("provision", "spare-0", False, WishedImage("http://192.0.2.1/a.raw", f"file://{secret}"))
        await refused(InputError, "is no URL of checksums", say.HOST, asked)

    person.live(story)
