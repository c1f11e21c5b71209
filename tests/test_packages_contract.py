"""What every set of packages does, be it Debian's or a fake's.

Debian's are those of an archive in a folder, and are installed into a dpkg of the test's own, in namespaces of its own: nothing is
fetched, and nothing of this computer changes.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import Callable, Coroutine
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from rackless.drivers import namespaces as ns
from rackless.drivers.debian import DebianPackages
from rackless.drivers.fake.packages import FakePackages
from rackless.errors import CommandFailed
from rackless.ports.packages import Packages
from tests.own_network import own_network

THERE, FIRST, SECOND, NOBODYS = "rl-there", "rl-first", "rl-second", "rl-offered-by-nobody"
OWN = ("var/lib/dpkg", "var/lib/apt", "var/cache/apt", "var/log", "etc/apt")
"""What dpkg and apt write to, or read where packages are from."""

Story = Callable[[Packages], Coroutine[Any, Any, None]]
Told = Callable[[Story], None]


@pytest.fixture(params=[pytest.param("debian", marks=pytest.mark.real), "fake"])
def told(request: pytest.FixtureRequest, tmp_path: Path) -> Told:
    """A story is given packages of which one is there, two are offered, and whose lists have not been read."""

    def tell(story: Story) -> None:
        if request.param == "fake":
            asyncio.run(story(FakePackages(missing={FIRST, SECOND}, unknown={NOBODYS}, fresh=False)))
            return
        if not DebianPackages().known():
            pytest.skip("this computer's packages are not Debian's")

        async def live() -> None:
            install_own()
            await story(DebianPackages())

        def install_own() -> None:
            root = tmp_path / "root"
            for place in OWN:
                (root / place).mkdir(parents=True)
                ns.mount(str(root / place), f"/{place}", flags=ns.MS_BIND)
            for place in ("var/lib/apt/lists/partial", "var/cache/apt/archives/partial", "etc/apt/apt.conf.d"):
                Path("/", place).mkdir(parents=True)
            Path("/etc/apt/sources.list").write_text(f"deb [trusted=yes] file:{archive} ./\n")
            Path("/etc/apt/apt.conf").write_text('APT::Sandbox::User "root";\n')
            Path("/var/lib/dpkg/status").touch()
            for folder in ("info", "updates", "triggers", "alternatives"):
                Path("/var/lib/dpkg", folder).mkdir()
            subprocess.run(["dpkg", "--install", archive / f"{THERE}.deb"], check=True, capture_output=True)

        with own_network(mounts=True) as tell_there:
            archive = make_archive(tmp_path / "archive")
            tell_there(live)

    return tell


def make_archive(folder: Path) -> Path:
    """A folder that apt takes for an archive, with packages that have nothing in them."""
    folder.mkdir()
    index = []
    for name in (THERE, FIRST, SECOND):
        tree = folder / name
        (tree / "DEBIAN").mkdir(parents=True)
        control = f"Package: {name}\nVersion: 1\nArchitecture: all\nMaintainer: nobody\nDescription: nothing\n"
        (tree / "DEBIAN/control").write_text(control)
        package = folder / f"{name}.deb"
        subprocess.run(["dpkg-deb", "--build", tree, package], check=True, capture_output=True)
        shutil.rmtree(tree)
        if name != THERE:
            content = package.read_bytes()
            found = f"Filename: ./{package.name}\nSize: {len(content)}\nSHA256: {sha256(content).hexdigest()}\n"
            index.append(control + found)
    (folder / "Packages").write_text("\n".join(index))
    return folder


def test_only_what_is_there_counts_as_installed(told: Told) -> None:
    async def story(packages: Packages) -> None:
        assert packages.known()
        assert await packages.installed([THERE, FIRST, NOBODYS]) == {THERE}
        assert await packages.installed([SECOND]) == set()

    told(story)


def test_packages_are_installed_after_the_lists_were_read(told: Told) -> None:
    async def story(packages: Packages) -> None:
        with pytest.raises(CommandFailed):
            await packages.install([FIRST])
        await packages.refresh()
        await packages.install([FIRST, SECOND])
        assert await packages.installed([THERE, FIRST, SECOND]) == {THERE, FIRST, SECOND}
        await packages.install([FIRST, THERE])
        assert await packages.installed([FIRST, THERE]) == {FIRST, THERE}

    told(story)


def test_with_one_that_nobody_offers_none_is_installed(told: Told) -> None:
    async def story(packages: Packages) -> None:
        await packages.refresh()
        with pytest.raises(CommandFailed, match=NOBODYS):
            await packages.install([FIRST, NOBODYS])
        assert await packages.installed([FIRST, NOBODYS]) == set()

    told(story)


def test_what_a_person_would_type_names_all_of_them(told: Told) -> None:
    async def story(packages: Packages) -> None:
        assert packages.command([FIRST, SECOND]).endswith(f" {FIRST} {SECOND}")

    told(story)
