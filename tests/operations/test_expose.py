"""`rackless expose` before a holder that is a fake, or none: what is opened, refused and told."""

from __future__ import annotations

import asyncio
import errno
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from rackless.cli.main import cli
from rackless.errors import InputError, LabError
from rackless.operations import lab as operations
from rackless.protocol.client import ControlClient
from rackless.run.ledger import Ledger
from rackless.run.paths import LabPaths, Roots
from rackless.spec.load import parse

Run = Callable[..., Awaitable[Result]]
LAB = "name: mine\nservers: {box: {role: spare, count: 2}}\n"


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LabPaths:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    for name in ("STATE", "RUN", "CACHE"):
        monkeypatch.setenv(f"RACKLESS_{name}", str(tmp_path / name.lower()))
    monkeypatch.setenv("RACKLESS_LAB", "mine")
    paths = LabPaths(Roots.from_environment(), "mine")
    paths.state.mkdir(parents=True)
    paths.run.mkdir(parents=True)
    paths.spec.write_text(parse(LAB, "lab.yaml").model_dump_json())
    Ledger(paths.ledger).own("folder", "x")
    return paths


@pytest.fixture
def run() -> Run:
    return lambda *words: asyncio.to_thread(CliRunner().invoke, cli, list(words))


def error_of(done: Result, kind: type[InputError | LabError] = InputError) -> InputError | LabError:
    assert type(done.exception) is kind and done.exception.hint
    return done.exception


@pytest.fixture
async def refusing(paths: LabPaths) -> AsyncIterator[list[list[str]]]:
    """A holder on a computer that has no such address: how often it was asked, and what for."""
    asked: list[list[str]] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        close = json.loads(await reader.readline())["close"]
        there = [
            entry.id for entry in Ledger(paths.ledger).entries() if entry.kind == "forward" and entry.id not in close
        ]
        asked.append(there)
        failed = dict.fromkeys(there, os.strerror(errno.EADDRNOTAVAIL))
        writer.write(json.dumps({"open": [], "failed": failed}).encode() + b"\n")
        writer.close()

    server = await asyncio.start_unix_server(answer, str(paths.doors_socket))
    yield asked
    server.close()


async def test_a_strange_address_is_named_at_once_and_nothing_is_left(
    refusing: list[list[str]], paths: LabPaths, run: Run
) -> None:
    error = error_of(await run("expose", "bmc", "box-0", "--address", "192.0.2.9"))
    assert error.what == "192.0.2.9 is no address of this computer" and "ip -brief address" in error.hint
    assert len([there for there in refusing if there]) == 1, "other ports there are not tried"
    assert [entry for entry in Ledger(paths.ledger).entries() if entry.kind == "forward"] == []


async def test_all_addresses_at_once_are_none_that_others_could_be_told(paths: LabPaths, run: Run) -> None:
    for address in ("0.0.0.0", "::"):
        assert "every address of this computer" in error_of(await run("expose", "bmc", "--address", address)).what


async def test_servers_are_named_where_there_is_one_place_for_each(paths: LabPaths, run: Run) -> None:
    assert "the lab mine has no server bux-0" in error_of(await run("expose", "bmc", "bux-0")).what
    assert error_of(await run("unexpose", "ssh", "bux-0")).hint == "did you mean box-0?"
    assert error_of(await run("expose", "api", "box-0")).what == "api is not exposed by server"
    assert (await run("unexpose", "bmc", "box-0")).output == "nothing of that was exposed\n", (
        "it is a server, only not exposed"
    )


async def test_what_is_exposed_is_listed_by_kind_and_server(paths: LabPaths, run: Run) -> None:
    assert "the lab does not run" in (await run("expose", "bmc")).output
    await run("expose", "ssh", "box-1")

    async def listed(*words: str) -> list[tuple[str, str]]:
        found = json.loads((await run("expose", *words, "--list", "--json")).stdout)["forwards"]
        return [(one["what"], one["name"]) for one in found if one["protocol"] == "tcp"]

    assert await listed() == [("bmc", "box-0"), ("bmc", "box-1"), ("ssh", "box-1")]
    assert await listed("ssh") == [("ssh", "box-1")] and await listed("bmc", "box-0") == [("bmc", "box-0")]


@pytest.mark.parametrize("resolver", ["dnsmasq", "networkmanager", "resolved"])
async def test_no_resolver_is_told_of_no_names(resolver: str, paths: LabPaths, run: Run) -> None:
    """systemd-resolved with no names in particular would ask the lab's small dnsmasq for all of them."""
    await run("expose", "api")  # has no name
    error_of(await run("expose", "--resolver", resolver), LabError)
    assert "rm -f" in (await run("expose", "--resolver", resolver, "--undo")).output, "the way back stays open"
    await run("expose", "bmc")
    assert "box-0-bmc.mine.rackless.test" in (await run("expose", "--resolver", resolver)).output


async def test_a_lab_of_somebody_else_is_listed_and_does_not_hide_the_others(
    paths: LabPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def closed(self: ControlClient) -> bool:
        raise self._closed()

    monkeypatch.setattr(ControlClient, "alive", closed)
    (found,) = await operations.list_labs(paths.roots)
    assert found["lab"] == "mine" and found["daemon"] == "closed to you"
