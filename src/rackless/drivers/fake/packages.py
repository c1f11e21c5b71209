"""Packages in memory: `ports.packages.Packages`. All are installed, except those that a test names as missing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rackless.drivers.fake.script import Script
from rackless.errors import CommandFailed


@dataclass
class FakePackages:
    script: Script = field(default_factory=Script)
    missing: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)
    """Packages that no source of the package manager offers."""
    fresh: bool = True
    """Whether the lists are new enough to install from."""
    kind: str = "fake"
    """The kind of the packages; empty for a package manager that we do not know."""
    at_install: Callable[[Sequence[str]], None] = lambda _: None

    def known(self) -> bool:
        return bool(self.kind)

    async def installed(self, names: Sequence[str]) -> set[str]:
        await self.script.meet("packages", "installed")
        return set(names) - self.missing - self.unknown

    async def refresh(self) -> None:
        await self.script.meet("packages", "refresh")
        self.fresh = True

    async def install(self, names: Sequence[str]) -> None:
        await self.script.meet("packages", "install", " ".join(names))
        if not self.fresh or self.unknown & set(names):
            raise CommandFailed(["apt-get", "install", *names], 100, f"no such package: {', '.join(names)}")
        self.missing -= set(names)
        self.at_install(names)
        for name in names:
            self.script.change("packages", "install", name)

    def command(self, names: Sequence[str]) -> str:
        return f"install {' '.join(names)}"
