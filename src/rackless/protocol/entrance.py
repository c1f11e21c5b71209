"""What is said at a lab's entrance, the unix socket by which its owner goes inside without being root.

One byte says what for. Then comes one message: its length, JSON, and with it open files of the caller's (SCM_RIGHTS). One
message comes back when it is done, with a file that is handed over for good, where there is one. While a program runs inside,
bytes from the caller are signals for it, and the end of the connection hangs up on it.
"""

from __future__ import annotations

import json
import os
import socket
import struct
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from rackless.codec import BadValue, decode, encode
from rackless.errors import HypervisorError, LabError

RUN, RECORD, CONNECT = b"r", b"p", b"c"
"""The first byte, which says what the caller wants: a program, a server's packets, a TCP connection."""
MOST_BYTES = 4 << 20
"""Bytes of a message, at most; a program's arguments and environment are less on any Linux."""
MOST_FILES = 3
ANSWER_WITHIN = 60.0
"""Seconds for an answer; a program and a capture, which run for as long as they like, are waited for without end."""
_LENGTH = struct.Struct("!I")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RunInside:
    """A program, with the files for its input, output and errors."""

    argv: tuple[str, ...]
    environment: dict[str, str] = field(repr=False)
    folder: str
    umask: int
    terminal: bool
    """Whether its input is a terminal that nobody else has: it becomes the program's own."""


@dataclass(frozen=True, slots=True)
class RecordInside:
    """Packets, with the file to write them to."""

    bridges: tuple[str, ...]
    macs: tuple[str, ...]
    seconds: float | None
    most_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class ConnectInside:
    address: str
    port: int


@dataclass(frozen=True, slots=True)
class Ended:
    """How the request ended; `problem` says why it could not be carried out."""

    code: int = 0
    """The exit code as a shell has it: 128 and more is a signal."""
    packets: int = 0
    problem: str = ""


EntranceMessage = RunInside | RecordInside | ConnectInside | Ended


def send(connection: socket.socket, message: EntranceMessage, files: Sequence[int] = ()) -> None:
    text = json.dumps(encode(message)).encode()
    data = _LENGTH.pack(len(text)) + text
    sent = socket.send_fds(connection, [data], list(files)) if files else 0
    connection.sendall(data[sent:])


def receive(connection: socket.socket, kind: type[T], most_files: int = MOST_FILES) -> tuple[T, list[int]]:
    """Raises BadValue for what is no such message, and EOFError when the other side went away."""
    data, files, _, _ = socket.recv_fds(connection, 1 << 16, most_files)
    for file in files:
        os.set_inheritable(file, False)
    while len(data) < _LENGTH.size or len(data) < _LENGTH.size + _LENGTH.unpack_from(data)[0]:
        if len(data) >= _LENGTH.size and _LENGTH.unpack_from(data)[0] > MOST_BYTES:
            raise BadValue("the message is too long")
        if not (more := connection.recv(1 << 16)):
            raise EOFError("the other side went away")
        data += more
    try:
        return decode(kind, json.loads(data[_LENGTH.size :])), files
    except ValueError as error:
        raise BadValue(str(error)) from error


def knock(entrance: Path, purpose: bytes) -> socket.socket:
    """A connection to a lab's entrance. Raises a RacklessError when there is none, or it is closed to us."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(str(entrance))
        connection.sendall(purpose)
    except PermissionError as error:
        connection.close()
        raise HypervisorError("only root and the lab's owner may enter it", hint="use sudo") from error
    except BrokenPipeError as error:
        connection.close()
        raise _closed("so many came in already, or who is not the lab's owner is not answered") from error
    except OSError as error:
        connection.close()
        raise LabError(
            "the lab has no entrance for others than root",
            why=f"{entrance}: {error.strerror}",
            hint="it is not running, or was started by an earlier version: `sudo rackless up` opens one",
        ) from error
    return connection


def ask(connection: socket.socket, message: EntranceMessage, files: Sequence[int] = ()) -> None:
    """A caller who is not let in learns so from `read_end`."""
    with suppress(ConnectionError):
        send(connection, message, files)


def read_end(connection: socket.socket) -> tuple[Ended, list[int]]:
    """Raises a RacklessError for what could not be done; a program that could not be run has an exit code all the same."""
    try:
        ended, files = receive(connection, Ended)
    except (OSError, EOFError, BadValue) as error:
        raise _closed(
            "who is not the lab's owner is not answered" if isinstance(error, EOFError) else str(error)
        ) from error
    if ended.problem and not ended.code:
        raise LabError(f"that cannot be done inside the lab: {ended.problem}")
    return ended, files


def _closed(why: str) -> LabError:
    return LabError("the lab's entrance was closed", why=why, hint="holder.log among the lab's logs may say more")


def tcp_inside(entrance: Path, address: str, port: int) -> socket.socket:
    """A TCP connection from inside a lab, which is then this process's."""
    with knock(entrance, CONNECT) as connection:
        connection.settimeout(ANSWER_WITHIN)
        ask(connection, ConnectInside(address, port))
        _, files = read_end(connection)
    return socket.socket(fileno=files[0])
