"""nftables' tables in memory: `ports.firewall.Firewall` without a kernel. It understands our scripts, which replace whole
tables."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from rackless.drivers.fake.script import Script
from rackless.errors import CommandFailed

_TABLE = re.compile(r"^table ip (\w+) \{$(.*?)^\}$", re.MULTILINE | re.DOTALL)
_SET = re.compile(r"^  set (\w+) \{$(.*?)^  \}$", re.MULTILINE | re.DOTALL)
_ELEMENTS = re.compile(r"elements = \{(.*?)\}", re.DOTALL)


@dataclass
class FakeFirewall:
    script: Script
    here: Callable[[], str]
    """The network namespace of the process that calls."""
    tables: dict[tuple[str, str], str] = field(default_factory=dict)
    """What is in a table, by namespace and name."""

    async def replace(self, rules: str, *, namespace: Path | None = None) -> None:
        found = {name: inside for name, inside in _TABLE.findall(rules)}
        await self.script.meet("firewall", "replace", " ".join(found))
        if not found:
            raise CommandFailed(["nft", "-f", "-"], 1, "the fake firewall saw no table in this")
        space = str(namespace) if namespace is not None else self.here()
        for name, inside in found.items():
            self.tables[space, name] = inside
            self.script.change("firewall", "replace", name)  # even the same rules reset its counters

    async def remove(self, table: str) -> None:
        await self.script.meet("firewall", "remove", table)
        if self.tables.pop((self.here(), table), None) is not None:
            self.script.change("firewall", "remove", table)

    async def sets(self, name: str) -> dict[str, frozenset[str]]:
        await self.script.meet("firewall", "sets", name)
        here = self.here()
        return {
            table: _elements(body)
            for (space, table), inside in self.tables.items()
            for known, body in _SET.findall(inside)
            if space == here and known == name
        }

    def vanish(self, namespace: str) -> None:
        self.tables = {place: inside for place, inside in self.tables.items() if place[0] != namespace}


def _elements(body: str) -> frozenset[str]:
    found = _ELEMENTS.search(body)
    return frozenset(word.strip().strip('"') for word in found[1].split(",")) if found else frozenset()
