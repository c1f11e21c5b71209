"""Commands that speak to a lab, before a labd that is a fake behind the real socket: several servers at once, and every form."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from rackless.cli.main import cli
from rackless.errors import InputError
from rackless.operations import access
from rackless.protocol import messages as say
from tests.web.demo import host
from tests.web.fake_labd import FakeLabd, make_labd, make_roots, running

Run = Callable[..., Awaitable[Result]]
CONTROL_PLANES = ["ctrl-0", "ctrl-1", "ctrl-2"]


@pytest.fixture
async def labd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FakeLabd]:
    made = make_labd(make_roots(tmp_path), workers=1)
    made.hosts = tuple(host(one.name, "available") for one in made.status.servers)
    for name, value in made.paths.roots.as_environment().items():
        monkeypatch.setenv(name, value)
    async with running(made):
        yield made


@pytest.fixture
def run() -> Run:
    """A command has an event loop of its own, so it runs in a thread."""
    return lambda *words: asyncio.to_thread(CliRunner().invoke, cli, list(words))


async def test_several_servers_or_all_are_switched_by_one_command(labd: FakeLabd, run: Run) -> None:
    done = await run("power", "--name", "lab", "ctrl-0", "ctrl-2", "off")
    assert done.output == "ctrl-0 is off\nctrl-2 is off\n"
    done = await run("power", "--name", "lab", "ctrl-1", "ctrl-2", "shutdown")
    assert done.output == "ctrl-1 is on: its system was asked to shut down\nctrl-2 is off\n"
    for action in ("on", "reset", "nmi"):
        labd.asked.clear()
        assert (await run("power", "--name", "lab", "--all", action)).exit_code == 0
        assert labd.asked == [say.PressPower(one, action) for one in (*CONTROL_PLANES, "worker-0")]
    one = await run("power", "--name", "lab", "ctrl-0", "--json")
    assert json.loads(one.output)["server"] == "ctrl-0", "how it stands, where no action is named"
    assert len(json.loads((await run("power", "--name", "lab", "--all", "--json")).output)) == 4


async def test_a_server_that_is_not_there_is_guessed_and_a_turned_order_is_told(labd: FakeLabd, run: Run) -> None:
    error = (await run("power", "--name", "lab", "ctrl0", "on")).exception
    assert isinstance(error, InputError) and error.hint == "did you mean ctrl-0?"
    error = (await run("bmc", "show", "--name", "lab", "ctrl-7")).exception
    assert isinstance(error, InputError) and error.hint == "name one of those", "a number is not misspelt"
    turned = await run("power", "--name", "lab", "off", "ctrl-0", "ctrl-1")
    assert turned.exit_code == 2 and "`rackless power ctrl-0 ctrl-1 off`" in turned.output
    assert labd.asked == []


async def test_hosts_that_are_not_there_are_told_with_what_there_is(labd: FakeLabd, run: Run) -> None:
    error = (await run("host", "show", "--name", "lab", "ctrl0")).exception
    assert isinstance(error, InputError) and error.hint == "did you mean ctrl-0?" and "ctrl-1" in error.why
    labd.hosts = ()
    error = (await run("host", "show", "--name", "lab", "ctrl-0")).exception
    assert isinstance(error, InputError) and "`rackless up --until hosts`" in error.hint
    assert "no host is registered yet" in (await run("host", "list", "--name", "lab")).stderr
    assert json.loads((await run("host", "list", "--name", "lab", "-o", "json")).stdout) == []


async def test_several_hosts_or_all_are_worked_by_one_command(labd: FakeLabd, run: Run) -> None:
    assert (await run("host", "inspect", "--name", "lab", "ctrl-0", "ctrl-1", "--no-wait")).exit_code == 0
    assert labd.asked == [say.HostWish("inspect", one, wait=False) for one in ("ctrl-0", "ctrl-1")]
    labd.asked.clear()
    refused = await run("host", "clean", "--name", "lab", "--all", "--no-wait")
    assert refused.exit_code != 0 and labd.asked == [], "it asks first, and nobody is there to answer"
    assert (await run("host", "clean", "--name", "lab", "--all", "--no-wait", "--yes")).exit_code == 0
    assert labd.asked == [say.HostWish("clean", one, wait=False) for one in (*CONTROL_PLANES, "worker-0")]


SHOWN = "status|host list|host show ctrl-0|bmc list|bmc show ctrl-0|bmc fault list"


@pytest.mark.parametrize("command", SHOWN.split("|"))
async def test_what_is_shown_is_the_same_as_json_and_yaml_and_wider_when_wide(
    labd: FakeLabd, run: Run, command: str
) -> None:
    await run("bmc", "fault", "add", "delay", "--server", "ctrl-0", "--name", "lab")
    words = [*command.split(), "--name", "lab"]
    found = [(await run(*words, *form)).output for form in (["--json"], ["-o", "json"], ["-o", "yaml"])]
    assert json.loads(found[0]) == json.loads(found[1]) == yaml.safe_load(found[2])
    wide, plain = (await run(*words, "-o", "wide")).output, (await run(*words)).output
    assert len(wide) >= len(plain) > 0 and "ctrl-0" in wide


async def test_a_kubeconfig_says_of_which_api_it_is(
    labd: FakeLabd, run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[bool | None] = []

    async def give(lab: str, roots: object, drivers: object, *, cluster: bool | None) -> say.Kubeconfig:
        asked.append(cluster)
        return say.Kubeconfig("{}", cluster if cluster is not None else True)

    monkeypatch.setattr(access, "kubeconfig", give)
    said = (await run("kubeconfig", "lab")).output
    assert "the API of the cluster on the lab's nodes; --of lab is for the other" in said
    assert "the lab itself" in (await run("kubeconfig", "lab", "--of", "lab")).output
    told = json.loads((await run("kubeconfig", "lab", "-o", str(tmp_path / "kc"), "--cluster", "--json")).output)
    assert told["api"] == "cluster" and asked == [None, False, True]
