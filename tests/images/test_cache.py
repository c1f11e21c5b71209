import asyncio
import os
from pathlib import Path

import pytest

from rackless.images.cache import ImageCache, Workspace, key_of, load_manifest


class Builder:
    """Writes one file, and counts how often it was asked to."""

    def __init__(self, content: str = "content", seconds: float = 0.0) -> None:
        self.content, self.seconds, self.times = content, seconds, 0

    async def __call__(self, work: Workspace) -> None:
        self.times += 1
        (work.scratch / "rubbish").write_text("x")
        await asyncio.sleep(self.seconds)
        (work.out / "image").write_text(self.content)


async def test_an_entry_is_built_once_and_then_found(tmp_path: Path) -> None:
    build = Builder()
    first = await ImageCache(tmp_path).ensure("deploy", "k", build)
    second = await ImageCache(tmp_path).ensure("deploy", "k", build)
    assert first == second
    assert (first / "image").read_text() == "content"
    assert build.times == 1
    assert list((tmp_path / "building").iterdir()) == []


async def test_builders_at_the_same_time_build_once(tmp_path: Path) -> None:
    build = Builder(seconds=0.05)
    entries = await asyncio.gather(*(ImageCache(tmp_path).ensure("deploy", "k", build) for _ in range(4)))
    assert len(set(entries)) == 1
    assert build.times == 1


async def test_a_builder_that_fails_leaves_nothing_and_the_next_one_builds(tmp_path: Path) -> None:
    async def fail(work: Workspace) -> None:
        (work.out / "image").write_text("half")
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        await ImageCache(tmp_path).ensure("deploy", "k", fail)
    assert await ImageCache(tmp_path).find("deploy", "k") is None
    assert list((tmp_path / "building").iterdir()) == []
    entry = await ImageCache(tmp_path).ensure("deploy", "k", Builder())
    assert (entry / "image").read_text() == "content"


async def test_what_a_dead_builder_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / "building/deploy-k.dead/out").mkdir(parents=True)
    (tmp_path / "building/node-k.alive/out").mkdir(parents=True)
    await ImageCache(tmp_path).ensure("deploy", "k", Builder())
    assert [path.name for path in (tmp_path / "building").iterdir()] == ["node-k.alive"]


@pytest.mark.parametrize("damage", ["changed", "cut", "gone", "no manifest", "bad manifest"])
async def test_a_damaged_entry_is_built_again(tmp_path: Path, damage: str) -> None:
    build = Builder()
    entry = await ImageCache(tmp_path).ensure("deploy", "k", build)
    image, manifest = entry / "image", entry / "manifest.json"
    match damage:
        case "changed":
            image.write_text("CONTENT")
        case "cut":
            image.write_text("con")
        case "gone":
            image.unlink()
        case "no manifest":
            manifest.unlink()
        case "bad manifest":
            manifest.write_text('{"files": []}')
    entry = await ImageCache(tmp_path).ensure("deploy", "k", build)
    assert (entry / "image").read_text() == "content"
    assert build.times == 2


async def test_a_copied_entry_with_other_times_is_still_good(tmp_path: Path) -> None:
    build = Builder()
    entry = await ImageCache(tmp_path).ensure("deploy", "k", build)
    os.utime(entry / "image", (1, 1))
    await ImageCache(tmp_path).ensure("deploy", "k", build)
    assert build.times == 1


async def test_the_manifest_tells_the_checksum(tmp_path: Path) -> None:
    entry = await ImageCache(tmp_path).ensure("deploy", "k", Builder("abc"))
    assert load_manifest(entry)["image"]["sha256"].startswith("ba7816bf")


def test_parts_of_a_key_do_not_run_into_each_other() -> None:
    assert key_of(["ab", "c"]) != key_of(["a", "bc"])
    assert key_of(["ab", "c"]) == key_of([b"ab", "c"])
