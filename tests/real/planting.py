"""Faults planted one at a time, and the evidence that the programs themselves write: dnsmasq's log, the firmware's console.

`python -m tests.real.planting FOLDER` records it; `tests/diagnosis/data` is what it wrote, with addresses of a namespace.
dnsmasq and its client live in a network namespace that is made for them and goes with them; servers have no network at all.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rackless.diagnosis.evidence import read_console
from rackless.images.cpio import Archive
from tests.real import bootable

FIRST, SECOND = "02:00:00:00:00:01", "02:00:00:00:00:02"
ADDRESS = "192.0.2.20"
"""What is meant for the second."""
_CONFIGURATION = "port=0\ninterface=served\nbind-dynamic\nuser=root\npid-file=\nlog-facility=-\nno-ping\n"
_WITHIN = 20.0
_BOOT_WITHIN = 180.0
_KEPT = 6000
"""Letters of a console."""
_OVMF = Path("/usr/share/OVMF")
CACHE = Path("/var/cache/rackless")


def _frame(message: int, mac: str, address: str = "") -> bytes:
    """A DHCP message of a client in an Ethernet frame: 1 discovers, 3 requests the address."""
    hardware = bytes.fromhex(mac.replace(":", ""))
    options = bytes((53, 1, message))
    if address:
        options += b"\x32\x04" + socket.inet_aton(address) + b"\x36\x04" + socket.inet_aton("192.0.2.1")
    bootp = b"\x01\x01\x06\x00" + os.urandom(4) + b"\0\0\x80\0" + bytes(16) + hardware + bytes(10 + 192)
    payload = (bootp + b"\x63\x82\x53\x63" + options + b"\xff").ljust(300, b"\0")
    datagram = struct.pack("!HHHH", 68, 67, 8 + len(payload), 0) + payload
    header = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(datagram), 1, 0, 64, 17, 0, bytes(4), b"\xff" * 4)
    total = sum(struct.unpack("!10H", header))
    total = (total >> 16) + (total & 0xFFFF)
    checksum = ~(total + (total >> 16)) & 0xFFFF
    header = header[:10] + struct.pack("!H", checksum) + header[12:]
    return b"\xff" * 6 + hardware + b"\x08\x00" + header + datagram


class _Dnsmasq:
    """One that runs, in the namespace of this process."""

    def __init__(self, folder: Path, configuration: str) -> None:
        self.log, self._hosts = folder / "log", folder / "hosts"
        self._hosts.write_text("")
        file = folder / "dnsmasq.conf"
        leases = f"dhcp-leasefile={folder / 'leases'}\ndhcp-hostsfile={self._hosts}\n"
        file.write_text(_CONFIGURATION + leases + configuration)
        self._process = subprocess.Popen(
            ["dnsmasq", "--keep-in-foreground", f"--conf-file={file}"],
            stdout=self.log.open("wb"),
            stderr=subprocess.STDOUT,
        )
        self._client = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        self._client.bind(("client", 0))
        self.await_line("sockets bound")

    def discover(self, mac: str, answer: str) -> None:
        self._client.send(_frame(1, mac))
        self.await_line(answer)

    def request(self, mac: str, address: str, answer: str = "DHCPACK") -> None:
        self._client.send(_frame(3, mac, address))
        self.await_line(answer)

    def reserve(self, mac: str, address: str) -> None:
        self._hosts.write_text(f"{mac},{address},second\n")
        before = self.log.read_text().count("read ")
        self._process.send_signal(signal.SIGHUP)
        _await(lambda: self.log.read_text().count("read ") > before, "dnsmasq to read its hosts again")

    def await_line(self, words: str) -> None:
        _await(lambda: words in self.log.read_text(), f"dnsmasq to say {words!r}")

    def end(self) -> str:
        self._client.close()
        self._process.terminate()
        self._process.wait()
        return self.log.read_text()


def _await(done: Callable[[], bool], what: str, within: float = _WITHIN) -> None:
    deadline = time.monotonic() + within
    while not done():
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        time.sleep(0.05)


def plant_dhcp(folder: Path) -> None:
    """Call it in a network namespace of its own: `unshare --net`."""
    for argv in (
        ("link", "set", "lo", "up"),
        ("link", "add", "served", "type", "veth", "peer", "name", "client"),
        ("address", "add", "192.0.2.1/24", "dev", "served"),
        ("link", "set", "served", "up"),
        ("link", "set", "client", "up"),
    ):
        subprocess.run(["ip", *argv], check=True)
    with _dnsmasq("dhcp-range=192.0.2.50,192.0.2.50,1h\n", folder / "dnsmasq-pool-empty.log") as server:
        server.discover(FIRST, "DHCPOFFER")
        server.request(FIRST, "192.0.2.50")
        server.discover(SECOND, "no address available")
    with _dnsmasq("dhcp-range=198.51.100.0,static,255.255.255.0,1h\n", folder / "dnsmasq-wrong-network.log") as server:
        server.discover(SECOND, "no address range available")
    with _dnsmasq("dhcp-range=192.0.2.20,192.0.2.30,1h\n", folder / "dnsmasq-leased-to-another.log") as server:
        server.discover(FIRST, "DHCPOFFER")
        server.request(FIRST, ADDRESS)
        server.reserve(SECOND, ADDRESS)
        server.discover(SECOND, "is leased to")
    reserved = f"dhcp-range=192.0.2.20,192.0.2.30,1h\ndhcp-host={SECOND},{ADDRESS}\n"
    with _dnsmasq(reserved, folder / "dnsmasq-reserved.log") as server:  # another card asks for what it knows by heart
        server.request(FIRST, ADDRESS, "address reserved")
    ignored = f"dhcp-range=192.0.2.20,192.0.2.30,1h\ndhcp-host={SECOND},ignore\n"
    with _dnsmasq(ignored, folder / "dnsmasq-ignored.log") as server:
        server.discover(SECOND, "ignored")
    with _dnsmasq(
        f"dhcp-range=192.0.2.0,static,1h\ndhcp-host={SECOND},{ADDRESS}\n", folder / "dnsmasq-well.log"
    ) as server:
        server.discover(SECOND, "DHCPOFFER")
        server.request(SECOND, ADDRESS)


@contextmanager
def _dnsmasq(configuration: str, target: Path) -> Iterator[_Dnsmasq]:
    with tempfile.TemporaryDirectory() as scratch:
        server = _Dnsmasq(Path(scratch), configuration)
        try:
            yield server
        finally:
            target.write_text(server.end().replace(scratch, "/run"))


def plant_firmware(folder: Path) -> None:
    """Servers without a network that are given what they cannot boot, what Secure Boot denies, or what starts no kernel."""
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        bios, uefi = (bootable.iso(scratch, word, uefi=word == "uefi") for word in ("bios", "uefi"))
        _boot(scratch, bios, folder / "console-uefi-bios-image.log", _ovmf(scratch, "OVMF_CODE_4M.fd", "OVMF_VARS_4M.fd"),
              "Shell>")  # fmt: skip
        signed = _ovmf(scratch, "OVMF_CODE_4M.ms.fd", "OVMF_VARS_4M.ms.fd")
        secure = ("-machine", "smm=on", "-global", "driver=cfi.pflash01,property=secure,value=on", *signed)
        _boot(scratch, uefi, folder / "console-secure-boot.log", secure, "No bootable option")
        _boot(scratch, uefi, folder / "console-bios-uefi-image.log", (), "No bootable device")
        _boot(
            scratch,
            uefi,
            folder / "console-no-kernel.log",
            _ovmf(scratch, "OVMF_CODE_4M.fd", "OVMF_VARS_4M.fd"),
            "uefi",
        )


def plant_boot_order(folder: Path) -> None:
    """A CD in the drive, and firmware that starts from the disk all the same."""
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        for word, uefi in (("bios", False), ("uefi", True)):
            cd = bootable.iso(scratch, f"cd-{word}", uefi=uefi)
            disk = bootable.disk(scratch, f"disk-{word}", uefi=uefi)
            target = folder / f"console-boot-order-{word}.log"
            firmware = _ovmf(scratch, "OVMF_CODE_4M.fd", "OVMF_VARS_4M.fd") if uefi else ("-machine", "graphics=off")
            first = ("-drive", f"file={disk},format=raw,if=none,id=first", "-device", "ide-hd,drive=first,bootindex=1")
            _boot(scratch, cd, target, (*firmware, *first), f"disk-{word}")


def plant_memory(folder: Path) -> None:
    """The agent's own system in a server that is too small for it."""
    image = max((CACHE / "images/entries").glob("deploy-*/deploy.kernel"), key=lambda path: path.stat().st_mtime)
    with tempfile.TemporaryDirectory() as name:
        booted = (
            "-kernel",
            str(image),
            "-initrd",
            str(image.with_suffix(".initramfs")),
            "-append",
            "console=ttyS0 panic=0",
        )
        _boot(Path(name), None, folder / "console-memory.log", booted, "devices settled", memory=192)


_FILL = """#!/bin/busybox sh
B=/bin/busybox
$B mount -t proc proc /proc
$B mount -t devtmpfs dev /dev
$B mkdir -p /fill
$B mount -t tmpfs -o size=100% fill /fill
available=$($B awk '/MemAvailable/ {print $2}' /proc/meminfo)
$B dd if=/dev/zero of=/fill/file bs=1k count=$((available - 96 * 1024)) 2>/dev/null
echo meminfo begins
$B cat /proc/meminfo
echo meminfo ends
$B poweroff -f
"""
"""Takes all memory but some, and says what the kernel makes of that."""


def plant_little_memory(folder: Path) -> None:
    """A guest whose memory is used up, by files that cannot leave it."""
    image = max((CACHE / "images/entries").glob("deploy-*/deploy.kernel"), key=lambda path: path.stat().st_mtime)
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        more, whole, console = scratch / "more", scratch / "initramfs", scratch / "console"
        with more.open("wb") as sink:
            archive = Archive(sink)
            archive.add("fill-memory", stat.S_IFREG | 0o755, _FILL.encode())
            archive.finish()
        system = image.with_suffix(".initramfs").read_bytes()
        whole.write_bytes(system + bytes(-len(system) % 512) + more.read_bytes())
        words = "console=ttyS0 panic=-1 quiet rdinit=/fill-memory"
        argv = ["qemu-system-x86_64", "-accel", "tcg", "-M", "q35", "-m", "1024", "-display", "none", "-net", "none", "-no-reboot",
                "-kernel", image, "-initrd", whole, "-append", words, "-serial", f"file:{console}"]  # fmt: skip
        subprocess.run([str(word) for word in argv], check=True, timeout=_BOOT_WITHIN)
        said = console.read_bytes().decode(errors="replace").replace("\r", "")
        told = said.partition("meminfo begins\n")[2].partition("meminfo ends")[0]
        (folder / "meminfo-scarce.txt").write_text(told)


def plant_permission(folder: Path) -> None:
    """An emulator that runs as a user of its own, and a disk that only root may read."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        disk = Path(name) / "disk.qcow2"
        subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", disk, "1M"], check=True)
        disk.chmod(0o600)
        argv = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "qemu-system-x86_64", "-accel", "tcg", "-display",
                "none", "-net", "none", "-drive", f"file={disk},format=qcow2"]  # fmt: skip
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_BOOT_WITHIN)
        (folder / "qemu-permission.txt").write_text(done.stderr.replace(name, "/var/lib/rackless/lab/disks"))


def _ovmf(scratch: Path, code: str, variables: str) -> tuple[str, ...]:
    kept = scratch / variables
    shutil.copy(_OVMF / variables, kept)
    return (
        *("-drive", f"if=pflash,format=raw,unit=0,readonly=on,file={_OVMF / code}"),
        *("-drive", f"if=pflash,format=raw,unit=1,file={kept}"),
    )


def _boot(
    scratch: Path, iso: Path | None, target: Path, firmware: Sequence[str], words: str, memory: int = 256
) -> None:
    console = scratch / "console"
    console.unlink(missing_ok=True)
    argv = ["qemu-system-x86_64", "-accel", "tcg", "-M", "q35", "-m", str(memory), "-display", "none", "-net", "none"]
    bios = () if firmware else ("-machine", "graphics=off")  # then SeaBIOS speaks on the serial port
    server = subprocess.Popen(
        [*argv, *firmware, *bios, "-serial", f"file:{console}", *(("-cdrom", str(iso)) if iso else ())]
    )
    try:
        _await(lambda: words in _said(console), f"the firmware to say {words!r}", _BOOT_WITHIN)
    finally:
        server.terminate()
        server.wait()
        target.write_text(console.read_bytes().decode(errors="replace")[-_KEPT:])


def _said(console: Path) -> str:
    """As a person reads it: firmware paints letter by letter."""
    return "\n".join(read_console(console, 100))


def record(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    inside = ["unshare", "--net", sys.executable, "-m", "tests.real.planting", "--dhcp", str(folder)]
    subprocess.run(inside, check=True, cwd=Path(__file__).parents[2])
    plant_firmware(folder)
    plant_boot_order(folder)
    plant_memory(folder)
    plant_little_memory(folder)
    plant_permission(folder)


if __name__ == "__main__":
    if sys.argv[1] == "--dhcp":
        plant_dhcp(Path(sys.argv[2]))
    else:
        record(Path(sys.argv[1]))
