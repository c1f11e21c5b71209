"""What is asked about a lab's surroundings, and what is made of the answers."""

from __future__ import annotations

import json

from rackless.codec import decode, encode
from rackless.diagnosis.lab_evidence import LabEvidence
from rackless.diagnosis.lab_rules import LAB_RULES
from rackless.diagnosis.rule import explain
from rackless.operations.lab_signs import LabSigns, questions, read_signs
from rackless.plan.addressing import plan_lab
from rackless.protocol.messages import LabStatus, ServerStatus
from rackless.run.parts import Part
from rackless.spec.load import parse

PLAN = plan_lab(parse("name: lab\nservers: {ctrl: {role: control-plane, count: 1, vcpus: 3}}", "lab.yaml"))
STATUS = LabStatus(
    lab="lab", domain="lab.test", daemon="running", reached="lab", stages=(), cut_off=(),
    servers=(ServerStatus("ctrl-0", "control-plane", "", "", "on", "provisioned", "", None),),
    api=None, faults=(), parts=(Part("libvirtd", True, 1, 0, "", ""),), warnings=(), etcd=None, vip=None,
)  # fmt: skip


def told() -> dict[str, object]:
    """As a lab that is well answers."""
    asked = questions(PLAN)
    names = [
        {"question": name, "wanted": wanted, "found": wanted, "server": "x"}
        for name, wanted in asked["dns"]["names"].items()
    ]
    first = {"question": "version.bind", "wanted": [], "found": ["dnsmasq-2.90"], "server": "x"}
    return {"names": [first, *names], "dhcp": {"cluster": []}, "waiting": 0.8, "stolen": 0.0}


def test_every_name_of_the_lab_is_asked_for_and_addresses_backwards() -> None:
    asked = questions(PLAN)
    names = asked["dns"]["names"]
    api = next(name for name in names if name.startswith("api."))
    assert names[api] == [str(PLAN.api_vip)] and api in names[str(PLAN.api_vip)]
    assert any(name.startswith("any.apps.") for name in names) and not any(name.startswith("*") for name in names)
    assert asked["dhcp"]["cluster"] == PLAN.cluster.bridge and asked["dns"]["server"] == str(PLAN.gateway.ip)


def test_a_lab_that_is_well_and_busy_gives_no_sign_and_an_archive_keeps_the_signs() -> None:
    signs = read_signs(told(), {"console/ctrl-0": ("a line",)}, STATUS, PLAN, 2)
    assert signs.processors is not None and (signs.processors.promised, signs.processors.waiting) == (3, 0.8)
    assert decode(LabSigns, json.loads(json.dumps(encode(signs)))) == signs
    seen = LabEvidence(
        "lab", "running", STATUS, logs=signs.logs, surroundings=signs.surroundings, processors=signs.processors
    )
    assert explain(LAB_RULES, seen) == [] and seen.absent_nodes() == ["ctrl-0"]


def test_where_nobody_could_be_asked_nothing_is_known() -> None:
    signs = read_signs({}, {}, STATUS, PLAN, 2)
    assert signs.surroundings.names == () and signs.processors is None
    assert read_signs({"names": ["odd"]}, {}, STATUS, PLAN, 2).surroundings.names == ()
