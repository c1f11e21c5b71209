"""The lab's libvirtd: its configuration, the account that each server's QEMU runs as, and the process, which labd keeps running."""

from __future__ import annotations

from collections.abc import Callable

from rackless.events import Bus
from rackless.lab import libvirtd
from rackless.lab.accounts import ServerAccounts, observe_accounts
from rackless.ports.clock import Clock
from rackless.ports.computer import Computer
from rackless.ports.metal import Metal
from rackless.run.paths import LabPaths
from rackless.run.supervise import Keeper, KeptProcesses
from rackless.run.waiting import until


class LabLibvirtd:
    def __init__(
        self,
        paths: LabPaths,
        processes: KeptProcesses,
        metal: Metal,
        computer: Computer,
        clock: Clock,
        bus: Bus,
        kvm: Callable[[], bool],
    ) -> None:
        """`kvm` says whether servers are to use it, as far as is known by now."""
        self._paths = paths
        self._processes = processes
        self._metal = metal
        self._computer = computer
        self._clock = clock
        self._bus = bus
        self._kvm = kvm
        self._kept: Keeper | None = None

    @property
    def started(self) -> bool:
        return self._kept is not None

    def accounts(self) -> ServerAccounts:
        """Which user and group each server's QEMU runs as."""
        return observe_accounts(kvm_closed=self._kvm() and not self._computer.kvm_open())

    async def ensure(self) -> None:
        with self._bus.step("libvirtd") as step:
            if self._kept is not None:
                step.unchanged()
                return
            # the lab sees this folder as /etc/libvirt
            libvirtd.write_configuration(self._paths.libvirt / "etc", self.accounts())
            libvirtd.ensure_folders(self._paths, self.accounts())
            kept = self._kept = await self._processes.start(["libvirtd"], log=self._paths.logs / "libvirtd.log")

            async def answers() -> tuple[bool, str]:
                kept.check()
                why = await self._metal.absent()
                return not why, why or "answers"

            await until(answers, what="libvirtd to answer", within=60, every=0.05, clock=self._clock)

    async def stop(self) -> None:
        """The servers (QEMU) run on."""
        if self._kept is not None:
            kept, self._kept = self._kept, None
            await kept.stop()
