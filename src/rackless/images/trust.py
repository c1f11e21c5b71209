"""A deploy ramdisk whose agent trusts a CA, for network boot.

On virtual media Ironic puts these files beside the ramdisk; over the network nobody does, so they go into an archive in
front of it: the kernel unpacks one after the other, but cannot read on behind the ramdisk's lz4 stream.
"""

from __future__ import annotations

import shutil
import stat
from pathlib import Path

from rackless.images.cpio import Archive

CERTIFICATE = "etc/ironic-python-agent/ironic.crt"
SETTINGS = "etc/ironic-python-agent.d/ironic-tls.conf"


def write_trusting(initramfs: Path, ca: Path, target: Path) -> None:
    """`initramfs` again as `target`, with the CA; `target` is complete or not there."""
    scratch = target.with_suffix(".new")
    with scratch.open("wb") as out:
        archive = Archive(out)
        for folder in ("etc", "etc/ironic-python-agent", "etc/ironic-python-agent.d"):
            archive.add(folder, stat.S_IFDIR | 0o755)
        archive.add(CERTIFICATE, stat.S_IFREG | 0o644, ca.read_bytes())
        archive.add(SETTINGS, stat.S_IFREG | 0o644, f"[DEFAULT]\ncafile = /{CERTIFICATE}\n".encode())
        archive.finish()
        with initramfs.open("rb") as source:
            shutil.copyfileobj(source, out, 1 << 20)
    scratch.rename(target)
