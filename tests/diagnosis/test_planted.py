"""Where each rule's fault was planted: the symptoms that `rackless why` was asked to know, their rules, and the script of each.

What is in nobody's script is labelled untried in the rule itself, and so in the reference.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rackless.diagnosis import bootstrap_evidence
from rackless.diagnosis.installer_run import parse_run
from rackless.diagnosis.lab_rules import LAB_RULES
from rackless.diagnosis.rule import CauseRule, explain
from rackless.diagnosis.rules import bootstrap, installer
from tests.diagnosis import test_bootstrap_rules, test_installer_rules, test_lab_rules
from tests.real import planting_installer

REAL = Path(__file__).parents[1] / "real"
_RULES: tuple[CauseRule[Any], ...] = (*LAB_RULES, *bootstrap.RULES, *installer.RULES)
ALL = {rule.name: rule for rule in _RULES}

SYMPTOMS: dict[str, tuple[str, ...]] = {
    "no DHCP lease: nobody answers": ("host/dhcp-silent", "host/dhcp-nothing-to-offer", "bootstrap/no-address"),
    "no DHCP lease: pool empty": ("host/dhcp-no-address",),
    "no DHCP lease: wrong network": ("host/dhcp-wrong-network",),
    "no DHCP lease: reserved for another MAC": ("host/dhcp-reserved", "host/dhcp-leased-to-another"),
    "two DHCP servers": ("network/two-dhcp",),
    "wrong boot device, boot order": ("host/boot-order", "host/dhcp-not-asked", "host/no-kernel"),
    "firmware in the other mode": ("host/not-bootable",),
    "Secure Boot denies": ("host/secure-boot",),
    "PXE or iPXE time-out under load": ("host/pxe-timeout",),
    "BMC unreachable": ("host/bmc-silent", "host/bmc-ipmi", "host/bmc-error", "host/power", "lab/fault-asked-for"),
    "BMC refused": ("host/bmc-refused",),
    "BMC's certificate": ("host/bmc-certificate",),
    "BMC's account": ("host/bmc-locked", "host/bmc-login"),
    "BMC behind a route that is missing or a firewall": ("host/bmc-no-route", "host/bmc-silent"),
    "ISO not fetched": ("host/media-refused", "installer/iso-not-found", "installer/iso-not-fetched"),
    "ISO not bootable": ("host/not-bootable", "installer/iso-unsuitable"),
    "ISO too slow": ("host/media-slow",),
    "agent never calls": ("host/agent-silent", "host/agent-lost", "host/server-off"),
    "agent calls the wrong address": ("host/agent-address",),
    "agent: clock skew": ("host/agent-clock",),
    "agent: certificate refused": ("host/agent-certificate",),
    "agent: token refused": ("host/agent-token",),
    "image: checksum, size, format, server": (
        "host/checksum", "host/disk-small", "host/image-format", "host/image-fetch", "bootstrap/payload",
    ),
    "disk too small": ("host/disk-small",),
    "no disk that fits the hints": ("host/no-root-device",),
    "disk full": ("host/no-room", "lab/no-room"),
    "disk slow": ("cluster/etcd-disk-slow",),
    "memory too small": ("host/memory", "host/image-memory"),
    "Ignition failed": ("node/ignition-fetch", "node/ignition-failed", "bootstrap/silent"),
    "DNS wrong or missing, forward and back, answered by another": (
        "names/wrong", "names/missing", "names/reverse", "names/another-answers", "names/silent", "installer/api-name-unknown",
    ),
    "VIP held by two": ("cluster/vip-two",),
    "VIP held by one that is not ready": ("cluster/vip-not-ready", "installer/api-refused"),
    "VIP held by nobody": ("cluster/vip-nobody", "installer/api-vip-nobody", "installer/api-silent"),
    "VRRP id clash (now: a stranger has the VIP, for a record in etcd says who holds it)": (
        "cluster/vip-stranger", "installer/api-certificate",
    ),
    "etcd without quorum": ("cluster/no-quorum", "cluster/etcd-member", "bootstrap/etcd-member"),
    "etcd: member slow": ("cluster/etcd-member-slow",),
    "etcd: disk slow": ("cluster/etcd-disk-slow",),
    "etcd: clock": ("cluster/etcd-clock",),
    "certificates expired after a long stop": ("lab/certificates-over",),
    "pending CSRs of ours, of strangers": ("cluster/csr-ours", "cluster/csr-pending"),
    "Machine without a free host": ("machine/no-host",),
    "node NotReady": ("cluster/node-not-ready",),
    "permission denied on images": ("host/image-permission",),
    "AppArmor, SELinux": ("host/image-confined",),
    "localhost resolves to ::1": ("cluster/localhost-v6",),
    "cluster-bootstrap failed": ("installer/bootkube", "installer/bootstrap-incomplete", "bootstrap/failed"),
    "release image override missing": ("installer/release-image",),
    "installer's own time-outs": ("installer/hosts-slow", "installer/operators", "installer/operators-unstable"),
    "installer's exit codes": (
        "installer/install-config", "installer/site", "installer/host-error", "installer/folder-empty", "installer/interrupted",
        "installer/bootstrap-gone", "installer/bootstrap-not-made", "installer/no-console", "installer/no-kvm",
    ),
    "no gather methods": ("installer/no-gather",),
    "hypervisor out of memory": ("lab/no-memory",),
    "hypervisor out of room": ("lab/no-room",),
    "hypervisor's CPU: steal, overcommit": ("lab/cpu-stolen", "lab/no-cpu"),
    "libvirtd, dnsmasq, Ironic, API dead": (
        "lab/part-down", "lab/part-dies-again", "lab/daemon-gone", "lab/daemon-restarts", "bootstrap/ironic",
    ),
    "libvirtd, dnsmasq, Ironic, API of another version": ("lab/other-version",),
    "what people did": ("lab/stopped", "lab/up-cut-off", "lab/not-begun"),
    "an install that is led by a bootstrap": ("bootstrap/hand-over", "bootstrap/host-error"),
    "what no rule knows": ("host/error",),
}  # fmt: skip
"""What people of this field lose days to, and the rules that find it."""

LAB_TESTS = {
    "long/test_why.py": (
        "lab/part-down", "lab/part-dies-again", "lab/certificates-over", "lab/daemon-gone", "network/two-dhcp",
        "host/bmc-refused", "host/bmc-no-route",
    ),
    "long/test_provisioning_faults.py": ("host/no-room", "host/agent-silent"),
}  # fmt: skip
"""Planted in a whole real lab; the second file judges the words that the rules know, and not by the rules."""

SCRIPTS = {
    "planting.py": (
        "host/dhcp-nothing-to-offer", "host/dhcp-no-address", "host/dhcp-wrong-network", "host/dhcp-reserved",
        "host/dhcp-leased-to-another", "host/secure-boot", "host/not-bootable", "host/no-kernel", "host/boot-order",
        "host/dhcp-not-asked", "host/memory", "host/image-permission", "lab/no-memory",
    ),
    "planting_pxe.py": ("host/dhcp-silent", "host/pxe-timeout"),
    "planting_ironic.py": (
        "host/bmc-login", "host/bmc-locked", "host/bmc-refused", "host/bmc-no-route", "host/bmc-silent", "host/bmc-ipmi",
        "host/bmc-error", "host/bmc-certificate", "host/power", "host/media-refused", "host/media-slow", "host/agent-token",
    ),
    "planting_agent.py": ("host/agent-address", "host/agent-certificate", "host/agent-clock"),
    "planting_image.py": (
        "host/checksum", "host/disk-small", "host/image-format", "host/image-fetch", "host/image-memory", "host/no-root-device",
    ),
    "planting_node.py": (
        "node/ignition-fetch", "node/ignition-failed", "cluster/vip-stranger", "cluster/etcd-clock", "cluster/etcd-disk-slow",
        "cluster/etcd-member-slow", "cluster/localhost-v6",
    ),
    "planting_names.py": (
        "names/silent", "names/another-answers", "names/missing", "names/wrong", "names/reverse", "network/two-dhcp", "lab/no-cpu",
    ),
    "planting_cluster.py": (
        "cluster/no-quorum", "cluster/etcd-member", "cluster/vip-two", "cluster/vip-nobody", "cluster/vip-not-ready",
        "cluster/csr-ours", "cluster/csr-pending", "cluster/node-not-ready", "machine/no-host",
    ),
    "planting_bootstrap.py": (
        "bootstrap/no-address", "bootstrap/payload", "bootstrap/etcd-member", "bootstrap/ironic", "bootstrap/hand-over",
        "bootstrap/failed",
    ),
}  # fmt: skip
"""Planted in a real program, in a namespace of its own; what it wrote is in `data`."""

OTHERWISE = {
    "host/error": "whatever no other rule knows",
    "bootstrap/host-error": "the errors of hosts are those of a lab",
}

_RECORDED = {rule for found in test_installer_rules.RUNS.values() for rule in found}
_PLANTED = {rule for rules in (*LAB_TESTS.values(), *SCRIPTS.values()) for rule in rules}


def test_every_symptom_has_its_rules_and_every_rule_its_symptom() -> None:
    named = {rule for rules in SYMPTOMS.values() for rule in rules}
    assert named == set(ALL)


@pytest.mark.parametrize("name", sorted(ALL))
def test_a_rule_was_planted_in_a_real_program_or_says_that_it_was_not(name: str) -> None:
    seen = name in _PLANTED or name in _RECORDED or name in planting_installer.CASES or name in OTHERWISE
    labelled = bool(ALL[name].untried)
    assert seen or labelled, "neither planted nor labelled as untried"
    if labelled:
        assert name in {"host/image-permission"} or not (seen and name in _PLANTED)


@pytest.mark.parametrize("script", sorted({*SCRIPTS, *LAB_TESTS}))
def test_what_planted_a_fault_is_in_the_tree(script: str) -> None:
    assert (REAL / script).is_file()
    assert {*SCRIPTS.get(script, ()), *LAB_TESTS.get(script, ())} <= set(ALL)
    if script in SCRIPTS:
        assert re.search(rf"\b{script.removesuffix('.py')}\.record\b", (REAL / "long/test_why.py").read_text()), (
            "and a test asks whether the program still says so"
        )


def test_each_rule_is_run_over_the_evidence_of_all_others() -> None:
    """By the tests of its family, which find that one and no other in each."""
    assert set(test_lab_rules.PLANTED) == {rule.name for rule in LAB_RULES}
    assert set(test_bootstrap_rules.PLANTED) == {rule.name for rule in bootstrap.RULES}
    assert {rule.name for rule in installer.RULES} - _RECORDED - set(planting_installer.CASES) == {
        "installer/bootstrap-not-made"
    }, "which is judged by words alone"


DATA = test_lab_rules.DATA
_TEXTS = sorted(path.name for path in DATA.glob("*.log"))


@pytest.mark.parametrize("file", _TEXTS)
def test_what_a_lab_wrote_with_a_fault_in_it_is_no_run_of_an_installer(file: str) -> None:
    assert explain(installer.RULES, parse_run("log", (DATA / file).read_text())) == []


@pytest.mark.parametrize("file", [file for file in _TEXTS if not file.startswith("bootstrap-")])
def test_what_others_wrote_with_a_fault_in_it_is_nothing_to_a_bootstrap_machine(file: str) -> None:
    assert bootstrap_evidence.read_console((DATA / file).read_text()) == []


@pytest.mark.parametrize("file", [file for file in _TEXTS if file.startswith("bootstrap-")])
def test_what_a_bootstrap_machine_wrote_with_a_fault_in_it_is_nothing_to_a_node(file: str) -> None:
    lines = (DATA / file).read_text().splitlines()
    absent = test_lab_rules.PLANTED["node/ignition-fetch"]
    logs = {f"{source}/ctrl-{number}": lines for source in ("console", "journal") for number in range(3)}
    assert explain(LAB_RULES, replace(absent, logs=logs)) == []


@pytest.mark.parametrize("name", sorted(test_installer_rules.RUNS))
def test_what_an_installer_wrote_is_nothing_to_a_lab_or_a_bootstrap_machine(name: str) -> None:
    text = test_installer_rules.recorded(name)
    absent = test_lab_rules.PLANTED["node/ignition-fetch"]
    logs = {f"{source}/ctrl-{number}": text.splitlines() for source in ("console", "journal") for number in range(3)}
    assert explain(LAB_RULES, replace(absent, logs=logs)) == []
    assert bootstrap_evidence.read_console(text) == []


@pytest.mark.parametrize(
    "name", sorted(name for name, seen in test_lab_rules.PLANTED.items() if name.startswith("host/"))
)
def test_a_host_of_a_bootstrap_machine_fails_for_the_cause_of_a_labs(name: str) -> None:
    seen = replace(test_bootstrap_rules.WELL, hosts=test_lab_rules.PLANTED[name].hosts)
    (found,) = explain(bootstrap.RULES, seen)
    assert found.rule == "bootstrap/host-error" and f"(as `{name}` of a lab)" in found.cause.message
