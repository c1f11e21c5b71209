"""What the stores themselves can do, without us: the limits that stand beside our figures; and a real etcd to try."""

from __future__ import annotations

import asyncio
import base64
import shutil
import socket
import sqlite3
import subprocess
import time
from pathlib import Path

import orjson

from rackless.api.stores.messages import put
from rackless.api.stores.rpc import EtcdConnection
from rackless.api.wire import parts

_PUTS = 4000


def sqlite_commits(directory: Path, row: bytes) -> tuple[float, list[float]]:
    """Durable commits per second of SQLite alone, one after the other, and the milliseconds of each."""
    connection = sqlite3.connect(directory / "plain.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, data BLOB)")
    times = []
    for number in range(2000):
        began = time.perf_counter()
        connection.execute("INSERT INTO t VALUES (?, ?)", (number, row))
        times.append((time.perf_counter() - began) * 1000)
    connection.close()
    return 1000 * len(times) / sum(times), times


async def etcd_puts(url: str, value: bytes, clients: int) -> float:
    """Puts per second of etcd alone with as many clients, the better of the two ways to speak to it."""
    return max(await _gateway_puts(url, value, clients), await _rpc_puts(url, value, clients))


async def _rpc_puts(url: str, value: bytes, clients: int) -> float:
    left, member = iter(range(_PUTS)), EtcdConnection(url)

    async def work() -> None:
        for number in left:
            ((_, message),) = parts(put(b"/bench/%d" % number, value))
            assert isinstance(message, bytes)
            await member.ask("KV/Put", message, 30)

    began = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(clients)))
    member.close()
    return _PUTS / (time.perf_counter() - began)


async def _gateway_puts(url: str, value: bytes, clients: int) -> float:
    port = int(url.rpartition(":")[2])
    body = base64.b64encode(value).decode()
    left = iter(range(_PUTS))

    async def work() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for number in left:
            data = orjson.dumps({"key": base64.b64encode(f"/bench/{number}".encode()).decode(), "value": body})
            writer.write(b"POST /v3/kv/put HTTP/1.1\r\nHost: e\r\nContent-Length: %d\r\n\r\n" % len(data) + data)
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length:")[1].split(b"\r")[0])
            await reader.readexactly(length)
        writer.close()

    began = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(clients)))
    return _PUTS / (time.perf_counter() - began)


def start_etcd(directory: Path) -> tuple[subprocess.Popen[bytes], str] | None:
    cached = Path.home() / ".cache/rackless-tests/etcd-server/usr/bin/etcd"
    program = shutil.which("etcd") or (str(cached) if cached.exists() else None)
    if program is None:
        return None
    ports = []
    for _ in range(2):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            ports.append(probe.getsockname()[1])
    client, peer = (f"http://127.0.0.1:{port}" for port in ports)
    process = subprocess.Popen(
        [program, "--data-dir", str(directory / "etcd"), "--listen-client-urls", client,
        "--advertise-client-urls", client,
         "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}",
         "--log-level", "error"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    for _ in range(200):
        try:
            with socket.create_connection(("127.0.0.1", ports[0]), timeout=1):
                time.sleep(1)
                return process, client
        except OSError:
            time.sleep(0.05)
    process.terminate()
    return None
