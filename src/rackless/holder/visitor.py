"""A visitor: one connection of the lab's owner at the entrance socket, served by a process of its own (`rackless exec`, `shell`,
`capture`).

`python -m rackless.holder.visitor LAB`, with the connection as file 3. The holder starts it, so it is root in the lab's
namespaces. It asks the kernel who is at the other end (SO_PEERCRED), reads one byte, and becomes that caller: their user, their
groups, no capabilities, no way to gain any. Only then it reads what the caller wants, takes the files that the caller hands over,
and touches anything by a name that the caller chose.

As root it does nothing with the caller's files, not even to say that something is wrong: a write to some files of the kernel is
judged by who writes. It says so at the connection.
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import signal
import socket
import sys
import termios
from contextlib import suppress
from ipaddress import ip_address
from typing import Any, NoReturn

from rackless.codec import BadValue
from rackless.drivers import privileges
from rackless.holder.owner import owner_of
from rackless.lab.accounts import KVM
from rackless.lab.capture import listener, record
from rackless.protocol import entrance
from rackless.protocol.entrance import ConnectInside, Ended, RecordInside, RunInside, receive, send
from rackless.run.paths import LabPaths, Roots

_CONNECTION = 3
_READ_WITHIN = 10.0
"""Seconds for a caller to say what they want."""
_CONNECT_WITHIN = 20.0
_HUNG_UP_WITHIN = 5.0
"""Seconds for a program to end after its caller went away, before it is killed."""
_MOST_BRIDGES = 8
_PASSED_ON = frozenset(
    {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT}
)
NOT_FOUND, NOT_RUN = 127, 126
"""A shell's exit codes for a program that is not there, and for one that cannot be run."""


def main() -> None:
    os.closerange(
        _CONNECTION + 1, os.sysconf("SC_OPEN_MAX")
    )  # the holder's other environment is not passed on to the caller's program
    with socket.socket(fileno=_CONNECTION) as connection:
        os.set_inheritable(_CONNECTION, False)
        connection.settimeout(_READ_WITHIN)
        paths = LabPaths(Roots.from_environment(), sys.argv[1])
        caller = privileges.peer_of(connection)
        if caller.uid != owner_of(paths):
            sys.exit(f"user {caller.uid} is not the lab's owner, and was not let in")
        try:
            purpose = connection.recv(1)
        except TimeoutError:  # who holds connections open in silence is not to fill the holder's log
            return
        packets = [listener() for _ in range(_MOST_BRIDGES)] if purpose == entrance.RECORD else []
        privileges.hide(KVM)  # the lab opens it to its servers' users, which is no reason to open it to this one
        privileges.become(caller)
        # from here on this process can do what the caller can do, and nothing more
        try:
            send(connection, *serve(purpose, connection, packets))
        except (OSError, EOFError) as error:
            if not isinstance(error, ConnectionError | EOFError):
                _tell(connection, error.strerror or str(error))
        except BadValue as error:
            _tell(connection, str(error))


def serve(purpose: bytes, connection: socket.socket, packets: list[socket.socket]) -> tuple[Ended, list[int]]:
    """Serve one request; returns the answer, and files to hand back."""
    if purpose == entrance.RUN:
        asked, files = receive(connection, RunInside)
        if len(files) != 3 or not asked.argv:
            raise BadValue("a program needs a name, and files for its input, output and errors")
        return _run(asked, files, connection), []
    if purpose == entrance.RECORD:
        wanted, files = receive(connection, RecordInside)
        if len(files) != 1 or not 0 < len(wanted.bridges) <= len(packets):
            raise BadValue("packets need one file to go to, and bridges to come from")
        for one, bridge in zip(packets, wanted.bridges, strict=False):
            one.bind((bridge, 0))
        listening = packets[: len(wanted.bridges)]
        with os.fdopen(files[0], "wb") as output:
            count = record(
                output, listening, wanted.macs, wanted.seconds, until=connection, most_bytes=wanted.most_bytes
            )
        return Ended(packets=count), []
    if purpose == entrance.CONNECT:
        place, _ = receive(connection, ConnectInside)
        made = socket.create_connection((str(ip_address(place.address)), place.port), _CONNECT_WITHIN)
        made.setblocking(True)
        return Ended(), [made.detach()]
    raise BadValue("nobody asks for that here")


def _tell(connection: socket.socket, problem: str) -> None:
    with suppress(OSError):
        send(connection, Ended(problem=problem))


def _run(asked: RunInside, files: list[int], connection: socket.socket) -> Ended:
    """Run a program in a session of its own; pass signals on to it, and hang up on it when its caller goes away."""
    heard, said = os.pipe()
    if (child := os.fork()) == 0:
        _become_program(asked, files, said)
    os.close(said)
    for file in files:
        os.close(file)
    with os.fdopen(heard) as pipe:
        problem = pipe.read()
    if problem:
        os.waitpid(child, 0)
        code, _, text = problem.partition(" ")
        return Ended(code=int(code), problem=text)
    return Ended(code=_attend(child, connection))


def _become_program(asked: RunInside, files: list[int], said: int) -> NoReturn:
    try:
        os.setsid()
        privileges.end_with_parent(signal.SIGHUP)
        if asked.terminal:
            fcntl.ioctl(files[0], termios.TIOCSCTTY, 0)
        for number, file in enumerate(files):  # none of them is 0, 1 or 2: those are the log's
            os.dup2(file, number)
        os.umask(asked.umask & 0o777)
        try:
            os.chdir(asked.folder)
        except OSError:  # one of those that a lab has its own of
            os.chdir("/")
        # signals that Python ignores, or that whoever started the lab ignored (nohup): a shell cannot trap those
        for number in (signal.SIGPIPE, signal.SIGXFSZ, *_PASSED_ON):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.execvpe(asked.argv[0], asked.argv, asked.environment)
    except (OSError, ValueError) as error:
        missing = isinstance(error, OSError) and error.errno == errno.ENOENT
        why = error.strerror if isinstance(error, OSError) else str(error)
        os.write(said, f"{NOT_FOUND if missing else NOT_RUN} {asked.argv[0]}: {why}".encode(errors="replace"))
    finally:
        os._exit(NOT_RUN)


def _attend(child: int, connection: socket.socket) -> int:
    end = os.pidfd_open(child)
    connection.settimeout(None)
    watched: list[Any] = [end, connection]
    while end not in select.select(watched, [], [])[0]:
        if not (passed := connection.recv(64)):
            _hang_up(child, end)
            break
        for number in passed:
            if number in _PASSED_ON:
                os.killpg(child, number)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code if code >= 0 else 128 - code


def _hang_up(child: int, end: int) -> None:
    for number, patience in ((signal.SIGHUP, _HUNG_UP_WITHIN), (signal.SIGKILL, None)):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child, number)
        if select.select([end], [], [], patience)[0]:
            return


if __name__ == "__main__":
    main()
