"""Bridges and NICs of a computer in memory: `ports.computer_devices.ComputerDevices`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from rackless.drivers.fake.script import Script
from rackless.errors import CommandFailed
from rackless.ports.computer_devices import Device, SiteCable


@dataclass
class FakeComputerDevices:
    script: Script
    guests: Callable[[str], set[str] | None]
    """The links that came into a namespace from outside; None where there is no such namespace."""
    here: dict[str, Device] = field(default_factory=dict)
    lent: dict[str, tuple[str, Device]] = field(default_factory=dict)
    """NICs that were moved into a namespace: which one, and their state there: down, without addresses and routes."""
    cables: dict[str, SiteCable] = field(default_factory=dict)
    filters: bool = False
    configured: dict[str, Device] = field(default_factory=dict)
    """As the computer makes them when it starts."""

    async def look(self, name: str) -> Device | None:
        await self.script.meet("devices", "look", name)
        return self.here.get(name)

    async def holds(self, namespace: Path, name: str) -> bool:
        await self.script.meet("devices", "holds", name)
        return name in (self.guests(str(namespace)) or ())

    async def lend(self, name: str, namespace: Path) -> None:
        await self.script.meet("devices", "lend", name)
        guests = self.guests(str(namespace))
        if name not in self.here or guests is None:
            raise CommandFailed(["ip", "link", "set", name, "netns", str(namespace)], 1, "no such device or namespace")
        bare = replace(self.here.pop(name), up=False, master="", addresses=(), routes=(), managed=False)
        self.lent[name] = (str(namespace), bare)
        guests.add(name)
        self.script.change("devices", "lend", name)

    async def give_back(self, device: Device, namespace: Path) -> bool:
        await self.script.meet("devices", "give_back", device.name)
        if self.lent.get(device.name, ("", device))[0] == str(namespace):
            self._return(device.name)
        if device.name not in self.here:
            return False
        if self.here[device.name] != device:
            self.here[device.name] = device
            self.script.change("devices", "give_back", device.name)
        return True

    async def plug_in(self, cable: SiteCable, bridge: Device) -> None:
        await self.script.meet("devices", "plug_in", cable.link)
        self._cut(cable.link)
        guests = self.guests(str(cable.namespace))
        if cable.bridge not in self.here or guests is None:
            raise CommandFailed(["ip", "link", "add", cable.link], 1, "no such bridge or namespace")
        self.cables[cable.link] = cable
        guests.add(cable.inside)
        self.script.change("devices", "plug_in", cable.link)

    async def plugged(self, cable: SiteCable) -> bool:
        await self.script.meet("devices", "plugged", cable.link)
        return self.cables.get(cable.link) == cable and cable.bridge in self.here

    async def unplug(self, cable: SiteCable, bridge: Device) -> None:
        await self.script.meet("devices", "unplug", cable.link)
        if cable.link in self.cables:
            self._cut(cable.link)
            self.script.change("devices", "unplug", cable.link)

    def bridges_filter(self) -> bool:
        return self.filters

    # what happens to it

    def restart(self) -> None:
        self.lent.clear()
        self.cables.clear()
        self.here |= self.configured

    def vanish(self, namespace: str) -> None:
        """A namespace is gone: the kernel moves its NICs of metal back without addresses, and deletes its veth pairs."""
        for name in [name for name, (place, _) in self.lent.items() if place == namespace]:
            self._return(name)
        for link in [link for link, cable in self.cables.items() if str(cable.namespace) == namespace]:
            self._cut(link)

    def _return(self, name: str) -> None:
        place, bare = self.lent.pop(name)
        (self.guests(place) or set()).discard(name)
        self.here[name] = bare

    def _cut(self, link: str) -> None:
        if (cable := self.cables.pop(link, None)) is not None:
            (self.guests(str(cable.namespace)) or set()).discard(cable.inside)
