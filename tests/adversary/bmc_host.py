"""A fleet of BMCs in a process of its own, which tells how long its loop's turns were.

A turn is measured in processor time of the loop's thread, so that what else runs here is no part of it. Its memory is locked: a
computer that takes the pages of a quiet process back lets it read them again, in a turn of its own. Attackers are in the process
of the test: they share nothing with the BMCs but the loopback.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import json
import resource
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bmc.conftest import ADMIN, OPERATOR, VIEWER, free_port, server

IDLE_TURN_SECONDS = 0.001
"""No turn counts as shorter: below this the clock and the garbage collector are what is measured."""


@dataclass(frozen=True, slots=True)
class Told:
    turn: float
    """The longest turn since the last time, in processor seconds."""
    collecting: float
    """How much of that turn the garbage collector took."""
    faults: int
    """Pages that this turn had to be given."""
    cpu: float
    """Processor seconds of the whole process so far."""
    memory: int
    """Bytes that are resident now."""
    guests: int
    """Connections."""
    notes: list[str]


class Host:
    def __init__(self, process: subprocess.Popen[str], first: dict[str, Any]) -> None:
        self._process = process
        self.addresses: list[str] = first["addresses"]
        self.port: int = first["port"]
        self.ipmi_port: int = first["ipmi_port"]
        self.pid = process.pid

    def tell(self) -> Told:
        """What happened since it was asked the last time."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write("tell\n")
        self._process.stdin.flush()
        return Told(**json.loads(self._process.stdout.readline()))


@contextmanager
def bmc_host(count: int = 1, *, aggregate: bool = False, tls: Path | None = None, **bounds: float) -> Iterator[Host]:
    """`tls` is a folder with cert.pem and key.pem; `bounds` are those of the doors."""
    with tempfile.TemporaryDirectory(prefix="rackless-bmc-host-") as folder:
        wish = {"count": count, "aggregate": aggregate, "folder": folder, "tls": str(tls or ""), "bounds": bounds}
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.adversary.bmc_host", json.dumps(wish)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        try:
            assert process.stdout is not None
            yield Host(process, json.loads(process.stdout.readline()))
        finally:
            process.terminate()
            process.wait(20)
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()


# in the other process


_CURRENT, _FUTURE, _ON_FAULT = 1, 2, 4


def _stay_in_memory() -> None:
    """What is there now is read once and for all; what comes later stays once it was used. Where we may not, it is as it was."""
    lock = ctypes.CDLL(None).mlockall
    lock(_CURRENT)
    lock(_CURRENT | _FUTURE | _ON_FAULT)


class _Turns:
    """The longest turn, and what was in it besides work."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.longest, self.collecting, self.faults = 0.0, 0.0, 0
        self._collected = self._began = 0.0
        gc.callbacks.append(self._collects)
        once = loop._run_once  # type: ignore[attr-defined]

        def run_once() -> None:
            self._collected, faults, began = 0.0, _faults(), time.thread_time()
            once()
            took = time.thread_time() - began
            if took > self.longest:
                self.longest, self.collecting, self.faults = took, self._collected, _faults() - faults

        loop._run_once = run_once  # type: ignore[attr-defined]

    def _collects(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._began = time.thread_time()
        else:
            self._collected += time.thread_time() - self._began


def _faults() -> int:
    return resource.getrusage(resource.RUSAGE_THREAD).ru_minflt


async def _main(wish: dict[str, Any]) -> None:
    from rackless.bmc.fleet import Bmc, Fleet
    from rackless.bmc.ipmi.sites import Ipmi
    from rackless.bmc.redfish.doors import Bounds
    from rackless.cli import words
    from rackless.drivers.fake.hypervisor import FakeHypervisor
    from rackless.events import Bus, Note

    hypervisor, bus, notes = FakeHypervisor(), Bus(), []
    hypervisor.define(server(number) for number in range(wish["count"]))
    bus.subscribe(
        lambda event: (
            notes.append(words.message(event)) if isinstance(event, Note) and event.level == "warning" else None
        )
    )
    context = None
    if wish["tls"]:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(f"{wish['tls']}/cert.pem", f"{wish['tls']}/key.pem")
    port, ipmi_port = free_port(), free_port()
    one = "127.0.0.1" if wish["aggregate"] else None
    addresses = [one] if one else [f"127.77.{n // 250}.{n % 250 + 1}" for n in range(wish["count"])]
    bmcs = [Bmc(f"server-{n}", one or addresses[n]) for n in range(wish["count"])]
    ipmi = Ipmi(port=ipmi_port) if one is None else None
    fleet = Fleet(
        bmcs, hypervisor, [ADMIN, OPERATOR, VIEWER], state=Path(wish["folder"], "state"), media=Path(wish["folder"], "m"),
        bus=bus, tls=context, port=port, aggregate=one, ipmi=ipmi, bounds=Bounds(**wish["bounds"]),
    )  # fmt: skip
    await fleet.start()
    turns = _Turns(asyncio.get_running_loop())
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    _say({"addresses": addresses, "port": port, "ipmi_port": ipmi_port})
    _stay_in_memory()
    gc.freeze()  # as `bmc serve` and labd do; one look through all modules is a turn of 20 to 40 ms
    turns.longest = 0.0
    while await reader.readline():
        usage = resource.getrusage(resource.RUSAGE_SELF)
        memory = int(Path("/proc/self/status").read_text().split("VmRSS:")[1].split()[0]) << 10
        assert fleet._doors is not None
        _say(
            {"turn": turns.longest, "collecting": turns.collecting, "faults": turns.faults,
             "cpu": usage.ru_utime + usage.ru_stime, "memory": memory,
             "guests": fleet._doors.guests, "notes": notes[-5:]}
        )  # fmt: skip
        turns.longest = 0.0
    await fleet.stop()


def _say(value: Any) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(_main(json.loads(sys.argv[1])))
