import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from rackless.drivers.ironic.environment import ensure_environment
from rackless.errors import CommandFailed
from rackless.events import Bus
from rackless.ports.process import Child, Completed


class Builder:
    """Pretends to run Python and pip, and remembers what it was asked for."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.broken = False

    async def run(self, argv: Sequence[str | Path], **_: Any) -> Completed:
        words = tuple(str(word) for word in argv)
        await asyncio.sleep(0.01)
        if "--version" in words:
            return Completed(words, 0, "Python 3.11.2\n", "")
        self.ran.append(Path(words[0]).name + " " + " ".join(words[1:3]))
        if words[1:3] == ("-m", "venv"):
            Path(words[3], "bin").mkdir(parents=True)
            Path(words[3], "bin", "pip3").touch()
        elif "install" in words:
            if self.broken:
                raise CommandFailed(words, 1, "no way to the index")
            for name in ("ironic/tests", "ironic/api", "pip"):
                Path(words[0]).parent.parent.joinpath("lib/python3.11/site-packages", name).mkdir(parents=True)
        return Completed(words, 0, "", "")

    async def start(
        self, argv: Sequence[str | Path], *, log: Path, cwd: Path | None = None, env: Mapping[str, str] | None = None
    ) -> Child:
        raise AssertionError("nothing keeps running here")


async def test_the_environment_is_made_once_and_without_what_is_never_run(tmp_path: Path) -> None:
    builder = Builder()
    venv = await ensure_environment(tmp_path, builder, Bus())
    again = await ensure_environment(tmp_path, builder, Bus())
    assert venv == again and len([line for line in builder.ran if "-m venv" in line]) == 1
    site = venv / "lib/python3.11/site-packages"
    assert [path.name for path in sorted(site.rglob("*"))] == ["ironic", "api"]
    assert not list(venv.glob("bin/pip*"))
    assert (venv / "bin/mkisofs").resolve().name == "xorriso"


async def test_two_who_want_it_at_once_make_it_once(tmp_path: Path) -> None:
    builder = Builder()
    first, second = await asyncio.gather(
        ensure_environment(tmp_path, builder, Bus()), ensure_environment(tmp_path, builder, Bus())
    )
    assert first == second and len([line for line in builder.ran if "-m venv" in line]) == 1


async def test_one_that_was_cut_off_is_made_again(tmp_path: Path) -> None:
    builder = Builder()
    builder.broken = True
    with pytest.raises(CommandFailed):
        await ensure_environment(tmp_path, builder, Bus())
    builder.broken = False
    assert (await ensure_environment(tmp_path, builder, Bus()) / ".complete").exists()
