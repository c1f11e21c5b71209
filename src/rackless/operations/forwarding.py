"""IP forwarding on the hypervisor's interfaces (sysctl), and which lab switched it on.

Replies to a lab come in through an interface of the hypervisor, and the kernel passes them on only when that interface forwards.
rackless switches on single interfaces (`net.ipv4.conf.NAME.forwarding`), never the whole computer (`ip_forward`). So other
programs that need forwarding find `ip_forward` off and turn it on themselves; from then on rackless switches nothing off.

Labs share interfaces. Which lab switched on which interface is kept in nftables, a set in each lab's table: it is lost at a
reboot, as the sysctls are. The ledger has a copy, in case somebody flushes the rules. The last lab that leaves switches off what
labs have switched on.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from rackless.lab.gate import OPENED
from rackless.ports.computer_network import ComputerNetwork
from rackless.ports.firewall import Firewall

TABLE = re.compile(r"rl_[0-9a-f]{8}")


async def registered(firewall: Firewall) -> dict[str, set[str]]:
    """For each lab's nftables table, the interfaces in its set."""
    found = await firewall.sets(OPENED)
    return {table: set(opened) for table, opened in found.items() if TABLE.fullmatch(table)}


def claim(
    ways: Iterable[str], mine: Collection[str], others: Collection[str], network: ComputerNetwork
) -> list[str]:  # fmt: skip
    """Of these interfaces, those whose forwarding is a lab's to switch on: it is off now, or a lab has switched it on. Changes
    nothing."""
    return sorted(way for way in ways if not network.forwards(way) or way in mine or way in others)


def open_interfaces(names: Iterable[str], network: ComputerNetwork) -> None:
    for name in names:
        if not network.forwards(name):
            network.set_forwarding(name, True)


def close_interfaces(names: Iterable[str], others: Collection[str], network: ComputerNetwork) -> None:
    """Switch off forwarding of the interfaces that no other lab needs; of none when somebody has turned on `ip_forward` since."""
    if network.forwards("all"):
        return
    for name in names:
        if name not in others:
            network.set_forwarding(name, False)
