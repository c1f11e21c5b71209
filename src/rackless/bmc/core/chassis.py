"""One BMC's view of its server: power, boot override and media, whatever protocol asks.

What can be read is in memory (`server()`, `memory`), kept true by the fleet from the hypervisor's events; reading never
asks the hypervisor and never writes. Everything that changes something runs under one lock. Redfish and IPMI are two
languages for this object, and it knows neither.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from yarl import URL

from rackless.bmc.core import bios, updates
from rackless.bmc.core.faults import Faults, Operation, Trouble
from rackless.bmc.core.log import Log, LogKind
from rackless.bmc.core.media import FetchFailed, MediaShelf
from rackless.bmc.core.power import Reset, ServerPower, StartCause
from rackless.bmc.core.readings import Readings, model
from rackless.bmc.core.start_limit import Starts
from rackless.bmc.core.state import BmcMemory, InsertedMedia, JsonFile, load_memory
from rackless.bmc.core.updates import Component
from rackless.events import Bus
from rackless.ports.hypervisor import (
    BootDevice,
    Hypervisor,
    NoSuchServer,
    Power,
    ServerChange,
    ServerState,
    Unreachable,
)

_FETCHES = 4
"""Images on their way to one drive."""
_FOR_ITSELF = "ipmi"


@dataclass(frozen=True, slots=True)
class Drive:
    """The CD drive as it is: what the hypervisor says is in it, and what we know about that."""

    file: Path | None
    url: str | None
    username: str | None

    @property
    def inserted(self) -> bool:
        return self.file is not None


class Chassis:
    def __init__(
        self,
        name: str,
        address: str,
        hypervisor: Hypervisor,
        shelf: MediaShelf,
        file: JsonFile,
        bus: Bus,
        *,
        source: str | None = None,
        starts: Starts | None = None,
        faults: Faults | None = None,
        graceful_seconds: float = 300.0,
    ) -> None:
        self.name = name
        self.address = address
        self.lock = asyncio.Lock()
        self.log = Log()
        self.memory: BmcMemory = load_memory(file)
        self._hypervisor = hypervisor
        self._shelf = shelf
        self._file = file
        self._bus = bus
        self._server: ServerState | None = None
        self._blind = True
        self._looking = asyncio.Lock()
        self._look_again = False
        self.glances = 0
        """How often the server was seen, to know whether a look at all servers is older than one at this."""
        self.off = asyncio.Event()
        self._source = source
        """The address images are asked for from."""
        self._fetching = 0
        self._faults = faults or Faults()
        self._power = ServerPower(self, hypervisor, bus, starts=starts, graceful_seconds=graceful_seconds)

    # reading: never asks, never writes

    def server(self) -> ServerState:
        """The server as last seen. Unreachable while we cannot see, NoSuchServer when it is gone."""
        if self._blind:
            raise Unreachable(f"the hypervisor of {self.name} does not answer")
        if self._server is None:
            raise NoSuchServer(f"there is no server {self.name}")
        return self._server

    @property
    def blind(self) -> bool:
        return self._blind

    @property
    def exists(self) -> bool:
        """False only when it was seen that there is no such server."""
        return self._blind or self._server is not None

    def present(self) -> ServerState | None:
        with suppress(NoSuchServer):
            return self.server()
        return None

    @property
    def starting(self) -> bool:
        """It was switched on, and waits for its turn to start."""
        return self._power.starting

    @property
    def cause(self) -> StartCause:
        """Why the server started the last time."""
        return self._power.cause

    @cause.setter
    def cause(self, cause: StartCause) -> None:
        self._power.cause = cause

    def readings(self) -> Readings:
        """What its sensors show. A server that waits for its turn to start draws what one that is off does."""
        server = self.server()
        return model(server, on=server.power is Power.ON)

    def drive(self) -> Drive:
        file = self.server().media
        known = self.memory.media
        if file is not None and known is not None and Path(known.file) == file:
            return Drive(file, known.url, known.username)
        return Drive(file, None, None)

    # what the fleet tells us

    def saw(self, server: ServerState | None) -> None:
        self._note_difference(self._server, server)
        self._blind = False
        self._server = server
        self.glances += 1
        if server is None or server.power is Power.OFF:
            self.off.set()
        else:
            self.off.clear()
        self._power.saw(server)

    def lost_sight(self) -> None:
        self._blind = True

    async def look(self) -> None:
        """Ask the hypervisor how the server is. Calls that come while one is under way share the next one."""
        self._look_again = True
        async with self._looking:
            if not self._look_again:
                return
            self._look_again = False
            try:
                glances = -1
                while glances != self.glances:  # what was seen meanwhile in another way is newer than this
                    glances = self.glances
                    server = await self._hypervisor.observe(self.name)
            except Unreachable:
                self.lost_sight()
                raise
            self.saw(server)

    async def changed(self, change: ServerChange) -> None:
        """The server's state changed, by this BMC or by somebody else."""
        self._power.told(change)
        if not self._knows(change):
            await self.look()
        waits = bios.pending(self.memory) or updates.pending(self.memory)
        if change in (ServerChange.POWERED_ON, ServerChange.REBOOTED) and waits:
            async with self.lock:
                await self.remember(updates.after_start(bios.after_start(self.memory)))
        if change is ServerChange.REBOOTED:
            await self._power.guest_restarted()

    # changing: under the lock

    async def reset(self, what: Reset) -> None:
        async with self.lock:
            self.server()
            if not self._faults.strike(Trouble.STUCK_POWER, self.name, Operation.POWER):
                await self._power.press(what)

    async def update(self, change: Callable[[BmcMemory], BmcMemory]) -> None:
        """Change what is remembered. `change` sees the newest, so that parallel changes are all kept."""
        async with self.lock:
            self.server()
            await self.remember(change(self.memory))

    async def insert(
        self,
        url: str,
        *,
        username: str | None = None,
        password: str | None = None,
        verify: bool = True,
    ) -> None:
        """Fetch the image and put it into the drive, whatever was in it. Fetching does not hold the lock."""
        self.server()
        shown, username, password = _credentials(url, username, password)
        if self._faults.strike(Trouble.FAILING_MEDIA, self.name, Operation.MEDIA):
            raise FetchFailed("unreachable", shown, "a fault was asked for")
        if self._fetching >= _FETCHES:
            raise FetchFailed("busy", shown, "other images are being fetched for this drive")
        slow = self._faults.strike(Trouble.SLOW_DOWNLOAD, self.name, Operation.MEDIA)
        holder = f"{self.name}:{id(asyncio.current_task())}"
        self._fetching += 1
        try:
            file = await self._shelf.fetch(
                shown, holder, username=username, password=password, verify=verify, source=self._source,
                rate=slow.rate if slow else None,
            )  # fmt: skip
        finally:
            self._fetching -= 1
        try:
            async with self.lock:
                before = self.server().media
                await self._hypervisor.insert_media(self.name, file)
                self._shelf.hold(file, self.name)
                await self.remember(replace(self.memory, media=InsertedMedia(shown, str(file), username)))
                await self.look()
                if before is not None and before != file:
                    self._shelf.release(before, self.name)
        finally:
            self._shelf.release(file, holder)

    async def update_firmware(
        self, component: Component, url: str, name: str, *, username: str | None, password: str | None
    ) -> None:
        """Fetch an image, and have the version that it says."""
        shown, username, password = _credentials(url, username, password)
        holder = f"{self.name}:{id(asyncio.current_task())}"
        file = await self._shelf.fetch(shown, holder, username=username, password=password, source=self._source)
        self._shelf.release(file, holder)
        new = updates.version_of(name, file.stem)
        async with self.lock:
            server = self.present()
            running = server is not None and server.power is Power.ON
            await self.remember(updates.with_update(self.memory, component, new, running=running))

    async def boot_first_from(self, device: BootDevice) -> None:
        """Change the order in which its firmware tries its devices, from the next start on."""
        async with self.lock:
            if self.server().boot_first is not device:
                await self._hypervisor.set_boot_first(self.name, device)
                await self.look()
                self.log.tell(LogKind.CHANGED, "The boot order was changed.")

    async def eject(self) -> None:
        async with self.lock:
            before = self.server().media
            await self._hypervisor.eject_media(self.name)
            await self.remember(replace(self.memory, media=None))
            await self.look()
            if before is not None:
                self._shelf.release(before, self.name)

    async def remember(self, memory: BmcMemory) -> None:
        """On disk first, then in memory. The caller has the lock."""
        if memory != self.memory:
            await self._file.save(memory.to_json())
            before, self.memory = self.memory, memory
            for text in _told(before, memory):
                self.log.tell(LogKind.CHANGED, text)

    def close(self) -> None:
        self._power.close()

    # inside

    def _knows(self, change: ServerChange) -> bool:
        """Most changes are of our own making and were seen. Every change is told, so the last one told is the truth."""
        if self._power.pressing and change in (ServerChange.POWERED_ON, ServerChange.POWERED_OFF):
            return True  # whoever presses sees to it
        wanted = {ServerChange.POWERED_ON: Power.ON, ServerChange.POWERED_OFF: Power.OFF}.get(change)
        server = self._server
        return not self._blind and server is not None and server.power is wanted

    def _note_difference(self, before: ServerState | None, after: ServerState | None) -> None:
        if self.glances == 0 or before == after:
            return
        if before is None or after is None:
            kind, text = (LogKind.CREATED, "is there again") if before is None else (LogKind.REMOVED, "is gone")
            self.log.add(kind, f"{self.name} {text}.", warning=after is None)
            return
        if before.power is not after.power:
            kind = LogKind.POWERED_ON if after.power is Power.ON else LogKind.POWERED_OFF
            self.log.add(kind, f"{self.name} was switched {after.power.value}.")
        if before.media != after.media:
            self.log.add(LogKind.CHANGED, f"The drive was {'filled' if after.media else 'emptied'}.")


def _told(before: BmcMemory, after: BmcMemory) -> list[str]:
    """What subscribers are told of a change; what the BMC only remembers for itself is left out."""
    found = []
    if before.boot != after.boot:
        found.append("The boot override was changed.")
    changed = {
        name
        for name in before.settings.keys() | after.settings.keys()
        if before.settings.get(name) != after.settings.get(name)
    } - {_FOR_ITSELF}
    if changed & {"locate"}:
        found.append(f"The location indicator was switched {'on' if after.settings.get('locate') else 'off'}.")
    if changed - {"locate"}:
        found.append("The settings were changed.")
    return found


def _credentials(url: str, username: str | None, password: str | None) -> tuple[str, str | None, str | None]:
    """Remove the password from a URL: users with read access must not see it."""
    with suppress(ValueError):
        parsed = URL(url)
        if parsed.user is not None:
            return str(parsed.with_user(None)), username or parsed.user, password or parsed.password
    return url, username, password
