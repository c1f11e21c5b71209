"""The images there are, and the one way to have them: found in the cache, or built into it.

An image's key is made of its recipe (the files of this package that take part), the versions of all its packages and
its pinned requirements. Asking apt for versions takes seconds, so the answer is remembered under the identity of apt's
lists: as long as those and the recipe are the same, the check reads a few small files and nothing else.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from rackless.events import Bus
from rackless.images import (
    agent,
    bootstrap_iso,
    bootstrap_root,
    node,
    nodelayer,
    nodepython,
    packages,
    python,
    ramdisk,
    wheel,
)
from rackless.images.cache import ImageCache, Workspace, key_of, load_manifest
from rackless.images.sources import of_computer, refresh
from rackless.ports.process import Processes

_SHARED_RECIPE = ("packages.py", "cpio.py", "modules.py", "elf.py", "fat.py", "catalogue.py")
_DEPLOY_RECIPE = (*_SHARED_RECIPE, "python.py", "ramdisk.py", "agent.py", "selection.py", "esp.py", "files/deploy",
                  "files/static_network.py")  # fmt: skip
_NODE_RECIPE = (*_SHARED_RECIPE, "python.py", "node.py", "noderoot.py", "nodepython.py", "gpt.py", "files/node",
                "files/static_network.py")  # fmt: skip
_LAYER_RECIPE = ("wheel.py", "nodelayer.py")
_BOOTSTRAP_RECIPE = (*_SHARED_RECIPE, "python.py", "nodepython.py", "selection.py", "bootstrap_root.py", "files/bootstrap",
                     "files/node/api-requirements.txt", "files/deploy/udhcpc.script")  # fmt: skip
_ISO_RECIPE = ("wheel.py", "bootstrap_iso.py")


@dataclass(frozen=True, slots=True)
class DeployImage:
    """What a server boots to be inspected and written; `esp` makes it bootable from an ISO."""

    kernel: Path
    initramfs: Path
    esp: Path
    key: str


@dataclass(frozen=True, slots=True)
class NodeImage:
    """What is written to a server's disk."""

    qcow2: Path
    sha256: str
    virtual_bytes: int
    key: str


@dataclass(frozen=True, slots=True)
class BootstrapIso:
    """What an installer boots its bootstrap machine from, in a rehearsal."""

    path: Path
    sha256: str
    ignition_offset: int
    """Where in the ISO the installer writes its Ignition config."""
    key: str


async def ensure_deploy_image(cache: Path, processes: Processes, bus: Bus, *, thorough: bool = False) -> DeployImage:
    """`thorough` reads every byte of a cached image before it counts as there."""

    async def build(root: Path, work: Workspace, key: str) -> None:
        wheels = await python.ensure_wheels(processes, ImageCache(cache), root, agent.REQUIREMENTS, work.scratch)
        await ramdisk.build(processes, root, work, wheels)

    key, entry = await _ensure(cache, processes, bus, _DEPLOY, build, thorough)
    return DeployImage(entry / ramdisk.KERNEL, entry / ramdisk.INITRAMFS, entry / ramdisk.ESP, key)


async def ensure_node_image(cache: Path, processes: Processes, bus: Bus, *, thorough: bool = False) -> NodeImage:
    """In two stages: Debian with all that packages and pins bring, and on top of it the wheel of this very rackless."""

    async def build(root: Path, work: Workspace, key: str) -> None:
        wheels = await python.ensure_wheels(processes, ImageCache(cache), root, nodepython.REQUIREMENTS, work.scratch)
        await node.build(processes, root, work, wheels, seed=key)

    base_key, base = await _ensure(cache, processes, bus, _NODE_BASE, build, thorough)
    sources = await asyncio.to_thread(wheel.load_sources)
    key = _layer_key(base_key, sources)

    async def build_layer(work: Workspace) -> None:
        await nodelayer.build(processes, base / node.QCOW2, sources, work, node.QCOW2)

    with bus.step("our own wheel", subject="image/node image") as step:
        store = ImageCache(cache)
        if await store.find(NODE, key, thorough=thorough):
            step.unchanged("in the cache")
        entry = await store.ensure(NODE, key, build_layer, thorough=thorough)
    record = load_manifest(entry)[node.QCOW2]
    qcow2 = entry / node.QCOW2
    return NodeImage(qcow2, record["sha256"], virtual_size(qcow2), key)


async def ensure_bootstrap_iso(cache: Path, processes: Processes, bus: Bus) -> BootstrapIso:
    """In two stages, as the node image: what packages and pins bring, and the ISO with the wheel of this very rackless."""

    async def build(root: Path, work: Workspace, key: str) -> None:
        wheels = await python.ensure_wheels(processes, ImageCache(cache), root, nodepython.REQUIREMENTS, work.scratch)
        await bootstrap_root.build(processes, root, work, wheels)

    base_key, base = await _ensure(cache, processes, bus, _BOOTSTRAP_ROOT, build, False)
    sources = await asyncio.to_thread(wheel.load_sources)
    key = _iso_key(base_key, sources)

    async def build_iso(work: Workspace) -> None:
        await bootstrap_iso.build(processes, base, sources, work)

    with bus.step("live ISO", subject="image/bootstrap ISO") as step:
        store = ImageCache(cache)
        if await store.find(BOOTSTRAP, key):
            step.unchanged("in the cache")
        entry = await store.ensure(BOOTSTRAP, key, build_iso)
    layout = json.loads((entry / bootstrap_iso.LAYOUT).read_text())
    iso = entry / bootstrap_iso.ISO
    return BootstrapIso(iso, load_manifest(entry)[bootstrap_iso.ISO]["sha256"], layout["ignition_offset"], key)


def virtual_size(qcow2: Path) -> int:
    """The size of the disk in a qcow2, out of its header."""
    with qcow2.open("rb") as source:
        return int.from_bytes(source.read(32)[24:32], "big")


@dataclass(frozen=True, slots=True)
class _Kind:
    name: str
    title: str
    packages: Sequence[str]
    recipe: Sequence[str]


_DEPLOY = _Kind("deploy", "deploy ramdisk", ramdisk.PACKAGES, _DEPLOY_RECIPE)
_NODE_BASE = _Kind("node-base", "node image", node.PACKAGES, _NODE_RECIPE)
_BOOTSTRAP_ROOT = _Kind("bootstrap-root", "rehearsal bootstrap", bootstrap_root.PACKAGES, _BOOTSTRAP_RECIPE)
NODE = "node"
BOOTSTRAP = "bootstrap"
TITLES = {
    _DEPLOY.name: _DEPLOY.title,
    _NODE_BASE.name: "node base image",
    NODE: "node image",
    _BOOTSTRAP_ROOT.name: "rehearsal bootstrap",
    BOOTSTRAP: "bootstrap ISO",
    python.WHEELS: "Python packages",
}


@dataclass(frozen=True, slots=True)
class Current:
    """The cache entries that this version's recipes make on this computer now, as far as earlier lookups know them."""

    entries: frozenset[str]
    """Names of entries."""
    lookups: frozenset[str]
    """Names of the lookup files that this was read from."""
    packages: frozenset[str] | None
    """The package files that go into them; None when that is not known."""
    unknown: frozenset[str]
    """Kinds whose packages have not been resolved since apt's lists changed."""


def current(cache: Path) -> Current:
    entries = {python.wheels_name(requirements) for requirements in (agent.REQUIREMENTS, nodepython.REQUIREMENTS)}
    lookups, files, unknown = set(), set(), set()
    complete = True
    for kind in (_DEPLOY, _NODE_BASE):
        lookup = _lookup(cache, kind)
        found = _load_lookup(lookup)
        if "key" not in found:
            unknown |= {kind.name, NODE} if kind is _NODE_BASE else {kind.name}
            complete = False
            continue
        entries.add(f"{kind.name}-{found['key']}")
        if kind is _NODE_BASE:
            entries.add(f"{NODE}-{_layer_key(found['key'], wheel.load_sources())}")
        lookups.add(lookup.name)
        complete = complete and "packages" in found
        files |= set(found.get("packages", ()))
    rehearsal = _lookup(cache, _BOOTSTRAP_ROOT)
    if "key" in (found := _load_lookup(rehearsal)):  # most machines have none, and lack nothing
        entries.add(f"{_BOOTSTRAP_ROOT.name}-{found['key']}")
        entries.add(f"{BOOTSTRAP}-{_iso_key(found['key'], wheel.load_sources())}")
        lookups.add(rehearsal.name)
        files |= set(found.get("packages", ()))
    elif any((cache / "entries").glob(f"{BOOTSTRAP}-*")):
        unknown |= {_BOOTSTRAP_ROOT.name, BOOTSTRAP}
    return Current(frozenset(entries), frozenset(lookups), frozenset(files) if complete else None, frozenset(unknown))


def lacking_images(cache: Path) -> dict[str, str]:
    """The images that have to be built, and why; as far as that is known without asking apt."""
    found = current(cache)
    reasons: dict[str, str] = {}
    for kind in (_DEPLOY.name, NODE):
        names = [name for name in found.entries if name.rpartition("-")[0] == kind]
        if kind in found.unknown:
            reasons[kind] = (
                "what it is made of has changed, or was never found out: it is resolved, and built if it is new"
            )
        elif not any((cache / "entries" / name).exists() for name in names):
            reasons[kind] = "is not in the cache"
    return reasons


_BuildFromRoot = Callable[[Path, Workspace, str], Awaitable[None]]


async def _ensure(
    place: Path, processes: Processes, bus: Bus, kind: _Kind, build: _BuildFromRoot, thorough: bool
) -> tuple[str, Path]:
    store = ImageCache(place)
    with bus.step(kind.title) as step:
        sources = of_computer(place)
        older = await refresh(processes, sources, now=True) if thorough else ""
        known = _load_lookup(_lookup(place, kind)).get("key")
        if known and (entry := await store.find(kind.name, known, thorough=thorough)):
            step.unchanged(f"in the cache {older}".strip())
            return known, entry

        packages.require_machine()
        step.progress("reading the package lists")
        older = await refresh(processes, sources)
        lookup = _lookup(place, kind)
        step.progress(f"resolving packages {older}".strip())
        with tempfile.TemporaryDirectory(prefix="rackless-apt-") as scratch:
            found = await packages.resolve(processes, sources, kind.packages, Path(scratch))
        key = key_of([_recipe(kind), *(f"{package.name}={package.version}" for package in found)])

        async def build_entry(work: Workspace) -> None:
            root = work.scratch / "root"
            debs = place / "debs"
            step.progress(f"fetching {len(found)} packages")
            await packages.fetch(processes, found, debs)
            step.progress("unpacking packages")
            await packages.unpack(processes, found, debs, root, work.scratch)
            step.progress("building")
            await build(root, work, key)

        entry = await store.ensure(kind.name, key, build_entry, thorough=thorough)
        await asyncio.to_thread(_remember, lookup, key, [package.file for package in found])
        return key, entry


def _layer_key(base: str, sources: dict[str, bytes]) -> str:
    return key_of([base, wheel.fingerprint(sources), *_recipe_parts(_LAYER_RECIPE)])


def _iso_key(base: str, sources: dict[str, bytes]) -> str:
    return key_of([base, wheel.fingerprint(sources), *_recipe_parts(_ISO_RECIPE)])


def _recipe(kind: _Kind) -> str:
    return key_of([*kind.packages, *_recipe_parts(kind.recipe)])


def _lookup(place: Path, kind: _Kind) -> Path:
    """The file that remembers which packages this recipe gets from apt's lists as they are now."""
    return place / "resolved" / f"{kind.name}-{key_of([_recipe(kind), of_computer(place).identity()])}.json"


def _recipe_parts(names: Sequence[str]) -> list[bytes]:
    """The content of the recipe's files; a folder stands for all files in it."""
    here = resources.files("rackless.images")
    parts = []
    for name in names:
        place = here.joinpath(name)
        files = sorted((f for f in place.iterdir() if f.is_file()), key=lambda f: f.name) if place.is_dir() else [place]
        for file in files:
            parts += [file.name.encode(), file.read_bytes()]
    return parts


def _load_lookup(lookup: Path) -> dict[str, Any]:
    try:
        found = json.loads(lookup.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) and isinstance(found.get("key"), str) else {}


def _remember(lookup: Path, key: str, files: list[str]) -> None:
    lookup.parent.mkdir(parents=True, exist_ok=True)
    written = lookup.with_suffix(".new")
    written.write_text(json.dumps({"key": key, "packages": files}) + "\n")
    written.rename(lookup)
