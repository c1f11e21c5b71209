"""The hypervisor, on which the installer will run: clock, space, memory, acceleration for the bootstrap VM."""

from __future__ import annotations

import asyncio
import ctypes
import os
import re
import shutil
import socket
import struct
import time
from pathlib import Path

from rackless.installer.install_config.config import METAL, Config
from rackless.installer.install_config.live.probe import Probe, failed, ok, unknown, warning

_IMAGES = Path("/var/lib/libvirt/openshift-images")
_GIB = 1 << 30
_SPACE = 25 * _GIB
"""A live ISO, a 20 GiB scratch disk, and some air."""
_MEMORY = 6 * _GIB
_NTP_EPOCH = 2_208_988_800
_TIME_ERROR = 5


async def observe(config: Config) -> list[Probe]:
    servers = config.metal.ntp_servers if config.metal else ()
    asked = await asyncio.gather(*(_ask_time(server) for server in servers))
    return [_synchronised(), *asked, _space(_IMAGES), _memory(), _kvm()]


def _space(images: Path) -> Probe:
    place = next(one for one in (images, *images.parents) if one.exists())
    free = shutil.disk_usage(place).free
    did, saw = f"looked at the file system of {place}", f"{free / _GIB:.0f} GiB free"
    if free < _SPACE:
        return failed("space for the bootstrap VM", did, saw, f"make {_SPACE // _GIB} GiB free")
    return ok("space for the bootstrap VM", did, saw)


def _memory(source: Path = Path("/proc/meminfo")) -> Probe:
    subject, did = "memory for the bootstrap VM", "read MemAvailable"
    found = re.search(r"MemAvailable:\s+(\d+) kB", source.read_text())
    free = int(found[1]) * 1024 if found else 0
    saw = f"{free / _GIB:.1f} GiB available"
    if free < _MEMORY:
        return warning(subject, did, saw, f"the bootstrap VM takes {_MEMORY // _GIB} GiB")
    return ok(subject, did, saw)


def _kvm(device: Path = Path("/dev/kvm")) -> Probe:
    subject, did = "acceleration", f"looked for {device}"
    if not device.exists():
        return warning(subject, did, "it is not there", "without KVM the bootstrap VM is some ten times slower")
    if not os.access(device, os.R_OK | os.W_OK):
        return unknown(subject, did, "it may not be used by this user", "run it as root")
    return ok(subject, did, "it is there")


def _synchronised() -> Probe:
    """The kernel's own word on whether somebody keeps its clock right."""
    subject, did = "clock", "asked the kernel whether its clock is synchronised"
    libc = ctypes.CDLL(None, use_errno=True)
    state = libc.adjtimex(ctypes.create_string_buffer(512))
    if state < 0:
        return unknown(subject, did, os.strerror(ctypes.get_errno()))
    if state == _TIME_ERROR:
        return warning(subject, did, "it is not", "run a time service: certificates fail on hosts with another time")
    return ok(subject, did, "it is")


async def _ask_time(server: str, within: float = 3.0) -> Probe:
    subject, path = f"time server {server}", f"{METAL}.additionalNTPServers"
    did = "asked it by NTP"
    try:
        async with asyncio.timeout(within):
            offset = await _offset(server)
    except (OSError, TimeoutError, ValueError, UnicodeError) as error:
        return failed(subject, did, f"no answer ({error or 'timed out'})", "correct it, or open UDP 123", path)
    saw = f"this computer is {abs(offset):.1f} s {'behind' if offset > 0 else 'ahead'}"
    if abs(offset) > 5:
        return failed(subject, did, saw, "set this computer's clock", path)
    return ok(subject, did, saw, path)


async def _offset(server: str) -> float:
    loop = asyncio.get_running_loop()
    (family, _, _, _, place), *_ = await loop.getaddrinfo(server, 123, type=socket.SOCK_DGRAM)
    with socket.socket(family, socket.SOCK_DGRAM) as handle:
        handle.setblocking(False)
        await loop.sock_connect(handle, place)
        await loop.sock_sendall(handle, b"\x23" + b"\0" * 47)
        answer = await loop.sock_recv(handle, 512)
    if len(answer) < 48 or answer[0] & 7 != 4:
        raise ValueError("not an NTP answer")
    whole, part = struct.unpack("!II", answer[40:48])
    return float(whole - _NTP_EPOCH + part / 2**32 - time.time())
