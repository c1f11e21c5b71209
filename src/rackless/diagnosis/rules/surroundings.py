"""What is wrong around a lab's programs: DNS names, a second DHCP server, too little processor time."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from rackless.diagnosis.lab_evidence import LabEvidence, NameAnswer
from rackless.diagnosis.rule import CauseRule, Depth, Evidence, RootCause
from rackless.events import count

STOLEN = 0.2
"""Share of time, above which a server that was not heard of in time may have had no processor to answer with."""
_IDENTITY = "version.bind"
_TIMED_OUT = "was not heard of in time"


def _is_address(question: str) -> bool:
    try:
        ipaddress.ip_address(question)
    except ValueError:
        return False
    return True


def _said(answer: NameAnswer) -> Evidence:
    told = answer.problem or ", ".join(answer.found) or "no such name"
    return Evidence(f"DNS at {answer.server}", f"{answer.question}: {told}")


def _answers(seen: LabEvidence, backward: bool) -> list[NameAnswer]:
    if list(_names_silent(seen)) or list(_names_by_another(seen)):
        return []
    asked = [one for one in seen.surroundings.names if one.question != _IDENTITY and not one.problem]
    return [one for one in asked if _is_address(one.question) is backward]


def _names_silent(seen: LabEvidence) -> Iterator[RootCause]:
    silent = [one for one in seen.surroundings.names if one.problem]
    if silent and seen.status is not None and all(part.running for part in seen.status.parts):
        yield RootCause(
            "lab/dns", f"nobody answers DNS at {silent[0].server}: {silent[0].problem}", tuple(map(_said, silent)),
            "dnsmasq of the cluster network should: see who listens (`rackless exec -- ss -lnup 'sport = 53'`); a firewall that "
            "drops looks the same",
        )  # fmt: skip


def _names_by_another(seen: LabEvidence) -> Iterator[RootCause]:
    for one in seen.surroundings.names:
        if one.question == _IDENTITY and not one.problem and not any("dnsmasq" in text for text in one.found):
            who = f"which calls itself {one.found[0]}" if one.found else "which does not say who it is"
            yield RootCause(
                "lab/dns", f"another program than the lab's dnsmasq answers DNS at {one.server}, {who}", (_said(one),),
                "find the program with `rackless exec -- ss -lnup 'sport = 53'` and end it; dnsmasq is then started again",
            )  # fmt: skip


def _name_missing(seen: LabEvidence) -> Iterator[RootCause]:
    if lacking := [one for one in _answers(seen, False) if not one.found]:
        yield RootCause(
            "lab/dns", f"the lab's DNS does not know {', '.join(one.question for one in lacking)}", tuple(map(_said, lacking)),
            "`rackless up` makes the cluster network's records again; `networks.dns.records` in lab.yaml adds names",
        )  # fmt: skip


def _name_wrong(seen: LabEvidence) -> Iterator[RootCause]:
    wrong = [one for one in _answers(seen, False) if one.found and one.wanted and set(one.found) != set(one.wanted)]
    if wrong:
        first = wrong[0]
        yield RootCause(
            "lab/dns", f"{first.question} resolves to {', '.join(first.found)}, and should resolve to {', '.join(first.wanted)}",
            tuple(map(_said, wrong)),
            "correct the record: it is in `networks.dns.records` of lab.yaml, or on the server that DNS is forwarded to",
        )  # fmt: skip


def _reverse_wrong(seen: LabEvidence) -> Iterator[RootCause]:
    wrong = [one for one in _answers(seen, True) if not set(one.found) & set(one.wanted)]
    if wrong:
        first = wrong[0]
        found = (
            f"resolves backwards (PTR) to {', '.join(first.found)}" if first.found else "has no name backwards (PTR)"
        )
        yield RootCause(
            "lab/dns", f"{first.question} {found}, and should have {first.wanted[0]}: a node takes its host name from there",
            tuple(map(_said, wrong)), "`rackless up` makes the records again; see also `networks.dns.records` in lab.yaml",
        )  # fmt: skip


def _two_dhcp(seen: LabEvidence) -> Iterator[RootCause]:
    for network, servers in seen.surroundings.dhcp.items():
        own = seen.surroundings.dhcp_own.get(network, "")
        others = [server for server in servers if server != own]
        if others:
            yield RootCause(
                f"network/{network}", f"a second DHCP server answers on the network {network}: {', '.join(others)}",
                tuple(Evidence("DHCP", f"{server} offers a lease to whoever asks; the lab's own is {own}") for server in others),
                f"find it by its MAC (`rackless exec -- ip neigh show {others[0]}`) and stop it: a server takes the "
                "first offer that it gets",
            )  # fmt: skip


def _timed_out(seen: LabEvidence) -> bool:
    """Whether a host failed because something took too long: a slow lab that is well has no cause."""
    for record in seen.hosts:
        status: object = record.get("status")
        if isinstance(status, dict) and _TIMED_OUT in str(status.get("errorMessage") or ""):
            return True
    return False


def _no_cpu(seen: LabEvidence) -> Iterator[RootCause]:
    found = seen.processors
    if found is not None and seen.starved and found.stolen < STOLEN and _timed_out(seen):
        yield RootCause(
            "hypervisor/cpu",
            f"this computer has not enough processors for what runs on it: {count(found.promised, 'processor')} of servers on "
            f"{found.cpus}, and something had to wait in {found.waiting:.0%} of the last five minutes",
            (Evidence("/proc/pressure/cpu", f"some avg300={found.waiting * 100:.2f}"),),
            "run fewer servers at once, or stop what else runs (`top`); without KVM a server needs many times as much",
        )  # fmt: skip


def _stolen(seen: LabEvidence) -> Iterator[RootCause]:
    found = seen.processors
    if found is not None and found.stolen >= STOLEN and _timed_out(seen):
        yield RootCause(
            "hypervisor/cpu", f"this computer is a guest, and its own hypervisor takes {found.stolen:.0%} of its processors' time",
            (Evidence("/proc/stat", f"steal {found.stolen:.0%}"),),
            "move this computer to a host with free processors, or give it processors of its own",
        )  # fmt: skip


RULES: tuple[CauseRule[LabEvidence], ...] = (
    CauseRule("lab/no-cpu", "everything takes longer than it is waited for", Depth.HYPERVISOR, _no_cpu),
    CauseRule("lab/cpu-stolen", "everything takes longer than it is waited for", Depth.HYPERVISOR, _stolen,
              "no processor is shared here in a way that can be provoked"),
    CauseRule("network/two-dhcp", "servers get now one address, now another", Depth.NETWORK, _two_dhcp),
    CauseRule("names/silent", "no name resolves in the lab", Depth.NETWORK, _names_silent),
    CauseRule("names/another-answers", "names lead elsewhere", Depth.NETWORK, _names_by_another),
    CauseRule("names/missing", "a name does not resolve in the lab", Depth.NETWORK, _name_missing),
    CauseRule("names/wrong", "a name leads to another machine", Depth.NETWORK, _name_wrong),
    CauseRule("names/reverse", "a node calls itself localhost, or by another's name", Depth.NETWORK, _reverse_wrong),
)  # fmt: skip
