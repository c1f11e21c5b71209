"""`rackless images`: list the shared cache of images, build, verify and prune it.

Which lab uses which image is in the folder `uses` of the cache, as paths of the labs' own lists: so labs with another
RACKLESS_STATE count, and a lab that is gone does not.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rackless.errors import LabError
from rackless.events import Bus
from rackless.images import stock
from rackless.images.catalogue import TITLES, ensure_deploy_image, ensure_node_image
from rackless.operations.lab_registry import SHARING, require_root
from rackless.ports.drivers import Drivers
from rackless.run.files import write
from rackless.run.paths import LabPaths, Roots
from rackless.run.supplies import load_supplies

IRONIC = "ironic"


def register_use(paths: LabPaths, supplies: Path | None = None) -> None:
    """Register a lab's (or its install's) list of images in the cache: they are in use for as long as the list exists."""
    listed = supplies or paths.supplies
    if listed.exists():
        name = hashlib.sha256(str(listed).encode()).hexdigest()[:16]
        use = {"lab": paths.name, "supplies": str(listed)}
        write(paths.roots.uses / f"{name}.json", json.dumps(use) + "\n")


def uses(roots: Roots) -> dict[Path, list[str]]:
    """For each file or folder of the cache, the labs that use it."""
    found: dict[Path, list[str]] = {}
    for lab, supplies in sorted(set(_users(roots))):
        try:
            listed = load_supplies(supplies)
        except (OSError, ValueError, KeyError, TypeError):
            continue
        for path in (listed.ironic, listed.kernel, listed.initramfs, listed.esp, listed.node):
            if path is not None:
                found.setdefault(path, []).append(lab)
    return found


def _users(roots: Roots) -> Iterator[tuple[str, Path]]:
    for name in roots.labs():
        yield name, LabPaths(roots, name).supplies
    for use in roots.uses.glob("*.json"):
        try:
            said = json.loads(use.read_text())
            yield str(said["lab"]), Path(said["supplies"])
        except (OSError, ValueError, KeyError, TypeError):
            continue


async def listing(roots: Roots, drivers: Drivers) -> list[dict[str, Any]]:
    """Everything in the cache that is built, with who uses it."""
    by = uses(roots)
    images = await asyncio.to_thread(stock.entries, roots.images, by)
    return [
        *(_told(entry, TITLES.get(entry.kind, entry.kind)) for entry in images),
        *(_told(entry, "Ironic's environment") for entry in await _environments(roots, by, drivers)),
    ]


async def build(roots: Roots, bus: Bus, drivers: Drivers) -> list[dict[str, Any]]:
    """Have the images of this version in the cache; checksums of those that are there are verified, and damaged ones are built
    again."""
    require_root("build images", drivers.computer, why=SHARING)
    processes = drivers.processes
    async with asyncio.TaskGroup() as group:
        group.create_task(drivers.open_environment().ensure(roots.cache, bus))
        group.create_task(ensure_deploy_image(roots.images, processes, bus, thorough=True))
        group.create_task(ensure_node_image(roots.images, processes, bus, thorough=True))
    return await listing(roots, drivers)


async def verify(roots: Roots, bus: Bus, drivers: Drivers) -> list[dict[str, Any]]:
    """Verify the checksum of everything in the cache; raises when a file differs from what was built."""
    by, environment = uses(roots), drivers.open_environment()
    checked: list[dict[str, Any]] = []
    for entry in await asyncio.to_thread(stock.entries, roots.images, by):
        with bus.step(entry.name) as step:
            wrong = await asyncio.to_thread(stock.verify, entry)
            step.outcome, step.detail = ("failed", wrong) if wrong else ("done", "as it was built")
            checked.append({"name": entry.name, "damage": wrong, "used_by": list(entry.used_by)})
    for entry in await _environments(roots, by, drivers):
        with bus.step(entry.name) as step:
            wrong = "" if environment.complete(entry.path) else "it was never completed"
            step.outcome, step.detail = ("failed", wrong) if wrong else ("done", "complete")
            checked.append({"name": entry.name, "damage": wrong, "used_by": list(entry.used_by)})
    if damaged := [found for found in checked if found["damage"]]:
        raise LabError(
            f"{len(damaged)} of {len(checked)} in the cache are damaged",
            why="\n".join(f"{found['name']}: {found['damage']}" for found in damaged),
            hint="`rackless images build` builds those of now again, `rackless images prune` takes old ones away",
        )
    return checked


async def prune(roots: Roots, bus: Bus, drivers: Drivers, *, dry_run: bool) -> dict[str, Any]:
    """Delete images that no lab uses and that this version does not build any more."""
    if not dry_run:
        require_root("remove images", drivers.computer, why=SHARING)
    by, environment = uses(roots), drivers.open_environment()
    gone: list[dict[str, Any]] = []
    for entry in await asyncio.to_thread(stock.entries, roots.images, by):
        if entry.may_go and (dry_run or await asyncio.to_thread(stock.retire, roots.images, entry)):
            gone.append({"name": entry.name, "bytes": entry.bytes})
    for entry in await _environments(roots, by, drivers):
        if entry.may_go and (dry_run or await asyncio.to_thread(environment.retire, entry.path)):
            gone.append({"name": entry.name, "bytes": entry.bytes})
    left = await asyncio.to_thread(stock.leftovers, roots.images)
    for path in left:
        gone.append({"name": str(path.relative_to(roots.images)), "bytes": stock.size(path)})
        if not dry_run:
            await asyncio.to_thread(stock.remove, path)
    if not dry_run:
        _forget_labs_that_are_gone(roots)
    return {"dry_run": dry_run, "removed": gone, "bytes": sum(item["bytes"] for item in gone)}


async def _environments(roots: Roots, by: dict[Path, list[str]], drivers: Drivers) -> list[stock.StockedImage]:
    current = await drivers.open_environment().current(roots.cache)
    return [
        stock.StockedImage(
            f"{IRONIC}-{path.name}",
            IRONIC,
            path,
            await asyncio.to_thread(stock.size, path),
            path.stat().st_mtime,
            path == current,
            tuple(by.get(path, ())),
        )
        for path in sorted((roots.cache / IRONIC).glob("*"))
        if path.is_dir()
    ]


def _forget_labs_that_are_gone(roots: Roots) -> None:
    for use in roots.uses.glob("*.json"):
        try:
            there = Path(json.loads(use.read_text())["supplies"]).exists()
        except (OSError, ValueError, KeyError, TypeError):
            there = False
        if not there:
            use.unlink(missing_ok=True)


def _told(entry: stock.StockedImage, title: str) -> dict[str, Any]:
    return {
        "name": entry.name,
        "what": title,
        "bytes": entry.bytes,
        "built": datetime.fromtimestamp(entry.built, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "current": entry.current,
        "used_by": list(entry.used_by),
        "path": str(entry.path),
    }
