"""A provisioner without servers: it takes the time it is told to take, and fails when it is told to fail.

It keeps the contract of the real one: every call is a small step, work goes on between calls by the clock, a failed
piece of work fails again until it is asked for with `restart`, and a lost engine registers hosts again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rackless.ports.clock import Clock
from rackless.ports.provisioner import (
    NO_SETTINGS,
    Again,
    ConfigDrive,
    Done,
    ErrorKind,
    EventReceiver,
    Failed,
    HostAccess,
    Image,
    Result,
    Stranger,
)

SECONDS: Mapping[str, float] = {
    "register": 1,
    "inspect": 30,
    "configure": 20,
    "prepare": 8,
    "provision": 45,
    "adopt": 2,
    "deprovision": 40,
    "power": 2,
    "media": 3,
    "delete": 0,
}
"""Seconds that each piece of work takes on a quiet computer without KVM."""

INVENTORY: Mapping[str, Any] = {
    "cpu": {"architecture": "x86_64", "count": 2, "model_name": "Nehalem", "frequency": "2400.0", "flags": ["sse2"]},
    "memory": {"physical_mb": 2048, "total": 2 * 1024**3},
    "interfaces": [{"name": "eth0", "mac_address": "02:00:00:00:00:01", "ipv4_address": "192.0.2.10"}],
    "disks": [{"name": "/dev/sda", "size": 20 * 1024**3, "rotational": False, "serial": "disk-0"}],
    "system_vendor": {"manufacturer": "rackless", "product_name": "server", "serial_number": "1"},
    "boot": {"pxe_interface": "02:00:00:00:00:01"},
}

_KINDS = {
    "register": ErrorKind.REGISTRATION,
    "inspect": ErrorKind.INSPECTION,
    "configure": ErrorKind.PREPARATION,
    "prepare": ErrorKind.PREPARATION,
    "provision": ErrorKind.PROVISIONING,
    "adopt": ErrorKind.ADOPTION,
    "deprovision": ErrorKind.PROVISIONING,
    "power": ErrorKind.POWER,
    "media": ErrorKind.POWER,
    "delete": ErrorKind.REGISTRATION,
}
_BY_AGENT = ("inspect", "prepare", "provision", "deprovision")


@dataclass
class Fault:
    """The next `times` pieces of this work on this host end with `message`."""

    work: str
    host: str
    message: str = "it was told to fail"
    times: int = 1


@dataclass
class _KnownHost:
    """What the engine knows of one host."""

    uid: str
    work: str = ""
    """The piece of work that is under way, or was last …"""
    until: float = 0.0
    failed: str = ""
    """… and how it failed."""
    done: set[str] = field(default_factory=set)
    image: Image | None = None
    config: ConfigDrive | None = None
    powered_on: bool = False
    settings: dict[str, str] = field(default_factory=dict)
    """Firmware settings that were changed from their defaults."""
    media: str | None = None
    subscriptions: dict[str, EventReceiver] = field(default_factory=dict)


@dataclass
class FakeProvisioner:
    clock: Clock
    seconds: Mapping[str, float] = field(default_factory=lambda: dict(SECONDS))
    faults: list[Fault] = field(default_factory=list)
    inventory: Mapping[str, Any] = field(default_factory=lambda: dict(INVENTORY))
    busy: int = 0
    """How many of the next calls find the engine busy."""
    hosts: dict[str, _KnownHost] = field(default_factory=dict)
    started: list[tuple[str, str]] = field(default_factory=list)
    """Every piece of work begun, as (host, work), in order."""
    hung: set[str] = field(default_factory=set)
    """Hosts whose work never ends."""
    came: list[Stranger] = field(default_factory=list)
    """Servers that nobody has described and that have booted the agent."""
    lives: int = 0
    """How often the engine has lost its database."""
    hard: list[str] = field(default_factory=list)
    """Hosts that were switched off hard, without asking their system, in order."""
    bios: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What every host's BMC shows of its firmware, as `firmware` returns it; nothing, as with IPMI, unless a test says so."""
    refusal: str = ""
    """Why BMCs refuse to make or to end a subscription."""
    subscribed: list[str] = field(default_factory=list)
    """The ids of all subscriptions there ever were."""

    async def register(self, host: HostAccess, *, restart: bool = False) -> Result:
        if self._is_busy():
            return Again(1.0, busy=True)
        if host.name not in self.hosts:
            self.hosts[host.name] = _KnownHost(host.uid)
        return self._work(host, "register", restart) or Done({"id": self._id(host)})

    async def inspect(self, host: HostAccess, *, restart: bool = False) -> Result:
        self._undo(host, "inspect", restart)
        return self._step(host, "inspect", restart) or Done(self.inventory)

    async def prepare(
        self, host: HostAccess, settings: Mapping[str, str] = NO_SETTINGS, *, restart: bool = False
    ) -> Result:
        engine = self.hosts.get(host.name)
        if engine and any(self._setting(engine, name) != value for name, value in settings.items()):
            if (result := self._step(host, "configure", restart)) is not None:
                return result
            engine.settings |= settings
            engine.done -= {"configure", "prepare"}
        self._undo(host, "prepare", restart)
        return self._step(host, "prepare", restart) or Done()

    async def provision(self, host: HostAccess, image: Image, config: ConfigDrive, *, restart: bool = False) -> Result:
        result = self._step(host, "provision", restart)
        if result is None:
            engine = self.hosts[host.name]
            engine.image, engine.config, engine.powered_on = image, config, True
        return result or Done()

    async def adopt(self, host: HostAccess, image: Image, *, restart: bool = False) -> Result:
        engine = self.hosts.get(host.name)
        if engine and "provision" in engine.done:
            return Done()
        result = self._step(host, "adopt", restart)
        if result is None:
            engine = self.hosts[host.name]
            engine.image, engine.powered_on = image, True
            engine.done.add("provision")
        return result or Done()

    async def deprovision(self, host: HostAccess, *, restart: bool = False) -> Result:
        engine = self.hosts.get(host.name)
        if engine and engine.work == "provision" and (engine.failed or "provision" not in engine.done):
            engine.work, engine.failed = "", ""  # an image that is being written is no longer written
        result = self._step(host, "deprovision", restart)
        if result is None:
            self.hosts[host.name].image = None
            self.hosts[host.name].done -= {"provision", "deprovision"}
        return result or Done()

    async def power(self, host: HostAccess, on: bool, *, hard: bool = False, restart: bool = False) -> Result:
        engine = self.hosts.get(host.name)
        if engine and engine.powered_on == on and engine.work != "power":
            return Done({"powered_on": on})
        if engine and engine.work == "media" and self.clock.now() < engine.until:
            return Again(1.0, busy=True)
        result = self._step(host, "power", restart)
        if result is None and hard:
            self.hard.append(host.name)
        if result is None:
            self.hosts[host.name].powered_on = on
            self.hosts[host.name].work = ""
            self.hosts[host.name].done.discard("power")
        return result or Done({"powered_on": on})

    async def delete(self, host: HostAccess) -> Result:
        if self._is_busy():
            return Again(1.0, busy=True)
        self.hosts.pop(host.name, None)
        return Done()

    async def firmware(self, host: HostAccess) -> Result:
        engine = self.hosts.get(host.name)
        if self._is_busy() or engine is None:
            return Again(1.0, busy=True)
        return Done({name: {**told, "value": self._setting(engine, name)} for name, told in self.bios.items()})

    async def media(self, host: HostAccess, url: str | None, *, restart: bool = False) -> Result:
        engine = self.hosts.get(host.name)
        if engine is None:
            return Again(1.0, busy=True)
        if engine.media == url:
            return Done()
        if engine.work != "media" and self.clock.now() < engine.until:
            return Again(1.0, busy=True)
        if (result := self._step(host, "media", restart)) is not None:
            return result
        engine.media, engine.work = url, ""
        engine.done.discard("media")
        return Done()

    async def subscribe(self, host: HostAccess, receiver: EventReceiver) -> Result:
        engine = self.hosts.get(host.name)
        if self._is_busy() or engine is None:
            return Again(1.0, busy=True)
        if self.refusal:
            return Failed(ErrorKind.REGISTRATION, self.refusal)
        id = str(len(self.subscribed) + 1)
        self.subscribed.append(id)
        engine.subscriptions[id] = receiver
        return Done({"id": id})

    async def unsubscribe(self, host: HostAccess, id: str) -> Result:
        engine = self.hosts.get(host.name)
        if self._is_busy() or engine is None:
            return Again(1.0, busy=True)
        if self.refusal:
            return Failed(ErrorKind.REGISTRATION, self.refusal)
        engine.subscriptions.pop(id, None)
        return Done()

    async def strangers(self) -> list[Stranger]:
        return list(self.came)

    async def dismiss(self, stranger: Stranger) -> None:
        self.came.remove(stranger)

    def forget(self) -> None:
        """Loses everything, as an engine does whose database was thrown away: hosts that register again get new ids."""
        self.hosts.clear()
        self.lives += 1

    def _id(self, host: HostAccess) -> str:
        return f"node-{host.uid}" + (f"-{self.lives}" if self.lives else "")

    def _setting(self, engine: _KnownHost, name: str) -> str:
        return engine.settings.get(name, str(self.bios.get(name, {}).get("value", "")))

    def _undo(self, host: HostAccess, work: str, restart: bool) -> None:
        """Work that is asked for with `restart` counts as not done, unless it is under way."""
        engine = self.hosts.get(host.name)
        if restart and engine is not None and not engine.failed and work in engine.done:
            engine.done.discard(work)
            engine.work = ""

    def _is_busy(self) -> bool:
        self.busy, was = max(0, self.busy - 1), self.busy
        return was > 0

    def _step(self, host: HostAccess, work: str, restart: bool) -> Result | None:
        if self._is_busy():
            return Again(1.0, busy=True)
        if host.name not in self.hosts:
            self.hosts[host.name] = _KnownHost(host.uid, done={"register"})
            return Again(0.5, "registering again", busy=True)
        return self._work(host, work, restart)

    def _work(self, host: HostAccess, work: str, restart: bool) -> Result | None:
        """None when this work is done; else its progress or failure. Work that was not under way begins now."""
        engine = self.hosts[host.name]
        if engine.work != work or restart:
            if work in engine.done:
                return None
            engine.work, engine.failed, engine.until = work, "", self.clock.now() + self.seconds[work]
            self.started.append((host.name, work))
        if work in engine.done:
            return None
        if engine.failed:
            return Failed(_KINDS[work], engine.failed)
        if host.name in self.hung:
            return Again(2.0, work, agent=work in _BY_AGENT)
        if self.clock.now() < engine.until:
            return Again(min(2.0, engine.until - self.clock.now()), work, agent=work in _BY_AGENT)
        for fault in self.faults:
            if fault.times > 0 and (fault.work, fault.host) == (work, host.name):
                fault.times -= 1
                engine.failed = fault.message
                return Failed(_KINDS[work], fault.message)
        engine.done.add(work)
        return None
