"""What programs on the nodes wrote, and what it means: Ignition on the console, etcd and the VIP in their journals.

A line counts only beside a symptom: a node that is not up, an etcd or an API that is not well. A slow lab writes many such lines
and is well all the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rackless.diagnosis.lab_evidence import CONSOLE, JOURNAL, LATE, LabEvidence
from rackless.diagnosis.rule import CauseRule, Depth, Evidence, RootCause

_IGNITION = r"ignition: "
_FAILED = re.compile(r"FAILED: Ignition, stage (?P<stage>[\w-]+)")
_URL = re.compile(r"ignition: .*\bGET (?P<url>https?://\S+?): attempt")
_GET_SAID = re.compile(r"ignition: .*\bGET (?:error: (?P<error>.*)|result: (?P<result>.*))$")
_FILE = re.compile(r"ignition: .*(?:Error fetching file|writing file) \"(?P<file>[^\"]+)\"")
_SHOWN = 6
_LONGEST = 1000


def _ignition(seen: LabEvidence) -> Iterator[tuple[str, tuple[str, ...], str]]:
    """(server, what Ignition said, stage) of nodes that are not up because Ignition failed."""
    for server in seen.absent_nodes():
        lines = _cut(seen.logs.get(CONSOLE + server, ()))
        failed = next((found for line in reversed(lines) if (found := _FAILED.search(line))), None)
        if failed is not None:
            yield (
                server,
                tuple(line for line in lines if re.search(_IGNITION, line) or _FAILED.search(line)),
                failed["stage"],
            )


def _cut(lines: Sequence[str]) -> list[str]:
    """What a node writes is searched for some patterns in a time that grows with the square of a line."""
    return [line[:_LONGEST] for line in lines]


def _last(pattern: re.Pattern[str], lines: tuple[str, ...]) -> re.Match[str] | None:
    return next((found for line in reversed(lines) if (found := pattern.search(line))), None)


def _console(server: str, lines: tuple[str, ...]) -> tuple[Evidence, ...]:
    return tuple(Evidence(f"console of {server}", line) for line in lines[-_SHOWN:])


def _ignition_fetch(seen: LabEvidence) -> Iterator[RootCause]:
    for server, lines, _ in _ignition(seen):
        if (url := _last(_URL, lines)) is not None:
            file, said = _last(_FILE, lines), _last(_GET_SAID, lines)
            what = f"{file['file']} from {url['url']}" if file else f"its config from {url['url']}"
            answer = (said["error"] or said["result"]) if said else "no answer in time"
            yield RootCause(
                f"node/{server}", f"Ignition on {server} could not fetch {what}: {_short(answer)}", _console(server, lines),
                f"open the URL from inside the lab (`rackless exec -- curl -I {url['url']}`); the node tries again from the start "
                f"every five minutes, or now: `rackless power {server} reset`",
            )  # fmt: skip


def _short(error: str) -> str:
    """Go's words without what was said already."""
    return re.sub(r'^Get "[^"]*": ', "", error.strip())


def _ignition_other(seen: LabEvidence) -> Iterator[RootCause]:
    for server, lines, stage in _ignition(seen):
        if _last(_URL, lines) is None:
            critical = [line.partition("CRITICAL : ")[2] for line in lines if "CRITICAL" in line]
            said = critical[0] if critical else "it did not say why"
            yield RootCause(
                f"node/{server}", f"Ignition on {server} failed in its stage {stage}: {said}", _console(server, lines),
                f"check the config that the node was given (`ignition-validate`), then provision it again: "
                f"`rackless host deprovision {server}`, `rackless up`",
            )  # fmt: skip


@dataclass(frozen=True, slots=True)
class JournalPattern:
    """A line of a node's journal that names a cause, where its symptom is there too."""

    rule: str
    symptom: str
    depth: Depth
    pattern: str
    times: int
    """So often, in the minutes that a journal is read for: once may be chance."""
    suffers: Callable[[LabEvidence], bool]
    subject: str
    sentence: str
    """`{node}`, and the names of groups in the pattern, as the last line has them."""
    remedy: str
    untried: str = ""


def _late_members(seen: LabEvidence) -> list[str]:
    """Members that run and do not take part; why one does not run is not said by lines about clocks and slowness."""
    return [member.name for member in seen.sick_members() if member.problem in LATE]


def _etcd_suffers(seen: LabEvidence) -> bool:
    return bool(_late_members(seen))


def _api_suffers(seen: LabEvidence) -> bool:
    vip = seen.status.vip if seen.status and seen.stands else None
    return vip is not None and not vip.ready


def _cluster_suffers(seen: LabEvidence) -> bool:
    return _etcd_suffers(seen) or _api_suffers(seen)


_MEMBER, _ALL_MEMBERS = "etcd/{node}", "cluster/etcd"

JOURNAL_PATTERNS: tuple[JournalPattern, ...] = (
    JournalPattern("cluster/vip-stranger", "the API's address leads to a machine that is not of the cluster", Depth.NETWORK,
        r"^(?P<address>[0-9a-f.:]+): somebody else answers for it: (?P<mac>[0-9a-f:]+(?:, [0-9a-f:]+)*)$", 1, _api_suffers,
        "vip/api",
        "another machine has the API VIP {address}: {mac} answers for it, so no control plane takes it",
        "give that machine another address; the control planes take this one as soon as nobody else answers for it"),
    JournalPattern("cluster/etcd-clock", "etcd is not well, tokens and certificates are refused", Depth.HOST,
        r"clock difference against peer (?P<peer>\w+) is too high "
        r"\[(?P<skew>(?:\d+h)?\d+m[^\]]+|[3-9]\d\.[^\]]+) > 1s\]", 1, _etcd_suffers, _ALL_MEMBERS,
        "the clocks of the control planes differ: {node} measures {skew} to another member",
        "compare them (`rackless ssh NAME timedatectl`) and set the wrong one; the lab's gateway answers NTP"),
    JournalPattern("cluster/etcd-disk-slow", "etcd loses its leader, the API is slow", Depth.HYPERVISOR,
        r"(?:wal: sync duration of (?P<took>[\d.]+\w+), expected less than|slow fdatasync\W.*took[\"=: ]+(?P<took2>[\d.]+\w+))", 3,
        _cluster_suffers, _MEMBER,
        "the disk under etcd on {node} is too slow: a sync took {took}",
        "see what else writes to this computer's disk (`iostat -x 5`); `storage` in lab.yaml puts the servers' disks elsewhere"),
    JournalPattern("cluster/etcd-member-slow", "etcd loses its leader", Depth.CLUSTER,
        r"failed to send out heartbeat on time \(exceeded the (?P<limit>\S+) timeout for (?P<late>[^,)]+)", 3, _cluster_suffers,
        _MEMBER,
        "etcd on {node} is too slow to lead: its heartbeats come {late} late",
        "the server has too little processor or memory: `rackless ssh {node} uptime`; give it more, or run fewer servers"),
    JournalPattern("cluster/localhost-v6", "a program on a node does not reach one beside it", Depth.HOST,
        r"(?:dial tcp \[::1\]:(?P<port>\d+): connect: connection refused|\('::1', (?P<port2>\d+)[^)]*\))", 1,
        lambda seen: _cluster_suffers(seen) or bool(seen.absent_nodes()), "node/{node}",
        "on {node} localhost means ::1, and nothing listens there on port {port}",
        "let the client ask 127.0.0.1, or the server listen on ::1 too; `rackless ssh {node} getent ahosts localhost` shows what "
        "localhost means"),
)  # fmt: skip
"""In the order in which they are tried: the first on a node is its cause."""


def _may_suffer(seen: LabEvidence, node: str) -> bool:
    """A member that is slow and takes part is not why another does not."""
    return _api_suffers(seen) or node in _late_members(seen)


def _causes(seen: LabEvidence) -> Iterator[tuple[JournalPattern, str, list[str], re.Match[str]]]:
    """(pattern, node, its lines, the last match) of the first that fits on each node."""
    for source, lines in sorted(seen.logs.items()):
        if not source.startswith(JOURNAL):
            continue
        for one in JOURNAL_PATTERNS:
            if not one.suffers(seen) or (
                one.subject == _MEMBER and not _may_suffer(seen, source.removeprefix(JOURNAL))
            ):
                continue
            found = [(line, match) for line in _cut(lines) if (match := re.search(one.pattern, line))]
            if len(found) >= one.times:
                yield one, source.removeprefix(JOURNAL), [line for line, _ in found], found[-1][1]
                break


def _journal_rule(one: JournalPattern) -> CauseRule[LabEvidence]:
    def find(seen: LabEvidence) -> Iterator[RootCause]:
        told: set[str] = set()
        for other, node, lines, match in _causes(seen):
            # a group may have a second spelling, for another version's words
            words = {"node": node, **{name.rstrip("2"): value for name, value in match.groupdict().items() if value}}
            subject = one.subject.format(**words) if other is one else ""
            if other is one and subject not in told:
                told.add(subject)
                shown = tuple(Evidence(f"journal of {node}", line) for line in lines[-3:])
                yield RootCause(subject, one.sentence.format(**words), shown, one.remedy.format(**words))

    return CauseRule(one.rule, one.symptom, one.depth, find, one.untried)


def explains_cluster(seen: LabEvidence) -> bool:
    """Whether a journal says why etcd or the API is not well: then the symptom is not told as a cause."""
    return any(True for _ in _causes(seen))


def explains_member(seen: LabEvidence, node: str) -> bool:
    """Whether a journal says why this member of etcd does not take part: its own, or one that speaks for all."""
    explained = any(other == node or one.subject == _ALL_MEMBERS for one, other, *_ in _causes(seen))
    return explained and node in _late_members(seen)


def explains_node(seen: LabEvidence, node: str) -> bool:
    return any(server == node for server, *_ in _ignition(seen))


RULES: tuple[CauseRule[LabEvidence], ...] = (
    CauseRule("node/ignition-fetch", "a node that was installed does not come up", Depth.HOST, _ignition_fetch),
    CauseRule("node/ignition-failed", "a node that was installed does not come up", Depth.HOST, _ignition_other),
    *map(_journal_rule, JOURNAL_PATTERNS),
)
