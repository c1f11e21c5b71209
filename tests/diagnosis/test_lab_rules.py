"""The rules about a lab: each fault alone leads to its own rule first, and to no other."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from rackless.codec import decode
from rackless.controllers.nodes.judging import BOOTSTRAPPERS_OF_ONE, CLIENT, SERVING
from rackless.diagnosis.evidence import BootChain, read_agent, read_complaint, read_console, read_start
from rackless.diagnosis.lab_evidence import LATE as LATE_WORDS
from rackless.diagnosis.lab_evidence import LabEvidence, NameAnswer, Processors, Surroundings
from rackless.diagnosis.lab_rules import LAB_RULES
from rackless.diagnosis.rule import explain
from rackless.diagnosis.rules.provisioning import PATTERNS
from rackless.drivers.ironic.reasons import REASONS
from rackless.drivers.ironic.reasons import explain as in_our_words
from rackless.lab.network_boot import Answered, read_log
from rackless.protocol.messages import EtcdMember, EtcdStatus, FaultStatus, LabStatus, Record, ServerStatus, VipStatus
from rackless.run.parts import Part
from rackless.trust.requests import make_request

DATA = Path(__file__).parent / "data"
KEY = ec.generate_private_key(ec.SECP256R1())
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


def from_ironic(name: str, kind: str = "registration error") -> LabEvidence:
    """What the real Ironic made of a BMC, recorded by `tests/real/planting_ironic.py`."""
    return host_error((DATA / f"error-{name}.txt").read_text(), kind)


def taken_in(name: str, folder: Path = DATA) -> LabEvidence:
    """What the agent said of an image or a disk, recorded by `tests/real/planting_image.py`, in Ironic's words around it."""
    said = (folder / f"agent-{name}.txt").read_text()
    step = "{'step': 'write_image', 'interface': 'deploy', 'priority': 80}"
    return host_error(in_our_words(f"Deploy step {step} failed on node x. {said}"), "provisioning error")


def boot(**more: Any) -> str:
    seen = {"power": "on", "media": "agent.iso", "leased": None, "fetched": [], "console": ["last words"]} | more
    return in_our_words("timeout reached while inspecting the node") + "\n" + BootChain(**seen).describe()


QEMU_PERMISSION = (DATA / "qemu-permission.txt").read_text().strip()


def planted(name: str, mac: str) -> Answered:
    """What dnsmasq's log says, recorded by `tests/real/long/test_why.py`."""
    return read_log((DATA / f"dnsmasq-{name}.log").read_text().splitlines(), mac, "192.0.2.20")


def firmware(name: str) -> list[str]:
    """The last lines of a console, recorded there too."""
    return read_console(DATA / f"console-{name}.log")


def available(name: str) -> int:
    """What a kernel says whose memory was taken, recorded there too."""
    (line,) = (
        one for one in (DATA / f"meminfo-{name}.txt").read_text().splitlines() if one.startswith("MemAvailable:")
    )
    return int(line.split()[1]) * 1024


def network_boot(name: str, offered: str | None = None) -> str:
    """A host whose firmware wrote this on its console, recorded by `tests/real/planting_pxe.py`."""
    log = DATA / f"console-{name}.log"
    answered = Answered(asked=offered is not None, offered=offered, sent=())
    return boot(boot=answered, console=read_console(log), complaint=read_complaint(log))


def from_disk(mode: str, **more: Any) -> str:
    """A host whose firmware passed the CD by, recorded by `tests/real/planting.py`."""
    log = DATA / f"console-boot-order-{mode}.log"
    return boot(console=read_console(log), complaint=read_complaint(log), **more)


def agent(name: str) -> str:
    """A host whose agent wrote this on its console, recorded by `tests/real/planting_agent.py`."""
    log = DATA / f"console-agent-{name}.log"
    return boot(kernel=True, leased="192.0.2.9", console=read_console(log), complaint=read_complaint(log))


def around(name: str) -> LabEvidence:
    """What a look at the surroundings wrote, recorded by `tests/real/planting_names.py`."""
    told = json.loads((DATA / f"surroundings-{name}.json").read_text())
    names = tuple(decode(NameAnswer, one) for one in told["names"])
    dhcp = {network: tuple(servers) for network, servers in told["dhcp"].items()}
    own = {"cluster": "192.0.2.1"}
    return replace(WELL, surroundings=Surroundings(names, dhcp, own), processors=Processors(2, 6, told["waiting"]))


def absent(name: str, console: str) -> LabEvidence:
    """A node that was installed, is on, and does not come up; its console was recorded by `tests/real/planting_node.py`."""
    servers = tuple(replace(one, node=None) if one.name == name else one for one in STATUS.servers)
    nodes = [one for one in WELL.nodes if one["metadata"]["name"] != name]  # type: ignore[index]
    lines = {f"console/{name}": read_start(DATA / f"console-{console}.log")}
    return replace(WELL, status=replace(STATUS, servers=servers), nodes=nodes, logs=lines)


def journal(name: str, file: str, **status: Any) -> LabEvidence:
    """A cluster that is not well, and what one of its nodes wrote, recorded there too."""
    lines = {f"journal/{name}": (DATA / f"{file}.log").read_text().splitlines()}
    return replace(WELL, status=replace(STATUS, **status), logs=lines)


def cluster(name: str, folder: Path = DATA) -> LabEvidence:
    """What the lab's own looks saw of a cluster, recorded by `tests/real/planting_cluster.py`."""
    told: dict[str, Any] = json.loads((folder / f"cluster-{name}.json").read_text())
    status = STATUS
    if "etcd" in told:
        status = replace(status, etcd=decode(EtcdStatus, told["etcd"]))
    if "vip" in told:
        status = replace(status, vip=decode(VipStatus, told["vip"]))
    if "domain" in told:
        first = replace(status.servers[0], address=told["address"])
        status = replace(status, domain=told["domain"], servers=(first, *status.servers[1:]))
    objects: dict[str, Any] = {kind: tuple(told[kind]) for kind in ("nodes", "requests", "machines") if kind in told}
    return replace(WELL, status=status, **objects)


LATE = etcd("ctrl-1", problem="no answer in time")


def asked_by(
    server: str, user: str | None = None, signer: str = SERVING, subject: str | None = None, hosts: tuple[str, ...] = ()
) -> Record:
    request = make_request(KEY, f"system:node:{subject or server}", ["system:nodes"], hosts)
    spec = {
        "username": user or f"system:node:{server}",
        "signerName": signer,
        "request": request,
        "groups": ["system:nodes"],
        "usages": ["digital signature", "client auth" if signer == CLIENT else "server auth"],
    }
    return {"metadata": {"name": f"csr-{server}"}, "spec": spec, "status": {}}


PLANTED: dict[str, LabEvidence] = {
    "lab/no-room": replace(WELL, free_bytes=1 << 20),
    "lab/no-memory": replace(WELL, memory_available=available("scarce")),
    "lab/not-begun": LabEvidence("lab", "not running", described=False),
    "lab/daemon-gone": LabEvidence("lab", "not running", interrupted="create network/cluster"),
    "lab/daemon-restarts": LabEvidence("lab", "not running", kept=True),
    "lab/stopped": LabEvidence("lab", "stopped"),
    "lab/part-down": replace(
        WELL, status=replace(STATUS, parts=(Part("ironic", False, None, 3, "it ended with 1", "/log"),))
    ),
    "lab/part-dies-again": replace(
        WELL, status=replace(STATUS, parts=(Part("ironic", True, 7, 3, "ended with 1: no configuration", "/log", 4.0),))
    ),
    "lab/certificates-over": replace(WELL, expired=[("tls/ironic.crt", "2026-01-01T00:00:00Z")]),
    "lab/fault-asked-for": replace(WELL, status=replace(STATUS, faults=(replace(FAULT, happened=2),))),
    "lab/up-cut-off": replace(WELL, status=replace(STATUS, cut_off=("create server/ctrl-0",))),
    "cluster/no-quorum": cluster("no-quorum"),
    "cluster/vip-two": cluster("vip-two"),
    "cluster/vip-nobody": cluster("vip-nobody"),
    "cluster/vip-not-ready": cluster("vip-not-ready"),
    "cluster/etcd-member": cluster("etcd-member"),
    "cluster/node-not-ready": cluster("node-not-ready"),
    "lab/other-version": replace(WELL, build="it is of another version than this command"),
    "cluster/csr-ours": cluster("csr-ours"),
    "cluster/csr-pending": cluster("csr-pending"),
    "machine/no-host": cluster("no-host"),
    "host/no-room": host_error(
        "there is no room left on this computer for the servers' disks, and a server that cannot write stops"
    ),
    "host/server-off": host_error("the server went off, and stayed off"),
    "host/bmc-login": from_ironic("bmc-login"),
    "host/bmc-silent": from_ironic("bmc-silent"),
    "host/bmc-refused": from_ironic("bmc-refused"),
    "host/bmc-no-route": from_ironic("bmc-no-route"),
    "host/bmc-certificate": from_ironic("bmc-certificate"),
    "host/bmc-ipmi": from_ironic("bmc-ipmi"),
    "host/media-refused": from_ironic("media-refused", "inspection error"),
    "host/bmc-error": from_ironic("bmc-error"),
    "host/power": from_ironic("power", "inspection error"),
    "host/checksum": taken_in("checksum"),
    "host/image-memory": taken_in("image-memory"),
    "host/disk-small": taken_in("disk-small"),
    "host/no-root-device": taken_in("no-root-device"),
    "host/image-format": taken_in("image-format"),
    "host/image-fetch": taken_in("image-fetch"),
    "host/dhcp-nothing-to-offer": host_error(boot(boot=planted("ignored", "02:00:00:00:00:02"))),
    "host/dhcp-no-address": host_error(boot(boot=planted("pool-empty", "02:00:00:00:00:02"))),
    "host/dhcp-wrong-network": host_error(boot(boot=planted("wrong-network", "02:00:00:00:00:02"))),
    "host/dhcp-reserved": host_error(boot(boot=planted("reserved", "02:00:00:00:00:01"))),
    "host/dhcp-leased-to-another": host_error(boot(boot=planted("leased-to-another", "02:00:00:00:00:02"))),
    "host/pxe-timeout": host_error(network_boot("tftp-silent-ipxe", offered="192.0.2.67")),
    "host/dhcp-silent": host_error(network_boot("dhcp-silent-ipxe")),
    "host/secure-boot": host_error(boot(console=firmware("secure-boot"))),
    "host/not-bootable": host_error(boot(console=firmware("uefi-bios-image"))),
    "host/boot-order": host_error(from_disk("uefi")),
    "host/dhcp-not-asked": host_error(
        boot(boot=Answered(asked=False, offered=None, sent=()), console=firmware("no-kernel"))
    ),
    "host/no-kernel": host_error(boot(console=firmware("no-kernel"))),
    "host/image-permission": host_error(
        in_our_words(f"HTTP POST https://b/redfish/v1/Systems/1 returned code 500. {QEMU_PERMISSION}")
    ),
    "host/image-confined": host_error(
        'audit: apparmor="DENIED" operation="open" profile="libvirt-1" comm="qemu-system-x86"'
    ),
    "host/bmc-locked": from_ironic("bmc-locked"),
    "host/media-slow": from_ironic("media-slow", "inspection error"),
    "host/memory": host_error(
        boot(kernel=True, console=firmware("memory"), complaint=read_complaint(DATA / "console-memory.log"))
    ),
    "host/agent-address": host_error(agent("address")),
    "host/agent-certificate": host_error(agent("certificate")),
    "host/agent-clock": host_error(agent("clock")),
    "host/agent-token": host_error(boot(kernel=True, agent=read_agent(DATA / "ironic-token.log", ["192.0.2.20"]))),
    "lab/no-cpu": replace(around("names-well"), hosts=host_error(boot(kernel=True)).hosts),
    "lab/cpu-stolen": replace(
        WELL, hosts=host_error(boot(kernel=True)).hosts, processors=Processors(2, 6, 0.9, stolen=0.4)
    ),
    "network/two-dhcp": around("two-dhcp"),
    "names/silent": around("names-silent"),
    "names/another-answers": around("names-another"),
    "names/missing": around("names-missing"),
    "names/wrong": around("names-wrong"),
    "names/reverse": around("names-reverse"),
    "node/ignition-fetch": absent("ctrl-1", "ignition-missing"),
    "node/ignition-failed": absent("ctrl-1", "ignition-invalid"),
    "cluster/vip-stranger": journal("ctrl-0", "vip-stranger", vip=vip("02:00:00:00:00:66", ready=False)),
    "cluster/etcd-clock": journal("ctrl-0", "etcd-clock", etcd=LATE),
    "cluster/etcd-disk-slow": journal("ctrl-1", "etcd-disk-slow", etcd=LATE),
    "cluster/etcd-member-slow": journal("ctrl-1", "etcd-member-slow", etcd=LATE),
    "cluster/localhost-v6": journal("ctrl-1", "journal-localhost-v6", vip=vip("ctrl-1", ready=False)),
    "host/agent-silent": host_error(boot(kernel=True, leased="192.0.2.9")),
    "host/agent-lost": host_error(boot(kernel=True, agent="heartbeat at 10:00:00")),
    "host/error": host_error("something nobody has heard of"),
}
"""Each fault alone, as the parts of a lab write it down."""


FOLLOWS = {
    # a host that was not heard of in time, and why this computer could not let it speak
    "lab/no-cpu": ("host/agent-silent",),
    "lab/cpu-stolen": ("host/agent-silent",),
}
"""What is told after a cause, because it is how it was noticed."""


def test_a_lab_that_is_well_has_no_cause() -> None:
    assert explain(LAB_RULES, WELL) == []
    for file in ("names-well", "one-dhcp"):
        assert explain(LAB_RULES, around(file)) == [], "a busy computer on which nothing failed"
    for file in ("etcd-well", "vip-well"):
        assert explain(LAB_RULES, journal("ctrl-0", file)) == []
    for file in ("etcd-well", "vip-well", "node-well"):
        assert explain(LAB_RULES, cluster(file)) == []


@pytest.mark.parametrize("file", ["etcd-disk-slow", "etcd-member-slow", "etcd-clock", "vip-stranger"])
def test_a_slow_cluster_that_is_well_has_no_cause_whatever_its_journals_say(file: str) -> None:
    assert explain(LAB_RULES, journal("ctrl-0", file)) == []


def test_a_line_or_two_of_a_slow_disk_are_no_cause() -> None:
    seen = PLANTED["cluster/etcd-disk-slow"]
    slow = [line for line in seen.logs["journal/ctrl-1"] if "sync duration" in line]
    few = replace(seen, logs={"journal/ctrl-1": slow[:2]})
    assert [one.rule for one in explain(LAB_RULES, few)] == ["cluster/etcd-member"]


def test_the_journal_of_a_node_that_is_well_is_not_accused_for_anothers() -> None:
    """Every cause beside every other's evidence: two faults at once are two causes, and no third."""
    logs = {
        f"journal/ctrl-{n}": PLANTED[rule].logs["journal/ctrl-1"]
        for n, rule in enumerate(("cluster/etcd-member-slow", "cluster/etcd-disk-slow"))
    }
    waits = replace(STATUS, etcd=LATE, vip=vip("ctrl-0", ready=False))
    found = explain(LAB_RULES, replace(WELL, status=waits, logs=logs))
    assert [one.rule for one in found] == ["cluster/etcd-disk-slow", "cluster/etcd-member-slow"]


def test_a_member_that_is_gone_is_not_excused_by_another_that_is_slow() -> None:
    logs = {
        "journal/ctrl-0": PLANTED["cluster/etcd-disk-slow"].logs["journal/ctrl-1"],
        "journal/ctrl-1": ["", "stopped"],
    }
    gone = replace(STATUS, etcd=etcd("ctrl-1", problem="no etcd listening"))
    (found,) = explain(LAB_RULES, replace(WELL, status=gone, logs=logs))
    assert (found.rule, found.cause.subject) == ("cluster/etcd-member", "etcd/ctrl-1")
    assert [one.text for one in found.cause.evidence] == ["no etcd listening", "stopped"]


def test_seconds_between_clocks_are_how_late_an_answer_was_on_a_slow_lab() -> None:
    line = "the clock difference against peer 72408854832e9163 is too high [{} > 1s]"
    seen = replace(WELL, status=replace(STATUS, etcd=LATE))
    for skew, rule in (("5.901337336s", "etcd-member"), ("31.2s", "etcd-clock"), ("2m0.1s", "etcd-clock")):
        found = explain(LAB_RULES, replace(seen, logs={"journal/ctrl-0": [line.format(skew)]}))
        assert [one.rule for one in found] == [f"cluster/{rule}"]


@pytest.mark.parametrize("problem", LATE_WORDS)
def test_members_that_are_late_on_a_computer_without_a_processor_to_spare_are_no_cause_while_the_api_is_ready(
    problem: str,
) -> None:
    late = replace(WELL, status=replace(STATUS, etcd=etcd(*NAMES, problem=problem)), processors=Processors(2, 6, 0.9))
    logs = {"journal/ctrl-1": PLANTED["cluster/etcd-disk-slow"].logs["journal/ctrl-1"]}
    assert explain(LAB_RULES, replace(late, logs=logs)) == []
    quiet = replace(late, processors=Processors(2, 6, 0.1))
    assert [one.rule for one in explain(LAB_RULES, quiet)] == ["cluster/no-quorum"]
    assert late.status is not None
    away = replace(late, status=replace(late.status, vip=vip("ctrl-0", ready=False)))
    assert [one.rule for one in explain(LAB_RULES, away)] == ["cluster/no-quorum"]
    one_is_gone = etcd("ctrl-2", problem="no etcd listening")
    found = explain(LAB_RULES, replace(late, status=replace(late.status, etcd=one_is_gone)))
    assert [one.rule for one in found] == ["cluster/etcd-member"]


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("node/ignition-fetch", "could not fetch /etc/motd from http://127.0.0.1:18099/motd: Not Found"),
        ("node/ignition-failed", "failed in its stage fetch: error at line 0 col 0: unexpected end of JSON input"),
        ("cluster/vip-stranger", "has the API VIP 192.0.2.5: 02:00:00:00:00:66 answers for it"),
        ("cluster/etcd-clock", "ctrl-0 measures 1h0m0."),
        ("cluster/etcd-disk-slow", "the disk under etcd on ctrl-1 is too slow: a sync took 1.3"),
        ("host/agent-address", "calls https://127.0.0.1:16385, and Ironic is not there: [Errno 111] Connection refused"),
        ("network/two-dhcp", "on the network cluster: 192.0.2.99"),
        ("names/wrong", "api.lab.test resolves to 192.0.2.77, and should resolve to 192.0.2.5"),
        ("names/reverse", "192.0.2.20 resolves backwards (PTR) to other.lab.test, and should have node-0.lab.test"),
        ("host/dhcp-reserved", "asks for the address 192.0.2.20, which DHCP keeps for another MAC"),
        ("host/bmc-certificate", "the certificate of the BMC of worker-0 is not trusted"),
        ("host/agent-token", "refuses the token of the agent on worker-0 (400)"),
        ("cluster/vip-two", "192.0.2.5 is held by 2 machines at once: ctrl-0, ctrl-1"),
        ("cluster/csr-pending", "for system:node:stranger, stranger, and that is no server of this lab"),
        ("host/image-permission", "may not read /var/lib/rackless/lab/disks/disk.qcow2"),
    ],
)  # fmt: skip
def test_the_sentence_names_what_a_person_must_look_for(rule: str, words: str) -> None:
    assert words in explain(LAB_RULES, PLANTED[rule])[0].cause.message


def test_ignition_that_nobody_answers_and_an_agent_before_another_server_are_told_too() -> None:
    (found,) = explain(LAB_RULES, absent("ctrl-1", "ignition-refused"))
    assert found.rule == "node/ignition-fetch" and "connect: connection refused" in found.cause.message
    (found,) = explain(LAB_RULES, host_error(agent("not-ironic")))
    assert found.rule == "host/agent-address" and found.cause.message.endswith("Error 404")
    young = replace(STATUS, reached="lab", etcd=etcd(*NAMES), vip=vip(), servers=off("ctrl-0").servers)
    assert explain(LAB_RULES, LabEvidence("lab", "running", young)) == [], "what is not made yet is not missing"


@pytest.mark.parametrize("name", sorted(rule.name for rule in LAB_RULES))
def test_a_fault_alone_leads_to_its_rule_and_to_no_other(name: str) -> None:
    found = explain(LAB_RULES, PLANTED[name])
    assert [one.rule for one in found] == [name, *FOLLOWS.get(name, ())]
    one = found[0]
    assert one.cause.evidence and one.cause.remedy and "{" not in one.cause.message + one.cause.remedy
    assert one.as_json()["rule"] == name and one.as_json()["evidence"][0]["source"]


def test_a_machine_without_a_host_tells_of_each_host_why_it_does_not_fit() -> None:
    (found,) = explain(LAB_RULES, PLANTED["machine/no-host"])
    assert [one.text for one in found.cause.evidence] == [
        "none of 3 hosts can be had", "worker-0: it is inspecting", "worker-1: registration error: the BMC does not answer",
        "worker-2: Machine another has it",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "rule"), [("image-refused", "image-fetch"), ("image-stalls", "image-fetch"), ("disk-full", "disk-small")]
)
def test_an_image_fails_in_several_words_for_one_cause(name: str, rule: str) -> None:
    (found,) = explain(LAB_RULES, taken_in(name))
    assert found.rule == f"host/{rule}"


@pytest.mark.parametrize(
    "words", ["the BMC does not answer", "ignition: FAILED: Ignition, stage x", "('::1', 1", "dial tcp [::1]:1"]
)
def test_evidence_of_any_length_is_judged(words: str) -> None:
    """In one line of a megabyte; some of these searches take as long as the square of it, and would not end."""
    flood = words * ((1 << 20) // len(words))
    seen = PLANTED["cluster/localhost-v6"]
    logs = {"journal/ctrl-1": [flood], "console/ctrl-1": [flood]}
    absent_node = PLANTED["node/ignition-failed"].status
    hosts = host_error(flood).hosts
    found = explain(LAB_RULES, replace(seen, logs=logs, hosts=hosts))
    assert [one.rule for one in found if one.rule.startswith("host/")], "a host in error is told, whatever it says"
    explain(LAB_RULES, replace(seen, status=absent_node, logs=logs))


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
        assert any(re.search(one.pattern, reason.meaning) for one in PATTERNS), reason.meaning


@pytest.mark.parametrize(
    "request_",
    [
        asked_by("ctrl-0", user="kubernetes-admin"),
        asked_by("ctrl-0", signer="kubernetes.io/kube-apiserver-client"),
        asked_by("ctrl-0", subject="ctrl-1"),
        asked_by("stranger"),
        asked_by("ctrl-0", hosts=("ctrl-0", "api.lab.test")),
        asked_by("ctrl-0", hosts=("192.0.2.5",)),
        asked_by("ctrl-0", signer=CLIENT, hosts=("ctrl-0",)),
    ],
    ids=[
        "somebody else asks",
        "for another purpose",
        "for another's name",
        "no server of ours",
        "for the API's name too",
        "for another's address",
        "a client with a second name",
    ],
)
def test_only_a_server_that_asks_for_itself_may_be_approved(request_: Record) -> None:
    (found,) = explain(LAB_RULES, replace(WELL, requests=[request_]))
    assert found.rule == "cluster/csr-pending" and found.fix is None


def test_a_node_that_asks_with_the_token_made_for_it_is_ours() -> None:
    request: dict[str, Any] = dict(asked_by("ctrl-1", user="system:bootstrap:x", signer=CLIENT))
    request["spec"] = request["spec"] | {"groups": ["system:bootstrappers", BOOTSTRAPPERS_OF_ONE + "ctrl-1"]}
    (found,) = explain(LAB_RULES, replace(WELL, requests=[request]))
    assert (
        found.rule == "cluster/csr-ours"
        and found.fix is not None
        and found.fix.offer == "approve the request csr-ctrl-1"
    )
    request["spec"] = request["spec"] | {"groups": [BOOTSTRAPPERS_OF_ONE + "ctrl-2"]}
    assert explain(LAB_RULES, replace(WELL, requests=[request]))[0].rule == "cluster/csr-pending"


def test_a_host_is_offered_to_be_tried_again_only_when_its_cause_may_be_gone() -> None:
    full = PLANTED["host/no-room"]
    (found,) = explain(LAB_RULES, full)
    assert found.fix is not None and found.as_json()["fix"] == "retry-host"
    still = explain(LAB_RULES, replace(full, free_bytes=0))
    assert [one.fix for one in still if one.rule == "host/no-room"] == [None]
    silent = PLANTED["host/bmc-silent"]
    faulty = replace(silent, status=replace(STATUS, faults=(replace(FAULT, server="worker-0"),)))
    assert explain(LAB_RULES, silent)[0].fix is not None and explain(LAB_RULES, faulty)[0].fix is None


def test_a_cure_is_tried_on_the_same_until_something_about_the_host_changes() -> None:
    def remedy(message: str, **more: Any) -> Any:
        host: dict[str, Any] = dict(host_error(message).hosts[-1])
        host["metadata"] = host["metadata"] | more
        (found,) = explain(LAB_RULES, replace(WELL, hosts=[host]))
        return found.fix

    first = remedy(boot(kernel=True, agent="heartbeat at 10:00:00"), generation=1)
    assert first == remedy(boot(kernel=True, agent="heartbeat at 11:30:00"), generation=1), "another time is no change"
    assert first != remedy(boot(kernel=True, agent="heartbeat at 10:00:00"), generation=2), "another description is"
    assert first != remedy(boot(), generation=1), "another cause is"


def test_the_other_firmware_says_it_in_other_words_and_a_dnsmasq_that_serves_says_nothing() -> None:
    (found,) = explain(LAB_RULES, host_error(boot(console=firmware("bios-uefi-image"))))
    assert found.rule == "host/not-bootable"
    well = planted("well", "02:00:00:00:00:02")
    assert (
        well == Answered(True, "192.0.2.20", (), "") and read_log([], "02:00:00:00:00:02", "192.0.2.20") == Answered()
    )
    (found,) = explain(LAB_RULES, host_error(boot(boot=well)))
    assert found.rule == "host/no-kernel", "what DHCP did well is not accused"
    others = planted("pool-empty", "02:00:00:00:00:01")
    assert others.offered == "192.0.2.50" and others.refused == "", "what was refused to another is not ours"


@pytest.mark.parametrize(("mode", "device"), [("uefi", "UEFI QEMU HARDDISK"), ("bios", "Hard Disk")])
def test_a_system_on_the_disk_that_starts_instead_of_the_agent_is_a_matter_of_the_boot_order(
    mode: str, device: str
) -> None:
    for kernel in (False, True):
        (found,) = explain(LAB_RULES, host_error(from_disk(mode, kernel=kernel)))
        assert found.rule == "host/boot-order" and f"started from {device}" in found.cause.message
    other = in_our_words("HTTP GET https://b/redfish/v1/Systems/1 returned code 503")
    (found,) = explain(LAB_RULES, host_error(f"{other}\n{from_disk(mode).partition(chr(10))[2]}"))
    assert found.rule == "host/bmc-error", "a server that runs from its disk, as it should, is not accused"


def test_a_program_that_was_started_again_and_runs_is_no_finding_but_is_told() -> None:
    kept = tuple(
        Part(name, True, 7, many, "ended with -9: noise", "", up)
        for name, many, up in (("ironic", 1, 2.0), ("api", 5, 900.0))
    )
    seen = replace(
        WELL, status=replace(STATUS, parts=(*kept, Part("dnsmasq of cluster", True, 3, 4, "was not running", "")))
    )
    assert explain(LAB_RULES, seen) == []
    assert seen.healed()[:2] == [
        "ironic was started again once: it ended with -9",
        "api was started again 5 times: it ended with -9",
    ]
    assert seen.summary() == "the daemon, 3 programs, 3 servers, 3 hosts, 3 nodes, etcd, the API VIP"
