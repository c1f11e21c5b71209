"""The one door to other programs: no shell, a small environment, failures that can be replayed.

What we run to the end is killed when we are cancelled. A program that keeps running gets SIGTERM when this process ends, however
it ends (PR_SET_PDEATHSIG), so none is left without a supervisor.
"""

from __future__ import annotations

import asyncio
import ctypes
import fcntl
import os
import signal
import subprocess
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from rackless.drivers.namespaces import network_id
from rackless.errors import CommandFailed, GaveUp, HypervisorError
from rackless.ports.process import Completed, Held

_KEPT = (
    "HOME", "LANG", "PATH", "TERM", "TMPDIR",
    # how this computer reaches its package registries
    "http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
    "APT_CONFIG",
)  # fmt: skip
_KEPT_PREFIXES = ("PIP_", "DEB")
_LINES_EVERY = 0.1
"""Seconds between two looks at what a program said."""
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k in _KEPT or k.startswith(_KEPT_PREFIXES)}
    kept.setdefault("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
    kept["LC_ALL"] = "C.UTF-8"
    return {**kept, **(extra or {})}


def _die_with_parent(parent: int) -> Callable[[], None]:
    def hook() -> None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it died before we asked
            os._exit(1)

    return hook


def adopt_orphans() -> None:
    """Become the subreaper: descendants whose parents end become our children, and `bury` reaps them."""
    if _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def bury(but: int) -> None:
    """Reap every child that has ended, but for the one that somebody else waits for."""
    with suppress(ChildProcessError):
        while (found := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) and found.si_pid != but:
            os.waitpid(found.si_pid, os.WNOHANG)


def identity(pid: int) -> str:
    """Number and start time: what makes a process that one and no other. Empty when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return "" if fields[0] in "ZX" else f"{pid} {fields[19]}"


def find(pidfile: Path) -> int | None:
    """The process whose identity is written there, while it lives."""
    try:
        text = pidfile.read_text()
        pid = int(text.split()[0])
    except (FileNotFoundError, ValueError, IndexError):
        return None
    return pid if identity(pid) == text else None


async def end(pid: int, within: float = 5.0) -> None:
    """End a process that is not our child: ask, wait, kill. Silent when it is gone."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        for number, patience in ((signal.SIGTERM, within), (signal.SIGKILL, 5.0)):
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, number)
            deadline = asyncio.get_running_loop().time() + patience
            while asyncio.get_running_loop().time() < deadline:
                if not identity(pid):
                    return
                await asyncio.sleep(0.02)
    finally:
        os.close(handle)


class RunningChild:
    def __init__(self, process: asyncio.subprocess.Process, log: Path, begins: int) -> None:
        self._process = process
        self._log = log
        self._begins = begins

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def code(self) -> int | None:
        return self._process.returncode

    async def wait(self) -> int:
        return await self._process.wait()

    async def lines(self) -> AsyncGenerator[str, None]:
        position, rest = self._begins, b""
        while True:
            ended = self._process.returncode is not None  # asked first: what it said last is read all the same
            with self._log.open("rb") as file:
                file.seek(position)
                said = file.read()
            position += len(said)
            *lines, rest = (rest + said).split(b"\n")
            for line in lines:
                yield line.decode(errors="replace")
            if ended:
                if rest:
                    yield rest.decode(errors="replace")
                return
            if not said:
                await asyncio.sleep(_LINES_EVERY)

    async def stop(self, within: float = 10.0) -> int:
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.terminate()
            try:
                async with asyncio.timeout(within):
                    await self._process.wait()
            except TimeoutError:
                with suppress(ProcessLookupError):
                    self._process.kill()
        return await self._process.wait()


class Outliving(subprocess.Popen[bytes]):
    """Not asyncio's: since Python 3.12 that kills its children when its loop is closed."""

    def __del__(self) -> None:
        """It goes on, and nobody waits for it."""


class LocalProcesses:
    """`ports.process.ProcessTable` on this computer, in the namespaces we are in."""

    @property
    def own(self) -> int:
        return os.getpid()

    def identity(self, pid: int) -> str:
        return identity(pid)

    def find(self, pidfile: Path) -> int | None:
        return find(pidfile)

    def command(self, pid: int) -> str:
        with suppress(OSError):
            return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        return ""

    async def end(self, pid: int, within: float = 5.0) -> None:
        await end(pid, within)

    def interrupt(self, pid: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGINT)

    def end_remains(self, leader: int) -> None:
        """Kill what is left of an ended program's process group; a pid that was reused meanwhile is left alone."""
        if identity(leader):
            return
        here = network_id(Path("/proc/self/ns/net"))
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and network_id(entry / "ns" / "net") == here:
                with suppress(ProcessLookupError):
                    if os.getpgid(int(entry.name)) == leader:
                        os.kill(int(entry.name), signal.SIGKILL)

    @contextmanager
    def hold(self, lock: Path) -> Iterator[None]:
        with lock.open("a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                file.seek(0)
                raise Held(file.read().strip()) from error
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            yield

    def adopt_orphans(self) -> None:
        adopt_orphans()

    def bury(self, but: int) -> None:
        bury(but)

    async def run(
        self,
        argv: Sequence[str | Path],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        input: bytes | None = None,
        check: bool = True,
        within: float | None = None,
        stdout: Path | None = None,
    ) -> Completed:
        words = tuple(str(word) for word in argv)
        sink = stdout.open("wb") if stdout else None
        try:
            process = await asyncio.create_subprocess_exec(
                *words,
                cwd=cwd,
                env=environment(env),
                stdin=asyncio.subprocess.PIPE if input is not None else asyncio.subprocess.DEVNULL,
                stdout=sink or asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        except FileNotFoundError as error:
            raise HypervisorError(
                f"the program {words[0]} is not here",
                why=str(error),
                hint="install the package that has it, or run `rackless up` as root, which installs what it needs",
            ) from error
        finally:
            if sink:
                sink.close()
        try:
            async with asyncio.timeout(within):
                out, err = await process.communicate(input)
        except BaseException as error:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
            if isinstance(error, TimeoutError) and within is not None:
                raise GaveUp(f"{words[0]} to finish", within) from error
            raise
        done = Completed(
            words, process.returncode or 0, (out or b"").decode(errors="replace"), err.decode(errors="replace")
        )
        if check and done.code:
            raise CommandFailed(words, done.code, done.stderr.strip() or done.stdout)
        return done

    async def start(
        self,
        argv: Sequence[str | Path],
        *,
        log: Path,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> RunningChild:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as sink:
            begins = sink.tell()
            process = await asyncio.create_subprocess_exec(
                *(str(word) for word in argv),
                cwd=cwd,
                env=environment(env),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                start_new_session=True,
                preexec_fn=_die_with_parent(os.getpid()),
            )
        return RunningChild(process, log, begins)

    async def launch(self, argv: Sequence[str | Path], *, log: Path, env: Mapping[str, str] | None = None) -> Outliving:
        """Start a program that outlives us."""
        log.parent.mkdir(parents=True, exist_ok=True)
        words = [str(word) for word in argv]
        with log.open("ab") as sink:
            return await asyncio.to_thread(
                Outliving,
                words,
                cwd="/",
                env=environment(env),
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                start_new_session=True,
            )
