"""Which host a Machine claims, and why: deterministic, with a reason for each of the other hosts. Pure.

Of the available hosts, those with the fewest failed installations come first, then by name, with numbers in names compared as
numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from heapq import nsmallest
from itertools import islice
from typing import Any

from rackless.controllers.host_annotations import DETACHED
from rackless.controllers.machines.records import UNHEALTHY_HOST, consumer_of, state_of
from rackless.controllers.machines.selectors import Selector, check, empty, mismatch
from rackless.ports.resources import Record
from rackless.provisioning.baremetalhost import PAUSED

TOLD = 8
"""How many of the hosts that were not chosen are listed with their reasons; the rest is counted."""
FREE_STATES = ("available", "ready")
_NUMBERS = re.compile(r"(\d+)")


@dataclass(frozen=True, slots=True)
class Choice:
    host: Record | None
    why: str
    """Why this one, or why none, and why not the others; one line for people."""


def unfit(host: Record) -> str:
    """Why no Machine can claim this host now, whatever its selector; empty when it is available."""
    metadata, spec, status = host["metadata"], host.get("spec") or {}, host.get("status") or {}
    annotations = metadata.get("annotations") or {}
    if spec.get("consumerRef"):
        name = consumer_of(host).partition("/")[2] or spec["consumerRef"].get("name") or "somebody"
        return f"{spec['consumerRef'].get('kind') or 'consumer'} {name} has it"
    if metadata.get("deletionTimestamp"):
        return "it is being deleted"
    if PAUSED in annotations:
        return "it is paused"
    if DETACHED in annotations or status.get("operationalStatus") == "detached":
        return "it is detached"
    if UNHEALTHY_HOST in annotations:
        return "it is marked unhealthy"
    if spec.get("externallyProvisioned"):
        return "it is externally provisioned"
    if status.get("errorMessage"):
        return f"{status.get('errorType') or 'error'}: {str(status['errorMessage']).splitlines()[0][:120]}"
    if state_of(host) not in FREE_STATES:
        return f"it is {state_of(host) or 'new'}"
    if spec.get("image") or spec.get("customDeploy"):
        return "somebody wants a system on it"
    return ""


def free(host: Record) -> bool:
    return not unfit(host)


@lru_cache(maxsize=65536)
def by_name(name: str) -> tuple[tuple[int, int | str], ...]:
    """worker-2 before worker-10."""
    return tuple((0, int(part)) if part.isdigit() else (1, part) for part in _NUMBERS.split(name) if part)


def choose(
    selector: Selector,
    candidates: Iterable[Record],
    others: Iterable[Record] = (),
    *,
    many: int = 0,
    taken: Callable[[Record], str] = lambda _: "",
) -> Choice:
    """One of `candidates`, which are free.

    `others` are hosts that are known not to be free, for the explanation; `many` is how many there are in all. `taken` says of
    a host that another Machine is just claiming it. Raises BadSelector.
    """
    check(selector)
    anyone = empty(selector)
    fits: list[Record] = []
    seen: set[str] = set()
    reasons: dict[str, str] = {}
    for host in candidates:  # of a thousand, for each of a thousand Machines: nothing is asked twice
        name = host["metadata"]["name"]
        seen.add(name)
        why = taken(host) or ("" if anyone else mismatch(selector, host["metadata"].get("labels") or {}))
        if why:
            reasons[name] = why
        else:
            fits.append(host)
    first = nsmallest(TOLD + 1, fits, key=_order)
    chosen = first[0] if first else None
    for host in first[1:]:
        reasons[host["metadata"]["name"]] = _later(host, chosen)
    for host in islice(others, max(0, TOLD - len(reasons))):
        name = host["metadata"]["name"]
        if chosen is None or name != chosen["metadata"]["name"]:
            reasons.setdefault(name, unfit(host) or "it became free just now")
    total = max(many, len(seen | set(reasons)))
    not_these = _told(reasons, total - (chosen is not None))
    if chosen is None:
        return Choice(None, f"none of {total} hosts can be had{': ' + not_these if not_these else ''}")
    name = chosen["metadata"]["name"]
    rest = f"the first by name of {len(fits)} that can be had" if len(fits) > 1 else "the only one that can be had"
    if _failures(chosen) == 0 and any(_failures(host) for host in fits):
        rest += ", and no installation failed on it"
    return Choice(chosen, f"{name}: {rest}{'; not ' + not_these if not_these else ''}")


def _order(host: Record) -> tuple[Any, ...]:
    return (_failures(host), by_name(host["metadata"]["name"]))


def _failures(host: Record) -> int:
    return int((host.get("status") or {}).get("provisioningFailCount") or 0)


def _later(host: Record, chosen: Record | None) -> str:
    if chosen is not None and _failures(host) > _failures(chosen):
        return f"installing failed on it {_failures(host)} times"
    return "free, but later by name"


def _told(reasons: Mapping[str, str], total: int) -> str:
    names: Sequence[str] = sorted(reasons, key=by_name)[:TOLD]
    told = "; ".join(f"{name}: {reasons[name]}" for name in names)
    left = total - len(names)
    return f"{told}; and {left} more" if left > 0 and told else told
