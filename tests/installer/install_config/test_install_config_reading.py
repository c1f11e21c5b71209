"""Reading YAML as the installer does, and surviving whatever is fed to it."""

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rackless.cli.commands.check import check as command
from rackless.installer.install_config.checking import check
from rackless.installer.install_config.cluster_input import ClusterInput
from rackless.installer.install_config.document import resolve
from rackless.installer.install_config.findings import CheckReport, InstallerPhase, Severity
from rackless.installer.install_config.release import NEWEST, RELEASES, Release
from rackless.installer.install_config.schema import ROOT
from rackless.installer.install_config.schema_baremetal import BAREMETAL
from rackless.installer.install_config.schema_fields import FieldType, Items, Struct
from rackless.installer.install_config.writing import render

_quiet = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


def _rules(report: CheckReport) -> set[str]:
    return {finding.rule for finding in report.findings}


@pytest.fixture(scope="module")
def good(make_compact: Callable[[], ClusterInput]) -> str:
    return render(make_compact())


@pytest.mark.parametrize(
    ("text", "value"),
    [("y", True), ("off", False), ("~", None), ("0x10", 16), ("010", 8), ("1_000", 1000), ("1.5", 1.5), ("-3", -3),
     ("52:54:00:00:00:01", "52:54:00:00:00:01"), ("2026-01-01", "2026-01-01"), ("1.2.3.4", "1.2.3.4"), ("+", "+")],
)  # fmt: skip
def test_plain_scalars_mean_what_they_mean_to_go(text: str, value: object) -> None:
    assert resolve(text) == value and type(resolve(text)) is type(value)


def test_a_key_written_twice_is_rejected_while_reading(good: str) -> None:
    report = check(good + "baseDomain: other.example.com\n")
    assert report.rejected_at is InstallerPhase.UNMARSHAL
    assert any("already set" in finding.message for finding in report.findings)


def test_an_unknown_key_is_an_error_from_4_22_on_and_a_warning_before(good: str) -> None:
    assert check(good + "foo: 1\n", Release(4, 22)).rejected_at is InstallerPhase.UNMARSHAL
    before = check(good + "foo: 1\n", Release(4, 21))
    assert before.accepted and "unknown-key" in _rules(before)


def test_a_misspelt_key_is_answered_with_the_right_one(good: str) -> None:
    (finding,) = [one for one in check(good + "baseDomian: x\n").findings if one.rule == "unknown-key"]
    assert "baseDomain" in finding.fix


def test_a_field_that_does_not_exist_yet_is_said_with_its_release(good: str) -> None:
    text = good.replace("externalBridge:", "bootstrapExternalStaticIP: 192.168.111.9\n    externalBridge:")
    found = [one for one in check(text, Release(4, 10)).findings if one.rule == "unknown-key"]
    assert any(one.severity is Severity.FATAL_LATER and "4.11" in one.message for one in found)


def test_a_number_where_a_text_belongs_is_taken_as_text_and_not_the_other_way(good: str) -> None:
    assert check(good.replace("name: lab", "name: 123")).accepted
    assert check(good.replace("replicas: 3", 'replicas: "3"')).rejected_at is InstallerPhase.UNMARSHAL
    assert check(good.replace("replicas: 3", "replicas: 3.0")).accepted
    assert check(good.replace("replicas: 3", "replicas: 3.5")).rejected_at is InstallerPhase.UNMARSHAL


def test_an_empty_host_panics(good: str) -> None:
    assert check(good.replace("    hosts:\n", "    hosts:\n      - null\n")).rejected_at is InstallerPhase.PANIC


def test_only_the_first_document_counts(good: str) -> None:
    report = check(good + "---\nfoo: [\n")
    assert report.accepted
    assert "one-document" in _rules(check(good + "---\nfoo: 1\n"))


def test_an_old_field_beside_the_new_one_is_rejected_in_conversion(good: str) -> None:
    text = good.replace("    externalBridge:", "    apiVIP: 192.168.111.77\n    externalBridge:")
    assert check(text).rejected_at is InstallerPhase.CONVERT


def test_no_version_is_rejected_in_conversion() -> None:
    assert check("").rejected_at is InstallerPhase.CONVERT


def test_a_wrong_type_is_complained_of_once(good: str) -> None:
    start, end = good.index("    hosts:"), good.index("pullSecret:")
    report = check(good[:start] + "    hosts: seven\n" + good[end:])
    assert [one.rule for one in report.findings if one.severity is Severity.ERROR] == ["type"]


@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "? ", "&a [*a, "])
def test_deep_nesting_is_an_answer_not_a_crash(opening: str) -> None:
    for count in (100, 1000, 200_000):
        assert not check(opening * count).accepted


def test_aliases_that_multiply_cost_nothing(good: str) -> None:
    bomb = "a0: &a0 [1, 2, 3]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 40))
    nested = "".join(f"      {line}\n" for line in bomb.splitlines())
    text = good.replace(
        "        role: master\n",
        "        role: master\n        networkConfig:\n" + nested.replace("      a", "          a"),
        1,
    )
    assert check(text)
    assert check(bomb)


@_quiet
@given(st.text())
@example("\x00")
@example("\ud800")
@example("? [a]: b")
@example("<<: 1\n<<: [2, {a: 1}]")
@example("!!binary x: !!int y")
@example("apiVersion: !!python/object:os.system x")
def test_any_text_gets_an_answer(text: str) -> None:
    check(text)


@_quiet
@given(seed=st.integers(0, 10**9), release=st.sampled_from(RELEASES))
def test_a_damaged_file_gets_an_answer(good: str, seed: int, release: Release) -> None:
    chance = random.Random(seed)
    lines = good.splitlines()
    for _ in range(chance.randint(1, 6)):
        where = chance.randrange(len(lines))
        kind = chance.randrange(6)
        if kind == 0:
            del lines[where]
        elif kind == 1:
            lines.insert(where, lines[chance.randrange(len(lines))])
        elif kind == 2:
            lines[where] = (
                lines[where].partition(":")[0]
                + ": "
                + chance.choice(
                    ["null", "[]", "{}", "7", "-1", "true", "'x'", "1e400", "0x", "*a", "&a b", "|", "[null]"]
                )
            )
        elif kind == 3:
            lines[where] = lines[where][chance.randint(0, 3) :]
        elif kind == 4:
            cut = chance.randrange(len(lines[where]) + 1)
            lines[where] = lines[where][:cut] + chance.choice("\t\"'{}[]:,#&*!|>%@`\x07é") + lines[where][cut:]
        else:
            lines[where] = " " * chance.randint(0, 4) + lines[where]
        if not lines:
            break
    check("\n".join(lines), release)


_odd = st.sampled_from(["192.168.111.5", "fd00::/64", "{}", "http://[", "redfish://"])
_trees = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=12), _odd),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=8), inner, max_size=4)),
    max_leaves=8,
)  # fmt: skip


@_quiet
@given(data=st.data())
def test_any_value_in_any_field_gets_an_answer(data: st.DataObject) -> None:
    def draw(kind: FieldType, depth: int) -> object:
        if data.draw(st.integers(0, 7)) == 0:
            return data.draw(_trees)
        if isinstance(kind, Items):
            return [draw(kind.of, depth) for _ in range(data.draw(st.integers(0, 2)))]
        if isinstance(kind, Struct):
            fields = data.draw(st.lists(st.sampled_from(kind.fields), max_size=6)) if kind.fields else []
            return {one.name: draw(one.type, depth + 1) for one in fields}
        return data.draw(_trees)

    tree: dict[str, object] = {"apiVersion": "v1", "platform": {"baremetal": draw(BAREMETAL, 0)}}
    chosen = data.draw(st.lists(st.sampled_from(ROOT.fields), max_size=5))
    tree.update({one.name: draw(one.type, 0) for one in chosen})
    check(json.dumps(tree), data.draw(st.sampled_from(RELEASES)))


def test_the_command_says_one_object_a_line_and_the_worst_exit_code(good: str, tmp_path: Path) -> None:
    fine, bad = tmp_path / "fine.yaml", tmp_path / "bad.yaml"
    fine.write_text(good)
    bad.write_bytes(good.encode() + b"\xff\xfe: 1\n")
    result = CliRunner().invoke(command, ["install-config", "--json", str(fine), str(bad)])
    assert result.exit_code == 10
    first, second = map(json.loads, result.output.splitlines())
    assert first["installer"] == {"accepted": True, "rejectedAt": "none"} and first["version"] == str(NEWEST)
    assert second["installer"]["rejectedAt"] == "unmarshal"
    assert {"severity", "path", "line", "message", "fix"} <= set(second["findings"][0])
    assert CliRunner().invoke(command, ["install-config", str(fine)]).exit_code == 0
    assert CliRunner().invoke(command, ["install-config", str(bad), str(tmp_path / "none")]).exit_code == 2


def test_the_command_shows_the_line_with_a_marker_and_never_a_secret(good: str, tmp_path: Path) -> None:
    file = tmp_path / "install-config.yaml"
    file.write_text(good.replace("- 192.168.111.5", "- 192.168.111.255").replace('"dTpw"', '"topsecret!"'))
    shown = CliRunner().invoke(command, ["install-config", str(file)]).output
    assert "- 192.168.111.255\n" in shown and "^" in shown
    assert "topsecret" not in shown and "not a secret" not in shown
    assert "the installation cannot succeed" in shown.splitlines()[-1]


def test_a_bridge_can_be_named(good: str, tmp_path: Path) -> None:
    file = tmp_path / "install-config.yaml"
    file.write_text(good.replace("externalBridge: baremetal", "externalBridge: br-of-mine"))
    assert CliRunner().invoke(command, ["install-config", str(file)]).exit_code == 10
    assert CliRunner().invoke(command, ["install-config", "--bridge", "br-of-mine", str(file)]).exit_code == 0
