"""A lab's entrance: who comes in is who they were outside, and can do no more. No lab is needed for that, root is."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rackless.drivers.entrance import LinuxEntrance
from rackless.drivers.process import environment, identity
from rackless.run.paths import LabPaths, Roots

pytestmark = pytest.mark.real

OWNER, STRANGER = 65534, 12345
GROUPS = "4711,4712"
CLIENT = """
import sys
from pathlib import Path
from rackless.cli import entering, failure
from rackless.errors import RacklessError
import click
kind, place, *argv = sys.argv[1:]
try:
    if kind == "told":
        entering.run_told(Path(place), argv, {"MY_WORD": "kept"}, {})
    sys.exit(entering.run(Path(place), argv, {}))
except click.exceptions.Exit as exit:
    sys.exit(exit.exit_code)
except RacklessError as error:
    sys.exit(str(error))
"""
CONNECT = """
import sys
from pathlib import Path
from rackless.protocol.entrance import tcp_inside
with tcp_inside(Path(sys.argv[1]), "127.0.0.1", int(sys.argv[2])) as made:
    made.sendall(b"from inside")
"""


@dataclass
class Door:
    paths: LabPaths
    folder: Path

    def command(self, *script: str, user: int = OWNER) -> list[str]:
        become = ["setpriv", f"--reuid={user}", f"--regid={user}", f"--groups={GROUPS}"]
        return [*become, sys.executable, "-P", "-c", *script]

    def told(self, *argv: str, user: int = OWNER) -> dict[str, Any]:
        done = subprocess.run(
            self.command(CLIENT, "told", str(self.paths.entrance), *argv, user=user),
            capture_output=True, text=True, timeout=60, cwd=self.folder,
        )  # fmt: skip
        return dict(json.loads(done.stdout)) if done.stdout else {"problem": done.stderr, "returncode": done.returncode}


@pytest.fixture
def door() -> Iterator[Door]:
    """Where others than root may pass, which a test's own folder is not."""
    if os.geteuid() != 0:
        pytest.skip("becoming somebody else needs root")
    folder = Path(tempfile.mkdtemp(prefix="rackless-door-", dir="/tmp"))
    folder.chmod(0o755)
    roots = Roots(folder / "state", folder / "run", folder / "cache")
    paths = LabPaths(roots, "lab")
    paths.state.mkdir(parents=True)
    paths.run.mkdir(parents=True)
    paths.owner.write_text(str(OWNER))
    loop = asyncio.new_event_loop()
    opened: list[LinuxEntrance] = []

    async def open_it() -> None:
        argv = [sys.executable, "-P", "-m", "rackless.holder.visitor", "lab"]
        opened.append(LinuxEntrance(paths.entrance, OWNER, argv, environment(roots.as_environment()), 4))

    loop.run_until_complete(open_it())
    serving = threading.Thread(target=loop.run_forever)
    serving.start()
    try:
        yield Door(paths, folder)
    finally:
        loop.call_soon_threadsafe(opened[0].close)
        loop.call_soon_threadsafe(loop.stop)
        serving.join()
        loop.close()
        shutil.rmtree(folder)


def test_a_program_inside_is_its_callers_and_has_no_capability(door: Door) -> None:
    done = door.told("cat", "/proc/self/status")
    found = dict(line.split(":", 1) for line in done["stdout"].splitlines())
    assert {int(found[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {0}
    assert found["NoNewPrivs"].strip() == "1"
    assert found["Uid"].split() == [str(OWNER)] * 4 and found["Gid"].split() == [str(OWNER)] * 4
    assert found["Groups"].split() == GROUPS.split(","), "theirs, and not those of the account"


def test_a_program_that_is_not_there_ends_as_in_a_shell(door: Door) -> None:
    found = door.told("no-such-program")
    assert found["returncode"] in (126, 127) and found["stderr"].startswith("no-such-program: ")
    command = door.command(CLIENT, "run", str(door.paths.entrance), "/dev/null")
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=door.folder)
    assert done.returncode == 126 and done.stderr == "/dev/null: Permission denied\n"


def test_a_program_inside_reads_what_its_caller_can_read(door: Door) -> None:
    secret, open_file, tool = (door.folder / name for name in ("secret", "open", "tool"))
    for file in (secret, open_file):
        file.write_text("words")
    secret.chmod(0o600)
    shutil.copy("/bin/cat", tool)
    tool.chmod(0o4755)
    assert door.told("cat", str(open_file))["stdout"] == "words"
    for program in ("cat", str(tool)):
        refused = door.told(program, str(secret))
        assert refused["returncode"] == 1 and "Permission denied" in refused["stderr"], program
    shell = door.told("sh", "-c", "echo $MY_WORD; pwd; umask; ls /proc/self/fd | wc -l; exit 3")
    umask = os.umask(0o022)
    os.umask(umask)
    assert shell["stdout"].split() == ["kept", str(door.folder), f"{umask:04o}", "4"], (
        "three files, and the listing's own"
    )
    assert shell["returncode"] == 3
    assert door.told("sh", "-c", "kill -9 $$")["returncode"] == 137
    assert "no-such-program" in door.told("no-such-program")["stderr"]


def test_only_the_owner_comes_in_whoever_can_open_the_socket(door: Door) -> None:
    assert door.paths.entrance.stat().st_mode & 0o777 == 0o600
    assert "only root and the lab's owner" in door.told("true", user=STRANGER)["problem"]
    door.paths.entrance.chmod(0o666)
    assert "was closed" in door.told("true", user=STRANGER)["problem"]
    door.paths.owner.unlink()
    assert "was closed" in door.told("true")["problem"], "without an owner, nobody"


def test_a_connection_is_made_inside_and_used_outside(door: Door) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(30)
        command = door.command(CONNECT, str(door.paths.entrance), str(server.getsockname()[1]))
        with subprocess.Popen(command) as client:
            made, _ = server.accept()
            with made:
                assert made.recv(64) == b"from inside"
        assert client.returncode == 0


def test_ssh_takes_over_a_connection_that_was_made_inside(door: Door) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(30)
        passing = [sys.executable, "-P", "-m", "rackless.protocol.pass_connection", str(door.paths.entrance)]
        proxy = shlex.join([*passing, "127.0.0.1", str(server.getsockname()[1])])
        ssh = ["ssh", "-F", "none", f"-oProxyCommand={proxy}", "-oProxyUseFdpass=yes", "core@node"]
        become = ["setpriv", f"--reuid={OWNER}", f"--regid={OWNER}", "--clear-groups"]
        with subprocess.Popen([*become, *ssh], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
            made, _ = server.accept()
            with made:
                made.sendall(b"SSH-2.0-nobody\r\n")
                assert made.recv(64).startswith(b"SSH-2.0-OpenSSH")


def test_a_program_ends_with_its_caller_and_hears_its_signals(door: Door) -> None:
    loop = 'trap "echo told; exit 5" TERM; echo $$; while :; do sleep 0.1; done'
    for end in ("terminate", "kill"):
        command = door.command(CLIENT, "run", str(door.paths.entrance), "sh", "-c", loop)
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as client:
            assert client.stdout is not None
            pid = int(client.stdout.readline())
            getattr(client, end)()
            if end == "terminate":
                assert client.stdout.readline() == "told\n" and client.wait(30) == 5
        deadline = time.monotonic() + 30
        while identity(pid):
            assert time.monotonic() < deadline, "it runs on without its caller"
            time.sleep(0.05)


def test_a_person_has_a_terminal_inside(door: Door) -> None:
    pid, screen = pty.fork()
    if pid == 0:
        script = "tty; test -t 2 && echo shown; read word; echo got $word"
        command = door.command(CLIENT, "run", str(door.paths.entrance), "sh", "-c", script)
        os.execvp(command[0], command)
    seen = b""
    while b"shown" not in seen:
        seen += os.read(screen, 1024)
    os.write(screen, b"this\r")
    try:
        while more := os.read(screen, 1024):
            seen += more
    except OSError:  # what a terminal says when nobody has it any more
        pass
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    os.close(screen)
    assert b"/dev/pts/" in seen and b"got this" in seen


def test_there_is_room_for_so_many_and_no_more(door: Door) -> None:
    sleeping = [
        subprocess.Popen(
            door.command(CLIENT, "run", str(door.paths.entrance), "sh", "-c", "echo here; sleep 60"),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
        )
        for _ in range(4)
    ]  # fmt: skip
    for one in sleeping:
        assert one.stdout is not None and one.stdout.readline() == "here\n"
    assert "was closed" in door.told("true")["problem"]
    for one in sleeping:
        one.kill()
        one.communicate()
    deadline = time.monotonic() + 30
    while door.told("true").get("returncode") != 0:
        assert time.monotonic() < deadline
        time.sleep(0.2)
