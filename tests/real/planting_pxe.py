"""Faults planted before firmware that boots over a network, and what it writes on its console.

`python -m tests.real.planting_pxe FOLDER` records it; `tests/diagnosis/data` is what it wrote. Every firmware runs in a network
namespace of its own, with a dnsmasq that answers DHCP and TFTP there; a packet filter then keeps one of them from hearing anything.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
MAC = "02:00:00:00:00:09"
SERVER = "192.0.2.1"
OVMF = Path("/usr/share/OVMF")
IPXE = Path("/usr/lib/ipxe")
PORTS = {"tftp": 69, "dhcp": 67}
"""What does not hear anything."""
ENDS = {
    ("ipxe", "tftp"): "Connection timed out", ("ipxe", "dhcp"): "No configuration methods succeeded",
    ("ovmf", "tftp"): "PXE-E18", ("ovmf", "dhcp"): "PXE-E18",
    ("bios", "tftp"): "No bootable device", ("bios", "dhcp"): "No bootable device",
}  # fmt: skip
"""By firmware (iPXE in a NIC's ROM under UEFI, UEFI's own PXE, iPXE under a BIOS) and fault: the last word of a try."""
WITHIN = 400.0


def record(folder: Path) -> None:
    for firmware, fault in ENDS:
        inner = [sys.executable, "-m", "tests.real.planting_pxe", str(folder), firmware, fault]
        subprocess.run(["unshare", "--net", *inner], check=True, cwd=ROOT)


def file_of(folder: Path, firmware: str, fault: str) -> Path:
    return folder / f"console-{fault}-silent-{firmware}.log"


def _boot(console: Path, firmware: str, fault: str) -> None:
    """In a network namespace of its own."""
    for words in (
        "link set lo up", "link add br0 type bridge", f"address add {SERVER}/24 dev br0", "link set br0 up",
        "tuntap add tap0 mode tap", "link set tap0 master br0", "link set tap0 up",
    ):  # fmt: skip
        subprocess.run(["ip", *words.split()], check=True)
    silent = (
        f"add table inet t; add chain inet t i {{ type filter hook input priority 0; }}; "
        f"add rule inet t i udp dport {PORTS[fault]} drop"
    )
    subprocess.run(["nft", silent], check=True)
    with tempfile.TemporaryDirectory(prefix="planting-pxe-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        file = "undionly.kpxe" if firmware == "bios" else "ipxe.efi"
        shutil.copyfile(IPXE / file, folder / file)
        dnsmasq = subprocess.Popen([
            "dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--port=0", "--interface=br0", "--bind-interfaces",
            "--dhcp-range=192.0.2.50,192.0.2.90,1h", f"--dhcp-boot={file}", "--enable-tftp", f"--tftp-root={folder}",
            f"--dhcp-leasefile={folder}/leases", "--user=root",
        ], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
        machine = subprocess.Popen(_emulator(folder, console, firmware))
        try:
            end = time.monotonic() + WITHIN
            while time.monotonic() < end and ENDS[firmware, fault] not in _read(console):
                time.sleep(0.5)
        finally:
            for process in (machine, dnsmasq):
                process.kill()
                process.wait()


def _emulator(folder: Path, console: Path, firmware: str) -> list[str]:
    nic = f"virtio-net-pci,netdev=n,bootindex=1,mac={MAC}" + (",romfile=" if firmware == "ovmf" else "")
    argv = [
        "qemu-system-x86_64", "-machine", f"q35,accel=tcg{',graphics=off' if firmware == 'bios' else ''}", "-m", "512",
        "-display", "none", "-serial", f"file:{console}", "-netdev", "tap,id=n,ifname=tap0,script=no,downscript=no",
        "-device", nic,
    ]  # fmt: skip
    if firmware == "bios":
        return argv
    shutil.copyfile(OVMF / "OVMF_VARS_4M.fd", folder / "vars.fd")
    code = f"if=pflash,format=raw,readonly=on,file={OVMF / 'OVMF_CODE_4M.fd'}"
    return [*argv, "-drive", code, "-drive", f"if=pflash,format=raw,file={folder / 'vars.fd'}"]


def _read(console: Path) -> str:
    try:
        return console.read_text(errors="replace")
    except FileNotFoundError:
        return ""


if __name__ == "__main__":
    target = Path(sys.argv[1])
    if len(sys.argv) == 2:
        record(target)
    else:
        _boot(file_of(target, *sys.argv[2:]), *sys.argv[2:])
