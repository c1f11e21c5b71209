"""Small files in the places of the images: for labs without servers that would boot them, so that nothing has to be built."""

from __future__ import annotations

from pathlib import Path

from rackless.images import catalogue, node, ramdisk, wheel
from rackless.images.cache import Build, ImageCache, Workspace, key_of

_QCOW2 = b"QFI\xfb" + bytes(20) + (1 << 30).to_bytes(8, "big")


async def put_stand_ins(place: Path) -> None:
    """Have the cache say that all images of this version are there."""
    files = {
        catalogue._DEPLOY: (ramdisk.KERNEL, ramdisk.INITRAMFS, ramdisk.ESP),
        catalogue._NODE_BASE: (node.QCOW2,),
    }
    store = ImageCache(place)
    for kind, names in files.items():
        key = key_of([kind.name, "stand-in"])
        await store.ensure(kind.name, key, _build(names))
        catalogue._remember(catalogue._lookup(place, kind), key, [])
    base = key_of([catalogue._NODE_BASE.name, "stand-in"])
    await store.ensure(catalogue.NODE, catalogue._layer_key(base, wheel.load_sources()), _build((node.QCOW2,)))


def _build(names: tuple[str, ...]) -> Build:
    async def build(work: Workspace) -> None:
        for name in names:
            (work.out / name).write_bytes(_QCOW2)

    return build
