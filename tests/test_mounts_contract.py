"""What every mount namespace does, be it a kernel's or a fake's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rackless.drivers.fake.mounts import FakeMounts
from rackless.drivers.mounts import LinuxMounts
from rackless.ports.mounts import Mounts
from tests.own_network import own_network

Story = Callable[[Mounts, Path], None]
Told = Callable[[Story], None]


@pytest.fixture(params=[pytest.param("linux", marks=pytest.mark.real), "fake"])
def told(request: pytest.FixtureRequest, tmp_path: Path) -> Told:
    def tell(story: Story) -> None:
        for name in ("one", "other"):
            (tmp_path / name / "deep").mkdir(parents=True)
            (tmp_path / name / "file").write_text(name)
            (tmp_path / name / "deep" / "file").write_text(f"deep in {name}")
        if request.param == "fake":
            story(FakeMounts(), tmp_path)
            return

        async def live() -> None:
            mounts = LinuxMounts()
            mounts.keep_inside()
            story(mounts, tmp_path)

        with own_network(mounts=True) as tell_there:
            tell_there(live)
        assert (tmp_path / "one" / "file").read_text() == "one", "outside nothing has changed"

    return tell


def test_a_folder_is_shown_in_the_place_of_another(told: Told) -> None:
    def story(mounts: Mounts, folder: Path) -> None:
        mounts.bind(folder / "other", folder / "one")
        assert mounts.read(folder / "one" / "file") == "other"
        assert mounts.read(folder / "one" / "deep" / "file") == "deep in other"
        mounts.bind(folder / "new", folder / "other" / "deep")
        assert mounts.exists(folder / "other" / "deep") and not mounts.exists(folder / "other" / "deep" / "file")
        assert (folder / "new").is_dir(), "what was missing is made"

    told(story)


def test_a_file_is_shown_in_the_place_of_another_that_is_there(told: Told) -> None:
    def story(mounts: Mounts, folder: Path) -> None:
        mounts.bind(folder / "other" / "file", folder / "one" / "file")
        assert mounts.read(folder / "one" / "file") == "other"
        with pytest.raises(FileNotFoundError):
            mounts.bind(folder / "other" / "file", folder / "one" / "nothing")

    told(story)


@pytest.mark.parametrize("tree", [True, False])
def test_a_tree_is_shown_with_what_is_mounted_in_it(told: Told, tree: bool) -> None:
    def story(mounts: Mounts, folder: Path) -> None:
        mounts.bind(folder / "other", folder / "one" / "deep")
        mounts.bind(folder / "one", folder / "top", tree=tree)
        assert mounts.read(folder / "top" / "file") == "one"
        assert mounts.read(folder / "top" / "deep" / "file") == ("other" if tree else "deep in one")

    told(story)


def test_links_are_followed_also_to_what_is_not_there(told: Told) -> None:
    def story(mounts: Mounts, folder: Path) -> None:
        link, target = folder / "link", folder / "nowhere" / "file"
        link.symlink_to(target)
        if isinstance(mounts, FakeMounts):
            mounts.links[link] = target
        assert mounts.resolve(link) == target and mounts.resolve(folder / "one") == folder / "one"
        assert not mounts.exists(target) and mounts.exists(folder / "one" / "file")

    told(story)


def test_the_rest_of_a_labs_view_can_be_made(told: Told) -> None:
    def story(mounts: Mounts, folder: Path) -> None:
        mounts.mount_sysfs(Path("/sys"))
        mounts.open_device(folder / "no-such-device", folder / "scratch")
        assert not (folder / "scratch").exists()
        mounts.work_in(folder / "one")
        mounts.work_in(folder / "nowhere")

    told(story)
