"""How a run of the real installer ends, and what stopped it. The words are those of openshift-install 4.16 to 5.0.

`tests/real/planting_installer.py` makes the real one say those that no run was recorded with.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from rackless.diagnosis.installer_run import InstallerLine, InstallerRun
from rackless.diagnosis.rule import CauseRule, Depth, Evidence, RootCause

_NO_API = r"Bootstrap failed to complete: Get \"https://(?P<name>[^:/]+):6443[^\"]*\": (?P<why>.*)"
_BOOTSTRAP = r"failed to create bootstrap: (?P<why>.*)"
_HOST = re.compile(r"baremetalhost: (?P<host>\S+): (?P<state>[^:]+)(?:: (?P<why>.*))?")
_WAIT_BOOTSTRAP = "`openshift-install wait-for bootstrap-complete --dir DIR` waits again"
_WAIT_INSTALL = "`openshift-install wait-for install-complete --dir DIR` waits again"


EXIT_CODES = {
    0: "it counts as installed",
    1: "any other error",
    3: "install-config.yaml is refused",
    4: "the bootstrap machine could not be made",
    5: "bootstrapping failed",
    6: "the cluster did not become available",
    7: "operators did not come to rest",
    8: "it was interrupted",
}
"""What the installer means by them."""


def _ends(code: int, rule: CauseRule[InstallerRun]) -> CauseRule[InstallerRun]:
    """With the exit code, which is all that a script that ran the installer may have kept."""
    told = Evidence("exit code", f"{code}, {EXIT_CODES[code]}")

    def find(run: InstallerRun) -> Iterator[RootCause]:
        for cause in rule.find(run):
            yield replace(cause, evidence=(*cause.evidence, told))

    return replace(rule, symptom=f"{rule.symptom} (exit code {code})", find=find)


def _said(run: InstallerRun, *lines: InstallerLine) -> tuple[Evidence, ...]:
    return tuple(Evidence(run.source, line.message, line.at) for line in lines)


@dataclass(frozen=True, slots=True)
class ApiFailure:
    """How the API's address answered when the installer gave up waiting for it."""

    rule: str
    symptom: str
    depth: Depth
    pattern: str
    """In the words of Go's dialler."""
    sentence: str
    """`{name}` is the API's name, `{address}` its address."""
    remedy: str


API_FAILURES: tuple[ApiFailure, ...] = (
    ApiFailure("installer/api-name-unknown", "the API's name does not resolve", Depth.NETWORK, "no such host",
        "the name {name} does not resolve on this computer",
        "add an A record for {name} with the API VIP to the DNS server of this computer, then wait again"),
    ApiFailure("installer/api-vip-nobody", "no route to the API VIP", Depth.NETWORK, "no route to host",
        "the API never came up: nobody answers for {address} on the network, so no bootstrap machine has taken the API VIP",
        "look at the bootstrap machine's console (`virsh console`): did it boot, get an address in the machine network, and start "
        "keepalived? Is the bridge that the installer was given the machine network's?"),
    ApiFailure("installer/api-silent", "the API VIP does not answer", Depth.NETWORK,
        r"i/o timeout|deadline exceeded|Client\.Timeout",
        "the API never came up: {address} does not answer at all",
        "a firewall between this computer and {address} drops port 6443, or a route leads elsewhere: `ip route get {address}`"),
    ApiFailure("installer/api-refused", "the API's port is closed", Depth.CLUSTER, "connection refused",
        "the API never came up: {address} is held by a machine on which no API server listens",
        "on the bootstrap machine: `journalctl -b -u bootkube -u release-image`; a failed image pull is the usual cause. If it "
        "is not the bootstrap machine that holds {address}, another machine does: compare its MAC (`ip neigh show {address}`)"),
    ApiFailure("installer/api-certificate", "another certificate at the API VIP", Depth.NETWORK, "x509|certificate",
        "another server answers at {name}: its certificate is not this cluster's",
        "the API VIP is in use by another cluster or machine, or clocks differ by more than the certificate's validity"),
)  # fmt: skip


def _api_rule(one: ApiFailure) -> CauseRule[InstallerRun]:
    def find(run: InstallerRun) -> Iterator[RootCause]:
        if (ended := run.last(_NO_API, "error")) and re.search(one.pattern, ended[1]["why"]):
            line, found = ended
            address = re.search(r"dial tcp (?:lookup )?(\S+?):?(?:\d+)?:? ", found["why"] + " ")
            words = {"name": found["name"], "address": address[1] if address else "its address"}
            waited = run.last("for the Kubernetes API at")
            lines = (*((waited[0],) if waited else ()), line)
            yield RootCause("cluster/api", one.sentence.format(**words), _said(run, *lines), one.remedy.format(**words))

    return _ends(5, CauseRule(one.rule, one.symptom, one.depth, find))


def _hosts_in_error(run: InstallerRun) -> Iterator[RootCause]:
    if run.last("control plane finished provisioning"):
        return
    latest: dict[str, tuple[InstallerLine, re.Match[str]]] = {}
    for line, found in run.matches(_HOST.pattern):
        latest[found["host"]] = line, found
    for host, (line, found) in sorted(latest.items()):
        if found["state"].endswith("error"):
            why = found["why"] or "no reason was given"
            yield RootCause(
                f"host/{host}",
                f"{host} could not be provisioned: {found['state']}: {why}",
                _said(run, line),
                _host_remedy(found["state"], why),
            )


def _host_remedy(state: str, why: str) -> str:
    if "timeout" in why.lower() or "timed out" in why.lower():
        return (
            "the agent on the server was not heard of in time: look at its console from its BMC. Did it boot the image, get an "
            "address, and reach the bootstrap's provisioning address?"
        )
    if state.startswith("registration"):
        return "the BMC cannot be used as it is described: compare address, user name, password and disableCertificateVerification"
    if state.startswith("power"):
        return "the BMC was told to switch the server and did not: try it by hand at the BMC"
    return "the host's events and the bootstrap's Ironic log say more: `oc describe bmh -n openshift-machine-api`"


def _hosts_too_slow(run: InstallerRun) -> Iterator[RootCause]:
    ended = run.last("failed to provision control-plane machines: timed out", "error")
    if ended and not list(_hosts_in_error(run)):
        states = {found["host"]: line for line, found in run.matches(_HOST.pattern)}
        yield RootCause(
            "cluster/control-plane",
            "the control plane was not provisioned in the installer's hour, though no host failed",
            _said(run, *states.values(), ended[0]),
            f"the hosts may still be on their way: {_WAIT_BOOTSTRAP}",
        )


def _bootstrap_stuck(run: InstallerRun) -> Iterator[RootCause]:
    ended = run.last("Bootstrap failed to complete: timed out waiting for the condition", "error")
    if ended and (hosts := run.last("control plane finished provisioning")):
        yield RootCause(
            "cluster/bootstrap",
            "the control planes are provisioned, but the bootstrap never said that it is complete",
            _said(run, hosts[0], ended[0]),
            "do the masters run and reach api-int on 22623 and 6443? On the bootstrap machine: `journalctl -b -u bootkube`. If "
            f"cluster-bootstrap failed there, it must be cleaned before it is tried again; else {_WAIT_BOOTSTRAP}",
        )


def _bootkube(run: InstallerRun) -> Iterator[RootCause]:
    if ended := run.last(r"The bootkube service failed at stage \\?\"(?P<stage>[^\"\\]+)", "error", "info", "warning"):
        line, found = ended
        first = (
            "remove what it left (`podman rm --force cluster-bootstrap`), and "
            if found["stage"] == "cb-bootstrap"
            else ""
        )
        yield RootCause(
            "cluster/bootstrap", f"bootkube on the bootstrap machine failed at its stage {found['stage']}", _said(run, line),
            f"`journalctl -b -u bootkube` says why; when its cause is gone, {first}`systemctl restart bootkube`; {_WAIT_BOOTSTRAP}",
        )  # fmt: skip


def _release_image(run: InstallerRun) -> Iterator[RootCause]:
    if ended := run.last(
        r"failed to (?:download|pull|fetch|inspect).{0,40}release image|error: unable to read image (?P<image>\S+)"
    ):
        override = run.last(r"Found override for release image")
        lacks = (
            "" if override else "; OPENSHIFT_INSTALL_RELEASE_IMAGE_OVERRIDE is not set, so it is the installer's own"
        )
        yield RootCause(
            "cluster/release", f"the release image cannot be had{lacks}", _said(run, ended[0]),
            "set OPENSHIFT_INSTALL_RELEASE_IMAGE_OVERRIDE to the mirror's image, by digest, or let the pull secret and "
            "imageDigestSources lead there",
        )  # fmt: skip


def _no_gather(run: InstallerRun) -> Iterator[RootCause]:
    """By hand: what `create cluster` gathers after a failure, or cannot, is no cause of it."""
    ended = run.last("failed to gather VM console and bootstrap logs|no gather methods registered for", "fatal")
    if ended is None:
        return
    why = run.last("^Failed to gather bootstrap logs: (?P<why>.*)")
    platform = run.last(r"no gather methods registered for \"(?P<platform>[^\"]+)")
    before = [found[0] for found in (platform, why) if found is not None and found[0] is not ended[0]]
    yield RootCause(
        "installer/gather", f"nothing could be gathered from the bootstrap machine: {why[1]['why']}" if why else
        "the installer cannot gather from the bootstrap machine by itself", _said(run, *before, ended[0]),
        "without an address it asks the API VIP, which the bootstrap machine may not have: name the machines, "
        "`openshift-install gather bootstrap --bootstrap ADDRESS --master ADDRESS` (the address is in the DHCP server's leases)",
    )  # fmt: skip


def _install_config(run: InstallerRun) -> Iterator[RootCause]:
    if ended := run.last(r'invalid "install-config.yaml" file: (?P<why>.*)', "error", "fatal"):
        yield RootCause(
            "installer/install-config", f"the installer refuses install-config.yaml: {ended[1]['why']}", _said(run, ended[0]),
            "`rackless check install-config FILE` tells all that it will refuse at once, with lines, and `rackless explain "
            "install-config.PATH` what is wanted there; keep a copy, the installer consumes the file",
        )  # fmt: skip


def _site(run: InstallerRun) -> Iterator[RootCause]:
    if ended := run.last(r'failed to generate asset "Platform (?P<check>[\w ]+)": (?P<why>.*)', "error", "fatal"):
        line, found = ended
        yield RootCause(
            "installer/site", f"this computer or site is not as install-config.yaml says: {found['why']}", _said(run, line),
            "the installer asks this computer only now, and has consumed install-config.yaml: put its copy back, when "
            "libvirt runs, its bridges are up, and images and DNS can be reached from here",
        )  # fmt: skip


def _operators(run: InstallerRun) -> Iterator[RootCause]:
    ended = run.last(r"^failed to initialize the cluster: (?P<why>.*)", "error")
    if ended is None:
        return
    said = list(run.matches(r"^Cluster operator (?P<name>\S+) (?P<condition>\S+) is (?:True|False) with", "error"))
    names = list(dict.fromkeys(found["name"] for _, found in said))
    what = f"cluster operator {', '.join(names)}" if names else "the cluster"
    yield RootCause(
        f"operator/{names[0]}" if names else "cluster/operators",
        f"{what} did not become available in the installer's time",
        _said(run, *(line for line, _ in said), ended[0]),
        f"`oc get clusteroperators`, then `oc describe clusteroperator {names[0] if names else 'NAME'}`; when its cause is gone, "
        + _WAIT_INSTALL,
    )


def _unstable(run: InstallerRun) -> Iterator[RootCause]:
    if ended := run.last(
        r"^These cluster operators were not stable: \[(?P<names>[^\]]*)\]", "error", "warning", "info"
    ):
        names = ended[1]["names"]
        first = re.split(r"[, ]+", names)[0]
        yield RootCause(
            f"operator/{first}", f"the cluster is available, but these operators do not come to rest: {names}",
            _said(run, ended[0]),
            f"`oc describe clusteroperator {first}`: Progressing says what it is at; the cluster can be used, and "
            + _WAIT_INSTALL,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class BootstrapFailure:
    """Why the bootstrap machine could not be made: libvirt's words, or the download's."""

    rule: str
    symptom: str
    depth: Depth
    pattern: str
    subject: str
    sentence: str
    """`{found}` is what fits, beside the groups of the pattern."""
    remedy: str
    before: str = ""
    """A line of the log that belongs to it, where there is one."""
    untried: str = ""
    code: int = 4
    """What the installer exits with."""


BOOTSTRAP_FAILURES: tuple[BootstrapFailure, ...] = (
    BootstrapFailure("installer/no-kvm", "the bootstrap machine does not start", Depth.HYPERVISOR,
        "host-passthrough", "bootstrap/hypervisor",
        "the bootstrap machine needs KVM, and this hypervisor has none that works",
        "check /dev/kvm (`rackless doctor` tries it with a small guest) and nested virtualisation; without it the installer cannot "
        "make its bootstrap machine"),
    BootstrapFailure("installer/iso-not-found", "the live ISO's server says no", Depth.NETWORK,
        r"bad status: (?P<code>\d{3})", "bootstrap/iso",
        "the server of the bootstrap's live ISO answered {code}",
        "check OPENSHIFT_INSTALL_OS_IMAGE_OVERRIDE, or the mirror that serves the image"),
    BootstrapFailure("installer/iso-not-fetched", "the live ISO cannot be downloaded", Depth.NETWORK,
        r"failed to download base ISO image (?P<url>\S+?):? ", "bootstrap/iso",
        "the bootstrap's live ISO could not be fetched from {url}",
        "this computer must reach the address, or the image must come from the release payload, for which `oc` on the PATH and a "
        "pull secret that the registry takes are needed",
        before="Failed to extract base ISO from release payload"),
    BootstrapFailure("installer/iso-unsuitable", "the live ISO cannot be prepared", Depth.NETWORK,
        "COREOS_KARG_EMBED_AREA", "bootstrap/iso",
        "the live ISO has no room for the installer's kernel arguments: it is no CoreOS live ISO, or one that was changed",
        "take the live ISO of the release as it is"),
    BootstrapFailure("installer/bootstrap-gone", "`destroy bootstrap` finds nothing", Depth.PERSON,
        r"Domain not found: no domain with matching name '(?P<name>[^']+)'", "bootstrap/machine",
        "there is no bootstrap machine {name} to destroy: it was never made, or is gone already",
        "nothing is left to do for it; a storage pool of the same name may remain: `virsh pool-list --all`", code=1),
    BootstrapFailure("installer/bootstrap-not-made", "libvirt refuses the bootstrap machine", Depth.HYPERVISOR,
        r".+", "bootstrap/machine",
        "the bootstrap machine could not be made: {found}",
        "these are libvirt's words: look at its log, its pools and its bridges (`virsh pool-list`, `virsh net-list`)",
        untried="only refusals of other rules were recorded"),
)  # fmt: skip
"""The first that fits is the cause."""


def _bootstrap_rule(one: BootstrapFailure) -> CauseRule[InstallerRun]:
    def find(run: InstallerRun) -> Iterator[RootCause]:
        if (ended := run.last(_BOOTSTRAP, "error", "fatal")) is None:
            return
        fits = ((other, re.search(other.pattern, ended[1]["why"])) for other in BOOTSTRAP_FAILURES)
        first, found = next(((other, match) for other, match in fits if match is not None), (None, None))
        if first is one and found is not None:
            words = {"found": found[0], **{name: value or "" for name, value in found.groupdict().items()}}
            before = run.last(one.before) if one.before else None
            lines = (*((before[0],) if before else ()), ended[0])
            yield RootCause(one.subject, one.sentence.format(**words), _said(run, *lines), one.remedy)

    return _ends(one.code, CauseRule(one.rule, one.symptom, one.depth, find, one.untried))


def _empty_folder(run: InstallerRun) -> Iterator[RootCause]:
    if ended := run.last(r"(?P<file>\S*(?:auth/kubeconfig|metadata\.json)): no such file or directory", "fatal"):
        line, found = ended
        yield RootCause(
            "installer/folder",
            f"no cluster was created from this folder: {found['file']} is missing",
            _said(run, line),
            "name with --dir the folder that `create cluster` was given",
        )


def _interrupted(run: InstallerRun) -> Iterator[RootCause]:
    ended = run.last("^Received interrupt signal", "warning")
    if ended and not run.complete and not run.failed:
        waited = run.last("^Waiting ")
        lines = (*((waited[0],) if waited else ()), ended[0])
        last = f" while it was {waited[0].message[0].lower()}{waited[0].message[1:].rstrip('.')}" if waited else ""
        yield RootCause(
            "installer/run",
            f"somebody interrupted the installer{last}; everything it made stays",
            _said(run, *lines),
            f"{_WAIT_BOOTSTRAP}; `openshift-install destroy cluster` takes everything away",
        )


def _no_console(run: InstallerRun) -> Iterator[RootCause]:
    if run.complete and (ended := run.last("^Cluster does not have a console available", "warning")):
        yield RootCause(
            "operator/console",
            "the installation is complete, but there is no route to the console",
            _said(run, ended[0]),
            "`oc get clusteroperator console ingress`; workers that run the router may be missing",
        )


_Find = Callable[[InstallerRun], Iterator[RootCause]]


def _rule(code: int, name: str, symptom: str, depth: Depth, find: _Find) -> CauseRule[InstallerRun]:
    return _ends(code, CauseRule(f"installer/{name}", symptom, depth, find))


RULES: tuple[CauseRule[InstallerRun], ...] = (
    _rule(3, "install-config", "install-config.yaml is refused", Depth.HYPERVISOR, _install_config),
    _rule(1, "site", "libvirt, a bridge or an address is not as install-config.yaml says", Depth.HYPERVISOR, _site),
    *map(_bootstrap_rule, BOOTSTRAP_FAILURES),
    *map(_api_rule, API_FAILURES),
    _rule(5, "host-error", "a control plane's host is in error", Depth.HOST, _hosts_in_error),
    _rule(5, "hosts-slow", "the control plane takes longer than the installer waits", Depth.HOST, _hosts_too_slow),
    _rule(5, "bootstrap-incomplete", "bootstrapping does not end", Depth.CLUSTER, _bootstrap_stuck),
    _rule(5, "bootkube", "bootstrapping does not end; cluster-bootstrap must be cleaned before it is tried again",
          Depth.CLUSTER, _bootkube),
    _rule(5, "release-image", "the release image's override is missing, or leads nowhere", Depth.NETWORK, _release_image),
    _rule(1, "no-gather", "`gather bootstrap` ends at once", Depth.PERSON, _no_gather),
    _rule(6, "operators", "operators are not available", Depth.CLUSTER, _operators),
    _rule(7, "operators-unstable", "operators do not come to rest", Depth.CLUSTER, _unstable),
    _rule(1, "folder-empty", "a verb finds no cluster in its folder", Depth.PERSON, _empty_folder),
    _rule(0, "no-console", "the installer warns at its end that there is no console", Depth.PERSON, _no_console),
    _rule(8, "interrupted", "the run was stopped", Depth.PERSON, _interrupted),
)  # fmt: skip
