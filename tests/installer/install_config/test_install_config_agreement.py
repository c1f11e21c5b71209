"""Against the real installer's verdicts, where they are at hand."""

import json
from pathlib import Path

import pytest

from rackless.installer.install_config.checking import check
from rackless.installer.install_config.findings import CheckReport, Severity
from rackless.installer.install_config.live import here
from rackless.installer.install_config.release import NEWEST

_DATA = Path(__file__).parents[3].parent / "shared" / "data" / "install-config"
_CASES = sorted(path.stem for path in _DATA.glob("*.yaml"))

pytestmark = pytest.mark.skipif(not _CASES, reason="the recorded verdicts of the installer are not at hand")


def _report(case: str) -> CheckReport:
    return check((_DATA / f"{case}.yaml").read_text(), NEWEST, here.site())


@pytest.mark.parametrize("case", _CASES)
def test_the_verdict_and_the_phase_are_those_of_the_installer(case: str) -> None:
    expected = json.loads((_DATA / f"{case}.expected.json").read_text())
    report = _report(case)
    rejected = report.rejected_at
    said = [(finding.rule, finding.path, finding.message) for finding in report.findings]
    assert (rejected.value if rejected else "none") == expected["rejectedAt"], said
    assert report.accepted == expected["accepted"]


@pytest.mark.parametrize("case", [case for case in _CASES if case.startswith("bad-")])
def test_every_field_the_installer_names_is_named(case: str) -> None:
    expected = json.loads((_DATA / f"{case}.expected.json").read_text())
    # the second look at hosts, in the cluster phase, has lost its prefix in the installer
    named = {one["field"] for one in expected["loadPhase"] + expected["clusterPhase"]}
    named = {field for field in named if not field.startswith("platform.hosts")}
    assert named <= {finding.path for finding in _report(case).findings}


@pytest.mark.parametrize("case", [case for case in _CASES if case.startswith("good-")])
def test_a_sensible_file_gets_nothing_above_a_warning(case: str) -> None:
    assert _report(case).clean


def test_at_least_four_of_five_doubtful_files_are_doubted() -> None:
    doubtful = [case for case in _CASES if case.startswith("ok-")]
    always = {"pull-secret-complete"}  # said of every recorded file
    found = [case for case in doubtful if {finding.rule for finding in _report(case).findings} - always]
    assert len(found) >= 0.8 * len(doubtful), set(doubtful) - set(found)


def test_what_cannot_work_is_said_to_be_fatal() -> None:
    for case in ("ok-vip-is-broadcast", "ok-boot-mac-garbage", "ok-dhcp-range-reversed", "ok-hostprefix-32"):
        assert any(finding.severity is Severity.FATAL_LATER for finding in _report(case).findings), case
