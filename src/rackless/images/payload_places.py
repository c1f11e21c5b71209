"""Paths inside a bootstrap machine's payload. Apart from `payload`, which makes it: the machines that mount it import only this."""

from __future__ import annotations

MOUNT = "/opt/payload"
"""Where a bootstrap mounts the payload; scripts in it name this path."""
IRONIC, DEPLOY = "ironic", "deploy"
DNSMASQ, IPXE = "bin/dnsmasq", "ipxe"
IPMITOOL = "bin/ipmitool"
ISOLINUX, LDLINUX = "isolinux/isolinux.bin", "isolinux/ldlinux.c32"
"""What a BIOS starts of a boot ISO, and the library of that."""
LOADERS = ("undionly.kpxe", "snponly.efi")
"""iPXE as a BIOS and as UEFI start it."""
