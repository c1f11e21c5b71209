"""What is in the cache, what may go, and that nothing else does."""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from rackless.images import stock
from rackless.images.cache import ImageCache, Workspace, locked
from rackless.images.catalogue import Current, current

CONTENT = b"x" * 5000


async def put(root: Path, kind: str, key: str, built: float = 1000.0) -> Path:
    async def build(work: Workspace) -> None:
        (work.out / "image").write_bytes(CONTENT)

    entry = await ImageCache(root).ensure(kind, key, build)
    os.utime(entry / "manifest.json", (built, built))
    return entry


def make_current(
    monkeypatch: pytest.MonkeyPatch,
    *names: str,
    lookups: Sequence[str] = (),
    packages: Sequence[str] | None = None,
    unknown: Sequence[str] = (),
) -> None:
    files = frozenset(packages) if packages is not None else None
    now = Current(frozenset(names), frozenset(lookups), files, frozenset(unknown))
    monkeypatch.setattr(stock, "current", lambda root: now)


async def test_entries_tell_their_size_their_users_and_whether_they_are_current(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_current(monkeypatch, "deploy-b")
    old, new = await put(tmp_path, "deploy", "a", 1000), await put(tmp_path, "deploy", "b", 2000)
    used = await put(tmp_path, "node-base", "c", 500)
    found = stock.entries(tmp_path, {used / "image": ["lab", "other"]})
    assert [(entry.name, entry.kind, entry.current, entry.used_by, entry.may_go) for entry in found] == [
        ("deploy-b", "deploy", True, (), False),
        ("deploy-a", "deploy", False, (), True),
        ("node-base-c", "node-base", False, ("lab", "other"), False),
    ]
    assert all(entry.bytes >= len(CONTENT) for entry in found)
    assert found[0].path == new and found[1].path == old


async def test_while_nothing_is_known_of_now_the_newest_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_current(monkeypatch, unknown=["deploy"])
    for number, key in enumerate("abc"):
        await put(tmp_path, "deploy", key, 1000.0 + number)
    assert {entry.name: entry.may_go for entry in stock.entries(tmp_path, {})} == {
        "deploy-a": True,
        "deploy-b": True,
        "deploy-c": False,
    }


@pytest.mark.parametrize("damaged", ["cut", "flipped", "gone", "none"])
async def test_every_byte_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damaged: str) -> None:
    make_current(monkeypatch, "deploy-a")
    image = await put(tmp_path, "deploy", "a") / "image"
    before = image.stat()
    match damaged:
        case "cut":
            os.truncate(image, 100)
        case "flipped":  # also when its time tells nothing
            image.write_bytes(b"y" + CONTENT[1:])
            os.utime(image, ns=(before.st_atime_ns, before.st_mtime_ns))
        case "gone":
            image.unlink()
    (entry,) = stock.entries(tmp_path, {})
    expected = {
        "cut": "image has 100 bytes instead of 5000",
        "flipped": "image has another content than was built",
        "gone": "image is gone",
        "none": "",
    }
    assert stock.verify(entry) == expected[damaged]


async def test_a_thorough_build_makes_a_flipped_entry_anew(tmp_path: Path) -> None:
    entry = await put(tmp_path, "deploy", "a")
    before = (entry / "image").stat()
    (entry / "image").write_bytes(b"y" + CONTENT[1:])
    os.utime(entry / "image", ns=(before.st_atime_ns, before.st_mtime_ns))

    async def build(work: Workspace) -> None:
        (work.out / "image").write_bytes(CONTENT)

    await ImageCache(tmp_path).ensure("deploy", "a", build, thorough=True)
    assert (entry / "image").read_bytes() == CONTENT


async def test_an_entry_that_is_being_built_is_not_retired(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_current(monkeypatch)
    await put(tmp_path, "deploy", "a")
    (entry,) = stock.entries(tmp_path, {})
    async with locked(ImageCache(tmp_path).lock("deploy-a")):
        assert not stock.retire(tmp_path, entry)
        assert entry.path.exists()
    assert stock.retire(tmp_path, entry)
    assert not entry.path.exists() and list((tmp_path / "building").iterdir()) == []


async def test_leftovers_are_what_the_dead_and_the_old_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_current(monkeypatch, lookups=["deploy-now.json"], packages=["bash_1_amd64.deb"])
    for name in (
        "building/deploy-a.dead/out/half",
        "building/deploy-b.alive/out/half",
        "resolved/deploy-now.json",
        "resolved/deploy-then.json",
        "debs/bash_1_amd64.deb",
        "debs/bash_0_amd64.deb",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    async with locked(ImageCache(tmp_path).lock("deploy-b")):
        found = stock.leftovers(tmp_path)
    assert [str(path.relative_to(tmp_path)) for path in found] == [
        "building/deploy-a.dead",
        "debs/bash_0_amd64.deb",
        "resolved/deploy-then.json",
    ]


def test_packages_stay_while_it_is_not_known_which_are_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_current(monkeypatch)
    (tmp_path / "debs").mkdir()
    (tmp_path / "debs/bash_0_amd64.deb").touch()
    (tmp_path / "resolved").mkdir()
    (tmp_path / "resolved/deploy-then.json").touch()
    assert stock.leftovers(tmp_path) == []


def test_before_apts_answer_nothing_is_known_of_any_image_and_nothing_is_called_old(tmp_path: Path) -> None:
    now = current(tmp_path)
    assert now.unknown == {"deploy", "node-base", "node"}
    assert now.packages is None and now.lookups == frozenset()
    assert {name.rpartition("-")[0] for name in now.entries} == {"wheels"}
