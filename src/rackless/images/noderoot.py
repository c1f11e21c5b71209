"""Makes a root that boots out of unpacked packages, doing what the packages' scripts would have done.

Users, PAM, certificates, presets, the loader's cache: each is a file we write or a program of the root that we run in
it. What is not needed by a node (the packages' databases, Perl, the tools for other initrds) is taken out.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from rackless.images import modules
from rackless.images.files import install
from rackless.ports.process import Processes

_FILES = {
    # file of ours: (place in the root, mode)
    "90-dhcp.network": ("etc/systemd/network/90-dhcp.network", 0o644),
    "50-node.preset": ("usr/lib/systemd/system-preset/50-node.preset", 0o644),
    "sysusers.conf": ("usr/lib/sysusers.d/node.conf", 0o644),
    "sshd.conf": ("etc/ssh/sshd_config.d/10-node.conf", 0o644),
    "wait-online.conf": ("etc/systemd/system/systemd-networkd-wait-online.service.d/any.conf", 0o644),
    "udev-trigger.conf": ("etc/systemd/system/systemd-udev-trigger.service.d/less.conf", 0o644),
    "dhcp-hostname": ("usr/lib/node/dhcp-hostname", 0o755),
    "dhcp-hostname.service": ("usr/lib/systemd/system/dhcp-hostname.service", 0o644),
    "dhcp-hostname.path": ("usr/lib/systemd/system/dhcp-hostname.path", 0o644),
}
_SETTINGS = {
    "etc/fstab": "LABEL=node-root / ext4 defaults,noatime 0 1\n",
    "etc/hosts": "127.0.0.1 localhost\n::1 localhost ip6-localhost\n",
    "etc/machine-id": "",
    "etc/issue": "\\n \\l\n",
    "etc/shells": "/bin/sh\n/bin/bash\n/usr/bin/sh\n/usr/bin/bash\n",
    "etc/securetty": "",
    "etc/environment": "",
    "etc/default/locale": "LANG=C.UTF-8\n",
    "etc/systemd/journald.conf.d/node.conf": "[Journal]\nStorage=volatile\nAudit=no\n",
    "etc/sudoers.d/node": "%sudo ALL=(ALL:ALL) NOPASSWD: ALL\n%wheel ALL=(ALL:ALL) NOPASSWD: ALL\n",
    "usr/lib/repart.d/50-root.conf": "[Partition]\nType=root\n",
    # Ignition labels what it writes and does not ask whether there is SELinux: satisfy it, changing nothing.
    "etc/selinux/config": "SELINUX=disabled\nSELINUXTYPE=none\n",
    "etc/selinux/none/contexts/files/file_contexts": "",
    "usr/sbin/setfiles": "#!/bin/sh\ncat >/dev/null\nexit 0\n",
    "etc/pam.d/common-auth": (
        "auth [success=1 default=ignore] pam_unix.so\nauth requisite pam_deny.so\nauth required pam_permit.so\n"
    ),
    "etc/pam.d/common-account": "account required pam_unix.so\n",
    "etc/pam.d/common-password": "password required pam_unix.so obscure yescrypt\n",
    "etc/pam.d/common-session": "session required pam_unix.so\nsession optional pam_systemd.so\n",
    "etc/pam.d/common-session-noninteractive": "session required pam_unix.so\n",
}
_COPIES = {
    "usr/share/libc-bin/nsswitch.conf": "etc/nsswitch.conf",
    "usr/share/openssh/sshd_config": "etc/ssh/sshd_config",
    "usr/share/base-files/profile": "etc/profile",
    "usr/share/base-passwd/group.master": "etc/group",
}
_LINKS = {
    "etc/resolv.conf": "/run/systemd/resolve/stub-resolv.conf",
    "etc/mtab": "../proc/self/mounts",
    "etc/localtime": "/usr/share/zoneinfo/Etc/UTC",
    "var/run": "/run",
    "var/lock": "/run/lock",
    "usr/bin/awk": "mawk",
    "usr/bin/ignition": "/usr/lib/dracut/modules.d/30ignition/ignition",
}
_MODES = {"usr/sbin/setfiles": 0o755, "etc/sudoers.d/node": 0o440, "tmp": 0o1777, "var/tmp": 0o1777, "root": 0o700}
_FOLDERS = ("proc", "sys", "dev", "run", "tmp", "root", "home", "mnt", "opt", "srv", "var/tmp", "var/lib/etcd")
_OWNERS = {"var/lib/etcd": "etcd"}
# A program each, started before anything else at every boot, for what a node of a lab does not have
_UNWANTED_GENERATORS = (
    "bless-boot", "cryptsetup", "debug", "gpt-auto", "hibernate-resume", "integritysetup", "rc-local", "run",
    "system-update", "sysv", "veritysetup",
)  # fmt: skip
_UNWANTED = (
    "boot", "etc/initramfs-tools", "usr/lib/initramfs-tools", "usr/lib/klibc", "usr/lib/udev/hwdb.bin",
    "usr/lib/udev/hwdb.d",
    "usr/bin/perl", "usr/bin/perl5.36.0", "usr/bin/ignition-validate", "var/lib/apt", "var/cache/apt",
    "usr/share/snmp", "usr/share/polkit-1", "usr/lib/systemd/boot",
    "usr/share/zoneinfo/right", "usr/lib/kernel",
    *(f"usr/lib/systemd/system-generators/systemd-{name}-generator" for name in _UNWANTED_GENERATORS),
)  # fmt: skip
# Services that cost time at every boot and do nothing for a node of a lab.
_MASKED = (
    "systemd-hwdb-update.service", "systemd-repart.service", "systemd-network-generator.service", "ldconfig.service",
    "systemd-random-seed.service", "systemd-boot-system-token.service", "systemd-pstore.service",
    "systemd-binfmt.service", "proc-sys-fs-binfmt_misc.automount", "sys-kernel-debug.mount",
    "sys-kernel-tracing.mount", "systemd-update-utmp.service", "systemd-update-utmp-runlevel.service",
    "systemd-sysusers.service", "systemd-journal-flush.service", "modprobe@drm.service", "getty@tty1.service",
    "dev-hugepages.mount", "dev-mqueue.mount", "sys-fs-fuse-connections.mount", "sys-kernel-config.mount",
    "modprobe@configfs.service", "modprobe@fuse.service", "systemd-fsckd.socket", "systemd-initctl.socket",
    "e2scrub_reap.service", "e2scrub_all.timer", "fstrim.timer", "dpkg-db-backup.timer",
)  # fmt: skip


async def configure(processes: Processes, root: Path, kernel: modules.Kernel) -> None:
    """After this the root boots. Modules of `kernel` must be in place."""
    _retire_unwanted(root)
    _write_files(root)
    _write_users(root)
    _collect_certificates(root)
    inside: tuple[str | Path, ...] = ("chroot", root)
    await processes.run([*inside, "/usr/sbin/ldconfig"])
    await processes.run([*inside, "/usr/sbin/depmod", kernel.release])
    await processes.run([*inside, "/usr/bin/systemd-sysusers"])
    for place, owner in _OWNERS.items():
        await processes.run([*inside, "/usr/bin/chown", f"{owner}:{owner}", f"/{place}"])
    await processes.run([*inside, "/usr/bin/systemctl", "preset-all"])
    _mask(root)  # last: a preset that disables a template takes the links of its instances away


def _retire_unwanted(root: Path) -> None:
    for name in _UNWANTED:
        _retire(root / name)


def _retire(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _write_files(root: Path) -> None:
    for name in _FOLDERS:
        (root / name).mkdir(parents=True, exist_ok=True)
    for name, (place, mode) in _FILES.items():
        install(f"node/{name}", root / place, mode)
    install("static_network.py", root / "usr/lib/rackless/static_network.py", 0o644)
    for place, content in _SETTINGS.items():
        (root / place).parent.mkdir(parents=True, exist_ok=True)
        (root / place).write_text(content)
    for source, place in _COPIES.items():
        shutil.copyfile(root / source, root / place)
    for place, target in _LINKS.items():
        _retire(root / place)
        (root / place).symlink_to(target)
    for place, mode in _MODES.items():
        (root / place).chmod(mode)


def _write_users(root: Path) -> None:
    """Debian's fixed users, with their (locked) passwords in the shadow file, where the tools expect them."""
    rows = [line.split(":") for line in (root / "usr/share/base-passwd/passwd.master").read_text().splitlines()]
    (root / "etc/passwd").write_text("".join(":".join([row[0], "x", *row[2:]]) + "\n" for row in rows))
    shadow = root / "etc/shadow"
    shadow.write_text("".join(f"{row[0]}:*:19000:0:99999:7:::\n" for row in rows))
    shadow.chmod(0o640)
    shutil.chown(shadow, group=42)  # Debian's fixed number of the group "shadow"


def _collect_certificates(root: Path) -> None:
    sources = sorted((root / "usr/share/ca-certificates").rglob("*.crt"))
    bundle = root / "etc/ssl/certs/ca-certificates.crt"
    bundle.parent.mkdir(parents=True, exist_ok=True)
    bundle.write_text("".join(source.read_text() for source in sources))
    (root / "etc/ca-certificates.conf").write_text(
        "".join(f"{source.relative_to(root / 'usr/share/ca-certificates')}\n" for source in sources)
    )


def _mask(root: Path) -> None:
    for unit in _MASKED:
        link = root / "etc/systemd/system" / unit
        link.unlink(missing_ok=True)
        link.symlink_to("/dev/null")
