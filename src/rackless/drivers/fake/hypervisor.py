"""A hypervisor in memory: `ports.hypervisor.Hypervisor` without libvirt, for tests and for studies of scale.

It behaves like the real one where the callers could notice: starts and stops take time when told to, every change
is told to whoever listens, boot for one start is recorded and forgotten, and it can go away and come back. A guest that
ignores the power button, a call that fails, a call that hangs: `faults` and `delays` are keyed by the method's name.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from rackless.errors import LabError, RacklessError
from rackless.ports.hypervisor import (
    BootDevice,
    FirmwareChoice,
    NoSuchServer,
    Power,
    Server,
    ServerChange,
    ServerEvent,
    ServerState,
    Unreachable,
)


@dataclass(frozen=True, slots=True)
class Boot:
    """One start of a server: from which device, and caused by what (a start, the reset button, the guest itself)."""

    server: str
    device: BootDevice
    by: str


@dataclass
class FakeHypervisor:
    delays: dict[str, float] = field(default_factory=dict)
    faults: dict[str, list[RacklessError]] = field(default_factory=dict)
    deaf: set[str] = field(default_factory=set)
    """Servers whose guest ignores the power button."""
    processor: dict[str, float] = field(default_factory=dict)
    """Processor time used by a server so far."""
    calls: list[tuple[str, str]] = field(default_factory=list)
    boots: list[Boot] = field(default_factory=list)
    reachable: bool = True
    _servers: dict[str, ServerState] = field(default_factory=dict)
    _defined: dict[str, Server] = field(default_factory=dict)
    _listeners: dict[asyncio.Queue[ServerEvent | None], None] = field(default_factory=dict)
    _guests: set[asyncio.Task[None]] = field(default_factory=set)

    # the port

    async def ensure(self, server: Server) -> bool:
        await self._answer("ensure", server.name)
        if self._defined.get(server.name) == server:
            return False
        known = self._servers.get(server.name)
        self._defined[server.name] = server
        self._servers[server.name] = ServerState(
            name=server.name,
            uuid=server.uuid,
            power=known.power if known else Power.OFF,
            memory_mib=server.memory_mib,
            vcpus=server.vcpus,
            firmware=server.firmware,
            macs=tuple(nic.mac for nic in server.nics),
            disks=server.disks,
            media=known.media if known else None,
            boot_first=known.boot_first if known else BootDevice.DISK,
        )
        self._tell(server.name, ServerChange.DEFINED)
        return True

    async def differs(self, server: Server) -> bool:
        await self._answer("differs", server.name)
        return self._defined.get(server.name) != server

    async def retire(self, name: str) -> None:
        await self._answer("retire", name)
        state = self._servers.pop(name, None)
        self._defined.pop(name, None)
        if state is None:
            return
        if state.power is Power.ON:
            self._tell(name, ServerChange.POWERED_OFF)
        self._tell(name, ServerChange.UNDEFINED)

    async def servers(self) -> list[ServerState]:
        await self._answer("servers")
        return list(self._servers.values())

    async def observe(self, name: str) -> ServerState | None:
        await self._answer("observe", name)
        return self._servers.get(name)

    async def power_on(self, name: str, *, boot: BootDevice | None = None) -> None:
        await self._answer("power_on", name)
        state = self._known(name)
        if state.power is Power.OFF:
            self._set(name, power=Power.ON)
            self.boots.append(Boot(name, boot or state.boot_first, "start"))
            self._tell(name, ServerChange.POWERED_ON)

    async def power_off(self, name: str) -> None:
        await self._answer("power_off", name)
        self._stop(name)

    async def shut_down(self, name: str) -> None:
        await self._answer("shut_down", name)
        if self._known(name).power is Power.ON and name not in self.deaf:
            self._later(self._guest_stops(name))

    async def reset(self, name: str) -> None:
        await self._answer("reset", name)
        if self._known(name).power is Power.ON:
            self._restart(name, "reset")

    async def interrupt(self, name: str) -> None:
        await self._answer("interrupt", name)
        self._known(name)

    async def set_boot_first(self, name: str, device: BootDevice) -> None:
        await self._answer("set_boot_first", name)
        self._known(name)
        self._set(name, boot_first=device)
        self._tell(name, ServerChange.DEFINED)

    async def set_firmware(self, name: str, choice: FirmwareChoice) -> None:
        await self._answer("set_firmware", name)
        if choice not in self._known(name).offers:
            raise LabError(f"{name} has no such firmware")
        self._set(name, firmware=choice.kind, secure_boot=choice.secure_boot)
        self._tell(name, ServerChange.DEFINED)

    async def processor_seconds(self, name: str) -> float:
        await self._answer("processor_seconds", name)
        return self.processor.get(name, 0.0)

    async def go_on_writing(self) -> list[str]:
        await self._answer("go_on_writing")
        return []

    async def insert_media(self, name: str, image: Path) -> None:
        await self._answer("insert_media", name)
        self._known(name)
        self._set(name, media=image)

    async def eject_media(self, name: str) -> None:
        await self._answer("eject_media", name)
        self._known(name)
        self._set(name, media=None)

    async def events(self) -> AsyncIterator[ServerEvent]:
        queue: asyncio.Queue[ServerEvent | None] = asyncio.Queue()
        self._refuse_when_gone()
        self._listeners[queue] = None
        try:
            while (event := await queue.get()) is not None:
                yield event
            raise Unreachable("the fake hypervisor went away")
        finally:
            self._listeners.pop(queue, None)

    # the script

    def go_away(self) -> None:
        """From now on no call is answered, and listeners are told so."""
        self.reachable = False
        for queue in self._listeners:
            queue.put_nowait(None)

    def come_back(self) -> None:
        self.reachable = True

    def fail_once(self, method: str, error: RacklessError) -> None:
        self.faults.setdefault(method, []).append(error)

    def guest_reboots(self, name: str) -> None:
        """The operating system restarts the server by itself: the defined boot order counts."""
        self._restart(name, "guest")

    def guest_stops(self, name: str) -> None:
        """The operating system, or somebody at the hypervisor, switches the server off."""
        self._stop(name)

    def started_by_hand(self, name: str) -> None:
        """Somebody starts the server at the hypervisor, not through its BMC."""
        state = self._known(name)
        self._set(name, power=Power.ON)
        self.boots.append(Boot(name, state.boot_first, "hand"))
        self._tell(name, ServerChange.POWERED_ON)

    def called(self, *methods: str) -> list[tuple[str, str]]:
        return [call for call in self.calls if call[0] in methods]

    def define(self, servers: Iterable[ServerState]) -> None:
        """Put servers there at once, without telling anybody."""
        self._servers.update({server.name: server for server in servers})

    # inside

    async def _answer(self, method: str, name: str = "") -> None:
        self.calls.append((method, name))
        await asyncio.sleep(self.delays.get(method, 0))
        self._refuse_when_gone()
        if waiting := self.faults.get(method):
            raise waiting.pop(0)

    def _refuse_when_gone(self) -> None:
        if not self.reachable:
            raise Unreachable("the fake hypervisor is away")

    def _known(self, name: str) -> ServerState:
        try:
            return self._servers[name]
        except KeyError:
            raise NoSuchServer(f"there is no server {name}") from None

    def _set(self, name: str, **changes: object) -> None:
        self._servers[name] = replace(self._servers[name], **changes)  # type: ignore[arg-type]

    def _stop(self, name: str) -> None:
        if (state := self._known(name)).power is Power.ON:
            self._set(name, power=Power.OFF)
            if not state.lasting:
                del self._servers[name]
            self._tell(name, ServerChange.POWERED_OFF)

    def _restart(self, name: str, by: str) -> None:
        self.boots.append(Boot(name, self._known(name).boot_first, by))
        self._tell(name, ServerChange.REBOOTED)

    async def _guest_stops(self, name: str) -> None:
        await asyncio.sleep(self.delays.get("guest", 0))
        if name in self._servers:
            self._stop(name)

    def _later(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._guests.add(task)
        task.add_done_callback(self._guests.discard)

    def _tell(self, name: str, change: ServerChange) -> None:
        for queue in self._listeners:
            queue.put_nowait(ServerEvent(name, change))
