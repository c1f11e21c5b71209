"""Ironic's own virtualenv, in the cache: exact versions by hash, made once, without what is never run.

A virtualenv cannot be moved, so it is built where it stays and marked when it is complete; without the mark it is made
again. Two callers at the same time build it once. Building needs access to the package index.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import resources
from pathlib import Path

from rackless.errors import HypervisorError
from rackless.events import Bus
from rackless.ports.process import Processes

REQUIREMENTS = "requirements.txt"
EMPTY_DATABASE = "empty.sqlite"
"""In the virtualenv: a database with Ironic's tables and nothing in them, for every new lab to start from."""
_RECIPE = "3"
"""Part of the key: raise it when the virtualenv is built another way."""


class IronicEnvironment:
    """`ports.ironic.EngineEnvironment`."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes

    async def current(self, cache: Path) -> Path:
        return await current_environment(cache, self._processes)

    async def ensure(self, cache: Path, bus: Bus) -> Path:
        return await ensure_environment(cache, self._processes, bus)

    def complete(self, place: Path) -> bool:
        return is_complete(place)

    def retire(self, place: Path) -> bool:
        lock = place.with_suffix(".lock")
        with lock.open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            (place / ".complete").unlink(missing_ok=True)  # first: half of one is none
            shutil.rmtree(place)
            lock.unlink()
        return True


def system_python() -> Path:
    python = Path("/usr/bin/python3")
    return python if python.exists() else Path(sys.executable)


async def ensure_environment(cache: Path, processes: Processes, bus: Bus) -> Path:
    """The virtualenv with Ironic in it, made now if this cache has none for this Python and these versions."""
    python, requirements = system_python(), pinned_packages()
    venv = await current_environment(cache, processes)
    with bus.step("Ironic's environment") as step:
        venv.parent.mkdir(parents=True, exist_ok=True)
        async with _only_one(venv.with_suffix(".lock")):
            if is_complete(venv):
                step.unchanged(str(venv))
                return venv
            if venv.exists():
                await asyncio.to_thread(shutil.rmtree, venv)
            step.progress(f"installing {requirements.count(b'==')} packages, about half a minute")
            await _build(venv, python, requirements, processes)
    return venv


async def current_environment(cache: Path, processes: Processes) -> Path:
    """Where the virtualenv of this Python and these versions is, or would be."""
    version = (await processes.run([system_python(), "--version"])).stdout.strip()
    key = hashlib.sha256(b"\0".join((pinned_packages(), version.encode(), _RECIPE.encode()))).hexdigest()[:16]
    return cache / "ironic" / key


def is_complete(venv: Path) -> bool:
    return (venv / ".complete").exists()


def pinned_packages() -> bytes:
    """Ironic and all it needs, by version and hash."""
    return resources.files(__package__).joinpath(REQUIREMENTS).read_bytes()


async def _build(venv: Path, python: Path, requirements: bytes, processes: Processes) -> None:
    await processes.run([python, "-m", "venv", venv])
    listed = venv / REQUIREMENTS
    listed.write_bytes(requirements)
    await processes.run([
        venv / "bin/pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-compile",
        "--require-hashes", "--only-binary=:all:", "--requirement", listed,
    ])  # fmt: skip
    site = next(venv.glob("lib/python3*/site-packages"))
    await asyncio.to_thread(_prune, venv, site)
    await processes.run([venv / "bin/python", "-m", "compileall", "-q", "-j", "0", site])
    _stand_in_for_mkisofs(venv)
    await _make_empty_database(venv, processes)
    (venv / ".complete").touch()


async def _make_empty_database(venv: Path, processes: Processes) -> None:
    conf = venv / "dbsync.conf"
    conf.write_text(f"[database]\nconnection = sqlite:///{venv / EMPTY_DATABASE}\n")
    await processes.run(
        [venv / "bin/ironic-dbsync", "--config-file", conf, "create_schema"], env={"PYTHONWARNINGS": "ignore"}
    )


def _prune(venv: Path, site: Path) -> None:
    """Delete what is never run here: the packages' tests, and pip."""
    for unused in (*site.glob("*/tests"), *site.glob("pip*"), *venv.glob("bin/pip*")):
        shutil.rmtree(unused) if unused.is_dir() else unused.unlink()


def _stand_in_for_mkisofs(venv: Path) -> None:
    """Ironic calls `mkisofs`; xorriso answers to that name, and makes the EFI-bootable ISOs it is asked for."""
    xorriso = shutil.which("xorriso")
    if xorriso is None:
        raise HypervisorError("xorriso is not here", why="Ironic makes boot ISOs with it", hint="install xorriso")
    (venv / "bin/mkisofs").symlink_to(xorriso)


@asynccontextmanager
async def _only_one(lock: Path) -> AsyncIterator[None]:
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                await asyncio.sleep(0.2)
        yield
    finally:
        os.close(descriptor)
