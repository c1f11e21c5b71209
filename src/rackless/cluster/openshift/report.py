"""What a rehearsal has shown: line by line what was proven, what was not, how long each phase took, what differs. Pure values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any
from xml.etree import ElementTree

from rackless.installer.install_config.live.probe import Probe, ProbeOutcome


class LineVerdict(StrEnum):
    PROVEN = "proven"
    FAILED = "failed"
    NOT_REACHED = "not reached"


@dataclass(frozen=True, slots=True)
class ReportLine:
    subject: str
    verdict: LineVerdict
    saw: str
    remedy: str = ""


NOT_PROVEN = (
    "image pulls: the release, its mirrors and the pull secret were not used",
    "proxies: names resolve, nothing went through them",
    "masters and workers: their part was simulated; no disk was written, no server was started",
    "virtual media and PXE: BMCs were asked whether they can, and were not told to",
    "certificates of BMCs: the lab's have their own",
    "operators, etcd and the speed of disks",
)
"""What a quick rehearsal says nothing about."""

NOT_PROVEN_IN_FULL = (
    "image pulls: the release, its mirrors and the pull secret were not used",
    "proxies: names resolve, nothing went through them",
    "the site's servers: those of the twin were installed, with the reference system instead of OpenShift's",
    "certificates of BMCs: the lab's have their own, and were not verified",
    "operators that have nothing behind them here: their messages say so",
    "the speed of disks and networks",
)
"""What a full rehearsal says nothing about."""

NOT_PROVEN_BY_ASKING = (
    "the installer: it was not run, and no lab was made; a quick rehearsal does that in a twin",
    "virtual media and PXE: BMCs were asked whether they can; --allow media tries the drives",
    "power: it was read; --allow power switches servers on that are off, and off again",
    "networks: whether servers get leases, and reach VIPs, DNS and each other",
    "disks and memory of the servers, as only an inspection finds them",
)
"""What asking a site's own BMCs says nothing about."""

SUBJECTS = (
    "install-config", "installer", "libvirt and bridges", "firmware and live ISO", "MAC and lease", "DNS forward", "DNS back",
    "API VIP", "certificates", "BMC access", "machine-config server", "hand-over", "exit code", "kubeconfig",
)  # fmt: skip
"""The lines of the report, in the order of the run."""
FULL_SUBJECTS = (*SUBJECTS, "hosts installed", "nodes")
"""Those of a full rehearsal."""
BOOT_NETWORK = "provisioning network"
"""And of one whose bootstrap serves such a network."""

REAL_SUBJECTS = ("install-config", "installer", "libvirt and bridges", "certificates", "hand-over", "exit code")
"""Those of a real install: what the installer itself says."""
NOT_PROVEN_BY_REAL = ("the site's servers, switches and BMCs: those of the lab were installed",)


_REMEDIES = {
    "MAC and lease": "the site's DHCP must give the bootstrap its address, or the file name a fixed one",
    "hand-over": "the API has to answer at its VIP once the bootstrap is gone: see the control plane's lines above",
    "certificates": "keep the file's names and VIPs as the installer has seen them: it makes its certificates of them",
    "exit code": "mend what failed above and run it again; with --keep the installer's log stays in the twin",
    "kubeconfig": "the installer's kubeconfig must open the API at the VIP: see DNS and the hand-over",
}
"""Where nobody who told of a failure knew what to do about it."""
_NO_FIX = "look at that server's BMC in its own page, and run it again"
_NO_REMEDY = "run it again with --keep: then the logs of the installer and of its stage stay in the twin"
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 has no way to say: a console's escape sequences, for one."""


@dataclass(slots=True)
class Report:
    cluster: str
    installer: str = ""
    findings: list[ReportLine] = field(default_factory=list)
    deviations: list[str] = field(default_factory=list)
    phases: dict[str, float] = field(default_factory=dict)
    """Seconds from the beginning to each phase's beginning, in order."""
    seconds: float = 0.0
    exit_code: int | None = None
    fault: str = ""
    expected: int | None = None
    not_proven: Sequence[str] = NOT_PROVEN
    subjects: Sequence[str] = SUBJECTS
    installs: bool = True
    """Whether an installer was run."""

    @property
    def kind(self) -> str:
        if "nodes" in self.subjects:
            return "full"
        return "real" if tuple(self.subjects) == REAL_SUBJECTS else "quick"

    def add(self, subject: str, good: bool, saw: str, remedy: str = "") -> None:
        verdict = LineVerdict.PROVEN if good else LineVerdict.FAILED
        remedy = "" if good else remedy or _REMEDIES.get(subject, _NO_REMEDY)
        self.findings.append(ReportLine(subject, verdict, saw, remedy))

    def add_probe(self, probe: Probe) -> None:
        """What a live check found; what it could not find out is told as not reached."""
        verdict = {ProbeOutcome.FAILED: LineVerdict.FAILED, ProbeOutcome.OK: LineVerdict.PROVEN}.get(
            probe.outcome, LineVerdict.NOT_REACHED
        )
        fix = probe.fix or (_NO_FIX if verdict is LineVerdict.FAILED else "")
        self.findings.append(ReportLine(probe.subject, verdict, probe.saw, fix))

    def close(self) -> None:
        """Add a line for every subject that the run did not reach."""
        told = {finding.subject for finding in self.findings}
        for subject in self.subjects:
            if subject not in told:
                self.findings.append(ReportLine(subject, LineVerdict.NOT_REACHED, "the run did not come that far"))
        order = list(self.subjects)
        self.findings.sort(key=lambda finding: order.index(finding.subject) if finding.subject in order else 99)

    @property
    def good(self) -> bool:
        if self.fault:
            return self.exit_code == self.expected
        if not self.installs:
            return all(finding.verdict is not LineVerdict.FAILED for finding in self.findings)
        return self.exit_code == 0 and all(finding.verdict is LineVerdict.PROVEN for finding in self.findings)

    def durations(self) -> dict[str, float]:
        """How long each phase took."""
        names = list(self.phases)
        ends = [*(self.phases[name] for name in names[1:]), *([self.seconds] if names else [])]
        return {name: round(end - self.phases[name], 1) for name, end in zip(names, ends, strict=True)}

    def as_json(self) -> Mapping[str, Any]:
        return {
            "cluster": self.cluster,
            "installer": self.installer,
            "good": self.good,
            "exitCode": self.exit_code,
            "fault": self.fault or None,
            "seconds": round(self.seconds, 1),
            "phases": self.durations(),
            "proven": [_object(one) for one in self.findings if one.verdict is LineVerdict.PROVEN],
            "failed": [_object(one) for one in self.findings if one.verdict is LineVerdict.FAILED],
            "notReached": [one.subject for one in self.findings if one.verdict is LineVerdict.NOT_REACHED],
            "notProven": list(self.not_proven),
            "deviations": list(self.deviations),
        }

    def as_junit(self) -> str:
        bad = [one for one in self.findings if one.verdict is LineVerdict.FAILED]
        skipped = [one for one in self.findings if one.verdict is LineVerdict.NOT_REACHED]
        suite = ElementTree.Element(
            "testsuite", name=_xml(f"rehearsal of {self.cluster}"), tests=str(len(self.findings) + len(self.not_proven)),
            failures=str(len(bad)), errors="0", skipped=str(len(skipped) + len(self.not_proven)), time=f"{self.seconds:.1f}",
        )  # fmt: skip
        for number, one in enumerate(self.findings, 1):
            case = ElementTree.SubElement(
                suite, "testcase", classname="rehearsal", name=_xml(f"{number:02} {one.subject}")
            )
            if one.verdict is LineVerdict.FAILED:
                ElementTree.SubElement(case, "failure", message=_xml(one.saw)).text = _xml(one.remedy)
            elif one.verdict is LineVerdict.NOT_REACHED:
                ElementTree.SubElement(case, "skipped", message=_xml(one.saw))
            else:
                ElementTree.SubElement(case, "system-out").text = _xml(one.saw)
        for words in self.not_proven:
            case = ElementTree.SubElement(suite, "testcase", classname="not proven", name=words.partition(":")[0])
            ElementTree.SubElement(case, "skipped", message=words)
        ElementTree.indent(suite)
        return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def _xml(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)


def _object(finding: ReportLine) -> dict[str, str]:
    found = {"subject": finding.subject, "saw": finding.saw}
    return {**found, "remedy": finding.remedy} if finding.remedy else found
