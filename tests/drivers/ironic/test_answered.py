"""An Ironic of our own is asked about a node when its row has changed; a real database, and a stand-in that counts."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from rackless.drivers.ironic import client as module
from rackless.drivers.ironic.answered import ASK_AFTER_SECONDS, AnsweredNodes
from rackless.drivers.ironic.client import IronicClient

from .ironic_standin import NODE, IronicStandIn

NAME = str(NODE["name"])


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "ironic.sqlite"
    columns = ", ".join(module._NODE_FIELDS)
    _write(path, f"CREATE TABLE nodes ({columns}, driver_internal_info)")
    _write(path, "INSERT INTO nodes (name, provision_state) VALUES (?, 'enroll')", NAME)
    return path


class Counting(IronicStandIn):
    """Says how often it was asked about its node; what it says is changed by hand, as its row is."""

    looks = 0

    async def _get_node(self, request: web.Request) -> web.Response:
        self.looks += 1
        return await super()._get_node(request)


async def test_a_row_that_did_not_change_means_the_answer_that_was_made_of_it(database: Path) -> None:
    ironic = Counting()
    ironic.put(provision_state="enroll")
    async with ironic.serving() as url, IronicClient(url, "", "", None, database=database) as client:
        first = await client.node(NAME)
        assert first and first["provision_state"] == "enroll"
        first["extra"]["mine"] = True  # what a caller does with its answer is its own
        _write(database, "UPDATE nodes SET driver_internal_info = 'a heartbeat'")
        again = await client.node(NAME)
        assert again and "mine" not in again["extra"]
        assert ironic.looks == 1

        ironic.put(provision_state="verifying")
        _write(database, "UPDATE nodes SET provision_state = 'verifying'")
        changed = await client.node(NAME)
        assert changed and changed["provision_state"] == "verifying"
        assert ironic.looks == 2

        ironic.node = None
        _write(database, "DELETE FROM nodes")
        assert await client.node(NAME) is None
        assert await client.node(NAME) is None
        assert ironic.looks == 4  # nothing is known of a node that is not there


@pytest.mark.parametrize("trouble", ["no file", "another table", "no database", "locked"])
async def test_ironic_is_asked_where_its_database_cannot_be_read(database: Path, trouble: str) -> None:
    locked = sqlite3.connect(database, isolation_level=None)
    match trouble:
        case "no file":
            database.unlink()
        case "another table":
            _write(database, "ALTER TABLE nodes DROP COLUMN provision_state")
        case "no database":
            database.write_bytes(b"something else" * 1000)
        case "locked":
            locked.execute("BEGIN EXCLUSIVE")
    ironic = Counting()
    ironic.put()
    with closing(locked):
        async with ironic.serving() as url, IronicClient(url, "", "", None, database=database) as client:
            for count in (1, 2):
                assert await client.node(NAME)
                assert ironic.looks == count
    assert database.exists() is (trouble != "no file")


def test_an_answer_does_not_outlive_an_ironic_that_died(database: Path) -> None:
    now = [100.0]
    nodes = AnsweredNodes(database, ("name", "provision_state"), lambda: now[0])
    row, answer = nodes.look(NAME), {"provision_state": "enroll"}
    assert row == (NAME, "enroll")
    nodes.keep(NAME, row, answer)
    now[0] += ASK_AFTER_SECONDS - 0.1
    assert nodes.find(NAME, nodes.look(NAME)) == answer
    now[0] += 0.2
    assert nodes.find(NAME, nodes.look(NAME)) is None


def test_a_change_while_ironic_is_asked_is_seen_at_the_next_look(database: Path) -> None:
    """The row is read first: an answer may be newer than it, and never older."""
    nodes = AnsweredNodes(database, ("name", "provision_state"))
    before = nodes.look(NAME)
    _write(database, "UPDATE nodes SET provision_state = 'verifying'")
    nodes.keep(NAME, before, {"provision_state": "enroll"})
    assert nodes.find(NAME, nodes.look(NAME)) is None


def _write(path: Path, statement: str, *values: Any) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(statement, values)
