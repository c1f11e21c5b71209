"""What a visitor does once it has become its caller, which needs no privilege; `test_visitor.py` has the way there, as root."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from rackless.codec import BadValue
from rackless.holder import visitor
from rackless.protocol import entrance
from rackless.protocol.entrance import ConnectInside, Ended, RecordInside, RunInside, receive, send


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Of a connection: the caller's end, and the visitor's."""
    caller, ours = socket.socketpair()
    with caller, ours:
        for end in (caller, ours):
            end.settimeout(60)
        yield caller, ours


def program(*argv: str, folder: str = "/") -> RunInside:
    return RunInside(argv, {"PATH": os.environ["PATH"], "MY_WORD": "kept"}, folder, 0o077, False)


class Running:
    """A program that was asked for, with what it says."""

    def __init__(self, ends: tuple[socket.socket, socket.socket], asked: RunInside) -> None:
        self.caller, ours = ends
        read, write = os.pipe()
        with open("/dev/null") as nothing:
            send(self.caller, asked, [nothing.fileno(), write, write])
        os.close(write)
        self.output = os.fdopen(read)
        self._ours = ours

    def end(self) -> Ended:
        ended, files = visitor.serve(entrance.RUN, self._ours, [])
        assert files == []
        return ended


def test_a_program_has_its_callers_files_environment_folder_and_umask(
    ends: tuple[socket.socket, socket.socket], tmp_path: Path
) -> None:
    running = Running(ends, program("sh", "-c", "echo $MY_WORD $PWD $(umask); exit 3", folder=str(tmp_path)))
    assert running.end() == Ended(code=3)
    with running.output as said:
        assert said.read().split() == ["kept", str(tmp_path), "0077"]


def test_a_folder_that_is_not_inside_is_the_root(ends: tuple[socket.socket, socket.socket]) -> None:
    running = Running(ends, program("pwd", folder="/no/such/folder"))
    assert running.end() == Ended(code=0)
    with running.output as said:
        assert said.read() == "/\n"


@pytest.mark.parametrize(("name", "code"), [("no-such-program", visitor.NOT_FOUND), ("/etc/hostname", visitor.NOT_RUN)])
def test_a_program_that_cannot_be_run_ends_as_a_shell_says_it(
    ends: tuple[socket.socket, socket.socket], name: str, code: int
) -> None:
    running = Running(ends, program(name))
    ended = running.end()
    running.output.close()
    assert ended.code == code and ended.problem.startswith(f"{name}: ")


def test_a_signal_of_the_caller_is_the_programs_and_others_are_not_passed_on(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    running = Running(ends, program("sh", "-c", "trap 'exit 7' TERM; echo up; while :; do sleep 0.02; done"))

    def signals() -> None:
        assert running.output.readline() == "up\n"
        running.caller.sendall(bytes([signal.SIGKILL, signal.SIGTERM]))

    sender = threading.Thread(target=signals)
    sender.start()
    assert running.end() == Ended(code=7)
    sender.join()
    running.output.close()


@pytest.mark.parametrize(("trap", "code"), [("exit 5", 5), ("", 128 + signal.SIGKILL)])
def test_a_caller_who_goes_away_hangs_up_on_the_program(
    ends: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch, trap: str, code: int
) -> None:
    monkeypatch.setattr(visitor, "_HUNG_UP_WITHIN", 60.0 if trap else 0.0)
    running = Running(ends, program("sh", "-c", f"trap '{trap}' HUP; echo up; while :; do sleep 0.02; done"))

    def leave() -> None:
        assert running.output.readline() == "up\n"
        running.caller.close()

    leaving = threading.Thread(target=leave)
    leaving.start()
    assert running.end() == Ended(code=code)
    leaving.join()
    running.output.close()


def test_a_connection_is_made_and_handed_over(ends: tuple[socket.socket, socket.socket]) -> None:
    caller, ours = ends
    with socket.create_server(("127.0.0.1", 0)) as server:
        send(caller, ConnectInside("127.0.0.1", server.getsockname()[1]))
        ended, (file,) = visitor.serve(entrance.CONNECT, ours, [])
        assert ended == Ended()
        peer, _ = server.accept()
        with peer, socket.socket(fileno=file) as made:
            made.sendall(b"from inside")
            assert peer.recv(64) == b"from inside"


@pytest.mark.parametrize(
    ("purpose", "asked"),
    [
        (entrance.RUN, program("true")),
        (entrance.RECORD, RecordInside(("br0",), (), 1.0)),
        (b"?", ConnectInside("127.0.0.1", 1)),
    ],
    ids=["a program without files", "packets without a file", "something else"],
)
def test_what_is_incomplete_or_unknown_is_refused(
    ends: tuple[socket.socket, socket.socket], purpose: bytes, asked: RunInside | RecordInside | ConnectInside
) -> None:
    caller, ours = ends
    send(caller, asked)
    with pytest.raises(BadValue):
        visitor.serve(purpose, ours, [])


def test_what_is_wrong_is_told_at_the_connection(ends: tuple[socket.socket, socket.socket]) -> None:
    caller, ours = ends
    visitor._tell(ours, "no such bridge")
    assert receive(caller, Ended) == (Ended(problem="no such bridge"), [])
