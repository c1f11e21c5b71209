"""What Ironic needs from the machine it runs on, besides its own virtualenv."""

from __future__ import annotations

HOST_PACKAGES = (
    "ipmitool",  # for hosts with an ipmi:// address
    "isolinux",  # what a BIOS starts of a boot ISO …
    "syslinux-common",  # … and the library of that
    "python3-venv",  # the virtualenv is made with the system's Python
    "qemu-utils",  # qemu-img, to look into images before they are handed to an agent
    "xorriso",  # stands in for mkisofs: boot ISOs and config drives
)
"""Debian's names. GRUB's and mtools' part, the ESP image, comes ready-made from the image builder."""
