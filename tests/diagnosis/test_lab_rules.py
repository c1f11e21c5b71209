"""The rules about a lab: each fault alone leads to its own rule first, and to no other."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from rackless.diagnosis.evidence import BootChain
from rackless.diagnosis.lab_evidence import LabEvidence
from rackless.diagnosis.rule import explain
from rackless.diagnosis.rules.provisioning import PATTERNS
from rackless.drivers.ironic.reasons import REASONS
from rackless.drivers.ironic.reasons import explain as in_our_words
from rackless.lab.network_boot import Answered
from rackless.operations.why import LAB_RULES
from rackless.protocol.messages import EtcdMember, EtcdStatus, FaultStatus, LabStatus, Record, ServerStatus, VipStatus
from rackless.run.parts import Part

NAMES = ("ctrl-0", "ctrl-1", "ctrl-2")


def etcd(*sick: str, problem: str = "connection refused") -> EtcdStatus:
    members = tuple(
        EtcdMember(name, name not in sick, name == "ctrl-0", "3.4", problem if name in sick else "") for name in NAMES
    )
    return EtcdStatus(3 - len(sick), members, None if "ctrl-0" in sick else "ctrl-0", not sick, "told")


def vip(*holders: str, ready: bool = True) -> VipStatus:
    return VipStatus(
        "192.0.2.5", holders, holders[0] if len(holders) == 1 else None, ready and len(holders) == 1, "told"
    )


STATUS = LabStatus(
    lab="lab", domain="lab.test", daemon="running", reached="cluster", stages=(), cut_off=(),
    servers=tuple(ServerStatus(name, "control-plane", "", "", "on", "provisioned", "", "up") for name in NAMES),
    api=None, faults=(), parts=(Part("libvirtd", True, 1, 0, "", ""),), warnings=(), etcd=etcd(), vip=vip("ctrl-0"),
)  # fmt: skip
FAULT = FaultStatus("drop", "ctrl-0", "power", 1.0, None, 0, 503, 0, 4, 0, "ctrl-0 drops power requests")


def record(name: str, **status: Any) -> Record:
    return {"metadata": {"name": name}, "spec": {}, "status": status}


def condition(kind: str, value: str, reason: str = "", message: str = "") -> dict[str, Any]:
    return {
        "type": kind,
        "status": value,
        "reason": reason,
        "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }


WELL = LabEvidence(
    "lab", "running", STATUS, hosts=[record(name, provisioning={"state": "provisioned"}) for name in NAMES],
    machines=[record("ctrl-0", conditions=[condition("HostClaimed", "True")])],
    nodes=[record(name, conditions=[condition("Ready", "True")]) for name in NAMES],
    requests=[record("csr-0", conditions=[condition("Approved", "True")])], free_bytes=1 << 40, memory_available=1 << 34,
)  # fmt: skip


def off(name: str) -> LabStatus:
    return replace(STATUS, servers=tuple(replace(s, power="off") if s.name == name else s for s in STATUS.servers))


def host_error(message: str, kind: str = "inspection error") -> LabEvidence:
    return replace(WELL, hosts=[*WELL.hosts, record("worker-0", errorType=kind, errorMessage=message)])


def boot(**more: Any) -> str:
    seen = {"power": "on", "media": "agent.iso", "leased": None, "fetched": [], "console": ["last words"]} | more
    return in_our_words("timeout reached while inspecting the node") + "\n" + BootChain(**seen).describe()


PLANTED: dict[str, LabEvidence] = {
    "lab/no-room": replace(WELL, free_bytes=1 << 20),
    "lab/no-memory": replace(WELL, memory_available=1 << 20),
    "lab/daemon-gone": LabEvidence("lab", "not running", interrupted="create network/cluster"),
    "lab/stopped": LabEvidence("lab", "stopped"),
    "lab/part-down": replace(
        WELL, status=replace(STATUS, parts=(Part("ironic", False, None, 3, "it ended with 1", "/log"),))
    ),
    "lab/fault-asked-for": replace(WELL, status=replace(STATUS, faults=(replace(FAULT, happened=2),))),
    "lab/up-cut-off": replace(WELL, status=replace(STATUS, cut_off=("create server/ctrl-0",))),
    "cluster/no-quorum": replace(
        WELL, status=replace(STATUS, etcd=etcd("ctrl-1", "ctrl-2"), vip=vip("ctrl-0", ready=False))
    ),
    "cluster/vip-two": replace(WELL, status=replace(STATUS, vip=vip("ctrl-0", "ctrl-1"))),
    "cluster/vip-nobody": replace(WELL, status=replace(STATUS, vip=vip())),
    "cluster/vip-not-ready": replace(WELL, status=replace(STATUS, vip=vip("ctrl-0", ready=False))),
    "cluster/etcd-member": replace(WELL, status=replace(STATUS, etcd=etcd("ctrl-1"))),
    "cluster/node-not-ready": replace(
        WELL, nodes=[record("ctrl-0", conditions=[condition("Ready", "Unknown", "NodeStatusUnknown", "it is silent")])]
    ),
    "cluster/csr-pending": replace(WELL, requests=[record("csr-1")]),
    "machine/no-host": replace(
        WELL, machines=[record("w", conditions=[condition("HostClaimed", "False", "NoHostAvailable", "all are taken")])]
    ),
    "host/no-room": host_error(
        "there is no room left on this computer for the servers' disks, and a server that cannot write stops"
    ),
    "host/server-off": host_error("the server went off, and stayed off"),
    "host/bmc-login": host_error(
        in_our_words("HTTP GET https://b/redfish/v1/Systems/1 returned code 401"), "registration error"
    ),
    "host/bmc-silent": host_error(in_our_words("Redfish connection failed for node x"), "registration error"),
    "host/media-refused": host_error(in_our_words("inserting virtual media: no")),
    "host/bmc-error": host_error(in_our_words("HTTP GET https://b/redfish/v1/Systems/1 returned code 503")),
    "host/power": host_error(in_our_words("Failed to set node power state to power on."), "power management error"),
    "host/checksum": host_error(in_our_words("Image failed to verify against checksum."), "provisioning error"),
    "host/image-memory": host_error(in_our_words("image download: out of space"), "provisioning error"),
    "host/disk-small": host_error(in_our_words("all found block devices are smaller than 4 GiB"), "provisioning error"),
    "host/no-root-device": host_error(in_our_words("No suitable device was found"), "provisioning error"),
    "host/image-format": host_error(in_our_words("Image is not in qcow2 format"), "provisioning error"),
    "host/image-fetch": host_error(in_our_words("Download of image x failed"), "provisioning error"),
    "host/dhcp-nothing-to-offer": host_error(boot(boot=Answered(asked=True, offered=None, sent=()))),
    "host/dhcp-not-asked": host_error(boot(boot=Answered(asked=False, offered=None, sent=()))),
    "host/no-kernel": host_error(boot()),
    "host/agent-silent": host_error(boot(kernel=True, leased="192.0.2.9")),
    "host/agent-lost": host_error(boot(kernel=True, agent="heartbeat at 10:00:00")),
    "host/error": host_error("something nobody has heard of"),
}
"""Each fault alone, as the parts of a lab write it down."""


def test_a_lab_that_is_well_has_no_cause() -> None:
    assert explain(LAB_RULES, WELL) == []
    young = replace(STATUS, reached="lab", etcd=etcd(*NAMES), vip=vip(), servers=off("ctrl-0").servers)
    assert explain(LAB_RULES, LabEvidence("lab", "running", young)) == [], "what is not made yet is not missing"


@pytest.mark.parametrize("name", sorted(rule.name for rule in LAB_RULES))
def test_a_fault_alone_leads_to_its_rule_and_to_no_other(name: str) -> None:
    found = explain(LAB_RULES, PLANTED[name])
    assert [one.rule for one in found] == [name]
    (one,) = found
    assert one.cause.evidence and one.cause.remedy and "{" not in one.cause.message + one.cause.remedy
    assert one.as_json()["rule"] == name and one.as_json()["evidence"][0]["source"]


def test_what_stands_on_something_broken_is_told_after_it() -> None:
    seen = replace(
        PLANTED["cluster/node-not-ready"], status=replace(off("ctrl-0"), etcd=etcd("ctrl-0")), free_bytes=0,
        hosts=PLANTED["host/bmc-login"].hosts,
    )  # fmt: skip
    found = explain(LAB_RULES, seen)
    assert [one.rule for one in found] == [
        "lab/no-room", "host/bmc-login", "cluster/etcd-member", "cluster/node-not-ready",
    ]  # fmt: skip
    assert (
        "its server is off" in found[2].cause.message
        and found[3].cause.message == "node ctrl-0 is not Ready: its server is off"
    )


def test_every_meaning_that_ironics_words_are_given_has_a_rule() -> None:
    live_iso, checksum_file, timeout = (
        "user data cannot be handed",
        "checksum cannot be read",
        "was not heard of in time",
    )
    for reason in REASONS:
        if any(words in reason.meaning for words in (live_iso, checksum_file, timeout)):
            continue  # told as the host's own words: each has one message only, or needs the boot chain
        assert any(re.search(pattern, reason.meaning) for _, _, pattern, _, _ in PATTERNS), reason.meaning
