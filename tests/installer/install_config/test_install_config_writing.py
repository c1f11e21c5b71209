"""What is written passes our own check, for every release and every kind of cluster; golden files show the words.

Run with RACKLESS_WRITE_GOLDEN=1 to write the golden files anew.
"""

import base64
import json
import os
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from rackless.cli.commands.install_config import install_config
from rackless.errors import InputError
from rackless.installer.install_config.checking import check
from rackless.installer.install_config.cluster_input import ClusterInput
from rackless.installer.install_config.findings import Severity
from rackless.installer.install_config.release import NEWEST, RELEASES, Release
from rackless.installer.install_config.writing import render, write
from rackless.run.paths import LabPaths, Roots

_GOLDEN = Path(__file__).parent / "golden"
_MODES = (
    "compact three-and-two managed-ipmi managed-redfish unmanaged-redfish arbiter fencing static-bootstrap "
    "static-hosts "
    "vlan-hosts proxy mirrors dual-stack own-load-balancer"
).split()  # fmt: skip


def _by_release(wanted: ClusterInput) -> str:
    """Every rendering, those of neighbouring releases that are the same only once."""
    groups: list[tuple[list[Release], str]] = []
    for release in RELEASES:
        try:
            text = write(replace(wanted, release=release))
        except InputError as error:
            text = f"# refused: {error.why}\n"
        if groups and groups[-1][1] == text:
            groups[-1][0].append(release)
        else:
            groups.append(([release], text))
    return "\n".join(f"##### {' '.join(map(str, releases))}\n{text}" for releases, text in groups)


@pytest.mark.parametrize("mode", _MODES)
def test_what_is_written_for_a_release_is_in_its_words(mode: str, every_mode: dict[str, ClusterInput]) -> None:
    text = _by_release(every_mode[mode])
    golden = _GOLDEN / f"{mode}.txt"
    if os.environ.get("RACKLESS_WRITE_GOLDEN"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(text)
    assert text == golden.read_text()


def test_every_mode_has_a_golden_file(every_mode: dict[str, ClusterInput]) -> None:
    assert set(every_mode) == set(_MODES)


@pytest.mark.parametrize("mode", _MODES)
def test_the_newest_release_takes_every_mode_without_deprecated_fields(
    mode: str, every_mode: dict[str, ClusterInput]
) -> None:
    report = check(render(every_mode[mode]), NEWEST)
    assert report.clean
    assert not [finding for finding in report.findings if finding.rule in ("deprecated", "unknown-key", "key-case")]


def test_a_release_that_lacks_the_words_is_refused_with_the_reason(every_mode: dict[str, ClusterInput]) -> None:
    with pytest.raises(InputError, match=r"needs 4\.11"):
        render(replace(every_mode["static-bootstrap"], release=Release(4, 10)))


def test_input_that_cannot_work_is_refused(make_compact: Callable[[], ClusterInput]) -> None:
    with pytest.raises(InputError, match="broadcast"):
        write(replace(make_compact(), api_vips=("192.168.111.255",)))


def test_no_secret_is_in_a_repr(make_compact: Callable[[], ClusterInput]) -> None:
    shown = repr(make_compact())
    assert "not a secret" not in shown
    assert "auths" not in shown


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_compact: Callable[[], ClusterInput]) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "id_ed25519.pub").write_text(make_compact().ssh_key)
    (tmp_path / "pull-secret.json").write_text(make_compact().pull_secret)
    (tmp_path / "password").write_text("hunter2\n")
    return tmp_path


@pytest.mark.parametrize("version", ["4.6", "4.12", "4.19", "5.1"])
def test_the_default_lab_becomes_a_private_file_that_passes(home: Path, version: str) -> None:
    output = home / "out.yaml"
    arguments = ["--version", version, "-o", str(output), "--bmc-password-file", str(home / "password")]
    result = CliRunner().invoke(install_config, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert "hunter2" not in result.output and "auths" not in result.output
    assert stat.S_IMODE(output.stat().st_mode) == 0o600
    report = check(output.read_text(), Release(*map(int, version.split("."))))
    assert not [finding for finding in report.findings if finding.severity is not Severity.WARNING]
    again = CliRunner().invoke(install_config, arguments)
    assert isinstance(again.exception, InputError)


def test_the_password_of_the_lab_itself_is_found(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RACKLESS_STATE", str(home / "state"))
    output = home / "out.yaml"
    missing = CliRunner().invoke(install_config, ["-o", str(output)])
    assert isinstance(missing.exception, InputError) and "rackless up" in missing.exception.hint
    password = LabPaths(Roots.from_environment(), "lab").secrets / "bmc.password"
    password.parent.mkdir(parents=True)
    password.write_text("hunter3\n")
    assert CliRunner().invoke(install_config, ["-o", str(output)], catch_exceptions=False).exit_code == 0
    assert output.read_text().count("password: hunter3") == 4


def test_a_pull_secret_that_has_expired_is_refused(home: Path) -> None:
    token = "e30.eyJleHAiOiAxMDAwfQ.x"  # a JSON web token with {"exp": 1000}
    auth = base64.b64encode(f"user:{token}".encode()).decode()
    (home / "pull-secret.json").write_text(json.dumps({"auths": {"quay.io": {"auth": auth}}}))
    arguments = ["-o", str(home / "out.yaml"), "--bmc-password-file", str(home / "password")]
    result = CliRunner().invoke(install_config, arguments)
    assert isinstance(result.exception, InputError) and "expired" in str(result.exception)
    assert token not in str(result.exception)
