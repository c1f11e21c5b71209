"""Ironic as a process: its configuration files, its database, start and stop. Runs inside the lab's network namespace."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sqlite3
import time
from contextlib import closing, suppress
from pathlib import Path

from rackless.drivers.ironic.client import IronicClient, IronicUnreachable
from rackless.drivers.ironic.config import DISCOVER, GRUB_TEMPLATE, IronicConfig
from rackless.drivers.ironic.environment import EMPTY_DATABASE
from rackless.errors import CommandFailed, GaveUp
from rackless.ports.process import Child, Processes
from rackless.spec.discover import Discover

SHIM = Path(__file__).parent / "shim"
_MAGIC = b"SQLite format 3\0"
_BCRYPT = "import bcrypt, sys; print(bcrypt.hashpw(sys.stdin.buffer.read(), bcrypt.gensalt(4)).decode())"
"""The fewest rounds there are: Ironic goes through them at every request, and they protect passwords that can be guessed. This one
is random."""


class IronicService:
    """One Ironic. `shim` loads ours, which makes it quicker; without it Ironic runs exactly as published."""

    def __init__(
        self,
        config: IronicConfig,
        venv: Path,
        processes: Processes,
        *,
        log: Path | None = None,
        shim: bool = True,
    ) -> None:
        self._config = config
        self._venv = venv
        self._processes = processes
        self._log = log or config.state / "ironic.log"
        self._env = {
            "PATH": f"{venv / 'bin'}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            # Proxies of the hypervisor have no meaning inside the lab.
            **dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), ""),
            "PYTHONWARNINGS": "ignore",
            **({"PYTHONPATH": str(SHIM)} if shim else {}),
        }
        self._child: Child | None = None

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child else None

    @property
    def forgetful(self) -> bool:
        """Whether its database file is gone or damaged; after a restart it has an empty one."""
        return not _is_database(self._config.database)

    async def start(self, within: float = 90.0) -> None:
        """Start, and return when Ironic's conductor is there and speaks Redfish."""
        await self._write_files()
        await self._ensure_schema()
        self._child = await self._processes.start(
            [self._venv / "bin/ironic", "--config-file", self._config.conf], log=self._log, env=self._env
        )
        try:
            await self._ready(self._child, within)
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        if self._child is not None:
            child, self._child = self._child, None
            group = child.pid  # before it ends: afterwards a kept program has none, and group 0 would be our own
            await child.stop(within=15.0)
            # Its worker can sit out the end of its master in a call to a BMC. They are one process group, theirs alone.
            if group > 1:
                with suppress(ProcessLookupError):
                    os.killpg(group, signal.SIGKILL)

    async def _write_files(self) -> None:
        config = self._config
        for directory in config.directories:
            directory.mkdir(parents=True, exist_ok=True)
        config.state.chmod(0o700)
        hashed = await self._processes.run([self._venv / "bin/python", "-c", _BCRYPT], input=config.password.encode())
        _write_private(config.htpasswd, f"{config.username}:{hashed.stdout.strip()}\n")
        _write_private(config.conf, config.render())
        config.grub_template.write_text(GRUB_TEMPLATE)
        if config.discover is not Discover.OFF:
            (config.http_root / f"{DISCOVER}.ipxe").write_text(config.discover_script)
            for ending, path in (("kernel", config.kernel), ("initramfs", config.ramdisk)):
                link = config.http_root / f"{DISCOVER}.{ending}"
                link.unlink(missing_ok=True)
                link.symlink_to(path)

    async def _ensure_schema(self) -> None:
        """The database as this Ironic wants it; `schema` says which one it was made for."""
        made_for = self._config.state / "schema"
        if not made_for.exists() or self.forgetful or _is_damaged(self._config.database):  # or never started
            for remains in self._config.state.glob(f"{self._config.database.name}*"):
                remains.unlink()  # the journal of another database would be played into this one
            shutil.copyfile(self._venv / EMPTY_DATABASE, self._config.database)
            self._config.database.chmod(0o600)
        elif made_for.read_text() != self._venv.name:
            await self._processes.run(
                [self._venv / "bin/ironic-dbsync", "--config-file", self._config.conf, "upgrade"], env=self._env
            )
        made_for.write_text(self._venv.name)

    async def _ready(self, child: Child, within: float) -> None:
        config = self._config
        started, last = time.monotonic(), "nothing answered"
        async with IronicClient(config.url, config.username, config.password, config.ca) as client:
            while time.monotonic() - started < within:
                if child.code is not None:
                    raise CommandFailed(["ironic", "--config-file", str(config.conf)], child.code, _tail(self._log))
                try:
                    drivers = await client.drivers()
                    if "redfish" in drivers:
                        return
                    last = f"drivers {sorted(drivers)}"
                except IronicUnreachable as error:
                    last = str(error)
                await asyncio.sleep(0.1)
        raise GaveUp("Ironic", within, last, hint=f"its log is {self._log}")


def _is_database(path: Path) -> bool:
    """Ironic's, that is. One that is busy, or was left in the middle of a write, counts."""
    try:
        with path.open("rb") as file:
            if file.read(len(_MAGIC)) != _MAGIC:
                return False
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as database:
            return bool(database.execute("SELECT 1 FROM sqlite_master WHERE name = 'nodes'").fetchone())
    except sqlite3.OperationalError:
        return True
    except (sqlite3.DatabaseError, FileNotFoundError):
        return False


def _is_damaged(path: Path) -> bool:
    """Ironic does not wait until what it writes is on the disk: the power may have gone meanwhile. Looking also undoes what was
    left half done, where the journal says how. A database that somebody has open is in use, and not damaged."""
    try:
        with closing(sqlite3.connect(path, timeout=1.0)) as database:
            return bool(database.execute("PRAGMA quick_check(1)").fetchone() != ("ok",))
    except sqlite3.OperationalError:
        return False
    except sqlite3.DatabaseError:
        return True


def _write_private(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)


def _tail(log: Path, size: int = 4000) -> str:
    if not log.exists():
        return ""
    return log.read_bytes()[-size:].decode(errors="replace")
