import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rackless.errors import CommandFailed, HypervisorError
from rackless.images import cache, packages
from rackless.images.sources import MIRROR, Sources
from rackless.ports.process import Child, Completed

SUM = "1868212d13c009807ddf76a495f7dc2da99e7b4dacf8ddd8117cc1850992989b"
ANSWER = f"""Reading package lists...
'http://example.test/pool/b/busybox/busybox-static_1.35.0-4_amd64.deb' busybox-static_1%3a1.35.0-4_amd64.deb 928188 SHA256:{SUM}
'http://example.test/pool/a/attr/libattr1_2.5.1-4_amd64.deb' libattr1_1%3a2.5.1-4_amd64.deb 22164 SHA256:{SUM}
"""
HOST = Sources(Path("/nowhere"))


class Scripted:
    """Programs that answer what the test says."""

    def __init__(self, answer: str, code: int = 0) -> None:
        self.answer, self.code, self.asked = answer, code, list[tuple[str, ...]]()

    async def run(self, argv: Sequence[str | Path], **_: Any) -> Completed:
        words = tuple(map(str, argv))
        self.asked.append(words)
        if self.code:
            raise CommandFailed(words, self.code, self.answer)
        return Completed(words, 0, self.answer, "")

    async def start(self, argv: Sequence[str | Path], **_: Any) -> Child:
        raise NotImplementedError


async def test_packages_are_read_with_epoch_size_and_checksum(tmp_path: Path) -> None:
    found = await packages.resolve(Scripted(ANSWER), HOST, ["busybox-static"], tmp_path)
    assert [(p.name, p.version, p.size) for p in found] == [
        ("busybox-static", "1:1.35.0-4", 928188),
        ("libattr1", "1:2.5.1-4", 22164),
    ]
    assert found[0].sha256 == SUM


async def test_resolving_does_not_look_at_what_is_installed_here(tmp_path: Path) -> None:
    apt = Scripted(ANSWER)
    await packages.resolve(apt, HOST, ["busybox-static"], tmp_path)
    assert f"Dir::State::status={tmp_path}/status" in apt.asked[0]
    assert (tmp_path / "status").read_text() == ""


async def test_without_package_lists_the_person_is_told_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(HypervisorError) as caught:
        await packages.resolve(Scripted("E: Unable to locate package busybox-static", 100), HOST, ["x"], tmp_path)
    assert "apt-get update" in caught.value.hint


async def test_with_sources_of_our_own_another_mirror_is_what_helps(tmp_path: Path) -> None:
    own = Sources(tmp_path / "apt/lists", tmp_path / "apt")
    apt = Scripted("E: Unable to locate package busybox-static", 100)
    with pytest.raises(HypervisorError) as caught:
        await packages.resolve(apt, own, ["x"], tmp_path)
    assert apt.asked[0][:3] == ("apt-get", "-c", f"{tmp_path}/apt/apt.conf")
    assert MIRROR in caught.value.hint and f"{tmp_path}/apt/sources.list" in caught.value.hint


async def test_a_package_is_fetched_from_the_first_mirror_of_a_list(tmp_path: Path) -> None:
    mirrors = tmp_path / "debian.list"
    mirrors.write_text("# ours\nhttp://first.test/debian/\tpriority:1\nhttp://second.test/debian\n")
    (found,) = await packages.resolve(
        Scripted(f"'mirror+file:{mirrors}/pool/a/a_1%2b2_all.deb' a_1+2_all.deb 3 SHA256:{SUM}\n"),
        HOST,
        ["a"],
        tmp_path,
    )
    assert found.uri == "http://first.test/debian/pool/a/a_1%2b2_all.deb"


def test_a_machine_without_apt_is_told_where_images_can_be_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(HypervisorError) as caught:
        packages.require_machine()
    assert MIRROR in caught.value.hint and "image cache" in caught.value.hint


async def test_packages_that_are_here_and_whole_are_not_fetched_again(tmp_path: Path) -> None:
    debs = tmp_path / "debs"
    debs.mkdir()
    (debs / "a_1_all.deb").write_bytes(b"abc")
    whole = packages.Package("a_1_all.deb", "http://example.test/a", 3, cache.digest(debs / "a_1_all.deb"))
    apt = Scripted("")
    assert await packages.fetch(apt, [whole], debs) == 0
    assert apt.asked == []


async def test_a_failed_download_is_one_failure_and_leaves_no_half_package(tmp_path: Path) -> None:
    wanted = [packages.Package(f"{name}_1_all.deb", f"http://example.test/{name}", 3, SUM) for name in "abc"]
    with pytest.raises(CommandFailed):
        await packages.fetch(Scripted("E: Failed to fetch", 100), wanted, tmp_path / "debs")
    assert list((tmp_path / "debs").iterdir()) == []
