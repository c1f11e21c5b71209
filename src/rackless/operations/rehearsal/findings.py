"""What the stage and the installer say of a run, as lines of the report."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from rackless.cluster.openshift import installer as calls
from rackless.cluster.openshift import payload
from rackless.cluster.openshift.faults import RUNS_OUT, InstallFault
from rackless.cluster.openshift.report import BOOT_NETWORK, Report
from rackless.ports.clock import Clock

_INSTALLING = {
    "manifests applied": "manifests applied",
    "ironic": "Ironic on the bootstrap",
    "keys offered": "control plane's keys offered",
    "hands over": "API moves to the control plane",
}
"""What the bootstrap of a full rehearsal tells, as phases of the report."""
_AT_ITS_END = ("exit code", "hand-over", "hosts installed")


@dataclass(slots=True)
class RunFindings:
    report: Report
    clock: Clock
    bootstrap_mac: str = ""
    """The one that the bootstrap machine should have; empty where the installer may choose."""
    control_planes: frozenset[str] = frozenset()
    began: float = field(init=False)
    in_vain: str = ""
    """What the installer waits for in vain, where somebody said so."""
    waiting_since: float | None = None
    last_error: str = ""
    interrupted: bool = False
    """Whether the installer was, because it waited in vain, or because that is what was to go wrong."""
    errors: dict[str, str] = field(default_factory=dict)
    """Of hosts that are being installed, and were not since."""
    progress: Callable[[str], object] = lambda _: None
    """Shown beside the installer's own lines."""

    def __post_init__(self) -> None:
        self.began = self.clock.now()

    def phase(self, name: str) -> None:
        self.report.phases.setdefault(name, self.clock.now() - self.began)

    def close(self) -> None:
        self.report.seconds = self.clock.now() - self.began
        self.report.close()

    # while it runs

    def note(self, said: Mapping[str, Any]) -> None:
        """One word of the stage's."""
        inner = said.get("bootstrap") or {}
        self._note_machine(said, inner)
        self._note_site(said, inner)
        self._note_installing(said.get("installs") or {})
        if said.get("phase") == "bootstrap machine gone":
            self.phase("hand-over")
        for one in (said, inner):
            if one.get("in_vain"):
                self.in_vain = str(one["waits"])
                self.waiting_since = self.clock.now()
            if "failed" in one:
                self.last_error = str(one["failed"])
                self.in_vain = self.in_vain or str(one["failed"])
                self.waiting_since = self.waiting_since or self.clock.now()

    def _note_machine(self, said: Mapping[str, Any], inner: Mapping[str, Any]) -> None:
        report = self.report
        if said.get("phase") == "bootstrap machine runs":
            report.add("installer", True, f"took the config and made {said['machine']}")
            report.add("libvirt and bridges", True, "its checks passed; pool, volumes and machine were made")
        if inner.get("phase") == "booted":
            self.phase("bootstrap booted")
            report.add(
                "firmware and live ISO",
                True,
                f"booted, with {inner['ignition_bytes']} bytes of the installer's Ignition config",
            )
        if inner.get("phase") == "network":
            mac = self.bootstrap_mac
            good = not mac or inner["mac"] == mac
            report.add(
                "MAC and lease",
                good,
                f"{inner['mac']} got {inner['address']} as {inner['name']}",
                f"the MAC should be {mac}",
            )

    def _note_site(self, said: Mapping[str, Any], inner: Mapping[str, Any]) -> None:
        report = self.report
        for name in inner.get("names") or ():
            subject = "DNS back" if name["wanted"] == "a name" else "DNS forward"
            remedy = f"{name['name']} must resolve to {name['wanted']}, as the bootstrap sees it"
            report.add(subject, name["good"], f"{name['name']}: {name['saw']}", remedy)
        if "free" in inner:
            words = "was nobody's" if inner["free"] else "is answered for by somebody"
            report.add("API VIP", inner["free"], f"{inner['vip']} {words}", "free the address, or choose another VIP")
        if "bmc" in inner:
            report.add(
                "BMC access",
                inner["good"],
                f"{inner['bmc']}: {inner['saw']}",
                "see the BMC's address and account in the install-config",
            )
        if "machine_config" in said:
            found = said["machine_config"]
            report.add(
                "machine-config server",
                found["good"],
                f"{found['url']} {found['saw']}",
                "api-int must lead to the API VIP",
            )

    def note_line(self, line: calls.Line) -> None:
        """One of the installer's own, where nobody else can tell that it waits in vain from here on."""
        degraded, waits = f"Cluster operator {payload.DEGRADED} is degraded", ""
        if self.report.fault == InstallFault.OPERATOR_DEGRADED and degraded in line.message:
            waits = f"the ClusterVersion, which is not available: {degraded}"
        elif self.report.fault == InstallFault.OPERATOR_UNSTABLE and line.phase == "operators":
            waits = f"the operator {payload.UNSTABLE} to come to rest, which it never does"
        if waits and self.waiting_since is None:
            self.in_vain, self.waiting_since = waits, self.clock.now()

    def _note_installing(self, installs: Mapping[str, Any]) -> None:
        if installs.get("phase") == BOOT_NETWORK:
            serves = "DHCP, iPXE and Ironic" if installs.get("dhcp", True) else "somebody else's DHCP, and Ironic"
            self.report.add(BOOT_NETWORK, True, f"{serves} at {installs.get('address')}")
        if (phase := _INSTALLING.get(str(installs.get("phase")))) is not None:
            self.phase(phase)
        if "machine-config" in installs:
            gave = f"gave {installs.get('to')} the config of a {installs['machine-config']}"
            self.report.add("machine-config server", True, gave)
        subject = str(installs.get("subject") or "")
        if subject and (work := installs.get("begun")):
            self.progress(f"{subject}: {work}")
        if installs.get("warning") == "host-failed":
            self.errors[subject] = str(installs.get("why"))
            self.progress(f"{subject}: {installs.get('why')}"[:160])
        elif installs.get("outcome") in ("done", "unchanged"):
            self.errors.pop(subject, None)

    # at its end

    def judge(self, code: int) -> None:
        report = self.report
        report.exit_code = code
        if report.fault and report.expected == 8 and not self.interrupted:  # its own patience ended first
            report.expected = RUNS_OUT.get(InstallFault(report.fault), 8)
        phases = report.phases
        if "api up" in phases:
            report.add("certificates", True, "the installer believed the API's certificate, and the API its client's")
        if "bootstrap destroyed" in phases and "hand-over" in phases:
            done = "complete" in phases
            report.add(
                "hand-over",
                done,
                "the bootstrap was destroyed, and the API answered elsewhere at the VIP"
                if done
                else f"the bootstrap was destroyed, and then: {self.why or 'the installer said nothing more'}",
            )
        if code and self.errors:
            said = "; ".join(f"{subject.removeprefix('host/')}: {why}" for subject, why in sorted(self.errors.items()))
            report.add(
                "hosts installed", False, said, "see what the install-config says of it: BMC, account, network, disks"
            )
        words = f"{code}: {calls.EXIT_CODES.get(code, 'unknown')}"
        why = self.why
        vain = f"mend what it waited for in vain: {self.in_vain}" if self.in_vain else ""
        remedy = vain or calls.REMEDIES.get(code, "")
        report.add("exit code", code == report.expected, words + (f"; {why}" if why else ""), remedy)

    @property
    def why(self) -> str:
        return self.in_vain or self.last_error

    def forget(self) -> None:
        """Before the installer is called once more: how it ended before is not how it ends."""
        self.report.findings = [one for one in self.report.findings if one.subject not in _AT_ITS_END]
        self.report.exit_code, self.last_error, self.in_vain, self.waiting_since = None, "", "", None
        self.interrupted = False
        self.errors.clear()

    def no_kubeconfig(self, said: str) -> None:
        self.report.add("kubeconfig", False, said, "the installer's kubeconfig should open the API")

    def judge_kubeconfig(self, found: Mapping[str, Any]) -> None:
        said = f"{found['server']} says: ClusterVersion Available={found['available']}"
        self.report.add("kubeconfig", found["good"], said, "the installer's kubeconfig should open the API")

    def judge_cluster(self, hosts: Mapping[str, str], nodes: Mapping[str, bool], claimed: Collection[str] = ()) -> None:
        """Of a full rehearsal: who was installed, and which nodes have joined. `claimed` are the hosts that Machines stand for."""
        wanted = self.control_planes | set(claimed)
        installed = bool(hosts) and all(hosts.get(name) == "provisioned" for name in wanted)
        said = ", ".join(f"{name} {state}" for name, state in sorted(hosts.items()))
        self.report.add("hosts installed", installed, f"by Ironic: {said}", "see the hosts' errors")
        ready = bool(nodes) and all(nodes.get(name) for name in wanted)
        said = ", ".join(f"{name} {'ready' if good else 'not ready'}" for name, good in sorted(nodes.items()))
        self.report.add("nodes", ready, said or "none has joined", "see the servers' consoles")
