"""Debian 12's packages whatever the computer runs: which sources apt is given, and when it asks them anew."""

import gzip
import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rackless.drivers.process import LocalProcesses
from rackless.errors import CommandFailed, HypervisorError
from rackless.images import catalogue, packages, sources
from rackless.images.sources import MIRROR, Mirrors, choose_mirrors, of_computer, refresh
from rackless.ports.process import Child, Completed

DEBIAN_12 = 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nVERSION_ID="12"\nVERSION_CODENAME=bookworm\nID=debian\n'
DEBIAN_13 = 'PRETTY_NAME="Debian GNU/Linux 13 (trixie)"\nVERSION_ID="13"\nVERSION_CODENAME=trixie\nID=debian\n'
UBUNTU = 'PRETTY_NAME="Ubuntu 24.04.3 LTS"\nVERSION_ID="24.04"\nVERSION_CODENAME=noble\nID=ubuntu\nID_LIKE=debian\n'
OWN = Mirrors("http://mirror.test/debian", "http://mirror.test/debian-security")
TARGETS = "Packages|main|Debian|Debian|trixie|http://mirror.test/debian/\n"


class Apt:
    """Answers with the computer's sources; an update writes a release file, or fails."""

    def __init__(self, lists: Path, targets: str = TARGETS, failure: str = "") -> None:
        self.lists, self.targets, self.failure = lists, targets, failure
        self.updates = list[tuple[str, ...]]()

    async def run(self, argv: Sequence[str | Path], **_: Any) -> Completed:
        words = tuple(map(str, argv))
        if "indextargets" in words:
            return Completed(words, 0, self.targets, "")
        self.updates.append(words)
        if self.failure:
            raise CommandFailed(words, 100, self.failure)
        (self.lists / "mirror_InRelease").write_text(f"release {len(self.updates)}")
        return Completed(words, 0, "", "")

    async def start(self, argv: Sequence[str | Path], **_: Any) -> Child:
        raise NotImplementedError


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Debian 13 with the keys of Debian's archive; answers with its os-release."""
    release, keys = tmp_path / "os-release", tmp_path / "keys.gpg"
    release.write_text(DEBIAN_13)
    keys.touch()
    monkeypatch.setattr(sources, "_OS_RELEASE", release)
    monkeypatch.setattr(sources, "KEYRING", keys)
    monkeypatch.delenv(MIRROR, raising=False)
    return release


def test_a_debian_12_is_asked_itself_and_every_other_machine_gets_sources_of_ours(
    tmp_path: Path, machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert of_computer(tmp_path).options == ("-c", f"{tmp_path}/apt/apt.conf")
    machine.write_text(UBUNTU)
    assert of_computer(tmp_path).lists == tmp_path / "apt/lists"
    machine.unlink()
    assert of_computer(tmp_path).lists == tmp_path / "apt/lists"
    machine.write_text(DEBIAN_12)
    assert (of_computer(tmp_path).lists, of_computer(tmp_path).options) == (Path("/var/lib/apt/lists"), ())
    monkeypatch.setenv(MIRROR, "http://mirror.test/debian")
    assert of_computer(tmp_path).lists == tmp_path / "apt/lists"


async def choose(targets: str, system: str = DEBIAN_13, mirror: str = "") -> Mirrors:
    said = {name: value.strip('"') for name, _, value in (line.partition("=") for line in system.splitlines())}
    return await choose_mirrors(Apt(Path(), targets), said, {MIRROR: mirror})


async def test_the_machines_own_mirror_of_debian_is_used() -> None:
    targets = (
        "Packages|main|Google|x|stable|https://apt.example.test/chrome/\n"
        "Packages|contrib|Debian|Debian|trixie|http://contrib.test/debian/\n"
        "Sources|main|Debian|Debian|trixie|http://sources.test/debian/\n"
        "Packages|main|Debian|Debian|trixie|cdrom:[Debian GNU/Linux 13]/\n"
        "Packages|main|Debian|Debian|trixie|http://mirror.test/debian/\n"
        "Packages|main|Debian|Debian Backports|trixie-backports|http://other.test/debian/\n"
        "Packages|main|Debian|Debian-Security|trixie-security|http://security.test/\n"
    )
    assert await choose(targets) == Mirrors("http://mirror.test/debian", "http://security.test")


async def test_before_the_machines_first_update_the_names_of_its_suites_tell() -> None:
    unknown = "$(ORIGIN)|$(LABEL)"
    targets = (
        f"Packages|main|{unknown}|nodistro|http://other.test/\n"
        f"Packages|main|{unknown}|trixie|http://mirror.test/debian/\n"
        f"Packages|main|{unknown}|trixie-security|http://mirror.test/debian-security/\n"
    )
    assert await choose(targets) == Mirrors("http://mirror.test/debian", "http://mirror.test/debian-security")
    with pytest.raises(HypervisorError, match="no mirror of Debian is known"):
        await choose(targets.replace("trixie", "noble"), UBUNTU)


async def test_a_security_archive_that_is_no_source_is_looked_for_beside_the_mirror() -> None:
    assert await choose("Packages|main|Debian|Debian|sid|http://mirror.test/debian/\n") == OWN


async def test_a_list_of_mirrors_stands_for_its_first(tmp_path: Path) -> None:
    listed = tmp_path / "debian.list"
    listed.write_text("http://first.test/debian\n")
    assert (
        await choose(f"Packages|main|Debian|Debian|trixie|mirror+file:{listed}/\n")
    ).main == "http://first.test/debian"


async def test_a_machine_that_is_no_debian_must_be_told_a_mirror() -> None:
    for targets in ("Packages|main|Ubuntu|Ubuntu|noble|http://archive.ubuntu.test/ubuntu/\n", ""):
        with pytest.raises(HypervisorError, match="no mirror of Debian is known") as caught:
            await choose(targets, UBUNTU)
        assert MIRROR in caught.value.hint


async def test_a_mirror_can_be_asked_for_with_or_without_its_security_archive() -> None:
    targets = "Packages|main|Debian|Debian|trixie|http://own.test/debian/\n"
    assert await choose(targets, mirror="http://m.test/debian/") == Mirrors(
        "http://m.test/debian", "http://m.test/debian-security"
    )
    assert await choose(targets, mirror="http://m.test/a http://n.test/b") == Mirrors(
        "http://m.test/a", "http://n.test/b"
    )


async def test_lists_are_fetched_once_a_day_and_by_demand_once_an_hour(tmp_path: Path, machine: Path) -> None:
    found = of_computer(tmp_path)
    apt = Apt(found.lists)
    empty = found.identity()
    await refresh(apt, found)
    first = found.identity()
    assert first != empty
    listed = (tmp_path / "apt/sources.list").read_text().splitlines()
    assert [line.split("] ")[1] for line in listed] == [
        "http://mirror.test/debian bookworm main",
        "http://mirror.test/debian bookworm-updates main",
        "http://mirror.test/debian-security bookworm-security main",
    ]
    assert all(f"signed-by={sources.KEYRING}]" in line for line in listed)
    await refresh(apt, found)
    await refresh(apt, found, now=True)
    assert len(apt.updates) == 1 and found.identity() == first

    def make_older(hours: float) -> None:
        os.utime(tmp_path / "apt/updated", (time.time() - hours * 3600,) * 2)

    make_older(2)
    await refresh(apt, found)
    assert len(apt.updates) == 1
    await refresh(apt, found, now=True)
    assert len(apt.updates) == 2 and found.identity() != first
    make_older(25)
    await refresh(apt, found)
    assert len(apt.updates) == 3


async def test_another_mirror_is_asked_at_once(tmp_path: Path, machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = of_computer(tmp_path)
    apt = Apt(found.lists)
    await refresh(apt, found)
    monkeypatch.setenv(MIRROR, "http://other.test/debian")
    apt.failure = "E: 404 Not Found"
    for _ in range(2):  # the old mirror's lists do not count for the new one, also when it is tried again
        with pytest.raises(HypervisorError) as caught:
            await refresh(apt, found)
        assert "http://other.test/debian-security bookworm-security" in caught.value.why and MIRROR in caught.value.hint
    apt.failure = ""
    await refresh(apt, found)
    assert len(apt.updates) == 4


async def test_lists_that_are_here_serve_when_there_is_no_way_to_newer_ones(tmp_path: Path, machine: Path) -> None:
    found = of_computer(tmp_path)
    apt = Apt(found.lists)
    await refresh(apt, found)
    os.utime(tmp_path / "apt/updated", (0, 0))
    apt.failure = "E: Could not connect"
    assert "older package lists" in await refresh(apt, found)
    assert len(apt.updates) == 2


async def test_without_debians_keys_the_command_that_brings_them_is_told(tmp_path: Path, machine: Path) -> None:
    sources.KEYRING.unlink()
    apt = Apt(tmp_path)
    with pytest.raises(HypervisorError) as caught:
        await refresh(apt, of_computer(tmp_path))
    assert caught.value.hint == "apt-get install debian-archive-keyring"
    assert apt.updates == []


async def test_a_debian_12_keeps_its_lists_itself(tmp_path: Path, machine: Path) -> None:
    machine.write_text(DEBIAN_12)
    apt = Apt(tmp_path)
    await refresh(apt, of_computer(tmp_path), now=True)
    assert apt.updates == []


async def test_what_was_built_from_lists_in_the_cache_is_current_wherever_the_cache_is_copied(
    tmp_path: Path, machine: Path
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    found = of_computer(here)
    await refresh(Apt(found.lists), found)
    for kind in (catalogue._DEPLOY, catalogue._NODE_BASE):
        catalogue._remember(catalogue._lookup(here, kind), "key", [])
    shutil.copytree(here, there)
    machine.write_text("ID=fedora\nVERSION_ID=44\n")
    assert "deploy-key" in catalogue.current(there).entries and not catalogue.current(there).unknown


@pytest.mark.skipif(not shutil.which("apt-get"), reason="apt is not here")
async def test_apt_itself_resolves_from_these_sources_and_from_no_others(
    tmp_path: Path, machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the computer prefers, hooks into an update or defaults to does not count; a mirror on disk stands for Debian's."""
    hooked, preferred = tmp_path / "hooked", tmp_path / "preferences"
    preferred.write_text("Package: *\nPin: release *\nPin-Priority: -1\n")
    (tmp_path / "apt.conf").write_text(
        f'Dir::Etc::preferences "{preferred}";\nAPT::Default-Release "trixie";\n'
        f'APT::Update::Post-Invoke-Success {{ "touch {hooked}"; }};\nAPT::Update::Pre-Invoke {{ "touch {hooked}"; }};\n'
    )
    monkeypatch.setenv("APT_CONFIG", str(tmp_path / "apt.conf"))
    for name, suites in (("debian", ("bookworm", "bookworm-updates")), ("debian-security", ("bookworm-security",))):
        for suite in suites:
            make_suite(tmp_path / "mirror" / name, suite, "tiny" if suite == "bookworm" else f"only-{suite}")
    monkeypatch.setenv(MIRROR, f"file:{tmp_path}/mirror/debian")
    monkeypatch.setattr(
        sources, "render", lambda mirrors: RENDER(mirrors).replace("signed-by=", "trusted=yes signed-by=")
    )
    found = of_computer(tmp_path / "cache")
    await refresh(LocalProcesses(), found)
    (package,) = await packages.resolve(LocalProcesses(), found, ["tiny"], tmp_path)
    assert (package.file, package.uri) == ("tiny_1_all.deb", f"file:{tmp_path}/mirror/debian/pool/tiny_1_all.deb")
    assert not hooked.exists()
    with pytest.raises(HypervisorError):  # which the computer itself surely has
        await packages.resolve(LocalProcesses(), found, ["bash"], tmp_path)


RENDER = sources.render


def make_suite(mirror: Path, suite: str, package: str) -> None:
    tree, place = mirror / "tree", mirror / "dists" / suite / "main/binary-amd64"
    for folder in (tree / "DEBIAN", place, mirror / "pool"):
        folder.mkdir(parents=True, exist_ok=True)
    (tree / "DEBIAN/control").write_text(
        f"Package: {package}\nVersion: 1\nArchitecture: all\nMaintainer: nobody <n@example.test>\nDescription: tiny\n"
    )
    deb = mirror / f"pool/{package}_1_all.deb"
    subprocess.run(["dpkg-deb", "--build", "--root-owner-group", tree, deb], check=True, capture_output=True)
    shutil.rmtree(tree)
    control = subprocess.run(["dpkg-deb", "--field", deb], check=True, capture_output=True, text=True).stdout
    content = deb.read_bytes()
    record = (
        f"{control}Filename: pool/{deb.name}\nSize: {len(content)}\nSHA256: {hashlib.sha256(content).hexdigest()}\n"
    )
    listed = {"Packages": record.encode(), "Packages.gz": gzip.compress(record.encode())}
    for name, data in listed.items():
        (place / name).write_bytes(data)
    sums = "".join(
        f" {hashlib.sha256(data).hexdigest()} {len(data)} main/binary-amd64/{name}\n" for name, data in listed.items()
    )
    (place.parent.parent / "Release").write_text(
        f"Origin: Debian\nLabel: Debian\nSuite: {suite}\nCodename: {suite}\nDate: {DATE}\n"
        f"Architectures: amd64\nComponents: main\nSHA256:\n{sums}"
    )


DATE = "Thu, 01 Jan 2026 00:00:00 UTC"
