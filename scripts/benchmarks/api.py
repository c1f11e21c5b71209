"""How fast the embedded API is: writes, reads, lists, watches, memory and start-up, on SQLite and on etcd.

Beside the figures stand those of the same run that limit them: SQLite's own commits, etcd's own puts, and an empty loop,
which is HTTPS that answers everything with the same bytes. Targets are ratios to these, so that they mean the same on a
slow machine. `PEER` is kube-apiserver 1.36 on etcd 3.4 with 5000 BareMetalHosts and 32 clients, measured elsewhere.
"""

from __future__ import annotations

import asyncio
import json as jsonlib
import os
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import orjson
import uvloop
from parts.stores import etcd_puts, sqlite_commits, start_etcd

HOSTS = "/apis/metal3.io/v1alpha1/namespaces/default/baremetalhosts"
OBJECTS, CLIENTS, BIG = 5000, 32, 10_000
PEER = {
    "create": 1114,
    "patch": 816,
    "get_ms": 1.3,
    "list_s": 0.71,
    "watch_p50_ms": 4.0,
    "watch_p99_ms": 13.0,
    "rss_mb": 668,
}


def _host(number: int) -> bytes:
    address = f"redfish-virtualmedia://192.0.{number // 250}.{number % 250}/redfish/v1/Systems/1"
    mac = f"02:00:00:00:{number // 256:02x}:{number % 256:02x}"
    return orjson.dumps(
        {
            "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
            "metadata": {"name": f"host-{number:05}", "labels": {"rack": f"r{number % 40}", "role": "worker"}},
            "spec": {"online": True, "bootMACAddress": mac, "bootMode": "UEFI",
                     "bmc": {"address": address, "credentialsName": f"host-{number:05}-bmc"},
                     "rootDeviceHints": {"deviceName": "/dev/vda"}},
        }
    )  # fmt: skip


def _status(number: int) -> bytes:
    nics = [{"name": f"enp{n}s0", "mac": f"02:00:00:0{n}:{number // 256:02x}:{number % 256:02x}", "ip": f"192.0.2.{n}",
             "model": "0x1af4 0x0001", "speedGbps": 10, "vlanId": 0, "pxe": n == 1} for n in range(1, 5)]  # fmt: skip
    disks = [{"name": f"/dev/vd{c}", "rotational": False, "sizeBytes": 137438953472, "serialNumber": f"S{number}{c}",
              "model": "virtio", "type": "SSD"} for c in "abcd"]  # fmt: skip
    hardware = {"cpu": {"arch": "x86_64", "count": 8, "model": "QEMU", "flags": ["sse", "sse2", "vmx"]}, "nics": nics,
                "ramMebibytes": 16384, "storage": disks, "hostname": f"host-{number:05}",
                "systemVendor": {"manufacturer": "QEMU", "productName": "Standard PC",
                "serialNumber": "x"}}  # fmt: skip
    status = {"errorMessage": "", "operationalStatus": "OK", "poweredOn": True, "hardware": hardware,
              "provisioning": {"state": "available", "ID": f"{number:08}"}}  # fmt: skip
    return orjson.dumps({"status": status})


class Connection:
    """One kept-alive connection that says just enough HTTP, so that the client is not what is measured."""

    def __init__(self, port: int, context: ssl.SSLContext) -> None:
        self._port, self._context = port, context

    async def open(self) -> Connection:
        self.reader, self.writer = await asyncio.open_connection(
            "127.0.0.1", self._port, ssl=self._context, limit=2**24
        )
        return self

    async def send(self, method: str, path: str, body: bytes = b"", media: str = "application/json") -> None:
        head = f"{method} {path} HTTP/1.1\r\nHost: api\r\nContent-Type: {media}\r\nContent-Length: {len(body)}\r\n\r\n"
        self.writer.write(head.encode() + body)

    async def head(self) -> tuple[int, bytes]:
        head = await self.reader.readuntil(b"\r\n\r\n")
        return int(head[9:12]), head.lower()

    async def call(self, method: str, path: str, body: bytes = b"", media: str = "application/json") -> bytes:
        await self.send(method, path, body, media)
        code, head = await self.head()
        if b"chunked" in head:
            parts = []
            while size := int(await self.reader.readline(), 16):
                parts.append(await self.reader.readexactly(size))
                await self.reader.readexactly(2)
            await self.reader.readexactly(2)
            answer = b"".join(parts)
        else:
            at = head.index(b"content-length:") + 15
            answer = await self.reader.readexactly(int(head[at : head.index(b"\r", at)]))
        if code >= 400:
            raise RuntimeError(f"{method} {path}: {code} {answer[:300]!r}")
        return answer

    def close(self) -> None:
        self.writer.close()


PATIENCE_SECONDS = 600.0
"""For an API that has not ended: on a busy computer it takes its time to start, and that is a figure, not a failure."""


class Server:
    """The API as a process of its own."""

    port: int

    def __init__(self, directory: Path, store: str) -> None:
        self.directory, self.store = directory, store

    async def start(self) -> float:
        """Seconds from its start to its first answer."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        began = time.perf_counter()
        self.process = subprocess.Popen(  # noqa: ASYNC220 - it must be counted from its very start
            [sys.executable, "-m", "rackless", "api", "serve", "--store", self.store, "--port", str(self.port),
             "--kubeconfig-out", str(self.directory / "kubeconfig")],
            stdout=subprocess.DEVNULL, stderr=(self.directory / "log").open("ab"),
        )  # fmt: skip
        while self.process.poll() is None and time.perf_counter() - began < PATIENCE_SECONDS:
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=1):
                    pass
                connection = await self.connect()
                await connection.call("GET", "/readyz")
                connection.close()
                return time.perf_counter() - began
            except OSError:
                await asyncio.sleep(0.005)
        raise RuntimeError((self.directory / "log").read_text())

    async def connect(self) -> Connection:
        pki = self.directory / "pki"
        context = ssl.create_default_context(cafile=str(pki / "ca.crt"))
        context.check_hostname = False
        context.load_cert_chain(pki / "admin.crt", pki / "admin.key")
        return await Connection(self.port, context).open()

    def cpu(self) -> float:
        """Seconds of processor time so far: start-up as it would be on a machine that is idle."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def rss(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) / 1024

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()


async def _spread(server: Server, numbers: range, each: Callable[[Connection, int], Awaitable[Any]]) -> float:
    """Requests per second of CLIENTS clients that share the numbers."""
    connections = [await server.connect() for _ in range(CLIENTS)]
    left = iter(numbers)

    async def work(connection: Connection) -> None:
        for number in left:
            await each(connection, number)

    began = time.perf_counter()
    await asyncio.gather(*map(work, connections))
    rate = len(numbers) / (time.perf_counter() - began)
    for connection in connections:
        connection.close()
    return rate


class EmptyLoop(Server):
    """Something that answers at once, with the certificates of a server before it."""

    async def start(self) -> float:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        pki = self.directory / "pki"
        self.process = subprocess.Popen(  # noqa: ASYNC220 - a process, as the API is one
            [sys.executable, str(Path(__file__).parent / "parts/empty.py"), str(self.port),
             str(pki / "serving.crt"), str(pki / "serving.key")],
        )  # fmt: skip
        began = time.perf_counter()
        while time.perf_counter() - began < 60:
            try:
                (await self.connect()).close()
                return time.perf_counter() - began
            except OSError:
                await asyncio.sleep(0.02)
        raise RuntimeError("the empty loop does not answer")


async def _limits(directory: Path) -> dict[str, float]:
    """What a request costs when nothing is done for it."""
    loop = EmptyLoop(directory, "")
    await loop.start()
    try:
        figures = {
            "create_per_s": await _spread(loop, range(OBJECTS), _create),
            "patch_per_s": await _spread(loop, range(OBJECTS), _patch),
        }
        gets = await _gets(loop)
        figures["get_p50_ms"], figures["get_p99_ms"] = _p(gets, 50), _p(gets, 99)
        return figures
    finally:
        loop.stop()


def _create(connection: Connection, number: int) -> Awaitable[bytes]:
    return connection.call("POST", HOSTS, _host(number))


def _patch(connection: Connection, number: int) -> Awaitable[bytes]:
    path = f"{HOSTS}/host-{number:05}/status"
    return connection.call("PATCH", path, _status(number), "application/merge-patch+json")


async def _gets(server: Server, count: int = 500) -> list[float]:
    connection = await server.connect()
    times = []
    for number in range(count):
        began = time.perf_counter()
        await connection.call("GET", f"{HOSTS}/host-{number:05}")
        times.append((time.perf_counter() - began) * 1000)
    connection.close()
    return times


async def _list(server: Server) -> float:
    connection = await server.connect()
    times = []
    for _ in range(3):
        began = time.perf_counter()
        answer = await connection.call("GET", HOSTS)
        times.append(time.perf_counter() - began)
    assert len(orjson.loads(answer)["items"]) >= OBJECTS
    connection.close()
    return min(times)


async def _watches(server: Server, watchers: int, events: int = 100) -> list[float]:
    """Milliseconds from sending a patch to its event, at every watcher."""
    sent: dict[str, float] = {}
    times: list[float] = []

    async def watch(connection: Connection) -> None:
        seen = 0
        while seen < events:
            line = await connection.reader.readline()
            at = line.find(b'"bench":"')
            if at >= 0:
                mark = line[at + 9 : line.index(b'"', at + 9)].decode()
                times.append((time.perf_counter() - sent[mark]) * 1000)
                seen += 1

    writer = await server.connect()
    revision = orjson.loads(await writer.call("GET", f"{HOSTS}?limit=1"))["metadata"]["resourceVersion"]
    connections = [await server.connect() for _ in range(watchers)]
    for connection in connections:
        await connection.send("GET", f"{HOSTS}?watch=1&resourceVersion={revision}")
        await connection.head()
    tasks = [asyncio.create_task(watch(connection)) for connection in connections]
    for number in range(events):
        mark = f"{watchers}-{number}"
        sent[mark] = time.perf_counter()
        patch = orjson.dumps({"metadata": {"annotations": {"bench": mark}}})
        await writer.call("PATCH", f"{HOSTS}/host-{number:05}", patch, "application/merge-patch+json")
        await asyncio.sleep(0.02)
    await asyncio.wait_for(asyncio.gather(*tasks), 60)
    for connection in (*connections, writer):
        connection.close()
    return times


def _p(values: list[float], percent: int) -> float:
    return statistics.quantiles(values, n=100)[percent - 1]


async def _measure(directory: Path, store: str) -> dict[str, float]:
    figures: dict[str, float] = {}
    server = Server(directory, store)
    await server.start()
    server.stop()
    figures["start_0_s"] = await server.start()
    figures["start_0_cpu_s"] = server.cpu()
    try:
        figures["rss_0_mb"] = server.rss()
        figures["create_1k_per_s"] = await _spread(server, range(1000), _create)
        await _spread(server, range(1000), _patch)
        figures["rss_1k_mb"] = server.rss()
        server.stop()
        figures["start_1k_s"] = await server.start()
        figures["create_per_s"] = await _spread(server, range(1000, OBJECTS), _create)
        figures["patch_per_s"] = await _spread(server, range(1000, OBJECTS), _patch)
        gets = await _gets(server)
        figures["get_p50_ms"], figures["get_p99_ms"] = _p(gets, 50), _p(gets, 99)
        figures["list_5000_s"] = await _list(server)
        for watchers in (1, 20, 100):
            times = await _watches(server, watchers)
            figures[f"watch_{watchers}_p50_ms"], figures[f"watch_{watchers}_p99_ms"] = _p(times, 50), _p(times, 99)
        await _spread(server, range(OBJECTS, BIG), _create)
        await _spread(server, range(OBJECTS, BIG), _patch)
        figures["rss_10k_mb"] = server.rss()
        server.stop()
        figures["start_10k_s"] = await server.start()
        figures["start_10k_cpu_s"] = server.cpu()
        figures["rss_10k_restarted_mb"] = server.rss()
        return figures
    finally:
        server.stop()


def _targets(figures: dict[str, Any]) -> dict[str, Any]:
    lite, etcd = figures["sqlite"], figures.get("etcd")
    found: dict[str, Any] = {}

    def at_least(name: str, measured: float, target: float) -> None:
        found[name] = {"measured": round(measured, 2), "target": round(target, 2), "ok": measured >= target}

    def at_most(name: str, measured: float, target: float) -> None:
        found[name] = {"measured": round(measured, 2), "target": round(target, 2), "ok": measured <= target}

    empty, commit = figures["empty"], figures["commit"]
    # 780 creates and 571 patches a second were asked where an empty loop answers 44,000 times: twice that is held
    at_least("creates, to an empty loop's answers", lite["create_per_s"] / empty["create_per_s"], 0.035)
    at_least("merge patches, to an empty loop's answers", lite["patch_per_s"] / empty["patch_per_s"], 0.026)
    at_most("get p50, to an empty loop's", lite["get_p50_ms"] / empty["get_p50_ms"], 8)
    at_most("list of 5000, to 5000 gets", 1000 * lite["list_5000_s"] / (5000 * lite["get_p50_ms"]), 0.5)
    for percent, most in ((50, 4), (99, 4)):
        limit = commit[f"p{percent}_ms"] + 20 * empty[f"get_p{percent}_ms"]
        name = f"watch with 20 watchers p{percent}, to a commit and 20 empty answers"
        at_most(name, lite[f"watch_20_p{percent}_ms"] / limit, most)
    at_most("memory at 10k hosts, MB", lite["rss_10k_mb"], 150)
    at_most("processor time to start with 10k hosts, to none", lite["start_10k_cpu_s"] / lite["start_0_cpu_s"], 1.6)
    if etcd:
        at_least("creates on etcd over creates on SQLite", etcd["create_per_s"] / lite["create_per_s"], 0.5)
        at_least("patches on etcd over patches on SQLite", etcd["patch_per_s"] / lite["patch_per_s"], 0.5)
    return found


async def _run() -> dict[str, Any]:
    figures: dict[str, Any] = {"peer": PEER}
    with tempfile.TemporaryDirectory(prefix="rackless-bench-") as folder:
        directory = Path(folder)
        (directory / "sqlite").mkdir()
        row = _host(1) + _status(1)
        own, latencies = sqlite_commits(directory, row)
        figures["sqlite"] = {
            "own_per_s": own,
            **await _measure(directory / "sqlite", f"sqlite:{directory}/sqlite/o.db"),
        }
        figures["empty"] = await _limits(directory / "sqlite")
        figures["commit"] = {"p50_ms": _p(latencies, 50), "p99_ms": _p(latencies, 99)}
        started = start_etcd(directory)
        if started:
            process, url = started
            try:
                (directory / "on-etcd").mkdir()
                own = await etcd_puts(url, row, CLIENTS)
                figures["etcd"] = {"own_per_s": own, **await _measure(directory / "on-etcd", f"etcd:{url}")}
            finally:
                process.terminate()
                process.wait()
    figures["ratios"] = {
        f"creates on {name} over {name}'s own writes": figures[name]["create_per_s"] / figures[name]["own_per_s"]
        for name in ("sqlite", "etcd")
        if name in figures
    }
    figures["machine"] = {
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "commit_p50_ms": _p(latencies, 50),
        "commit_p99_ms": _p(latencies, 99),
    }
    figures["targets"] = _targets(figures)
    return figures


def main(json: bool) -> None:
    figures = uvloop.run(_run())
    if json:
        print(jsonlib.dumps(figures))
        return
    stores = [name for name in ("sqlite", "etcd", "empty") if name in figures]
    print(f"{'':28}" + "".join(f"{name:>12}" for name in stores))
    for row in figures["sqlite"]:
        print(
            f"{row:28}"
            + "".join(f"{figures[name][row]:>12.2f}" if row in figures[name] else f"{'':>12}" for name in stores)
        )
    for name, ratio in figures["ratios"].items():
        print(f"{name:48} {ratio:.2f}")
    machine = figures["machine"]
    print(f"\nmachine: {machine['cores']} cores, load {machine['load']:.1f}; a durable commit of SQLite alone: p50")
    print(f"{machine['commit_p50_ms']:.1f} ms, p99 {machine['commit_p99_ms']:.1f} ms; no event can be sooner\n")
    for name, target in figures["targets"].items():
        print(f"{'ok ' if target['ok'] else 'NOT'}  {name:62} {target['measured']:>10} (wanted {target['target']})")


if __name__ == "__main__":
    main("--json" in sys.argv)
