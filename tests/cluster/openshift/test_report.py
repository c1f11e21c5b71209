"""The report of a rehearsal: every line is said, also what was not reached and what cannot be proven."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from rackless.cli import rehearsal_view
from rackless.cluster.openshift.faults import EXPECTED, STORIES, InstallFault
from rackless.cluster.openshift.report import (
    BOOT_NETWORK,
    FULL_SUBJECTS,
    NOT_PROVEN,
    SUBJECTS,
    LineVerdict,
    Report,
)
from rackless.drivers.clock import SystemClock
from rackless.installer.install_config.live.probe import Probe, ProbeOutcome
from rackless.operations.rehearsal.findings import RunFindings


def _done() -> Report:
    report = Report("site.example.net", expected=0, exit_code=0, seconds=90.0)
    report.phases = {"lab": 0.0, "installer": 30.0, "api": 40.0}
    for subject in SUBJECTS:
        report.add(subject, True, f"{subject} was seen")
    report.close()
    return report


def test_a_rehearsal_is_good_when_every_line_is_proven() -> None:
    report = _done()
    assert report.good and report.as_json()["failed"] == [] and report.as_json()["notReached"] == []
    assert report.durations() == {"lab": 30.0, "installer": 10.0, "api": 50.0}
    report.add("BMC access", False, "m-1: it refuses the account", "correct bmc.username")
    assert not report.good


def test_what_was_not_reached_is_said_and_is_not_good() -> None:
    report = Report("site.example.net", expected=0)
    report.add("install-config", True, "accepted")
    report.add("exit code", False, "4: the infrastructure could not be made", "see its log")
    report.close()
    assert not report.good
    assert [finding.subject for finding in report.findings] == list(SUBJECTS)
    assert {one.verdict for one in report.findings if one.subject == "hand-over"} == {LineVerdict.NOT_REACHED}


def test_a_failure_on_demand_is_good_when_the_installer_ends_as_at_a_site() -> None:
    for fault in InstallFault:
        report = Report("site.example.net", fault=fault.value, expected=EXPECTED.get(fault, 8), exit_code=0)
        assert report.good == (fault is InstallFault.NO_CONSOLE)
        assert STORIES[fault]


def test_programs_read_it_as_json_and_junit() -> None:
    report = _done()
    report.add("BMC access", False, "m-1: <refused> & gone", "correct it")
    assert json.loads(json.dumps(report.as_json()))["failed"][0]["remedy"] == "correct it"
    suite = ElementTree.fromstring(report.as_junit())
    cases = suite.findall("testcase")
    assert suite.get("failures") == "1" == str(len(suite.findall("testcase/failure")))
    assert suite.get("tests") == str(len(cases)) == str(len(SUBJECTS) + 1 + len(NOT_PROVEN))
    assert suite.get("skipped") == str(len(NOT_PROVEN)) == str(len(suite.findall("testcase/skipped")))


def test_whatever_was_seen_the_junit_file_is_xml_with_one_case_for_each_line() -> None:
    """Consoles say things that XML has no way to say."""
    report = _done()
    report.add("BMC access", False, '\x1b[31mred\x00\ud800 \ufffe <&> "quoted"\n\ttab \U0001f4a9', "mend\x07 it")
    report.fault = InstallFault.HOST_ERROR.value
    text = report.as_junit()
    suite = ElementTree.fromstring(text.encode())  # as a program reads the file
    (failure,) = suite.findall("testcase/failure")
    assert (
        "red" in str(failure.get("message"))
        and "<&>" in str(failure.get("message"))
        and failure.text == "mend\ufffd it"
    )
    names = [(case.get("classname"), case.get("name")) for case in suite.findall("testcase")]
    assert len(set(names)) == len(names) and all(all(name) for name in names)
    counted = {name: int(str(suite.get(name))) for name in ("tests", "failures", "errors", "skipped")}
    assert counted == {"tests": len(names), "failures": 1, "errors": 0, "skipped": len(NOT_PROVEN)}
    assert float(str(suite.get("time"))) == 90.0


@pytest.mark.parametrize("subject", [*FULL_SUBJECTS, BOOT_NETWORK, "something new"])
def test_whatever_fails_has_a_remedy(subject: str) -> None:
    report = Report("site.example.net", expected=0)
    report.add(subject, False, "it was not good")
    report.add_probe(Probe("master-0", ProbeOutcome.FAILED, subject, "no answer"))
    assert all(len(line.remedy) > 20 for line in report.findings)
    assert all(one["remedy"] for one in report.as_json()["failed"])


@pytest.mark.parametrize("code", [1, 2, 3, 4, 5, 6, 7, 8, 124])
def test_however_the_installer_ends_there_is_something_to_do(code: int) -> None:
    report = Report("site.example.net", expected=0)
    findings = RunFindings(report, SystemClock())
    findings.phase("bootstrap destroyed")
    findings.phase("hand-over")
    findings.judge(code)
    assert {one.subject for one in report.findings} == {"hand-over", "exit code"}
    assert all(one.remedy and one.remedy != one.saw for one in report.findings)


def test_people_are_told_what_to_do_and_what_was_not_proven() -> None:
    report = _done()
    report.add("DNS forward", False, "api.site.example.net: is not known", "it must resolve to 10.20.30.5")
    with CliRunner().isolation() as (out, *_):
        rehearsal_view.show(report)
        text = out.getvalue().decode()
    assert "do: it must resolve to 10.20.30.5" in text and "not ready" in text
    for words in NOT_PROVEN:
        assert words in text
