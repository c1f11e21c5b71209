"""Where things are in the payload of a bootstrap machine; apart from its making, which machines that have it do not need."""

from __future__ import annotations

MOUNT = "/opt/payload"
"""Where a bootstrap has it: programs in it name their own places."""
IRONIC, DEPLOY = "ironic", "deploy"
DNSMASQ, IPXE = "bin/dnsmasq", "ipxe"
LOADERS = ("undionly.kpxe", "snponly.efi")
"""iPXE as a BIOS and as UEFI start it."""
