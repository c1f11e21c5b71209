"""Clients of a BMC that speak HTTP by hand, so that they can do it badly, and one that does it well and looks at the clock."""

from __future__ import annotations

import base64
import socket
import statistics
import time
from collections.abc import Callable, Iterable

from tests.adversary.bmc_host import IDLE_TURN_SECONDS, Host, Told
from tests.bmc.conftest import ADMIN

SYSTEM = "/redfish/v1/Systems/1"
AUTH = "Basic " + base64.b64encode(f"{ADMIN.username}:{ADMIN.password}".encode()).decode()


def head(method: str, path: str, *, auth: str | None = AUTH, length: int | None = 0, **headers: str) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: bmc"]
    lines += [f"Authorization: {auth}"] if auth else []
    lines += [f"Content-Length: {length}"] if length is not None else []
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def connect(host: Host, number: int = 0, timeout: float = 30.0) -> socket.socket:
    return socket.create_connection((host.addresses[number], host.port), timeout)


def read_answer(line: socket.socket) -> tuple[int, bytes]:
    """Status and body; 0 when the BMC hung up."""
    came = b""
    try:
        while b"\r\n\r\n" not in came:
            if not (some := line.recv(1 << 16)):
                return 0, came
            came += some
        top, _, body = came.partition(b"\r\n\r\n")
        length = int(top.lower().partition(b"content-length:")[2].split(b"\r", 1)[0] or 0)
        while len(body) < length:
            if not (some := line.recv(1 << 20)):
                return 0, body
            body += some
    except ConnectionError:
        return 0, came
    return int(top[9:12]), body


def ask(host: Host, request: bytes, number: int = 0) -> tuple[int, bytes]:
    with connect(host, number) as line:
        try:
            line.sendall(request)
        except ConnectionError:  # answered and closed before all of it was sent
            pass
        return read_answer(line)


class Bystander:
    """Does what clients do: one GET after the other, at another BMC when there is one."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._number = len(host.addresses) - 1

    def looks(self, times: int = 30) -> float:
        """The median of the seconds of one request, connection included."""
        took = []
        for _ in range(times):
            began = time.perf_counter()
            status, _ = ask(self._host, head("GET", SYSTEM), self._number)
            took.append(time.perf_counter() - began)
            assert status == 200
        return statistics.median(took)


def idle_turn(host: Host) -> float:
    """The longest turn while only a bystander asks, the smallest of three times: what the computer is worth today."""
    found = []
    for _ in range(3):
        host.tell()
        Bystander(host).looks(10)
        found.append(host.tell().turn)
    return max(min(found), IDLE_TURN_SECONDS)


class Turn(float):
    """Seconds, which say what else was in them when a test has to tell of them."""

    told: Told

    def __repr__(self) -> str:
        collected, faults = self.told.collecting, self.told.faults
        return f"{self:.4f} (the garbage collector's share was {collected:.4f}, and {faults} pages came anew)"


def turn_of(host: Host, attack: Callable[[], object], most: float) -> Turn:
    """The longest turn of an attack, the smallest of three times where it is more than `most`.

    What a request costs it costs again. What the computer adds to a turn now and then, when it is itself a guest of a busy one, it
    does not: a turn of 6 to 10 ms took 40 ms in one of five runs beside a load of 6 to 9 per core.
    """
    found: list[Turn] = []
    for _ in range(3):
        host.tell()
        attack()
        told = host.tell()
        found.append(Turn(told.turn))
        found[-1].told = told
        if found[-1] < most:
            break
    return min(found)


def closed(lines: Iterable[socket.socket]) -> None:
    for line in lines:
        line.close()
