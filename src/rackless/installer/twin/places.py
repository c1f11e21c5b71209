"""Choosing addresses of a network that the install-config does not give: the usual ones first, then any free one. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, IPv4Network

from rackless.spec.places import BOOTSTRAP, FIRST_SERVER, RANGE

MOST = 1 << 16
"""Addresses of a network that are looked at; nobody's servers need more."""


class Places:
    def __init__(self, network: IPv4Network, taken: Iterable[IPv4Address]) -> None:
        self._network = network
        self._taken = set(taken)

    def claim(self, address: IPv4Address) -> IPv4Address:
        self._taken.add(address)
        return address

    def take(self, usual: int) -> IPv4Address | None:
        """The address of this number, else the next free one behind it, else any."""
        for number in (*range(usual, self._end), *range(1, min(usual, self._end))):
            if (address := self._network[number]) not in self._taken:
                return self.claim(address)
        return None

    def bootstrap(self) -> IPv4Address | None:
        return self.take(BOOTSTRAP)

    def server(self) -> IPv4Address | None:
        return self.take(FIRST_SERVER)

    def range(self) -> tuple[IPv4Address, IPv4Address] | None:
        """The usual ten, or the longest run of at most ten that nobody has."""
        first, last = RANGE
        if last < self._end and all(self._network[n] not in self._taken for n in range(first, last + 1)):
            return self._network[first], self._network[last]
        best: tuple[int, int] | None = None
        for run in self._runs():
            if best is None or run[1] - run[0] > best[1] - best[0]:
                best = run
            if best[1] - best[0] >= last - first:
                break
        if best is None:
            return None
        return self._network[best[0]], self._network[min(best[1], best[0] + last - first)]

    @property
    def _end(self) -> int:
        return min(self._network.num_addresses - 1, MOST)

    def _runs(self) -> Iterator[tuple[int, int]]:
        start: int | None = None
        for number in range(1, self._end + 1):
            free = number < self._end and self._network[number] not in self._taken
            if free and start is None:
                start = number
            elif not free and start is not None:
                yield start, number - 1
                start = None
