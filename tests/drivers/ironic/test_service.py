"""Ironic's files before it starts: a database that is gone is replaced by an empty one, a good one is kept."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rackless.drivers.ironic.config import IronicConfig
from rackless.drivers.ironic.environment import EMPTY_DATABASE
from rackless.drivers.ironic.service import IronicService
from rackless.errors import CommandFailed
from rackless.ports.process import Child, Completed

from .test_config import CONFIG


class NothingStarts:
    async def run(self, argv: Sequence[str | Path], **_: Any) -> Completed:
        return Completed(tuple(map(str, argv)), 0, "hashed\n", "")

    async def start(
        self, argv: Sequence[str | Path], *, log: Path, cwd: Path | None = None, env: Mapping[str, str] | None = None
    ) -> Child:
        raise CommandFailed([str(word) for word in argv], 1, "not today")


def write_database(path: Path, *names: str) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE nodes (name TEXT)")
        database.executemany("INSERT INTO nodes VALUES (?)", [(name,) for name in names])


def read_names(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as database:
        return [name for (name,) in database.execute("SELECT name FROM nodes")]


@pytest.fixture
def config(tmp_path: Path) -> IronicConfig:
    return replace(CONFIG, state=tmp_path / "ironic", http_root=tmp_path / "files")


async def begin(config: IronicConfig, tmp_path: Path) -> IronicService:
    venv = tmp_path / "venv"
    if not venv.exists():
        venv.mkdir()
        write_database(venv / EMPTY_DATABASE)
    service = IronicService(config, venv, NothingStarts())
    with pytest.raises(CommandFailed):
        await service.start()
    return service


async def test_what_it_knows_is_kept(config: IronicConfig, tmp_path: Path) -> None:
    await begin(config, tmp_path)
    config.database.unlink()
    write_database(config.database, "node-0")
    assert not (await begin(config, tmp_path)).forgetful
    assert read_names(config.database) == ["node-0"]


@pytest.mark.parametrize("left", [None, b"", b"no database at all" * 100])
async def test_a_database_that_is_gone_is_replaced_and_no_journal_is_played_into_it(
    config: IronicConfig, tmp_path: Path, left: bytes | None
) -> None:
    service = await begin(config, tmp_path)
    assert not service.forgetful
    config.database.unlink()
    if left is not None:
        config.database.write_bytes(left)
    journal = config.database.with_name(config.database.name + "-journal")
    journal.write_bytes(b"of another")
    assert service.forgetful
    await begin(config, tmp_path)
    assert not service.forgetful and not journal.exists()
    assert read_names(config.database) == []


async def test_a_database_of_which_a_power_cut_left_a_part_is_replaced(config: IronicConfig, tmp_path: Path) -> None:
    """Ironic does not wait for its disk: pages may be missing although the first one says `SQLite`."""
    service = await begin(config, tmp_path)
    config.database.unlink()
    write_database(config.database, *(f"node-{number}-{'x' * 400}" for number in range(100)))
    pages = bytearray(config.database.read_bytes())
    pages[8192:16384] = bytes(8192)
    config.database.write_bytes(pages)
    assert not service.forgetful, "a look at its beginning does not tell"
    await begin(config, tmp_path)
    assert read_names(config.database) == []


async def test_a_database_that_another_has_locked_is_kept(config: IronicConfig, tmp_path: Path) -> None:
    await begin(config, tmp_path)
    with closing(sqlite3.connect(config.database)) as other:
        other.execute("INSERT INTO nodes VALUES ('node-0')")
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.commit()
        other.execute("INSERT INTO nodes VALUES ('node-1')")
        await begin(config, tmp_path)
        other.commit()
    assert read_names(config.database) == ["node-0", "node-1"]
