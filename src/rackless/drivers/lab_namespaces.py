"""`ports.namespaces.Namespaces` of this kernel."""

from __future__ import annotations

import json
import os
import socket
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from rackless.drivers import namespaces as ns
from rackless.drivers.entrance import LinuxEntrance
from rackless.drivers.mounts import LinuxMounts
from rackless.drivers.process import LocalProcesses, environment
from rackless.ports.mounts import Mounts
from rackless.ports.namespaces import Entrance, Home, Network, Room, Space

_MARK = Path("/sys/class/net/lo/ifalias")
"""The alias of the loopback link: it lives as long as the namespace, and only root in it can write it."""


class LinuxNamespaces:
    def home(self) -> Home:
        return Home(*(os.stat(f"/proc/self/ns/{kind}").st_ino for kind in ("net", "mnt")))

    def enter(self, pin: Path, make_mounts: Callable[[Mounts], None]) -> None:
        if ns.is_mounted(pin):
            ns.enter(pin, ns.CLONE_NEWNET)
        else:
            pin.touch(mode=0o600)
            ns.unshare(ns.CLONE_NEWNET)
            ns.bind(Path("/proc/self/ns/net"), pin)
        ns.unshare(ns.CLONE_NEWNS)
        make_mounts(LinuxMounts())

    def visit(self, pin: Path) -> None:
        ns.enter(pin, ns.CLONE_NEWNET)

    def write_mark(self, text: str) -> None:
        """Into the namespace whose /sys we see."""
        _MARK.write_text(text)

    async def read_mark(self, door: Path) -> str:
        show = ["nsenter", f"--net={door}", "--", "ip", "-json", "link", "show", "lo"]
        shown = await LocalProcesses().run(show, check=False)
        with suppress(ValueError, LookupError):
            return str(json.loads(shown.stdout)[0].get("ifalias", ""))
        return ""

    def inhabitants(self, pin: Path) -> list[int]:
        return list(ns.inhabitants(pin))

    def unpin(self, pin: Path) -> None:
        while ns.is_mounted(pin):
            ns.unmount(pin)
        pin.unlink(missing_ok=True)

    def residents(self, network: Network, mnt: int | None = None) -> list[int]:
        return [
            pid
            for pid, lives in ns.networks_of_all()
            if pid != os.getpid() and (lives == network or (mnt is not None and self.mount_namespace(pid) == mnt))
        ]

    def mount_namespace(self, pid: int) -> int | None:
        try:
            return os.stat(f"/proc/{pid}/ns/mnt").st_ino
        except OSError:
            return None

    def others(self) -> list[Space]:
        ours = ns.network_id(Path("/proc/self/ns/net"))
        living: dict[Network, list[int]] = defaultdict(list)
        for pid, network in ns.networks_of_all():
            living[network].append(pid)
        doors = {network: Path(f"/proc/{pids[0]}/ns/net") for network, pids in living.items()}
        doors |= {pinned: pin for pin in ns.pins() if (pinned := ns.network_id(pin)) is not None}
        return [
            Space(network, door, tuple(sorted(living.get(network, ()))))
            for network, door in sorted(doors.items())
            if network != ours
        ]

    def leads_to(self, pin: Path) -> Network | None:
        return ns.network_id(pin) if ns.is_mounted(pin) else None

    def pins(self, network: Network) -> list[Path]:
        return [pin for pin in ns.pins() if ns.network_id(pin) == network]

    def open_room(self, name: str) -> Room:
        return ns.ThreadRoom(name)

    def stay(self, name: str) -> Room:
        return ns.ThreadRoom(name, stays=True)

    def open_entrance(
        self, place: Path, owner: int, argv: Sequence[str], env: Mapping[str, str], most: int
    ) -> Entrance:
        return LinuxEntrance(place, owner, argv, environment(env), most)

    def socket(self, family: int, kind: int, protocol: int) -> socket.socket:
        return socket.socket(family, kind, protocol)
