"""A live ISO as the OpenShift installer takes one for its bootstrap VM: signed to boot, with room for an Ignition config.

It boots under Secure Boot (Debian's shim, GRUB and kernel), asks for an address by DHCP and says on the serial console which one
it got, by which name, and what it was given. Made out of packages that building the lab's images has left in the cache.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import tempfile
from pathlib import Path

from rackless.images import cpio, modules
from tests.real.bootable import esp_with

SHIM = Path("/usr/lib/shim/shimx64.efi.signed")
GRUB = Path("/usr/lib/grub/x86_64-efi-signed/gcdx64.efi.signed")
NEEDED = (SHIM, GRUB)
PACKAGES = ("shim-signed", "grub-efi-amd64-signed")

IGNITION_AREA = 1 << 20
KARGS_AREA = "#" * 1024 + "# COREOS_KARG_EMBED_AREA\n"
_ARGUMENTS = "console=ttyS0 quiet ignition.firstboot ignition.platform.id=metal"
_GRUB = (
    'set timeout=0\nmenuentry "live" {\n'
    f"\tlinux /images/pxeboot/vmlinuz {_ARGUMENTS}\n{KARGS_AREA}"
    "\tinitrd /images/pxeboot/initrd.img /images/ignition.img\n}\n"
)
_START = (
    "search --no-floppy --file --set=root /images/pxeboot/vmlinuz\n"
    "set prefix=($root)/EFI/redhat\nconfigfile ($root)/EFI/redhat/grub.cfg\n"
)
_MODULES = ("virtio_pci", "virtio_net", "virtio_blk", "af_packet")
_INIT = """\
#!/bin/busybox sh
b=/bin/busybox
$b mkdir -p /proc /sys /dev
$b mount -t proc proc /proc; $b mount -t sysfs sys /sys; $b mount -t devtmpfs dev /dev
for module in $($b cat /modules); do $b insmod $module; done
say() { echo "BOOTSTRAP $*" >/dev/ttyS0; }
say ignition $($b wc -c </config.ign)
say disk $($b cat /sys/block/vda/size)
for link in /sys/class/net/e*; do
    name=${link##*/}
    $b ip link set $name up
    $b udhcpc -i $name -n -q -t 20 -T 2 -s /lease
done
say ready
while :; do $b sleep 60; done
"""
_LEASE = """\
#!/bin/busybox sh
[ "$1" = bound ] && echo "BOOTSTRAP lease $ip $hostname $domain" >/dev/ttyS0
exit 0
"""


def make(target: Path, debs: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        work = Path(scratch)
        root, tree = work / "root", work / "iso"
        for pattern in ("linux-image-[0-9]*.deb", "busybox-static_*.deb"):
            subprocess.run(["dpkg-deb", "-x", str(max(debs.glob(pattern))), str(root)], check=True)
        for name in ("images/pxeboot", "EFI/redhat", "coreos", ".disk", "boot/grub"):
            (tree / name).mkdir(parents=True)
        (kernel,) = (root / "boot").glob("vmlinuz-*")
        kernel.rename(tree / "images/pxeboot/vmlinuz")
        (tree / "images/pxeboot/initrd.img").write_bytes(_initramfs(root, work))
        (tree / "images/ignition.img").write_bytes(bytes(IGNITION_AREA))
        (tree / "coreos/igninfo.json").write_text(json.dumps({"file": "images/ignition.img"}))
        (tree / "coreos/kargs.json").write_text(json.dumps(_kargs()))
        (tree / "EFI/redhat/grub.cfg").write_text(_GRUB)
        # the signed GRUB looks for these, on whatever it was started from
        start = work / "start.cfg"
        start.write_text(_START)
        (tree / ".disk/info").write_text("live\n")
        (tree / "boot/grub/grub.cfg").write_text(_START)
        boot = esp_with(
            work / "efiboot.img",
            {
                "EFI/BOOT/BOOTX64.EFI": SHIM, "EFI/BOOT/grubx64.efi": GRUB,
                "EFI/debian/grub.cfg": start, "boot/grub/grub.cfg": start, ".disk/info": tree / ".disk/info",
            },
        )  # fmt: skip
        (tree / "images/efiboot.img").write_bytes(boot.read_bytes())
        subprocess.run(
            ["xorriso", "-as", "mkisofs", "-quiet", "-R", "-J", "-V", "live", "-o", str(target),
             "-e", "images/efiboot.img", "-no-emul-boot", str(tree)],
            check=True, capture_output=True,
        )  # fmt: skip


def _kargs() -> dict[str, object]:
    offset = _GRUB.index("\n#")
    where = {"path": "EFI/redhat/grub.cfg", "offset": offset, "end": "\n", "pad": "#"}
    return {"default": _ARGUMENTS, "files": [where], "size": 1025}


def _initramfs(root: Path, work: Path) -> bytes:
    """Compressed by gzip: behind an lz4 stream the kernel would not read the Ignition config."""
    tree, archive = work / "initramfs", work / "initramfs.cpio"
    (tree / "bin").mkdir(parents=True)
    found = modules.Kernel(next((root / "lib/modules").iterdir()))
    chosen = found.closure(_MODULES)
    for number, path in enumerate(chosen):
        (tree / f"{number}.ko").write_bytes((found.tree / path).read_bytes())
    (tree / "modules").write_text("".join(f"/{number}.ko\n" for number, _ in enumerate(chosen)))
    (tree / "bin/busybox").write_bytes((root / "bin/busybox").read_bytes())
    for name, script in (("init", _INIT), ("lease", _LEASE)):
        (tree / name).write_text(script)
    for name in ("init", "lease", "bin/busybox"):
        (tree / name).chmod(0o755)
    cpio.write(tree, archive)
    return gzip.compress(archive.read_bytes(), 1)
