"""The BMCs beside sushy-tools: the same domains of one private libvirtd, the same client, the same run.

libvirtd runs in a network and mount namespace of its own, with libvirt's pretend driver (no QEMU is started); only the insertion
of an image is measured with defined QEMU domains, because sushy-tools needs a storage pool for it. sushy-tools comes from
PyPI into an environment of its own. Both speak plain HTTP; ours checks a password on every request, sushy-tools none.
"""

from __future__ import annotations

import asyncio
import base64
import http.server
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rackless.drivers.libvirt.binding import libvirt

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.real.private_libvirtd import PrivateLibvirtd, private_libvirtd

SIZES = (1, 10, 100, 1000)
CLIENTS = 8
SECONDS = 1.0
ROUNDS = 3
ISO_BYTES = 64 << 20
SAMPLE = 20
"""So many systems are asked for: at its first GET of each, sushy-tools rewrites the domain."""
PEER = Path.home() / ".cache/rackless-tests/sushy-tools"
AUTH = "Basic " + base64.b64encode(b"admin:bench").decode()


def _await(ask: Any, seconds: float, every: float = 0.005) -> Any:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        try:
            if (found := ask()) is not None:
                return found
        except OSError:
            pass
        time.sleep(every)
    raise RuntimeError("it did not come")


def _domain(number: int, kind: str) -> str:
    name = f"bench-{number:04}"
    id = uuid.uuid5(uuid.NAMESPACE_DNS, name)
    machine = " machine='q35'" if kind == "qemu" else ""
    return (
        f"<domain type='{kind}'><name>{name}</name><uuid>{id}</uuid><memory unit='MiB'>64</memory><vcpu>2</vcpu>"
        f"<os><type arch='x86_64'{machine}>hvm</type><boot dev='hd'/></os><devices>"
        "<disk type='file' device='disk'><source file='/dev/null'/><target dev='vda' bus='virtio'/></disk>"
        f"<interface type='user'><mac address='02:00:00:00:{number >> 8:02x}:{number & 255:02x}'/></interface>"
        "</devices></domain>"
    )


def _define(connection: Any, count: int, kind: str) -> None:
    """Exactly so many domains."""
    wanted = {f"bench-{number:04}" for number in range(count)}
    there = {domain.name(): domain for domain in connection.listAllDomains()}
    for name, domain in there.items():
        if name not in wanted:
            if domain.isActive():
                domain.destroy()
            domain.undefine()
    for number in range(count):
        if f"bench-{number:04}" not in there:
            connection.defineXML(_domain(number, kind))


# the two servers


class Server:
    """One of the two, as a process of its own."""

    def __init__(self, name: str, folder: Path, uri: str, daemon: PrivateLibvirtd) -> None:
        self.name, self.daemon = name, daemon
        folder.mkdir(parents=True)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        if name == "rackless":
            (folder / "password").write_text("bench")
            argv = [sys.executable, "-m", "rackless", "bmc", "serve", "--uri", uri, "--redfish-port", str(self.port),
                    "--http", "--password-file", str(folder / "password"), "--state", str(folder / "state"),
                    "--max-starting", "100000"]  # fmt: skip
        else:
            config = folder / "sushy.conf"
            config.write_text(
                f"SUSHY_EMULATOR_LISTEN_IP = '127.0.0.1'\nSUSHY_EMULATOR_LISTEN_PORT = {self.port}\n"
                f"SUSHY_EMULATOR_LIBVIRT_URI = {uri!r}\nSUSHY_EMULATOR_STATE_DIR = {str(folder)!r}\n"
            )
            argv = [str(PEER / "bin/sushy-emulator"), "--config", str(config)]
        self._log = folder / "log"
        began = time.perf_counter()
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(argv, stdout=log, stderr=log)
        _await(lambda: self.get("/redfish/v1/"), 60)
        self.start_seconds = time.perf_counter() - began
        self.start_cpu = _cpu(self.process.pid)  # start-up as it would be on a machine that is idle

    def get(self, path: str) -> Any:
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", headers={"Authorization": AUTH})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())

    def post(self, path: str, body: Any) -> None:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", json.dumps(body).encode(),
            {"Authorization": AUTH, "Content-Type": "application/json"},
        )  # fmt: skip
        with urllib.request.urlopen(request, timeout=300):
            pass

    def cpu(self) -> tuple[float, float]:
        """Processor seconds so far: its own, libvirtd's."""
        return _cpu(self.process.pid), _cpu(self.daemon.process.pid)

    def memory_mb(self) -> float:
        return int(Path(f"/proc/{self.process.pid}/status").read_text().split("VmRSS:")[1].split()[0]) / 1024

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def stop(self) -> int:
        """How many connections libvirtd has less without it."""
        before = self._settled_descriptors()
        self.process.terminate()
        self.process.wait()
        return before - self._settled_descriptors()

    def _settled_descriptors(self) -> int:
        """When the connections of who was there before are gone."""
        found = -1
        while found != (found := self._libvirt_descriptors()):
            time.sleep(0.5)
        return found

    def _libvirt_descriptors(self) -> int:
        folder = Path(f"/proc/{self.daemon.process.pid}/fd")
        return sum(1 for one in folder.iterdir() if os.path.lexists(one) and "socket:" in _link(one))


def _link(path: Path) -> str:
    try:
        return os.readlink(path)
    except FileNotFoundError:
        return ""


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# the client


class Load:
    """Requests by several clients for some seconds: how many, and how long each took."""

    def __init__(self, server: Server, requests: list[tuple[str, str, bytes]]) -> None:
        self._server, self._requests = server, requests
        self._next = 0
        self.times: list[float] = []
        self.refused = 0

    def run(self, seconds: float = SECONDS) -> dict[str, float]:
        own, other = self._server.cpu()
        began = time.perf_counter()
        asyncio.run(self._run(began + seconds))
        spent = time.perf_counter() - began
        own_after, other_after = self._server.cpu()
        count = len(self.times)
        ordered = sorted(self.times)
        return {
            "per_s": count / spent,
            "p50_ms": statistics.median(ordered) * 1000,
            "p99_ms": ordered[min(count - 1, int(count * 0.99))] * 1000,
            "cpu_ms": (own_after - own) * 1000 / count,
            "libvirtd_cpu_ms": (other_after - other) * 1000 / count,
            "refused": self.refused,
        }

    async def _run(self, end: float) -> None:
        await asyncio.gather(*(self._client(end) for _ in range(CLIENTS)))

    async def _client(self, end: float) -> None:
        loop = asyncio.get_running_loop()
        while time.perf_counter() < end:
            line = _Line(self, end, time.perf_counter())
            await loop.create_connection(lambda line=line: line, "127.0.0.1", self._server.port)  # type: ignore[misc]
            await line.over

    def next(self) -> bytes:
        method, path, body = self._requests[self._next % len(self._requests)]
        self._next += 1
        head = f"{method} {path} HTTP/1.1\r\nHost: bench\r\nAuthorization: {AUTH}\r\n"
        return f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body

    def answered(self, code: int, seconds: float) -> None:
        self.times.append(seconds)
        self.refused += code >= 400


class _Line(asyncio.Protocol):
    """One connection: a request, its answer, the next. It does as little as it can, for it shares the computer with the server."""

    def __init__(self, load: Load, end: float, began: float) -> None:
        self._load, self._end, self._began = load, end, began
        self._came = b""
        self._wanted = 0
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(self._load.next())

    def data_received(self, data: bytes) -> None:
        self._came += data
        if not self._wanted:
            at = self._came.find(b"\r\n\r\n")
            if at < 0:
                return
            head = self._came[:at].lower()
            length = head.partition(b"content-length:")[2].split(b"\r", 1)[0]
            self._wanted = at + 4 + int(length or 0)
            self._kept = not head.startswith(b"http/1.0") and b"connection: close" not in head
        if len(self._came) >= self._wanted:
            now = time.perf_counter()
            self._load.answered(int(self._came[9:12]), now - self._began)
            self._came, self._wanted, self._began = b"", 0, now
            if self._kept and now < self._end:
                self._transport.write(self._load.next())
            else:
                self._transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.over.done():
            self.over.set_result(None)


# what is measured


def _measure(servers: list[Server], size: int) -> dict[str, Any]:
    """Both at the same domains, in turns; who is not asked is held still. The best round of each counts: it had the CPUs most to
    itself."""
    found: dict[str, Any] = {}
    samples = {server.name: _sample(server, size) for server in servers}
    for server in servers:
        found[server.name] = {"start_s": server.start_seconds, "start_cpu_s": server.start_cpu}
    for _ in range(ROUNDS):
        for server in servers:
            others = [other for other in servers if other is not server]
            with _still(others):
                for what, requests in _requests(samples[server.name], size).items():
                    one = Load(server, requests).run()
                    best = found[server.name].get(what)
                    found[server.name][what] = _better(best, one)
    for server in servers:
        found[server.name] |= {
            "memory_mb": server.memory_mb(),
            "descriptors": server.descriptors(),
        }
    for server in servers:
        found[server.name]["libvirt_connections"] = server.stop()
    return found


def _better(best: dict[str, float] | None, one: dict[str, float]) -> dict[str, float]:
    """The faster round, with the least processor time of both: what else the computer does only adds to that."""
    if best is None:
        return one
    faster = one if one["per_s"] > best["per_s"] else best
    least = {name: min(one[name], best[name]) for name in ("cpu_ms", "libvirtd_cpu_ms")}
    return {**faster, **least, "refused": one["refused"] + best["refused"]}


def _sample(server: Server, size: int) -> list[str]:
    members = [member["@odata.id"] for member in server.get("/redfish/v1/Systems")["Members"]]
    assert len(members) == size, (len(members), size)
    sample = members[:: max(1, size // SAMPLE)]
    for member in sample:
        server.get(member)
    return sample


def _requests(sample: list[str], size: int) -> dict[str, list[tuple[str, str, bytes]]]:
    found = {
        "list": [("GET", "/redfish/v1/Systems", b"")],
        "get": [("GET", member, b"") for member in sample],
    }
    if size == 100:
        bodies = [json.dumps({"ResetType": kind}).encode() for kind in ("On", "ForceOff")]
        found["reset"] = [
            ("POST", f"{member}/Actions/ComputerSystem.Reset", body) for body in bodies for member in sample
        ]
    return found


@contextmanager
def _still(servers: list[Server]) -> Iterator[None]:
    for server in servers:
        server.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        for server in servers:
            server.process.send_signal(signal.SIGCONT)
        time.sleep(0.5)  # they catch up with what happened to the domains meanwhile


@contextmanager
def _image(folder: Path) -> Iterator[str]:
    (folder / "www").mkdir()
    (folder / "www/boot.iso").write_bytes(os.urandom(1 << 20) * (ISO_BYTES >> 20))

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args, directory=str(folder / "www"))

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/boot.iso"
    server.shutdown()


def _insertions(folder: Path, uri: str, daemon: PrivateLibvirtd) -> dict[str, Any]:
    """One image into four servers that are off, one after the other."""
    connection = libvirt().open(uri)
    pool = folder / "pool"
    pool.mkdir()
    target = f"<pool type='dir'><name>default</name><target><path>{pool}</path></target></pool>"
    connection.storagePoolDefineXML(target).create()
    _define(connection, 4, "qemu")
    found: dict[str, Any] = {}
    with _image(folder) as url:
        for name in ("sushy-tools", "rackless"):
            server = Server(name, folder / f"insert-{name}", uri, daemon)
            try:
                own, other = server.cpu()
                times = []
                for member in [member["@odata.id"] for member in server.get("/redfish/v1/Systems")["Members"]]:
                    began = time.perf_counter()
                    server.post(f"{member}/VirtualMedia/Cd/Actions/VirtualMedia.InsertMedia", {"Image": url})
                    times.append(time.perf_counter() - began)
                after = server.cpu()
                kept = [path for path in folder.rglob("*") if path.is_file() and path.stat().st_size == ISO_BYTES]
                copies = [path for path in kept if "www" not in path.parts]
                found[name] = {
                    "first_s": times[0],
                    "next_s": statistics.median(times[1:]),
                    "cpu_s": (after[0] - own) + (after[1] - other),
                    "copies": len(copies),
                }
            finally:
                server.stop()
            for path in copies:
                path.unlink()
            _define(connection, 0, "qemu")
            _define(connection, 4, "qemu")
    connection.close()
    return found


def _run() -> dict[str, Any]:
    figures: dict[str, Any] = {"sizes": {}, "clients": CLIENTS, "load": os.getloadavg()[0]}
    with (
        tempfile.TemporaryDirectory(prefix="rackless-bench-") as name,
        private_libvirtd(Path(name, "libvirtd")) as daemon,
    ):
        folder = Path(name)
        uri = daemon.uri("test:///default")
        holder = libvirt().open(uri)  # the pretend driver forgets everything with its last connection
        for size in SIZES:
            _define(holder, size, "test")
            servers: list[Server] = []
            try:
                for peer in ("sushy-tools", "rackless"):
                    servers.append(Server(peer, folder / f"{size}-{peer}", uri, daemon))
                figures["sizes"][size] = _measure(servers, size)
                if size == 1000:
                    figures["floor_cpu_s"] = _floor(uri)
            finally:
                for server in servers:
                    server.stop()
        holder.close()
        figures["insert"] = _insertions(folder, daemon.uri("qemu:///system"), daemon)
    figures["targets"] = _targets(figures)
    return figures


_FLOOR = """
import asyncio, socket, time
import aiohttp.web, libvirt, orjson, rackless.cli.main, rackless.operations.serve_bmcs
async def main():
    connection = libvirt.open({uri!r})
    found = [(domain.XMLDesc(0), domain.info()) for domain in connection.listAllDomains()]
    assert len(found) == 1000
    loop = asyncio.get_running_loop()
    servers = [await loop.create_server(asyncio.Protocol, "127.0.0.1", 0) for _ in found]
asyncio.run(main())
print(time.process_time())
"""


def _floor(uri: str) -> float:
    """Processor seconds of what no start can do without: the imports, a look at each of 1000 domains, 1000 listeners of an empty
    loop. The best of three."""
    argv = [sys.executable, "-c", _FLOOR.format(uri=uri)]
    return min(float(subprocess.run(argv, check=True, text=True, capture_output=True).stdout) for _ in range(ROUNDS))


def _targets(figures: dict[str, Any]) -> dict[str, Any]:
    sizes = figures["sizes"]
    ours = {size: sizes[size]["rackless"] for size in SIZES}
    peer = sizes[100]["sushy-tools"]
    found: dict[str, Any] = {}

    def say(name: str, measured: float, target: float, ok: bool) -> None:
        found[name] = {"measured": round(measured, 2), "target": target, "ok": ok}

    cpu = {name: sizes[100][name]["get"]["cpu_ms"] + sizes[100][name]["get"]["libvirtd_cpu_ms"] for name in sizes[100]}
    ratio = cpu["sushy-tools"] / cpu["rackless"]
    say("processor time of GET System at 100, sushy-tools' over ours", ratio, 20, ratio >= 20)
    resets = ours[100]["reset"]["per_s"] / peer["reset"]["per_s"]
    say("Reset at 100, times sushy-tools", resets, 1, resets >= 1)
    times = ours[100]["get"]["per_s"] / peer["get"]["per_s"]
    say("GET System at 100, times sushy-tools", times, 20, times >= 20)
    flat = ours[1000]["get"]["cpu_ms"] / ours[1]["get"]["cpu_ms"]
    say("CPU of GET System, 1000 over 1", flat, 1.3, flat <= 1.3)
    memory = ours[1000]["memory_mb"]
    say("memory of 1000 BMCs, MB", memory, 120, memory <= 120)
    each = (memory - ours[1]["memory_mb"]) * 1024 / 999
    say("memory of each further BMC, kB", each, 30, each <= 30)
    start = ours[1000]["start_cpu_s"] / figures["floor_cpu_s"]
    say("processor time of the start of 1000 BMCs, times the floor's", start, 3, start <= 3)
    connections = ours[1000]["libvirt_connections"] - ours[1]["libvirt_connections"]
    say("more libvirt connections for 1000 than for 1", connections, 0, connections <= 0)
    return found


def _show(figures: dict[str, Any]) -> None:
    print(f"{CLIENTS} clients, load {figures['load']:.1f}; times in ms, CPU is the server's + libvirtd's per request\n")
    head = (
        "N",
        "server",
        "start s",
        "CPU s",
        "System/s",
        "p50",
        "p99",
        "CPU",
        "Systems/s",
        "p50",
        "p99",
        "MB",
        "fds",
        "conns",
    )
    rows = [head]
    for size, peers in figures["sizes"].items():
        for peer, one in peers.items():
            get, many = one["get"], one["list"]
            rows.append((
                str(size), peer, f"{one['start_s']:.2f}", f"{one['start_cpu_s']:.2f}", f"{get['per_s']:.0f}",
                f"{get['p50_ms']:.2f}",
                f"{get['p99_ms']:.2f}", f"{get['cpu_ms']:.2f}+{get['libvirtd_cpu_ms']:.2f}", f"{many['per_s']:.0f}",
                f"{many['p50_ms']:.2f}", f"{many['p99_ms']:.2f}", f"{one['memory_mb']:.0f}",
                str(one["descriptors"]), str(one["libvirt_connections"]),
            ))  # fmt: skip
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    for row in rows:
        print("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)))
    print()
    for peer in ("sushy-tools", "rackless"):
        reset, insert = figures["sizes"][100][peer]["reset"], figures["insert"][peer]
        print(
            f"{peer:>11}: Reset {reset['per_s']:.0f}/s, p50 {reset['p50_ms']:.1f}, p99 {reset['p99_ms']:.1f}, "
            f"refused {reset['refused']}; 64 MiB image: first {insert['first_s']:.2f} s, next {insert['next_s']:.2f} s, "
            f"CPU {insert['cpu_s']:.2f} s, copies kept for 4 servers: {insert['copies']}"
        )
    print()
    for name, one in figures["targets"].items():
        print(f"{'ok  ' if one['ok'] else 'MISS'}  {name}: {one['measured']} (target {one['target']})")


def _ensure_peer() -> None:
    if not (PEER / "bin/sushy-emulator").exists():
        shutil.rmtree(PEER, ignore_errors=True)
        # the distribution's libvirt binding is used by both
        subprocess.run(["/usr/bin/python3", "-m", "venv", "--system-site-packages", str(PEER)], check=True)
        subprocess.run([str(PEER / "bin/pip"), "install", "-q", "sushy-tools"], check=True)


def main() -> None:
    if os.geteuid() != 0:
        sys.exit("a private libvirtd needs root: sudo scripts/bench bmc")
    _ensure_peer()
    figures = _run()
    if "--json" in sys.argv:
        print(json.dumps(figures))
    else:
        _show(figures)


if __name__ == "__main__":
    main()
