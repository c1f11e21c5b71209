"""What `up` has to do, as values with reasons: from what is wanted and what is observed. Pure; `rackless plan` prints it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from rackless.plan.addressing import plan_lab
from rackless.plan.changes import FieldChange, find_changes
from rackless.plan.model import LabPlan, PlannedServer
from rackless.spec.change import Change
from rackless.spec.lab import LabSpec


class Verb(StrEnum):
    KEEP = "keep"
    CREATE = "create"
    START = "start"
    CHANGE = "change"
    RESTART = "restart"
    RECREATE = "recreate"
    REMOVE = "remove"
    REFUSE = "refuse"


DESTRUCTIVE = (Verb.RECREATE, Verb.REMOVE)
"""What loses something; done only when asked for."""


@dataclass(frozen=True, slots=True)
class Action:
    subject: str
    """What it is about, such as `network/cluster` or `server/ctrl-0`."""
    verb: Verb
    reason: str


@dataclass(frozen=True, slots=True)
class Observed:
    """A lab as it was found; an empty one is no lab at all."""

    spec: LabSpec | None = None
    """What it was made from."""
    daemon: bool = False
    servers: Mapping[str, str] = field(default_factory=dict)
    """Power by name."""
    networks: frozenset[str] = frozenset()
    stages: frozenset[str] = frozenset()
    """What `up` has reached before."""


_SERVER_FIELDS: Mapping[str, tuple[Verb, str]] = {
    "memory_mib": (Verb.RESTART, "memory"),
    "vcpus": (Verb.RESTART, "virtual CPUs"),
    "role": (Verb.RECREATE, "role"),
    "address": (Verb.RECREATE, "address"),
    "bmc_address": (Verb.RECREATE, "BMC address"),
    "fqdn": (Verb.RECREATE, "name"),
    "disks": (Verb.RECREATE, "disks"),
    "nics": (Verb.RESTART, "NICs"),
    "bmc_scheme": (Verb.RECREATE, "way to boot"),
    "firmware": (Verb.RECREATE, "firmware"),
    "secure_boot": (Verb.RECREATE, "secure boot"),
    "tpm": (Verb.RECREATE, "TPM"),
    "image": (Verb.RECREATE, "image"),
}


def plan_actions(wanted: LabSpec, observed: Observed, stages: Sequence[str]) -> list[Action]:
    """Everything `up` would look at as far as the last of `stages`, in its order."""
    old, new = observed.spec, plan_lab(wanted)
    changes = find_changes(old, wanted) if old is not None else []
    if refused := [change for change in changes if change.change is Change.REFUSED]:
        return [Action(f"lab/{wanted.name}", Verb.REFUSE, "; ".join(map(str, refused)))]
    if whole := [change for change in changes if _concerns_all(change)]:
        return [
            Action(f"lab/{wanted.name}", Verb.RECREATE, "; ".join(map(str, whole))),
            *plan_actions(wanted, Observed(), stages),
        ]
    before = plan_lab(old) if old is not None else None
    return [
        _daemon(wanted, observed, changes),
        *_networks(new, before, observed, changes),
        *_servers(new, before, observed),
        *_stages(new, observed, stages),
    ]


def _concerns_all(change: FieldChange) -> bool:
    return change.change is Change.RECREATE and not change.path.startswith(("servers.", "image"))


def _daemon(wanted: LabSpec, observed: Observed, changes: Sequence[FieldChange]) -> Action:
    subject = f"lab/{wanted.name}"
    if observed.spec is None:
        return Action(subject, Verb.CREATE, "there is none")
    if not observed.daemon:
        return Action(subject, Verb.START, "its daemon is not running")
    if changes:
        return Action(subject, Verb.CHANGE, "; ".join(map(str, changes)))
    return Action(subject, Verb.KEEP, "its daemon runs")


def _networks(
    new: LabPlan, before: LabPlan | None, observed: Observed, changes: Sequence[FieldChange]
) -> Iterator[Action]:
    concerning = [change for change in changes if change.path.startswith("networks.") or change.path.endswith(".count")]
    why = "; ".join(map(str, concerning)) or "its servers changed"
    names = {"cluster": new.cluster, "provisioning": new.provisioning or new.provisioning_dhcp}
    yield Action("network/baremetal", *_presence("baremetal", observed))
    for name, network in names.items():
        if network is None:
            continue
        past = None if before is None else before.cluster if name == "cluster" else network
        if name in observed.networks and past != network:
            yield Action(f"network/{name}", Verb.CHANGE, f"{why}; running servers go on")
        else:
            yield Action(f"network/{name}", *_presence(name, observed))
    for bridge in new.extra:
        yield Action(f"network/{bridge.name}", *_presence(bridge.name, observed))
    for vlan in new.vlans:
        yield Action(f"network/{vlan.name}", *_presence(vlan.name, observed))
    kind = "routed" if new.bmc_site.router is not None else "direct"
    verb, reason = _presence("bmc", observed)
    yield Action("network/bmc", verb, f"{reason} ({kind})")


def _presence(name: str, observed: Observed) -> tuple[Verb, str]:
    return (Verb.KEEP, "is there") if name in observed.networks else (Verb.CREATE, "is not there")


def _servers(new: LabPlan, before: LabPlan | None, observed: Observed) -> Iterator[Action]:
    for server in new.servers:
        past = before.server(server.name) if before is not None else None
        subject = f"server/{server.name}"
        if past is None:
            yield Action(subject, Verb.CREATE, "is not there")
        elif differences := list(_differences(past, server)):
            verb = Verb.RECREATE if any(v is Verb.RECREATE for v, _ in differences) else Verb.RESTART
            running = observed.servers.get(server.name) == "on"
            if verb is Verb.RESTART and not running:
                verb = Verb.CHANGE
            yield Action(subject, verb, "; ".join(words for _, words in differences))
        elif observed.daemon and server.name not in observed.servers:
            yield Action(subject, Verb.CREATE, "was made, but is not there")
        else:
            yield Action(subject, Verb.KEEP, "is as wanted")
    for past in before.servers if before is not None else ():
        if new.server(past.name) is None:
            yield Action(f"server/{past.name}", Verb.REMOVE, "is no longer in the description; its disks go with it")


def _differences(old: PlannedServer, new: PlannedServer) -> Iterator[tuple[Verb, str]]:
    for name, (verb, words) in _SERVER_FIELDS.items():
        before, after = getattr(old, name), getattr(new, name)
        if name == "nics" and old.address != new.address:
            continue  # the address says it already
        if before != after:
            if name == "image":
                before, after = (image.url if image else "the node image" for image in (old.image, new.image))
            shown = "" if isinstance(before, tuple) or before == after else f" from {before} to {after}"
            yield verb, f"{words} changed{shown}"


def _stages(new: LabPlan, observed: Observed, stages: Sequence[str]) -> Iterator[Action]:
    titles = {
        "bmc": (f"{len(new.servers)} BMCs", "not running yet"),
        "engine": ("Ironic", "not running yet"),
        "hosts": ("hosts", "not provisioned yet"),
        "cluster": ("cluster", "not there yet"),
    }
    for stage in stages:
        if stage in titles:
            title, missing = titles[stage]
            there = stage in observed.stages and observed.daemon
            yield Action(
                f"stage/{stage}", Verb.KEEP if there else Verb.START, f"{title}: {'is there' if there else missing}"
            )
