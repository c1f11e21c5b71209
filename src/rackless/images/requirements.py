"""What the hypervisor must have for images to be built: Debian packages, nothing else.

Whatever goes *into* an image (kernel, busybox, GRUB, systemd-boot, kmod, Python) is taken from unpacked packages and is
never installed on the hypervisor. These are the names on Debian and Ubuntu alike.
"""

from __future__ import annotations

HOST_PACKAGES = (
    "apt",  # resolves and fetches packages, through the hypervisor's own mirror and proxy
    "debian-archive-keyring",  # what they are checked against where the hypervisor is no Debian
    "dpkg",  # opens them
    "tar",  # unpacks them
    "lz4",  # packs the initramfs
    "mtools",  # fills FAT file systems without mounting them
    "dosfstools",  # makes FAT file systems
    "e2fsprogs",  # makes the node's root file system out of a folder
    "qemu-utils",  # writes the qcow2
)
