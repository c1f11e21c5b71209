"""What stops an install while its bootstrap machine leads it: from what it and the control planes tell on their consoles."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rackless.diagnosis.bootstrap_evidence import BootstrapEvidence
from rackless.diagnosis.lab_evidence import LabEvidence
from rackless.diagnosis.rule import CauseRule, Depth, Evidence, RootCause, explain
from rackless.diagnosis.rules import provisioning

_AGAIN = "then the same `rackless install create cluster` goes on"
_NO_ADDRESS = re.compile(r"Network is unreachable|an address on \S+|has no address yet")
_ETCD = re.compile(r"the etcd member (?P<peer>\S+) to vote")


def _console(seen: BootstrapEvidence, *lines: str) -> tuple[Evidence, ...]:
    return tuple(Evidence(f"console of {seen.machine}", line) for line in lines if line)


def _refused(seen: BootstrapEvidence) -> tuple[str, str]:
    """(the payload's URL, why it was not had) while it is not there."""
    if seen.phase("payload mounted") is not None:
        return "", ""
    told = [each for each in seen.own if "payload" in each and "refused" in each]
    last: Mapping[str, Any] = told[-1] if told else {}
    return str(last.get("payload", "")), str(last.get("refused", ""))


def _address_lacks(seen: BootstrapEvidence) -> str:
    """How it shows that the machine has no address; empty when it has one."""
    for words in (_refused(seen)[1], seen.failed):
        if _NO_ADDRESS.search(words):
            return words
    return ""


def _silent(seen: BootstrapEvidence) -> Iterator[RootCause]:
    if seen.ended and not seen.own:
        absent = tuple(Evidence(f"gathering, {what}", why) for what, why in seen.absent.items() if what == "machine")
        yield RootCause(
            "bootstrap/machine", "the bootstrap machine wrote nothing on its console: its system did not start, or Ignition failed",
            (*_console(seen, "nothing of ours is on its console"), *absent),
            f"its console shows how far it came: `rackless console {seen.machine}`",
        )  # fmt: skip


def _no_address(seen: BootstrapEvidence) -> Iterator[RootCause]:
    if words := _address_lacks(seen):
        yield RootCause(
            "bootstrap/network", "the bootstrap machine has no address: DHCP on the cluster network did not give it one",
            (*_console(seen, words), *_file(seen, "addresses.txt")),
            "its MAC must be the one that the lab's DHCP knows (`rackless exec -- virsh net-dumpxml cluster`), and its NIC be on "
            f"that network; {_AGAIN}",
        )  # fmt: skip


def _file(seen: BootstrapEvidence, name: str, lines: int = 3) -> tuple[Evidence, ...]:
    text = [line.strip() for line in seen.files.get(name, "").splitlines() if line.strip()]
    return tuple(Evidence(name, line) for line in text[-lines:])


def _no_payload(seen: BootstrapEvidence) -> Iterator[RootCause]:
    url, why = _refused(seen)
    if why and not _address_lacks(seen):
        yield RootCause(
            "bootstrap/payload", f"the bootstrap machine cannot fetch the payload from {url}: {why}", _console(seen, why),
            f"look whether the release server runs and has it: `rackless exec -- curl -I {url}`; the machine asks again by itself, "
            f"and when it has given up, {_AGAIN}",
        )  # fmt: skip


def _no_ironic(seen: BootstrapEvidence) -> Iterator[RootCause]:
    begun = seen.phase("ironic starts")
    stuck = seen.ended or "ironic" in seen.failed.lower()
    if begun is not None and seen.phase("ironic") is None and stuck and not _address_lacks(seen):
        yield RootCause(
            "bootstrap/ironic", "Ironic on the bootstrap machine does not come up, so no host can be provisioned",
            (*_console(seen, f"ironic starts at {begun.get('address', 'its address')}", seen.failed), *_file(seen, "ironic.log")),
            "its log is machine/ironic.log in the archive of `rackless install gather bootstrap`; too little memory or a full disk "
            f"show in machine/disks.txt; {_AGAIN}",
        )  # fmt: skip


def _host_errors(seen: BootstrapEvidence) -> Iterator[RootCause]:
    """A host fails before a bootstrap as before a lab: the same words, the same causes."""
    for found in explain(provisioning.RULES, LabEvidence(seen.name, "running", hosts=seen.hosts)):
        cause = found.cause
        remedy = f"{cause.remedy}. The host is the bootstrap's: {_AGAIN}"
        yield RootCause(cause.subject, f"{cause.message} (as `{found.rule}` of a lab)", cause.evidence, remedy)


def _joining(seen: BootstrapEvidence) -> Iterator[tuple[str, Any]]:
    """(node, what it said) of control planes that began to join etcd and do not vote."""
    for machine, lines in seen.told.items():
        begun = seen.phase("joins etcd", machine)
        if begun is not None and seen.phase("votes in etcd", machine) is None:
            failed = next((str(each["failed"]) for each in reversed(lines) if "failed" in each), "")
            yield str(begun.get("node", machine)), failed


def _etcd_member(seen: BootstrapEvidence) -> Iterator[RootCause]:
    for node, failed in _joining(seen):
        if seen.ended or _ETCD.search(failed):
            said = (Evidence(f"console of {node}", failed),) if failed else ()
            yield RootCause(
                f"etcd/{node}", f"{node} began to join etcd, and does not vote: the hand-over waits for it",
                (Evidence(f"console of {node}", "joins etcd"), *said),
                f"`rackless ssh {node} systemctl status etcd`: it must reach the bootstrap's etcd on 2379 and 2380, by name, and "
                f"clocks must agree; {_AGAIN}",
            )  # fmt: skip


def _hand_over(seen: BootstrapEvidence) -> Iterator[RootCause]:
    begun = seen.phase("hands over") or seen.phase("keys offered")
    if begun is None or seen.phase("complete") is not None or any(_joining(seen)) or any(_host_errors(seen)):
        return
    if seen.ended or seen.failed:
        waits = next((str(each["waits"]) for each in reversed(seen.own) if "waits" in each), "")
        what = f": it waits, {waits}" if waits else ""
        yield RootCause(
            "bootstrap/hand-over", f"the bootstrap machine does not hand the cluster over{what}",
            _console(seen, str(begun.get("phase")), waits, seen.failed),
            f"the control planes must vote in etcd, serve their API and be ready: `rackless status`; {_AGAIN}",
        )  # fmt: skip


def _other(seen: BootstrapEvidence) -> Iterator[RootCause]:
    known: tuple[Callable[[BootstrapEvidence], Iterator[RootCause]], ...]
    known = (_no_address, _no_payload, _no_ironic, _host_errors, _etcd_member, _hand_over)
    if seen.failed and not any(list(rule(seen)) for rule in known):
        yield RootCause(
            "bootstrap/machine", f"the bootstrap machine cannot go on: {seen.failed}", _console(seen, seen.failed),
            f"its journal says more: machine/journal.txt in the archive of `rackless install gather bootstrap`; {_AGAIN}",
        )  # fmt: skip


RULES: tuple[CauseRule[BootstrapEvidence], ...] = (
    CauseRule("bootstrap/no-address", "the bootstrap's API never answers", Depth.NETWORK, _no_address),
    CauseRule("bootstrap/payload", "the bootstrap's API never answers", Depth.NETWORK, _no_payload),
    CauseRule("bootstrap/silent", "the bootstrap's API never answers", Depth.HOST, _silent,
              "written from an archive without a word of the machine's"),
    CauseRule("bootstrap/ironic", "no host of the control plane moves", Depth.HOST, _no_ironic),
    CauseRule("bootstrap/host-error", "a host of the control plane is in error", Depth.HOST, _host_errors),
    CauseRule("bootstrap/etcd-member", "the hand-over waits", Depth.CLUSTER, _etcd_member),
    CauseRule("bootstrap/hand-over", "the install does not end", Depth.CLUSTER, _hand_over),
    CauseRule("bootstrap/failed", "the install does not go on", Depth.PERSON, _other),
)  # fmt: skip
