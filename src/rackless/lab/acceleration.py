"""Whether KVM works here, probed by booting a guest: a /dev/kvm that exists, and even one that opens, may still hang.

The guest is a kernel without a root file system; it panics, reboots and so ends QEMU. That takes KVM about a second. The
answer holds until the computer or the kernel changes, and is kept in the cache.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from rackless.errors import GaveUp
from rackless.events import Bus
from rackless.ports.computer import Computer
from rackless.ports.process import Processes
from rackless.run.files import write

PATIENCE = 10.0
DEVICE = Path("/dev/kvm")


def remembered_kvm(cache: Path, computer: Computer) -> tuple[bool, str] | None:
    """What the last probe found since this computer was booted; None when there was none."""
    try:
        known = json.loads((cache / "acceleration.json").read_text())
        return (bool(known["kvm"]), str(known["says"])) if known.get("boot") == computer.boot_id().strip() else None
    except (OSError, ValueError, KeyError):
        return None


async def probe_kvm(kernel: Path, cache: Path, computer: Computer, processes: Processes, bus: Bus) -> bool:
    with bus.step("acceleration") as step:
        boot = computer.boot_id().strip()
        key = hashlib.sha256(f"2 {boot} {kernel} {DEVICE}".encode()).hexdigest()[:16]
        remembered = cache / "acceleration.json"
        try:
            known = json.loads(remembered.read_text())
        except (OSError, ValueError):
            known = {}
        if known.get("key") == key:
            step.unchanged(known["says"])
            return bool(known["kvm"])
        kvm, says = await _boot(kernel, computer, processes)
        step.detail = says
        write(remembered, json.dumps({"key": key, "boot": boot, "kvm": kvm, "says": says}) + "\n")
        return kvm


async def _boot(kernel: Path, computer: Computer, processes: Processes) -> tuple[bool, str]:
    if not computer.may_use(DEVICE):
        return False, f"no {DEVICE}: servers are emulated (TCG)"
    try:
        done = await processes.run(
            [
                "qemu-system-x86_64", "-accel", "kvm", "-cpu", "host", "-m", "256", "-nodefaults", "-display", "none",
                "-no-reboot", "-kernel", kernel, "-append", "panic=-1 quiet",
            ],
            check=False,
            within=PATIENCE,
        )  # fmt: skip
    except GaveUp:
        return False, f"{DEVICE} is there but does not run a guest: servers are emulated (TCG)"
    if done.code:
        return False, f"{DEVICE} is there but QEMU cannot use it: servers are emulated (TCG)"
    return True, "KVM"
