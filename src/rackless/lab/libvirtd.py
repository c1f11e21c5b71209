"""The lab's own libvirtd: its configuration, as files in the lab's /etc/libvirt, and the folders it expects."""

from __future__ import annotations

import os
from pathlib import Path

from rackless.lab.accounts import ServerAccounts
from rackless.run.files import write
from rackless.run.paths import LabPaths

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
    "iptables",
)
"""libvirt's daemon and drivers, but not the `-system` packages, which would start a libvirt on the hypervisor. Our networks need no
iptables; those that others make through the lab's libvirt do, before libvirt 10.4."""

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
unix_sock_ro_perms = "0700"
unix_sock_rw_perms = "0700"
unix_sock_admin_perms = "0700"
log_outputs = "3:stderr"
"""
"""Only root may open libvirtd's sockets: with the read-write one a user would be root in the lab, and the read-only one shows the
servers' disks."""

QEMU_CONF = """\
# Servers that say nothing about it run as this user; libvirt gives them their files while they run.
user = "+{strangers}"
group = "+{strangers}"
dynamic_ownership = 1
remember_owner = 0
# What is left to a QEMU that a guest has taken over: no capability, few system calls, no device but its own, no core dump.
clear_emulator_capabilities = 1
seccomp_sandbox = 1
namespaces = [ "mount" ]
max_core = 0
security_driver = "none"
cgroup_controllers = []
stdio_handler = "file"
swtpm_user = "+{tpm}"
swtpm_group = "+{tpm}"
"""


def write_configuration(folder: Path, accounts: ServerAccounts) -> None:
    write(folder / "libvirtd.conf", LIBVIRTD_CONF)
    write(folder / "qemu.conf", QEMU_CONF.format(strangers=accounts.strangers, tpm=accounts.tpm))


def ensure_folders(paths: LabPaths, accounts: ServerAccounts) -> None:
    """Make the folders that libvirt's packages make elsewhere, and that clients of libvirt expect."""
    library, authority = paths.libvirt / "lib", paths.state / "var/lib/swtpm-localca"
    sockets = paths.inner_run / "libvirt/qemu/swtpm"
    folders = {
        library / "images": 0o711,
        library / "boot": 0o711,
        paths.logs / "libvirt/qemu": 0o700,  # libvirt makes it for the logs of QEMU, too late for those of serial ports
        authority: 0o700,
        sockets: 0o770,  # as libvirt makes it, with the first TPM; but then nobody could be let in beforehand
    }
    for folder, mode in folders.items():
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(mode)
    if os.geteuid() != 0:  # a simulated lab: nobody to give files to
        return
    os.chown(sockets, accounts.strangers, accounts.tpm)
    # in a lab made earlier they are root's, who swtpm ran as
    states = library / "swtpm"
    for path in (authority, *authority.iterdir(), *states.glob("*/tpm*"), *states.glob("*/tpm*/*")):
        os.chown(path, accounts.tpm, accounts.tpm, follow_symlinks=False)
