"""`ports.packages.Packages` by dpkg and apt."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from rackless.drivers.process import LocalProcesses

_INSTALL = ("apt-get", "install", "--yes", "--no-install-recommends", "--no-upgrade")
_QUIET = {"DEBIAN_FRONTEND": "noninteractive"}


class DebianPackages:
    def known(self) -> bool:
        return shutil.which("dpkg-query") is not None

    async def installed(self, names: Sequence[str]) -> set[str]:
        show = ["dpkg-query", "--show", "--showformat=${Package} ${db:Status-Status}\n", *names]
        done = await LocalProcesses().run(show, check=False)
        return {line.split()[0] for line in done.stdout.splitlines() if line.endswith(" installed")}

    async def refresh(self) -> None:
        await LocalProcesses().run(["apt-get", "update", "--quiet"], env=_QUIET)

    async def install(self, names: Sequence[str]) -> None:
        await LocalProcesses().run([*_INSTALL, *names], env=_QUIET)

    def command(self, names: Sequence[str]) -> str:
        return " ".join([*_INSTALL, *names])
