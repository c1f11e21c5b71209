"""The rules about an install that a bootstrap machine leads: each fault alone, on what the machine's parts told with it."""

from __future__ import annotations

import io
import json
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rackless.diagnosis.bootstrap_evidence import BootstrapEvidence, read_archive, read_console
from rackless.diagnosis.rule import explain
from rackless.diagnosis.rules.bootstrap import RULES
from rackless.drivers.ironic.reasons import explain as in_our_words
from rackless.operations.why import why_archive

DATA = Path(__file__).parent / "data"
MACHINE, NODE = "lab-abc12-bootstrap", "ctrl-1"
UP = ("payload mounted", "manifests applied", "metal3", "ironic starts", "ironic")
WELL = BootstrapEvidence(
    "lab-abc12", {MACHINE: [{"phase": name} for name in (*UP, "keys offered", "hands over", "complete")]}, ended=True,
    hosts=[{"metadata": {"name": "ctrl-0"}, "status": {"provisioning": {"state": "provisioned"}}}],
)  # fmt: skip


def recorded(name: str) -> list[dict[str, Any]]:
    """What `tests/real/planting_bootstrap.py` recorded."""
    return read_console((DATA / f"bootstrap-{name}.log").read_text())


def told(*lines: dict[str, Any], **more: Any) -> BootstrapEvidence:
    return replace(WELL, told={MACHINE: list(lines)}, **more)


def phases(*names: str) -> list[dict[str, Any]]:
    return [{"phase": name} for name in names]


FAILED_HOST = {
    "metadata": {"name": "ctrl-0"},
    "status": {
        "errorType": "registration error",
        "errorMessage": in_our_words("HTTP GET https://b/redfish/v1/Systems/1 returned code 401"),
    },
}
PLANTED: dict[str, BootstrapEvidence] = {
    "bootstrap/no-address": told(*recorded("no-address")),
    "bootstrap/payload": told(*recorded("payload-away")),
    "bootstrap/silent": replace(WELL, told={}, absent={"machine": "ssh: connect to host bootstrap port 22: No route to host"}),
    "bootstrap/ironic": told(*recorded("ironic"), files={"ironic.log": "CRITICAL ironic: no space left\n"}),
    "bootstrap/host-error": told(*phases(*UP), hosts=[FAILED_HOST]),
    "bootstrap/etcd-member": replace(
        WELL, told={MACHINE: phases(*UP, "keys offered"), NODE: recorded("etcd-member")}
    ),
    "bootstrap/hand-over": told(*recorded("hand-over")),
    "bootstrap/failed": told(*recorded("manifest")),
}  # fmt: skip


def test_an_install_that_is_complete_has_no_cause() -> None:
    assert explain(RULES, WELL) == []


@pytest.mark.parametrize("name", sorted(rule.name for rule in RULES))
def test_a_fault_alone_leads_to_its_rule_and_to_no_other(name: str) -> None:
    (found,) = explain(RULES, PLANTED[name])
    assert found.rule == name
    assert found.cause.evidence and found.cause.remedy and "{" not in found.cause.message + found.cause.remedy


@pytest.mark.parametrize("name", ["bootstrap/ironic", "bootstrap/hand-over", "bootstrap/silent"])
def test_what_is_only_not_yet_done_is_no_cause_while_the_install_goes_on(name: str) -> None:
    seen = PLANTED[name]
    waits = {machine: [each for each in lines if "failed" not in each] for machine, lines in seen.told.items()}
    assert explain(RULES, replace(seen, told=waits, ended=False)) == []


def test_what_the_machine_says_is_wrong_counts_while_the_install_goes_on() -> None:
    for name in ("bootstrap/no-address", "bootstrap/payload", "bootstrap/etcd-member", "bootstrap/failed", "bootstrap/ironic",
                 "bootstrap/hand-over"):  # fmt: skip
        (found,) = explain(RULES, replace(PLANTED[name], ended=False))
        assert found.rule == name


def test_a_payload_that_came_in_the_end_and_another_answer_of_its_server() -> None:
    came = [*recorded("payload-away")[:-1], *phases("payload mounted")]
    assert explain(RULES, told(*came, ended=False)) == []
    (found,) = explain(RULES, told(*recorded("payload-missing")))
    assert found.rule == "bootstrap/payload" and "answers 404" in found.cause.message


def test_the_sentences_name_the_node_the_url_and_the_hosts_own_cause() -> None:
    said = {name: explain(RULES, seen)[0].cause for name, seen in PLANTED.items()}
    assert "http://127.0.0.1:18098/payload.img" in said["bootstrap/payload"].message
    assert said["bootstrap/etcd-member"].subject == "etcd/ctrl-1"
    assert "(as `host/bmc-login` of a lab)" in said["bootstrap/host-error"].message
    assert said["bootstrap/hand-over"].message.endswith("it waits, ctrl-2 not in etcd yet")
    assert said["bootstrap/failed"].message.endswith("Odd odd: 404 page not found")
    assert said["bootstrap/ironic"].evidence[-1].text == "CRITICAL ironic: no space left"


def test_an_archive_of_a_bootstrap_machine_is_read(tmp_path: Path) -> None:
    target = tmp_path / "bundle.tar.gz"
    files = {
        "absent.json": b'{"objects": "nobody has the VIP"}',
        f"console/{MACHINE}.log": (DATA / "bootstrap-no-address.log").read_bytes(),
        "machine/addresses.txt": b"1: lo\n2: cluster0: no address\n",
        "objects/BareMetalHost.json": json.dumps([FAILED_HOST]).encode(),
    }
    with tarfile.open(target, "w:gz") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(f"bootstrap-lab-abc12/{name}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    answer = why_archive(target)
    assert [one.rule for one in answer.findings] == ["bootstrap/no-address", "bootstrap/host-error"]
    assert answer.findings[0].cause.evidence[-1].text == "2: cluster0: no address"
    assert answer.looked_at == "1 console, 1 host, 1 answer"


def test_lines_of_others_and_lines_cut_in_two_are_passed_over() -> None:
    assert read_console('[ 1.0] noise\nunit: BOOTSTRAP {"phase": "x"}\nBOOTSTRAP {"pha\nBOOTSTRAP []\n') == [
        {"phase": "x"}
    ]
    assert read_archive("x", {}).own == ()
