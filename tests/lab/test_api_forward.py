from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from rackless.lab import api_forward
from rackless.lab.api_forward import Doorkeeper, open_door, read_port
from rackless.run.paths import LabPaths, Roots


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LabPaths:
    with socket.socket() as probe:  # ports that are free now, so that labs on this computer are not in the way
        probe.bind(("127.0.0.1", 0))
        monkeypatch.setattr(api_forward, "PORTS", range(probe.getsockname()[1], probe.getsockname()[1] + 50))
    return lab(tmp_path, "one")


def lab(folder: Path, name: str) -> LabPaths:
    paths = LabPaths(Roots(folder, folder / "run", folder / "cache"), name)
    paths.api.mkdir(parents=True)
    paths.ledger.touch()
    return paths


def test_a_lab_comes_back_to_its_port(paths: LabPaths) -> None:
    for _ in range(2):
        door = open_door(paths, paths.api_port)
        assert door is not None and door.getsockname() == ("127.0.0.1", read_port(paths.api_port))
        door.close()


def test_a_port_that_another_lab_remembers_is_left_to_it(paths: LabPaths, tmp_path: Path) -> None:
    door = open_door(paths, paths.api_port)
    assert door is not None
    door.close()
    other = lab(tmp_path, "two")
    door = open_door(other, other.api_port)
    assert door is not None
    door.close()
    assert read_port(other.api_port) not in (None, read_port(paths.api_port))


def test_the_two_doors_of_a_lab_are_never_the_same(paths: LabPaths) -> None:
    for _ in range(2):
        doors = [open_door(paths, record) for record in paths.doors]
        ports = [read_port(record) for record in paths.doors]
        assert None not in ports and ports[0] != ports[1]
        for door in doors:
            assert door is not None
            door.close()


def test_a_lab_whose_port_was_taken_gets_another(paths: LabPaths) -> None:
    first, second = open_door(paths, paths.api_port), open_door(paths, paths.api_port)
    assert first is not None and second is not None
    assert read_port(paths.api_port) == second.getsockname()[1] != first.getsockname()[1]
    first.close()
    second.close()


async def test_bytes_pass_both_ways_and_an_end_ends_both(paths: LabPaths) -> None:
    async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.read()).upper())
        writer.close()

    server = await asyncio.start_server(shout, "127.0.0.1", 0)
    door = open_door(paths, paths.api_port)
    assert door is not None
    keeper = Doorkeeper(door, *server.sockets[0].getsockname())
    keeper.start()
    reader, writer = await asyncio.open_connection(*door.getsockname())
    text = b"word " * 100_000
    writer.write(text)
    writer.write_eof()
    assert await reader.read() == text.upper()
    writer.close()
    await keeper.close()
    server.close()


async def test_who_knocks_while_nobody_is_inside_is_sent_away_and_may_come_again(paths: LabPaths) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        door = open_door(paths, paths.api_port)
        assert door is not None
        keeper = Doorkeeper(door, *nobody.getsockname())
        keeper.start()
        for _ in range(2):
            reader, writer = await asyncio.open_connection(*door.getsockname())
            assert await reader.read() == b""
            writer.close()
        await keeper.close()
