"""The lab's way out through the host: a veth pair and masquerading. The one thing of a lab that touches the host's network.

All of it is in the ledger, with the value that was there before, and is taken back by `down` and `destroy`. The lab's own
addresses never appear on the host: they are masqueraded behind the lab's end of the pair.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from rackless.drivers.process import LocalProcesses
from rackless.errors import MachineError
from rackless.events import Bus
from rackless.ports.process import Processes
from rackless.run.ledger import Entry, Ledger
from rackless.run.paths import LabPaths
from rackless.spec.networks import Uplink

KIND = "uplink"
INSIDE = "uplink"
POOL = IPv4Network("100.64.0.0/16")
"""Of the space set aside for carriers, which networks of people do not use."""
RESOLVERS = (Path("/etc/resolv.conf"), Path("/run/systemd/resolve/resolv.conf"))
FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")


async def ensure_uplink(wanted: Uplink, paths: LabPaths, bus: Bus) -> None:
    ledger = Ledger(paths.ledger)
    present = next((entry for entry in ledger.entries() if entry.kind == KIND), None)
    if wanted is Uplink.NONE:
        if present is not None:
            with bus.step("uplink taken away"):
                await retire_uplink(present)
                ledger.strike(present)
        return
    with bus.step("uplink") as step:
        processes = LocalProcesses()
        link = link_name(paths)
        if present is not None and await _exists(link, processes):
            step.unchanged(present.detail["subnet"])
            return
        subnet = await _free_subnet(link, processes)
        before = present.detail["forwarding"] if present is not None else FORWARDING.read_text().strip()
        ledger.own(KIND, link, subnet=str(subnet), forwarding=before, table=_table(link))
        await _make(link, subnet, paths, processes)
        step.detail = f"{subnet} on {link}, masqueraded"


def host_nameservers(places: Sequence[Path] = RESOLVERS) -> list[IPv4Address]:
    """Whom this machine asks for names, as a lab can reach them: not those on its loopback."""
    for place in places:
        try:
            lines = place.read_text().splitlines()
        except OSError:
            continue
        words = [line.split() for line in lines]
        given = [word[1] for word in words if len(word) > 1 and word[0] == "nameserver" and ":" not in word[1]]
        if found := [address for address in map(IPv4Address, given) if not address.is_loopback]:
            return found
    return []


def link_name(paths: LabPaths) -> str:
    return "rl-" + hashlib.sha256(str(paths.state).encode()).hexdigest()[:8]


async def retire_uplink(entry: Entry) -> None:
    processes = LocalProcesses()
    await processes.run(["ip", "link", "delete", entry.id], check=False)
    await processes.run(["nft", "delete", "table", "ip", entry.detail["table"]], check=False)
    if entry.detail["forwarding"] == "0" and not await _others(entry, processes):
        FORWARDING.write_text("0")


def host_rules(link: str, subnet: IPv4Network) -> str:
    table = _table(link)
    return f"""\
table ip {table}
delete table ip {table}
table ip {table} {{
  chain forward {{
    type filter hook forward priority filter; policy accept;
    oifname "{link}" ct state established,related accept
    oifname "{link}" drop
  }}
  chain postrouting {{
    type nat hook postrouting priority srcnat; policy accept;
    ip saddr {subnet} oifname != "{link}" masquerade
  }}
}}
"""


def lab_rules() -> str:
    return f"""\
table ip rackless_uplink
delete table ip rackless_uplink
table ip rackless_uplink {{
  chain postrouting {{
    type nat hook postrouting priority srcnat; policy accept;
    oifname "{INSIDE}" masquerade
  }}
}}
"""


async def _make(link: str, subnet: IPv4Network, paths: LabPaths, processes: Processes) -> None:
    near, far = subnet[1], subnet[2]
    inside = ["nsenter", f"--net={paths.netns}", "--"]
    for command in (
        ["ip", "link", "add", link, "type", "veth", "peer", "name", INSIDE, "netns", str(paths.netns)],
        ["ip", "address", "add", f"{near}/30", "dev", link],
        ["ip", "link", "set", link, "up"],
        [*inside, "ip", "address", "add", f"{far}/30", "dev", INSIDE],
        [*inside, "ip", "link", "set", INSIDE, "up"],
        [*inside, "ip", "route", "replace", "default", "via", str(near)],
    ):
        await processes.run(command)
    await processes.run(["nft", "-f", "-"], input=host_rules(link, subnet).encode())
    await processes.run([*inside, "nft", "-f", "-"], input=lab_rules().encode())
    FORWARDING.write_text("1")


async def _exists(link: str, processes: Processes) -> bool:
    return (await processes.run(["ip", "link", "show", link], check=False)).code == 0


async def _free_subnet(link: str, processes: Processes) -> IPv4Network:
    """A /30 that no route of this machine leads to; the same one for the same lab where that is possible."""
    shown = await processes.run(["ip", "-json", "-4", "route", "show", "table", "all"])
    taken = [
        IPv4Network(route["dst"], strict=False)
        for route in json.loads(shown.stdout or "[]")
        if route["dst"] not in ("default", "0.0.0.0/0") and route.get("type", "unicast") != "broadcast"
    ]
    start = int(hashlib.sha256(link.encode()).hexdigest()[:8], 16)
    count = POOL.num_addresses // 4
    for step in range(count):
        base = int(POOL.network_address) + (start + step) % count * 4
        subnet = IPv4Network((base, 30))
        if not any(subnet.overlaps(other) for other in taken):
            return subnet
    raise MachineError("no network is free for the lab's uplink", why=f"every /30 of {POOL} has a route")


async def _others(entry: Entry, processes: Processes) -> bool:
    """Whether another lab has its uplink on this machine; it needs forwarding too."""
    shown = await processes.run(["ip", "-json", "link"], check=False)
    return any(link["ifname"].startswith("rl-") and link["ifname"] != entry.id for link in json.loads(shown.stdout))


def _table(link: str) -> str:
    return link.replace("-", "_")
