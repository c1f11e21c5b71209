"""The EFI system partition image for boot ISOs: GRUB, which finds the ISO it came on and reads its grub.cfg.

Ironic puts this image into every ISO it builds for virtual media, as `boot/grub/efiboot.img`. GRUB must search for a
file that only such an ISO has: one that is also on the server's disk (`/vmlinuz`) would boot the installed system.
"""

from __future__ import annotations

from pathlib import Path

from rackless.images import fat
from rackless.images.files import install
from rackless.ports.process import Processes

GRUB = "usr/lib/grub/x86_64-efi/monolithic/gcdx64.efi"


async def ensure(processes: Processes, root: Path, image: Path, scratch: Path) -> None:
    """`root` has the unpacked package grub-efi-amd64-bin."""
    config, marker = scratch / "esp-grub.cfg", scratch / "esp-info"
    install("deploy/esp-grub.cfg", config, 0o644)
    # GRUB's CD build takes the volume with this file as its home.
    marker.write_text("boot\n")
    files = {"EFI/BOOT/BOOTX64.EFI": root / GRUB, "boot/grub/grub.cfg": config, ".disk/info": marker}
    await fat.ensure(processes, image, files, label="ESP", bits=12)
