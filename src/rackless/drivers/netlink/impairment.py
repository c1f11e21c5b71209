"""Slow and lossy links by the kernel's queues: tbf for a rate alone, netem for delay and loss, and for a rate beside them."""

from __future__ import annotations

import errno
from contextlib import closing
from typing import Any

from pyroute2 import IPRoute, NetlinkError
from pyroute2.netlink.rtnl import TC_H_ROOT

from rackless.drivers.namespaces import ThreadRoom
from rackless.errors import HypervisorError
from rackless.ports.fabric import Impairment

_OURS = ("tbf", "netem")
_LATENCY = "400ms"
"""How long a packet may wait for its turn before it is dropped."""
_LEAST_BURST = 16 * 1024
"""Bytes at once; ten whole frames, and for fast links what they carry in 10 ms, or the kernel's clock would be what limits them."""


def impair(name: str, wanted: Impairment | None) -> bool:
    """True when it was otherwise before. Raises HypervisorError where this kernel has no such queue."""
    with IPRoute() as route:
        index = int(route.link_lookup(ifname=name)[0])
        before = _queue(route, index)
        if wanted is None:
            if before is not None:
                route.tc("del", index=index, parent=TC_H_ROOT)
            return before is not None
        kind, options = _described(wanted)
        try:
            route.tc("replace", kind, index, **options)
        except NetlinkError as error:
            if error.code != errno.ENOENT:
                raise
            raise HypervisorError(
                f"this computer's kernel cannot make links slow and lossy: it has no {kind}",
                why=f"networks.cluster.link of lab.yaml needs its module sch_{kind}",
                hint=f"modprobe sch_{kind}, or take networks.cluster.link out of lab.yaml",
            ) from error
        return _queue(route, index) != before


def can_impair(wanted: Impairment) -> bool:
    """Whether this kernel can; tried where nobody sees it."""
    room = ThreadRoom("impair")

    def attempt() -> bool:
        try:
            impair("lo", wanted)
        except HypervisorError:
            return False
        return True

    with closing(room):
        return room.call(attempt)


def _described(wanted: Impairment) -> tuple[str, dict[str, Any]]:
    rate = wanted.rate_bits // 8 if wanted.rate_bits is not None else None
    if wanted.plain_rate:
        assert rate is not None
        return "tbf", {"rate": rate, "burst": max(_LEAST_BURST, rate // 100), "latency": _LATENCY}
    options: dict[str, Any] = {"delay": wanted.delay_ms * 1000, "loss": wanted.loss_percent}
    return "netem", options if rate is None else {**options, "rate": rate}


def _queue(route: Any, index: int) -> tuple[str, str] | None:
    """What stands at the root of a link and is ours, as text that is equal for equal settings."""
    for found in route.get_qdiscs(index=index):
        if (kind := found.get_attr("TCA_KIND")) in _OURS:
            return str(kind), str(found.get_attr("TCA_OPTIONS"))
    return None
