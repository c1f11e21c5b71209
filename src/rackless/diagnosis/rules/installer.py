"""How a run of the real installer ends, and what stopped it. The words are those of openshift-install 4.16 to 5.0."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rackless.diagnosis.installer_run import InstallerLine, InstallerRun
from rackless.diagnosis.rule import CauseRule, Depth, Evidence, RootCause

_NO_API = r"Bootstrap failed to complete: Get \"https://(?P<name>[^:/]+):6443[^\"]*\": (?P<why>.*)"
_BOOTSTRAP = r"failed to create bootstrap: (?P<why>.*)"
_HOST = re.compile(r"baremetalhost: (?P<host>\S+): (?P<state>[^:]+)(?:: (?P<why>.*))?")
_WAIT_BOOTSTRAP = "`openshift-install wait-for bootstrap-complete --dir DIR` waits again"
_WAIT_INSTALL = "`openshift-install wait-for install-complete --dir DIR` waits again"


def _said(run: InstallerRun, *lines: InstallerLine) -> tuple[Evidence, ...]:
    return tuple(Evidence(run.source, line.message, line.at) for line in lines)


def _api_never_up(run: InstallerRun, fits: str, message: str, remedy: str) -> Iterator[RootCause]:
    if (ended := run.last(_NO_API, "error")) and re.search(fits, ended[1]["why"]):
        line, found = ended
        address = re.search(r"dial tcp (?:lookup )?(\S+?):?(?:\d+)?:? ", found["why"] + " ")
        words = {"name": found["name"], "address": address[1] if address else "its address"}
        waited = run.last("for the Kubernetes API at")
        lines = (*((waited[0],) if waited else ()), line)
        yield RootCause("cluster/api", message.format(**words), _said(run, *lines), remedy.format(**words))


def _vip_nobody(run: InstallerRun) -> Iterator[RootCause]:
    yield from _api_never_up(
        run, "no route to host",
        "the API never came up: nobody answers for {address} on the network, so no bootstrap machine has taken the API VIP",
        "look at the bootstrap machine's console (`virsh console`): did it boot, get an address in the machine network, and start "
        "keepalived? Is the bridge that the installer was given the machine network's?",
    )  # fmt: skip


def _api_refused(run: InstallerRun) -> Iterator[RootCause]:
    yield from _api_never_up(
        run, "connection refused",
        "the API never came up: {address} is held by a machine on which no API server listens",
        "on the bootstrap machine: `journalctl -b -u bootkube -u release-image`; a failed image pull is the usual cause. If it "
        "is not the bootstrap machine that holds {address}, another machine does: compare its MAC (`ip neigh show {address}`)",
    )  # fmt: skip


def _api_silent(run: InstallerRun) -> Iterator[RootCause]:
    yield from _api_never_up(
        run, r"i/o timeout|deadline exceeded|Client\.Timeout",
        "the API never came up: {address} does not answer at all",
        "a firewall between this computer and {address} drops port 6443, or a route leads elsewhere: `ip route get {address}`",
    )  # fmt: skip


def _api_unknown_name(run: InstallerRun) -> Iterator[RootCause]:
    yield from _api_never_up(
        run, "no such host",
        "the name {name} does not resolve on this computer",
        "add an A record for {name} with the API VIP to the DNS server of this computer, then wait again",
    )  # fmt: skip


def _api_certificate(run: InstallerRun) -> Iterator[RootCause]:
    yield from _api_never_up(
        run, "x509|certificate",
        "another server answers at {name}: its certificate is not this cluster's",
        "the API VIP is in use by another cluster or machine, or clocks differ by more than the certificate's validity",
    )  # fmt: skip


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


def _bootstrap_failed(run: InstallerRun, fits: str, subject: str, message: str, remedy: str) -> Iterator[RootCause]:
    if (ended := run.last(_BOOTSTRAP, "error", "fatal")) and (found := re.search(fits, ended[1]["why"])):
        words = {"found": found[0], **{name: value or "" for name, value in found.groupdict().items()}}
        yield RootCause(subject, message.format(**words), _said(run, ended[0]), remedy)


def _iso_not_found(run: InstallerRun) -> Iterator[RootCause]:
    yield from _bootstrap_failed(
        run, r"bad status: (?P<code>\d{3})", "bootstrap/iso",
        "the server of the bootstrap's live ISO answered {code}",
        "check OPENSHIFT_INSTALL_OS_IMAGE_OVERRIDE, or the mirror that serves the image",
    )  # fmt: skip


def _iso_not_fetched(run: InstallerRun) -> Iterator[RootCause]:
    refused = run.last("Failed to extract base ISO from release payload")
    for cause in _bootstrap_failed(
        run, r"failed to download base ISO image (?P<url>\S+?):? ", "bootstrap/iso",
        "the bootstrap's live ISO could not be fetched from {url}",
        "this computer must reach the address, or the image must come from the release payload, for which `oc` on the PATH and a "
        "pull secret that the registry takes are needed",
    ):  # fmt: skip
        before = _said(run, refused[0]) if refused else ()
        yield RootCause(cause.subject, cause.message, before + cause.evidence, cause.remedy)


def _iso_not_an_installers(run: InstallerRun) -> Iterator[RootCause]:
    yield from _bootstrap_failed(
        run, "COREOS_KARG_EMBED_AREA", "bootstrap/iso",
        "the live ISO has no room for the installer's kernel arguments: it is no CoreOS live ISO, or one that was changed",
        "take the live ISO of the release as it is",
    )  # fmt: skip


def _no_kvm(run: InstallerRun) -> Iterator[RootCause]:
    yield from _bootstrap_failed(
        run, "host-passthrough", "bootstrap/hypervisor",
        "the bootstrap machine needs KVM, and this hypervisor has none that works",
        "check /dev/kvm (`rackless doctor` tries it with a small guest) and nested virtualisation; without it the installer cannot "
        "make its bootstrap machine",
    )  # fmt: skip


def _bootstrap_other(run: InstallerRun) -> Iterator[RootCause]:
    known = (_iso_not_found, _iso_not_fetched, _iso_not_an_installers, _no_kvm, _domain_gone)
    if any(list(rule(run)) for rule in known):
        return
    yield from _bootstrap_failed(
        run, r".+", "bootstrap/machine",
        "the bootstrap machine could not be made: {found}",
        "these are libvirt's words: look at its log, its pools and its bridges (`virsh pool-list`, `virsh net-list`)",
    )  # fmt: skip


def _domain_gone(run: InstallerRun) -> Iterator[RootCause]:
    yield from _bootstrap_failed(
        run, r"Domain not found: no domain with matching name '(?P<name>[^']+)'", "bootstrap/machine",
        "there is no bootstrap machine {name} to destroy: it was never made, or is gone already",
        "nothing is left to do for it; a storage pool of the same name may remain: `virsh pool-list --all`",
    )  # fmt: skip


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


RULES: tuple[CauseRule[InstallerRun], ...] = (
    CauseRule("installer/no-kvm", "the bootstrap machine does not start", Depth.HYPERVISOR, _no_kvm),
    CauseRule("installer/bootstrap-not-made", "libvirt refuses the bootstrap machine", Depth.HYPERVISOR, _bootstrap_other,
         untried="only refusals of other rules were recorded"),
    CauseRule("installer/iso-not-found", "the live ISO's server says no", Depth.NETWORK, _iso_not_found),
    CauseRule("installer/iso-not-fetched", "the live ISO cannot be downloaded", Depth.NETWORK, _iso_not_fetched),
    CauseRule("installer/iso-unsuitable", "the live ISO cannot be prepared", Depth.NETWORK, _iso_not_an_installers),
    CauseRule("installer/api-name-unknown", "the API's name does not resolve", Depth.NETWORK, _api_unknown_name,
         untried="written from the words of Go's resolver"),
    CauseRule("installer/api-vip-nobody", "no route to the API VIP", Depth.NETWORK, _vip_nobody),
    CauseRule("installer/api-silent", "the API VIP does not answer", Depth.NETWORK, _api_silent,
         untried="written from the words of Go's dialler"),
    CauseRule("installer/api-refused", "the API's port is closed", Depth.CLUSTER, _api_refused),
    CauseRule("installer/api-certificate", "another certificate at the API VIP", Depth.NETWORK, _api_certificate,
         untried="written from the words of Go's TLS"),
    CauseRule("installer/host-error", "a control plane's host is in error", Depth.HOST, _hosts_in_error),
    CauseRule("installer/hosts-slow", "the control plane takes longer than the installer waits", Depth.HOST, _hosts_too_slow,
         untried="no run was recorded in which hosts were merely slow"),
    CauseRule("installer/bootstrap-incomplete", "bootstrapping does not end", Depth.CLUSTER, _bootstrap_stuck),
    CauseRule("installer/operators", "operators are not available", Depth.CLUSTER, _operators),
    CauseRule("installer/bootstrap-gone", "`destroy bootstrap` finds nothing", Depth.PERSON, _domain_gone),
    CauseRule("installer/folder-empty", "a verb finds no cluster in its folder", Depth.PERSON, _empty_folder),
    CauseRule("installer/no-console", "a warning at the end", Depth.PERSON, _no_console),
    CauseRule("installer/interrupted", "the run was stopped", Depth.PERSON, _interrupted),
)  # fmt: skip
