"""Getting this machine ready: Debian packages, Ironic's environment, the images. Done on the host, shared by all labs."""

from __future__ import annotations

from collections.abc import Sequence

from rackless.drivers.process import LocalProcesses
from rackless.errors import MachineError
from rackless.events import Bus
from rackless.lab import libvirtd
from rackless.run.paths import Roots


async def prepare_machine(roots: Roots, bus: Bus, *, for_stages: Sequence[str], install: bool = True) -> None:
    with bus.step("this machine") as step:
        await ensure_packages(libvirtd.HOST_PACKAGES, bus, install=install)
        step.detail = ""


async def ensure_packages(wanted: Sequence[str], bus: Bus, *, install: bool) -> None:
    """Install the Debian packages that are missing; never upgrade, never remove."""
    processes = LocalProcesses()
    with bus.step("packages") as step:
        missing = await _missing(wanted, processes)
        if not missing:
            step.unchanged()
            return
        command = ["apt-get", "install", "--yes", "--no-install-recommends", "--no-upgrade", *missing]
        if not install:
            raise MachineError(
                "packages are missing on this machine",
                why=", ".join(missing),
                hint=f"install them: {' '.join(command)}",
            )
        quiet = {"DEBIAN_FRONTEND": "noninteractive"}
        step.progress("reading the package lists")
        await processes.run(["apt-get", "update", "--quiet"], env=quiet)
        step.progress(f"installing {len(missing)}: {' '.join(missing)}")
        await processes.run(command, env=quiet)
        step.detail = f"installed {' '.join(missing)}"


async def _missing(wanted: Sequence[str], processes: LocalProcesses) -> list[str]:
    done = await processes.run(
        ["dpkg-query", "--show", "--showformat=${Package} ${db:Status-Status}\n", *wanted], check=False
    )
    present = {line.split()[0] for line in done.stdout.splitlines() if line.endswith(" installed")}
    return [name for name in wanted if name not in present]
