"""Which interfaces of the hypervisor forward, and on whose account.

Replies to a lab come in through an interface of the hypervisor, and the kernel passes them on only when that one forwards. We
switch on single interfaces (`net.ipv4.conf.NAME.forwarding`), never the whole computer (`ip_forward`). So programs that need
forwarding find the common switch off, turn it on themselves, and it stays theirs: from then on we take nothing back.

Labs share interfaces. Who opened what is kept where the interfaces are: in the nftables of the network namespace, a
set in each lab's table. It ends as the switches do, with a restart of the computer; the ledger has a copy, should
somebody flush the rules. The last lab that leaves closes what labs have opened.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from rackless.lab.gate import OPENED
from rackless.ports.computer_network import ComputerNetwork
from rackless.ports.firewall import Firewall

TABLE = re.compile(r"rl_[0-9a-f]{8}")


async def registered(firewall: Firewall) -> dict[str, set[str]]:
    """By table of a lab: the interfaces that it says were opened for it."""
    found = await firewall.sets(OPENED)
    return {table: set(opened) for table, opened in found.items() if TABLE.fullmatch(table)}


def claim(
    ways: Iterable[str], mine: Collection[str], others: Collection[str], network: ComputerNetwork
) -> list[str]:  # fmt: skip
    """Of these interfaces, those that forward on account of labs: opened now, or opened by a lab before."""
    return sorted(way for way in ways if not network.forwards(way) or way in mine or way in others)


def open_interfaces(names: Iterable[str], network: ComputerNetwork) -> None:
    for name in names:
        if not network.forwards(name):
            network.set_forwarding(name, True)


def close_interfaces(names: Iterable[str], others: Collection[str], network: ComputerNetwork) -> None:
    """Those that no other lab needs; none, when somebody has turned on forwarding for the whole computer since."""
    if network.forwards("all"):
        return
    for name in names:
        if name not in others:
            network.set_forwarding(name, False)
