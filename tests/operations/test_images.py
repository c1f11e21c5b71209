"""The shared cache from a person's side: nothing that a lab uses goes, nothing that is damaged stays unsaid."""

import os
from pathlib import Path

import pytest

from rackless.drivers import open_drivers
from rackless.drivers.fake.world import FakeWorld
from rackless.errors import HypervisorError, LabError
from rackless.events import Bus
from rackless.images import stock
from rackless.images.cache import ImageCache, Workspace
from rackless.images.catalogue import Current
from rackless.operations import images as image_operations
from rackless.run.paths import LabPaths, Roots
from rackless.run.supplies import Supplies, save_supplies

WORLD = FakeWorld({})
WORLD.environment.version = "now"
DRIVERS = open_drivers(WORLD)
FILES = ("deploy.kernel", "deploy.initramfs", "esp.img", "node.qcow2")


@pytest.fixture
def roots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Roots:
    now = Current(frozenset({"deploy-now", "node-now"}), frozenset(), None, frozenset())
    monkeypatch.setattr(stock, "current", lambda root: now)
    return Roots(tmp_path / "state", tmp_path / "run", tmp_path / "cache")


async def put(roots: Roots, kind: str, key: str) -> Path:
    async def build(work: Workspace) -> None:
        for name in FILES:
            (work.out / name).write_text(f"{kind} {key}")

    return await ImageCache(roots.images).ensure(kind, key, build)


async def put_environment(roots: Roots, key: str) -> Path:
    venv = roots.cache / "ironic" / key
    venv.mkdir(parents=True)
    (venv / ".complete").touch()
    return venv


async def use(roots: Roots, lab: str, key: str) -> LabPaths:
    """A lab that uses the entries and the environment of this key."""
    deploy, node = (roots.images / "entries" / f"{kind}-{key}" for kind in ("deploy", "node"))
    paths = LabPaths(roots, lab)
    paths.state.mkdir(parents=True)
    kernel, initramfs, esp = (deploy / name for name in FILES[:3])
    venv = roots.cache / "ironic" / key
    listed = Supplies(venv, kernel, initramfs, esp, node / FILES[3], "ab", False)
    save_supplies(paths.supplies, listed)
    image_operations.register_use(paths)
    return paths


async def fill(roots: Roots) -> None:
    for key in ("now", "used", "old"):
        for kind in ("deploy", "node"):
            await put(roots, kind, key)
        await put_environment(roots, key)


async def removed(roots: Roots, *, dry_run: bool = False) -> list[str]:
    done = await image_operations.prune(roots, Bus(), DRIVERS, dry_run=dry_run)
    return [item["name"] for item in done["removed"]]


async def test_prune_takes_what_is_old_and_unused_and_nothing_else(roots: Roots) -> None:
    await fill(roots)
    await use(roots, "lab", "used")
    everything = {path.name for path in (roots.images / "entries").iterdir()}
    assert await removed(roots, dry_run=True) == ["deploy-old", "node-old", "ironic-old"]
    assert {path.name for path in (roots.images / "entries").iterdir()} == everything

    assert await removed(roots) == ["deploy-old", "node-old", "ironic-old"]
    assert {path.name for path in (roots.images / "entries").iterdir()} == everything - {"deploy-old", "node-old"}
    assert sorted(path.name for path in (roots.cache / "ironic").iterdir()) == ["now", "used"]
    assert await removed(roots) == []


async def test_a_lab_whose_state_is_kept_elsewhere_is_seen_and_one_that_is_gone_is_not(
    roots: Roots, tmp_path: Path
) -> None:
    await fill(roots)
    elsewhere = Roots(tmp_path / "elsewhere", tmp_path / "run", roots.cache)
    paths = await use(elsewhere, "theirs", "used")
    by = {entry["name"]: entry["used_by"] for entry in await image_operations.listing(roots, DRIVERS)}
    assert by["deploy-used"] == by["node-used"] == by["ironic-used"] == ["theirs"]
    assert "deploy-used" not in await removed(roots, dry_run=True)

    paths.supplies.unlink()
    assert "deploy-used" in await removed(roots)
    assert list(roots.uses.iterdir()) == []


async def test_verify_names_what_is_damaged_and_how(roots: Roots) -> None:
    await fill(roots)
    await image_operations.verify(roots, Bus(), DRIVERS)
    os.truncate(roots.images / "entries/node-now/node.qcow2", 2)
    (roots.cache / "ironic/used/.complete").unlink()
    with pytest.raises(LabError) as failure:
        await image_operations.verify(roots, Bus(), DRIVERS)
    assert failure.value.what == "2 of 9 in the cache are damaged"
    assert failure.value.why == ("node-now: node.qcow2 has 2 bytes instead of 8\nironic-used: it was never completed")
    assert "rackless images build" in failure.value.hint


async def test_only_root_removes_and_anybody_looks(roots: Roots, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WORLD.computer, "is_root", False)
    await fill(roots)
    assert len(await image_operations.listing(roots, DRIVERS)) == 9
    assert len(await removed(roots, dry_run=True)) >= 3
    with pytest.raises(HypervisorError, match="only root"):
        await removed(roots)
