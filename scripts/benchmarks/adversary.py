"""What a second client notices of somebody else's requests: its longest wait while each attack runs, against before.

The API runs as a process of its own on SQLite. A second client asks for one object again and again; the attacker is a
third process, so that making the attack does not slow the one that measures. Seconds depend on the computer and what
else it does; the targets are ratios to the same client's waits when nobody attacks.
"""

from __future__ import annotations

import asyncio
import json as jsonlib
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvloop

from api import Connection, Server

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tests.adversary.api_load_attacks import ATTACKS, Request  # noqa: E402

PATH = "/api/v1/namespaces/default"
LONGEST_RATIO = 50.0
"""The longest wait during an attack, in longest waits without one. What this is about took thousands."""
MEMORY_MB = 256.0


async def _send(server: Server, request: Request) -> int:
    """One request of an attack, whatever comes of it."""
    connection = await (_strangers(server) if request.stranger else server.connect())
    headers = "".join(f"{name}: {value}\r\n" for name, value in request.headers.items())
    length = len(request.body)
    head = f"{request.method} {request.path} HTTP/1.1\r\nHost: x\r\nContent-Type: {request.media}\r\n{headers}"
    connection.writer.write(f"{head}Content-Length: {length}\r\nConnection: close\r\n\r\n".encode() + request.body)
    try:
        answer = await connection.reader.read()
        return int(answer.split(b" ", 2)[1])
    except (ConnectionError, IndexError):
        return 0
    finally:
        connection.close()


async def _strangers(server: Server) -> Connection:
    """A connection without a client certificate."""
    context = ssl.create_default_context(cafile=str(server.directory / "pki" / "ca.crt"))
    context.check_hostname = False
    return await Connection(server.port, context).open()


async def attack(directory: str, port: int, name: str, part: str) -> None:
    """The attacker's process."""
    server = Server(Path(directory), "")
    server.port = port
    found = ATTACKS[name]()
    if part == "first":
        for request in found.first:
            await _send(server, request)
    else:
        codes = await asyncio.gather(*(_send(server, request) for request in found.requests))
        print(jsonlib.dumps(codes))


async def _attacker(server: Server, name: str, part: str) -> list[int]:
    words = [sys.executable, __file__, "--attack", str(server.directory), str(server.port), name, part]
    process = await asyncio.create_subprocess_exec(*words, stdout=subprocess.PIPE)
    output, _ = await process.communicate()
    return list(jsonlib.loads(output)) if output.strip() else []


async def _waits(connection: Connection, until: asyncio.Event | None, seconds: float = 2.0) -> list[float]:
    """Milliseconds of each of a client's requests, for so long or until something is over."""
    times, began = [], time.perf_counter()
    while not (until.is_set() if until else time.perf_counter() - began > seconds):
        asked = time.perf_counter()
        await connection.call("GET", PATH)
        times.append((time.perf_counter() - asked) * 1000)
        await asyncio.sleep(0.002)
    return times


async def _one(name: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder), f"sqlite:{folder}/objects.db")
        try:
            await server.start()
            await _attacker(server, name, "first")
            connection, over = await server.connect(), asyncio.Event()
            before = await _waits(connection, None)
            memory, cpu = server.rss(), server.cpu()
            waiting = asyncio.create_task(_waits(connection, over))
            codes = await _attacker(server, name, "attack")
            over.set()
            during = await waiting
            connection.close()
            return {
                "median_before_ms": statistics.median(before), "longest_before_ms": max(before),
                "median_ms": statistics.median(during), "longest_ms": max(during), "codes": sorted(set(codes)),
                "cpu_s": server.cpu() - cpu, "memory_mb": server.rss() - memory,
            }  # fmt: skip
        finally:
            server.stop()


async def _run(tell: Callable[[str, dict[str, Any]], None]) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    for name in ATTACKS:
        figures[name] = await _one(name)
        tell(name, figures[name])
    return figures


def _targets(figures: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, each in figures.items():
        for what, measured, target in (
            ("longest wait in those before", each["longest_ms"] / each["longest_before_ms"], LONGEST_RATIO),
            ("memory, MB", each["memory_mb"], MEMORY_MB),
        ):
            found[f"{name}: {what}"] = {"measured": round(measured, 1), "target": target, "ok": measured <= target}
    return found


def _row(name: str, f: dict[str, Any]) -> None:
    print(
        f"{name:<44}{f['longest_before_ms']:>12.1f}{f['longest_ms']:>12.1f}{f['median_before_ms']:>12.1f}"
        f"{f['median_ms']:>11.1f}{f['cpu_s']:>8.2f}{f['memory_mb']:>7.0f}  {','.join(map(str, f['codes']))}",
        flush=True,
    )


def main(json: bool) -> None:
    if not json:
        print(f"{'a second client, ms':<44}{'longest before':>12}{'while':>10}{'median before':>14}{'while':>9}"
              f"{'CPU s':>8}{'MB':>7}  codes")  # fmt: skip
    figures = uvloop.run(_run((lambda *_: None) if json else _row))
    targets = _targets(figures)
    if json:
        print(jsonlib.dumps({**figures, "targets": targets}))
        return
    missed = [f"{name} ({each['measured']})" for name, each in targets.items() if not each["ok"]]
    print("all targets met" if not missed else f"missed: {'; '.join(missed)}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--attack"]:
        _, _, folder, port, name, part = sys.argv
        uvloop.run(attack(folder, int(port), name, part))
    else:
        main("--json" in sys.argv)
