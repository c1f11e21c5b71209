"""The lab's own libvirtd: its configuration, as files in the lab's /etc/libvirt. Pure but for writing them."""

from __future__ import annotations

from pathlib import Path

from rackless.run.files import write

HOST_PACKAGES = (
    "libvirt-daemon",
    "libvirt-daemon-driver-qemu",
    "libvirt-clients",
    "python3-libvirt",
    "qemu-system-x86",
    "qemu-utils",
    "ovmf",
    "dnsmasq-base",
    "iproute2",
    "nftables",
)
"""libvirt's daemon and drivers, but not the `-system` packages, which would start a libvirt on the host."""

_DRIVERS = Path("/usr/lib/x86_64-linux-gnu/libvirt/connection-driver")
SPLIT_OFF = {"libvirt-daemon-driver-network": ("libvirt-daemon", _DRIVERS / "libvirt_driver_network.so")}
"""Since Debian 13 a package of its own: what it was a part of, and the file that tells whether it still is."""

TPM_PACKAGES = ("swtpm", "swtpm-tools")
"""Wanted only by labs whose servers have a TPM."""

LIBVIRTD_CONF = """\
listen_tls = 0
listen_tcp = 0
auth_unix_ro = "none"
auth_unix_rw = "none"
unix_sock_rw_perms = "0700"
log_outputs = "3:stderr"
"""

QEMU_CONF = """\
# Servers belong to the lab: no privileges to drop into, no owners to remember, no groups to be put in.
user = "root"
group = "root"
dynamic_ownership = 0
remember_owner = 0
security_driver = "none"
namespaces = []
cgroup_controllers = []
stdio_handler = "file"
swtpm_user = "root"
swtpm_group = "root"
"""


def write_configuration(folder: Path) -> None:
    write(folder / "libvirtd.conf", LIBVIRTD_CONF)
    write(folder / "qemu.conf", QEMU_CONF)
