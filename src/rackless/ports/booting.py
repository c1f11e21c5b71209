"""What DHCP and TFTP tell servers that boot over a network, in dnsmasq's words: the firmware's first program, then a script.

A server's firmware is told to fetch iPXE by TFTP, the one for BIOS or the one for UEFI. iPXE asks again and is told a script, as is
the iPXE that a network card already has in its ROM.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BootFiles:
    folder: str
    """What TFTP serves."""
    bios: str
    uefi: str
    script: str
    """A URL, or a file of the folder."""

    @property
    def lines(self) -> tuple[str, ...]:
        """A client that says so is iPXE itself; the others say by their architecture which firmware they are."""
        return (
            "dhcp-match=set:ipxe,175",
            "dhcp-match=set:bios,option:client-arch,0",
            "dhcp-match=set:uefi,option:client-arch,7",
            "dhcp-match=set:uefi,option:client-arch,9",
            f"dhcp-boot=tag:ipxe,{self.script}",
            f"dhcp-boot=tag:!ipxe,tag:bios,{self.bios}",
            f"dhcp-boot=tag:!ipxe,tag:uefi,{self.uefi}",
            "enable-tftp",
            f"tftp-root={self.folder}",
        )
