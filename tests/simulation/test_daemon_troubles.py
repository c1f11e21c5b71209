"""A daemon that does not come up, an older one, a ledger of the future: what `up`, `down` and `destroy` say and do."""

from __future__ import annotations

import pytest

from rackless.drivers.fake.processes import FakeProcess
from rackless.drivers.fake.provisioning import FakeForeign
from rackless.errors import LabError, RacklessError
from rackless.events import Note
from rackless.ports.hypervisor import ServerState, Unreachable
from rackless.run.ledger import Ledger
from rackless.spec.load import parse
from tests.simulation.person import Person

SMALL = "name: lab\nservers: {node: {count: 1}}"


@pytest.fixture
def small(person: Person) -> Person:
    person.spec = parse(SMALL, "lab.yaml")
    return person


async def _dies(process: FakeProcess) -> int:
    process.say("Traceback: no such thing")
    return 1


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("rackless.labd.main", "the lab's daemon ends whenever it starts"),
        ("rackless.holder.main", "the lab's daemon ended while starting"),
    ],
)
def test_a_daemon_that_does_not_come_up_is_given_up_with_its_last_words(
    small: Person, program: str, words: str
) -> None:
    async def story() -> None:
        whole = small.world.processes.programs[program]
        small.world.processes.programs[program] = _dies
        with pytest.raises(LabError, match=words) as caught:
            await small.up("lab")
        assert "no such thing" in caught.value.why and caught.value.log
        small.world.processes.programs[program] = whole
        await small.up("lab")
        assert (await small.status())["reached"] == "lab"

    small.live(story)


def test_a_ledger_that_a_newer_version_wrote_is_not_guessed_at(small: Person) -> None:
    async def story() -> None:
        await small.up("lab")
        Ledger(small.paths.ledger).own("moon-base", "/far/away")
        with pytest.raises(LabError, match="a moon-base that this rackless does not know"):
            await small.destroy()
        assert Ledger(small.paths.ledger).exists, "nothing that it lists is forgotten"

    small.live(story)


def test_a_lab_that_is_stopped_is_not_stopped_again(small: Person) -> None:
    async def story() -> None:
        await small.up("lab")
        await small.down()
        await small.down()
        assert (await small.status()) == {"lab": "lab", "daemon": "stopped"}
        plan = {action.subject: str(action.verb) for action in await small.plan("lab")}
        assert plan["lab/lab"] == "start" and plan["network/cluster"] == "create"

    small.live(story)


def test_a_daemon_that_comes_back_and_cannot_restore_its_lab_says_so_and_lives(small: Person) -> None:
    async def story() -> None:
        await small.up("lab")

        async def absent() -> str:
            return "it was taken away"

        small.lab.absent = absent  # type: ignore[method-assign]
        for process in small.world.processes.named("rackless.labd.main"):
            small.world.processes.kill(process)
        await small.world.drivers().clock.sleep(120)
        assert (await small.status())["daemon"] == "running"
        lines = small.paths.events.read_text()
        assert '"restore-failed"' in lines and "it was taken away" in lines

    small.live(story)


def test_a_hypervisor_that_is_away_is_said_and_the_rest_is_told(small: Person) -> None:
    async def story() -> None:
        await small.up("lab")

        async def away() -> list[ServerState]:
            raise Unreachable("libvirt does not answer")

        small.lab.hypervisor.servers = away  # type: ignore[method-assign]
        found = await small.status()
        assert [server["power"] for server in found["servers"]] == [None] and found["api"] is not None

    small.live(story)


def test_nodes_that_may_be_left_in_another_s_ironic_are_told_and_the_lab_goes_all_the_same(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    password = person.folder / "password"
    password.write_text("a secret")
    person.spec = parse(
        f"{SMALL}\nprovisioner: {{url: 'http://192.0.2.9:6385', credentials: {{username: me, password_file: {password}}}}}",
        "lab.yaml",
    )

    async def story() -> None:
        await person.up("hosts")

        async def gone(_: object) -> None:
            raise RacklessError("the Ironic at 192.0.2.9 does not answer")

        monkeypatch.setattr(FakeForeign, "check", gone)
        assert await person.destroy()
        codes = [event.code for event in person.seen if isinstance(event, Note)]
        assert "nodes-left-behind" in codes and not person.roots.state.exists()

    person.live(story)
