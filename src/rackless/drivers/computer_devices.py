"""`ports.computer_devices.ComputerDevices` by `ip`, and by `nmcli` where NetworkManager runs."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from rackless.drivers.process import LocalProcesses
from rackless.ports.computer_devices import Device, SiteCable

_FILTER = Path("/proc/sys/net/bridge/bridge-nf-call-iptables")
_KERNELS = ("kernel", "ra", "redirect")
"""Protocols of routes that the kernel makes again: with an address, or from a router advertisement."""


class LinuxComputerDevices:
    def __init__(self) -> None:
        self._processes = LocalProcesses()

    async def look(self, name: str) -> Device | None:
        link = await self._link([], name)
        if link is None:
            return None
        shown = [
            *await self._json("-4", "route", "show", "dev", name),
            *await self._json("-6", "route", "show", "dev", name),
        ]
        return Device(
            name=name,
            bridge=link.get("linkinfo", {}).get("info_kind") == "bridge",
            mac=link.get("address", ""),
            up="UP" in link.get("flags", ()),
            mtu=int(link["mtu"]),
            master=link.get("master", ""),
            addresses=tuple(read_addresses((await self._json("address", "show", "dev", name))[0])),
            routes=tuple(read_routes(shown)),
            managed=await self._managed(name),
        )

    async def holds(self, namespace: Path, name: str) -> bool:
        return await self._link(_inside(namespace), name) is not None

    async def lend(self, name: str, namespace: Path) -> None:
        if await self._managed(name):
            await self._processes.run(["nmcli", "device", "set", name, "managed", "no"])
        await self._processes.run(["ip", "link", "set", name, "nomaster"])
        await self._processes.run(["ip", "link", "set", name, "netns", str(namespace)])

    async def give_back(self, device: Device, namespace: Path) -> bool:
        inside = _inside(namespace)
        if await self._link(inside, device.name) is not None:
            for words in (["nomaster"], ["down"], ["netns", _own()]):
                await self._processes.run([*inside, "ip", "link", "set", device.name, *words])
        if await self._link([], device.name) is None:
            return False
        now = await self.look(device.name)
        for command in _restoring(device, now or device):
            await self._processes.run(command)
        if device.managed:
            await self._processes.run(["nmcli", "device", "set", device.name, "managed", "yes"], check=False)
        return True

    async def plug_in(self, cable: SiteCable, bridge: Device) -> None:
        await self.unplug(cable, bridge)
        now = await self._link([], cable.bridge)
        mtu = str(now["mtu"] if now is not None else bridge.mtu)
        mac = cable.mac if await self._json("link", "show", "master", cable.bridge) else bridge.mac
        peer = ["peer", "name", cable.inside, "mtu", mtu, "netns", str(cable.namespace)]
        await self._processes.run(["ip", "link", "add", cable.link, "address", mac, "mtu", mtu, "type", "veth", *peer])
        with suppress(FileNotFoundError):  # a port of a bridge has no address of its own, not even by itself
            Path(f"/proc/sys/net/ipv6/conf/{cable.link}/disable_ipv6").write_text("1")
        if shutil.which("nmcli") and await self._manager():
            await self._processes.run(["nmcli", "device", "set", cable.link, "managed", "no"], check=False)
        for command in (
            [*_inside(cable.namespace), "ip", "link", "set", cable.inside, "up"],
            ["ip", "link", "set", cable.link, "master", cable.bridge, "up"],
        ):
            await self._processes.run(command)

    async def plugged(self, cable: SiteCable) -> bool:
        outer, inner = await self._link([], cable.link), await self._link(_inside(cable.namespace), cable.inside)
        if outer is None or inner is None or outer.get("master") != cable.bridge:
            return False
        return (outer["ifindex"], outer.get("link_index")) == (inner.get("link_index"), inner["ifindex"])

    async def unplug(self, cable: SiteCable, bridge: Device) -> None:
        await self._processes.run(["ip", "link", "delete", cable.link], check=False)
        now = await self._link([], bridge.name)
        if now is None or await self._json("link", "show", "master", bridge.name):
            return
        # a bridge whose last port goes loses its MAC and its MTU
        if now["address"] != bridge.mac:
            await self._processes.run(["ip", "link", "set", bridge.name, "address", bridge.mac])
        if now["mtu"] != bridge.mtu:
            await self._processes.run(["ip", "link", "set", bridge.name, "mtu", str(bridge.mtu)])

    def bridges_filter(self) -> bool:
        with suppress(OSError):
            return _FILTER.read_text().strip() == "1"
        return False

    async def _managed(self, name: str) -> bool:
        if not shutil.which("nmcli") or not await self._manager():
            return False
        shown = await self._processes.run(
            ["nmcli", "-g", "GENERAL.STATE", "device", "show", name], env=_PLAIN, check=False
        )
        # "10 (unmanaged)"; what is not known to it shows nothing
        return shown.code == 0 and bool(shown.stdout.strip()) and not shown.stdout.startswith("10")

    async def _manager(self) -> bool:
        shown = await self._processes.run(["nmcli", "-t", "-f", "RUNNING", "general"], env=_PLAIN, check=False)
        return shown.stdout.strip() == "running"

    async def _json(self, *words: str) -> list[dict[str, Any]]:
        shown = await self._processes.run(["ip", "-json", *words], check=False)
        found: list[dict[str, Any]] = json.loads(shown.stdout or "[]")
        return found

    async def _link(self, inside: Sequence[str], name: str) -> dict[str, Any] | None:
        shown = await self._processes.run([*inside, "ip", "-json", "-details", "link", "show", name], check=False)
        if shown.code:
            return None
        found: dict[str, Any] = json.loads(shown.stdout)[0]
        return found


_PLAIN = {"LC_ALL": "C"}


def read_addresses(shown: Mapping[str, Any]) -> Iterator[str]:
    """Out of `ip -json address`; not those of the link itself, which the kernel makes anew."""
    for address in shown.get("addr_info", ()):
        if address.get("scope") == "link" and address["family"] == "inet6":
            continue
        words = [f"{address['local']}/{address['prefixlen']}"]
        if address.get("dynamic"):
            words += [
                "valid_lft",
                str(address["valid_life_time"]),
                "preferred_lft",
                str(address["preferred_life_time"]),
            ]
        yield " ".join(words)


def read_routes(shown: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Out of `ip -json route show dev`."""
    for route in shown:
        if route.get("protocol") in _KERNELS or route.get("type", "unicast") != "unicast":
            continue
        words = [str(route["dst"])]
        for key, word in (("gateway", "via"), ("metric", "metric"), ("prefsrc", "src"), ("protocol", "proto")):
            if route.get(key) not in (None, "boot"):
                words += [word, str(route[key])]
        yield " ".join(words)


def _restoring(device: Device, now: Device) -> Iterator[list[str]]:
    """The `ip` commands that restore a NIC's state, in an order in which no command undoes an earlier one."""
    if now.mtu != device.mtu:
        yield ["ip", "link", "set", device.name, "mtu", str(device.mtu)]
    if device.master and now.master != device.master:
        yield ["ip", "link", "set", device.name, "master", device.master]
    if now.up != device.up:
        yield ["ip", "link", "set", device.name, "up" if device.up else "down"]
    for address in device.addresses:
        yield ["ip", "address", "replace", *address.split(), "dev", device.name]
    for route in device.routes:
        yield ["ip", *(["-6"] if _is_six(route) else []), "route", "replace", *route.split(), "dev", device.name]


def _is_six(route: str) -> bool:
    return any(":" in word for word in route.split())


def _own() -> str:
    """A path to our own network namespace for a program in another one."""
    return f"/proc/{os.getpid()}/task/{threading.get_native_id()}/ns/net"


def _inside(namespace: Path) -> list[str]:
    return ["nsenter", f"--net={namespace}", "--"]
