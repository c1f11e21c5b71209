"""A pretend host: a network and a mount namespace in which even "the host" is thrown away after the test.

Labs made in it have no way to the outside; what they need from it (packages, images, Ironic's environment) is in the
cache, which `rackless prepare` fills beforehand.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rackless.drivers import namespaces
from rackless.drivers.process import identity
from tests.real import caretaker
from tests.real.spaces import hold

ROOT = Path(__file__).parents[2]


@dataclass
class PretendHost:
    pid: int
    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "RACKLESS_STATE": str(self.folder / "state"),
            "RACKLESS_RUN": str(self.folder / "run"),
            "COLUMNS": "120",
        }

    def enter(self, *argv: str) -> list[str]:
        return ["nsenter", "-t", str(self.pid), "-m", "-n", f"--wd={self.folder}", "--", *argv]

    def run(self, *argv: str, check: bool = True, timeout: float = 900) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            self.enter(*argv),
            cwd=self.folder, env=self.environment, timeout=timeout, capture_output=True, text=True,
        )  # fmt: skip
        if check and done.returncode != 0:
            pytest.fail(f"{' '.join(argv)} exited with {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done

    def rackless(self, *arguments: str, check: bool = True, timeout: float = 900) -> subprocess.CompletedProcess[str]:
        return self.run(sys.executable, "-P", "-m", "rackless", *arguments, check=check, timeout=timeout)

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.rackless("status", "--json").stdout)
        return found

    def pin(self, lab: str = "lab") -> Path:
        """The lab's network namespace, as seen from outside the pretend host."""
        return Path(f"/proc/{self.pid}/root{self.folder}/run/{lab}/net")

    def seen(self, path: Path) -> Path:
        """A path of the pretend host, as seen from outside it."""
        return Path(f"/proc/{self.pid}/root{path}")

    def inhabitants(self, lab: str = "lab") -> list[tuple[int, str]]:
        """Processes of the lab, as (pid, command line)."""
        found = self.run("stat", "-L", "-c", "%i", str(self.folder / "run" / lab / "net"), check=False)
        wanted = found.stdout.strip()
        living = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and (identity := namespaces.network_id(entry / "ns/net")) is not None:
                if str(identity[1]) == wanted:
                    with suppress(OSError):  # it ended meanwhile
                        command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                        living.append((int(entry.name), command))
        return living

    def one(self, what: str, within: float = 60) -> int:
        """The one process of the lab with this in its command line; for a moment, what it starts looks like itself."""
        deadline = time.monotonic() + within
        while len(found := [pid for pid, command in self.inhabitants() if what in command]) != 1:
            assert time.monotonic() < deadline, f"{len(found)} processes are {what}"
            time.sleep(0.1)
        return found[0]

    def snapshot(self) -> dict[str, Any]:
        """What a lab must not change, or must put back."""
        return {
            "links": self.run("ip", "-brief", "link").stdout,
            "addresses": self.run("ip", "-brief", "address").stdout,
            "rules": self.run("ip", "rule").stdout,
            "firewall": self.run("nft", "list", "ruleset").stdout,
            "routes": self.run("ip", "route", "show", "table", "all").stdout,
            "forwarding": self.run("cat", "/proc/sys/net/ipv4/ip_forward").stdout,
            # without the pins of other people's namespaces, which come and go
            "mounts": sorted(
                line.split(" ", 3)[3]
                for line in self.run("cat", "/proc/self/mountinfo").stdout.splitlines()
                if " - nsfs " not in line or str(self.folder) in line
            ),
            "files": {
                place: sorted(str(path.relative_to(place)) for path in Path(place).glob(pattern))
                for place, pattern in (
                    ("/etc", "**/*"), ("/run", "*"), ("/var/lib", "*"), ("/var/log", "*"), ("/var/cache", "*"),
                    (str(self.folder), "**/*"),
                )
            },
            "etc": {name: Path("/etc", name).read_text() for name in ("passwd", "group", "resolv.conf", "hosts")},
        }  # fmt: skip


def kill(*pids: int) -> None:
    """And wait until they are gone; some end by themselves when another does."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 60
    while any(identity(pid) for pid in pids):
        assert time.monotonic() < deadline, "killed, and still there"
        time.sleep(0.01)


def leaked_secrets(state: Path, *more: str) -> list[str]:
    """Secrets of a lab in its logs, or in a file that others than root can read; `more` are those that only a test knows.

    Secrets are the passwords made or kept for the lab, private keys, and what user data says.
    """
    passwords = [path.read_bytes().strip() for path in (state / "secrets").glob("*.password")]
    passwords += [line.strip() for path in (state / "secrets/user-data").glob("*") for line in path.read_bytes().split(b"\n")
                  if len(line.strip()) >= 16]  # fmt: skip
    passwords += [text.encode() for text in more]
    leaks = []
    for folder, _, names in os.walk(state):
        try:
            closed = any(parent.stat().st_mode & 0o001 == 0 for parent in (Path(folder), *Path(folder).parents[:-1])
                         if parent.is_relative_to(state))  # fmt: skip
        except FileNotFoundError:
            continue
        logs = Path(folder).is_relative_to(state / "logs")
        for path in (Path(folder, name) for name in names):
            try:
                if not path.is_file() or not (logs or (not closed and path.stat().st_mode & 0o004)):
                    continue
                content = path.read_bytes()
            except FileNotFoundError:  # files come and go in a lab that runs
                continue
            if b"PRIVATE KEY-----" in content or any(password in content for password in passwords):
                leaks.append(str(path.relative_to(state)))
    return leaks


@contextmanager
def pretend_host(folder: Path) -> Iterator[PretendHost]:
    """Whose labs are ended with it."""
    holder = hold("--net", "--mount", "--propagation", "private", seconds=4 * 3600)
    waiting = caretaker.launch(holder.pid, folder)
    host = PretendHost(holder.pid, folder)
    try:
        host.run("ip", "link", "set", "lo", "up")
        yield host
    finally:
        take_down(host)
        holder.kill()
        holder.wait()
        caretaker.dismiss(waiting)


def take_down(host: PretendHost) -> None:
    for lab in labs_of(host):
        with suppress(subprocess.TimeoutExpired):
            host.rackless("destroy", "--yes", "--name", lab, check=False, timeout=300)
        kill(*(pid for pid, _ in host.inhabitants(lab)))


def labs_of(host: PretendHost) -> list[str]:
    """The labs of which something is left: a ledger, or a folder."""
    state, run = host.seen(host.folder / "state"), host.seen(host.folder / "run")
    ledgers = {path.stem for path in state.glob("*.ledger")}
    return sorted(ledgers | {path.name for folder in (state, run) for path in folder.glob("*") if path.is_dir()})


@pytest.fixture
def host(tmp_path: Path) -> Iterator[PretendHost]:
    if os.geteuid() != 0:
        pytest.skip("namespaces need root")
    with pretend_host(tmp_path) as made:
        yield made


@pytest.fixture
def public(host: PretendHost) -> Iterator[PretendHost]:
    """The same, with its folders where others than root may pass; nobody outside sees them."""
    place = PretendHost(host.pid, Path("/srv"))
    host.run("mount", "-t", "tmpfs", "-o", "mode=755", "public", str(place.folder))
    yield place
    place.rackless("destroy", "--yes", check=False)
