"""What stopped an installer: the rules on recorded runs of the real one, and on its words where none was recorded."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rackless.diagnosis.evidence import BootChain, read_complaint, read_console, read_kernel
from rackless.diagnosis.installer_run import parse_run, read_run
from rackless.diagnosis.lab_evidence import LabEvidence
from rackless.diagnosis.lab_rules import LAB_RULES
from rackless.diagnosis.rule import explain
from rackless.diagnosis.rules.installer import EXIT_CODES, RULES
from rackless.errors import InputError
from tests.real import planting_installer

_PLACES = [above / "shared/data/installer-recordings" for above in Path(__file__).parents[3:5]]
RECORDINGS = next((place for place in _PLACES if place.is_dir()), _PLACES[0])

RUNS = {
    "api-never-up-20min": ["installer/api-vip-nobody"],
    "api-never-up-short": ["installer/api-refused"],
    "bmh-error": ["installer/host-error"],
    "bootstrap-configmap-missing": ["installer/bootstrap-incomplete"],
    "destroy-bootstrap-again": ["installer/bootstrap-gone"],
    "destroy-bootstrap-empty-dir": ["installer/folder-empty"],
    "destroy-bootstrap-never-created": ["installer/bootstrap-gone"],
    "destroy-bootstrap-ok": [],
    "destroy-cluster-after-install": [],
    "destroy-cluster-domain-off": [],
    "destroy-cluster-empty-dir": ["installer/folder-empty"],
    "happy-path-api-on-host": [],
    "happy-path-bootstrap-vm": [],
    "interrupted-waiting-api": ["installer/interrupted"],
    "iso-download-404": ["installer/iso-not-found"],
    "iso-no-coreos-json-defaults": ["installer/interrupted"],
    "iso-no-kargs-area": ["installer/iso-unsuitable"],
    "oc-fails": ["installer/iso-not-fetched"],
    "rerun-create-after-interrupt": ["installer/interrupted"],
    "tcg-host-passthrough": ["installer/no-kvm"],
    "wait-for-bootstrap-complete": [],
    "wait-for-empty-dir": ["installer/folder-empty"],
    "wait-for-install-complete": [],
    "wait-install-no-console-route": ["installer/no-console"],
    "wait-install-operator-degraded": ["installer/operators"],
}
"""Exactly what is found in each recorded run: its own cause, and nothing of the others'."""


IN_A_LAB = ("installer/bootstrap-not-made",)
"""Where the installer ran in a whole lab: `tests/real/long/test_why.py`."""

STOPPED_BY_TIMEOUT = 124
"""The exit code of a run that was ended by `timeout`."""


def recorded(name: str) -> str:
    if not RECORDINGS.is_dir():
        pytest.skip("the recordings of the real installer are not here")
    log = RECORDINGS / name / "install.log"
    return (log if log.exists() else RECORDINGS / name / "stdout").read_text()


@pytest.mark.parametrize("name", RUNS)
def test_a_recorded_run_has_its_own_cause_and_no_other(name: str) -> None:
    found = explain(RULES, parse_run("log", recorded(name)))
    assert [one.rule for one in found] == RUNS[name]
    assert all(one.cause.evidence and one.cause.remedy and "{" not in one.cause.message for one in found)
    code = int((RECORDINGS / name / "rc").read_text())
    if code != STOPPED_BY_TIMEOUT:
        said = [one.cause.evidence[-1].text for one in found]
        assert said == [f"{code}, {EXIT_CODES[code]}"] * len(found) and (code == 0 or found)


def said(*messages: str, level: str = "error") -> str:
    return "\n".join(f'time="2026-01-01T00:00:0{n}Z" level={level} msg="{m}"' for n, m in enumerate(messages))


def no_api(why: str) -> str:
    return said(f'Bootstrap failed to complete: Get \\"https://api.c.example.com:6443/version\\": {why}')


@pytest.mark.parametrize(
    ("text", "rule", "subject", "words"),
    [
        (no_api("dial tcp: lookup api.c.example.com on 10.0.0.1:53: no such host"), "installer/api-name-unknown", "cluster/api",
         "api.c.example.com does not resolve"),
        (no_api("dial tcp 10.0.0.5:6443: i/o timeout"), "installer/api-silent", "cluster/api", "10.0.0.5 does not answer"),
        (no_api("dial tcp 10.0.0.5:6443: connect: no route to host"), "installer/api-vip-nobody", "cluster/api",
         "nobody answers for 10.0.0.5"),
        (no_api("dial tcp 10.0.0.5:6443: connect: connection refused"), "installer/api-refused", "cluster/api", "10.0.0.5 is held"),
        (no_api("tls: failed to verify certificate: x509: certificate signed by unknown authority"), "installer/api-certificate",
         "cluster/api", "another server answers at api.c.example.com"),
        (said("failed to create bootstrap: bad status: 403 Forbidden"), "installer/iso-not-found", "bootstrap/iso", "answered 403"),
        (said("failed to create bootstrap: failed to create storage pool: no room"), "installer/bootstrap-not-made",
         "bootstrap/machine", "failed to create storage pool: no room"),
        (said("baremetalhost: m0: inspecting",
              "Bootstrap failed to complete: failed to provision control-plane machines: timed out"), "installer/hosts-slow",
         "cluster/control-plane", "though no host failed"),
        (said('The bootkube service failed at stage \\"cb-bootstrap\\"'), "installer/bootkube", "cluster/bootstrap",
         "failed at its stage cb-bootstrap"),
        (said("The bootstrap machine failed to download the release image"), "installer/release-image", "cluster/release",
         "OPENSHIFT_INSTALL_RELEASE_IMAGE_OVERRIDE is not set"),
        (said('no gather methods registered for \\"baremetal\\"', level="fatal"), "installer/no-gather", "installer/gather",
         "cannot gather from the bootstrap machine by itself"),
        (said("Failed to gather bootstrap logs: dial tcp 10.0.0.5:22: i/o timeout",
              "failed to gather VM console and bootstrap logs", level="fatal"), "installer/no-gather", "installer/gather",
         "10.0.0.5:22: i/o timeout"),
        (said('failed to load asset \\"Install Config\\": invalid \\"install-config.yaml\\" file: a.b: Invalid value: 1'),
         "installer/install-config", "installer/install-config", "refuses install-config.yaml: a.b: Invalid value: 1"),
        (said('failed to generate asset \\"Platform Provisioning Check\\": no interfaces found', level="fatal"), "installer/site",
         "installer/site", "not as install-config.yaml says: no interfaces found"),
        (said("These cluster operators were not stable: [network, dns]"), "installer/operators-unstable", "operator/network",
         "do not come to rest: network, dns"),
        (said("baremetalhost: m0: registration error: wrong password"), "installer/host-error", "host/m0",
         "registration error: wrong password"),
    ],
)  # fmt: skip
def test_the_installers_words_lead_to_one_cause(text: str, rule: str, subject: str, words: str) -> None:
    (found,) = explain(RULES, parse_run("log", text))
    assert (found.rule, found.cause.subject) == (rule, subject) and words in found.cause.message
    assert found.cause.evidence[-2].at.startswith("2026-01-01T00:00:0")
    assert found.cause.evidence[-1].source == "exit code" and f"(exit code {found.cause.evidence[-1].text[0]})" in next(
        one.symptom for one in RULES if one.name == rule
    )


@pytest.mark.parametrize("name", sorted({rule.name for rule in RULES}))
def test_each_rule_was_seen_in_a_recorded_run_or_planted_before_the_real_installer_or_says_why_not(name: str) -> None:
    (rule,) = (rule for rule in RULES if rule.name == name)
    assert name.startswith("installer/") and rule.symptom
    recorded_run = any(name in found for found in RUNS.values())
    assert bool(rule.untried) is not (recorded_run or name in planting_installer.CASES or name in IN_A_LAB)


def test_a_host_that_recovered_is_no_cause() -> None:
    text = said("baremetalhost: m0: inspection error: timeout", "baremetalhost: m0: provisioned", level="info")
    assert explain(RULES, parse_run("log", text)) == []


def test_only_the_last_run_of_a_log_counts() -> None:
    first = said("Running: ./openshift-install create cluster", "failed to create bootstrap: bad status: 404")
    second = said("Running: ./openshift-install create cluster", "Install complete!", level="info")
    assert explain(RULES, parse_run("log", f"{first}\n{second}")) == []


def test_what_cannot_be_gathered_after_a_failure_does_not_hide_it() -> None:
    failed = said("Running: ./openshift-install create cluster", "failed to create bootstrap: bad status: 404")
    gathered = said(
        "Running: ./openshift-install gather bootstrap", "failed to gather VM console and bootstrap logs", level="fatal"
    )
    found = [one.rule for one in explain(RULES, parse_run("log", f"{failed}\n{gathered}"))]
    assert found == ["installer/iso-not-found", "installer/no-gather"]


def test_cleaning_up_does_not_undo_a_failure() -> None:
    failed = said("Running: ./openshift-install create cluster", "failed to create bootstrap: bad status: 404")
    cleaned = said("Running: ./openshift-install destroy bootstrap", "Time elapsed: 1s", level="info")
    assert [one.rule for one in explain(RULES, parse_run("log", f"{failed}\n{cleaned}"))] == ["installer/iso-not-found"]


def test_a_cause_can_be_asked_for_by_its_subject() -> None:
    run = parse_run(
        "log", said("baremetalhost: m0: registration error: x", "baremetalhost: m1: power management error: y")
    )
    assert [one.cause.subject for one in explain(RULES, run)] == ["host/m0", "host/m1"]
    assert [one.cause.subject for one in explain(RULES, run, "m1")] == ["host/m1"]
    assert [one.cause.subject for one in explain(RULES, run, "host/m0")] == ["host/m0"]


@pytest.mark.parametrize(
    ("message", "kept"),
    [
        ('Login to the console with user: \\"kubeadmin\\", and password: \\"aaaaa-S3CRET\\"', 'password: "…"'),
        (r'pullSecret: Invalid value: \"{\\\"auths\\\":{\\\"q\\\":{\\\"auth\\\":\\\"S3CRET\\\"}}}\": q requires x',
         "pullSecret: Invalid value: …: q requires x"),
        ("hosts[0].bmc.password: Invalid value: S3CRET: too short", "password: Invalid value: …: too short"),
        ("registration error: https://admin:S3CRET@10.0.0.1/redfish/v1: no answer", "https://admin:…@10.0.0.1/redfish/v1"),
        ('config is {\\"auth\\": \\"S3CRET=\\"}', '{"auth": "…"}'),
    ],
)  # fmt: skip
def test_a_secret_in_a_log_is_blotted_out_and_the_rest_of_its_line_kept(message: str, kept: str) -> None:
    (line,) = parse_run("log", said(message, level="info")).lines
    assert kept in line.message and "S3CRET" not in line.message


def test_a_password_that_is_missing_is_what_the_installer_refuses() -> None:
    words = 'invalid \\"install-config.yaml\\" file: platform.baremetal.hosts[1].bmc.password: Required value: missing Password'
    (found,) = explain(RULES, parse_run("log", said(words, level="fatal")))
    assert found.rule == "installer/install-config" and "bmc.password: Required value" in found.cause.message


@pytest.mark.parametrize("name", ["bootstrap-secureboot-denied", "bootstrap-boots-dhcp", "happy-path-bootstrap-vm"])
def test_a_recorded_console_is_judged_as_a_servers_is(name: str) -> None:
    """Of two of the recordings there is no log of the installer's, but of the machine's console."""
    if not RECORDINGS.is_dir():
        pytest.skip("the recordings of the real installer are not here")
    log = RECORDINGS / name / "serial.log"
    kernel = read_kernel(log)
    chain = BootChain("on", "boot.iso", None, [], read_console(log), kernel=kernel, complaint=read_complaint(log))
    assert chain.complaint == "" and kernel is (name != "bootstrap-secureboot-denied")
    message = "the agent on the server was not heard of in time\n" + chain.describe()
    host = {"metadata": {"name": "b"}, "status": {"errorType": "inspection error", "errorMessage": message}}
    (found,) = explain(LAB_RULES, LabEvidence("lab", "running", hosts=[host]))
    assert found.rule == ("host/agent-silent" if kernel else "host/secure-boot")


def test_every_recording_is_judged() -> None:
    if not RECORDINGS.is_dir():
        pytest.skip("the recordings of the real installer are not here")
    with_a_log = {path.parent.name for path in RECORDINGS.glob("*/rc")}
    assert set(RUNS) == with_a_log and {path.name for path in RECORDINGS.iterdir()} - with_a_log == {
        "bootstrap-secureboot-denied", "bootstrap-boots-dhcp",
    }  # fmt: skip


@pytest.mark.parametrize("name", [name for name, found in RUNS.items() if found])
def test_a_log_that_is_cut_off_or_has_other_line_ends_accuses_nobody_else(name: str, tmp_path: Path) -> None:
    """Wherever it ends: what is found is the cause of the whole, or that somebody stopped it, or nothing."""
    whole, log = recorded(name), tmp_path / ".openshift_install.log"
    log.write_bytes(whole.replace("\n", "\r\n").encode())
    assert [one.rule for one in explain(RULES, read_run(tmp_path))] == RUNS[name]
    for part in range(48):
        log.write_text(whole[: len(whole) * part // 48])
        found = {one.rule for one in explain(RULES, read_run(tmp_path))}
        assert found <= {*RUNS[name], "installer/interrupted"}, part


@pytest.mark.parametrize(
    "text",
    [
        "", "\0" * 1000, "level=error msg=", 'level=error msg="', "level=error msg=" + "x" * (4 << 20), "\n" * 100_000,
        'time="2026-01-01T00:00:00Z" level=fatal msg="Zeitüberschreitung beim Warten auf die Bedingung"',
        'time="2026-01-01T09:00:00+09:00" level=error msg="ブートストラップに失敗しました"',
        "level=error msg=" + "\\" * (1 << 20), "level=error msg=" + "://" * (1 << 18),
        "level=error msg=" + "password: " * (1 << 17),
    ],
    ids=["empty", "zeros", "no words", "half a quote", "one long line", "empty lines", "German", "Japanese, another zone",
         "backslashes", "colons and slashes", "passwords"],
)  # fmt: skip
def test_odd_logs_lead_to_nothing(text: str, tmp_path: Path) -> None:
    (tmp_path / ".openshift_install.log").write_text(text)
    assert explain(RULES, read_run(tmp_path)) == []


def test_a_folder_without_a_run_is_said_to_be_one(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no run of openshift-install"):
        read_run(tmp_path)
    os.mkfifo(tmp_path / ".openshift_install.log")
    with pytest.raises(InputError, match="it is no file"):
        read_run(tmp_path)
    (tmp_path / ".openshift_install.log").unlink()
    (tmp_path / ".openshift_install.log").write_text(said("failed to create bootstrap: bad status: 404") + "\n")
    assert [one.rule for one in explain(RULES, read_run(tmp_path))] == ["installer/iso-not-found"]
