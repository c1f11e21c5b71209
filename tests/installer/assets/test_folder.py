"""`rackless install` on a real folder: files, modes, exit codes, the log, commands at the same time."""

import fcntl
import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from rackless.cli.main import main
from rackless.installer.assets.catalogue import GRAPH
from rackless.installer.assets.drawing import redraw
from rackless.installer.install_config.checking import check
from rackless.operations.install.assets import LOG, STATE
from tests.installer.assets.conftest import install_config

Site = Callable[..., Path]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """`rackless install …` as a person runs it: exit code, and everything that was shown."""

    def run(*words: object) -> tuple[int, str]:
        monkeypatch.setattr("sys.argv", ["rackless", "install", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        shown = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, shown.out + shown.err

    return run


Run = Callable[..., tuple[int, str]]


def test_an_install_config_is_written_anew_with_everything_said(site: Site, run: Run) -> None:
    folder = site()
    assert run("create", "install-config", "--dir", folder)[0] == 0
    text = (folder / "install-config.yaml").read_text()
    metal = yaml.safe_load(text)["platform"]["baremetal"]
    assert metal["externalBridge"] == "baremetal" and metal["hosts"][0]["bootMode"] == "UEFI"
    assert re.fullmatch("52:54:00(:[0-9a-f]{2}){3}", metal["externalMACAddress"])
    assert metal["externalMACAddress"] != metal["provisioningMACAddress"]
    assert check(text).clean
    assert run("create", "install-config", "--dir", folder)[0] == 0
    assert (folder / "install-config.yaml").read_text() == text  # the MACs too


def test_everything_in_the_folder_is_for_its_owner_only(site: Site, run: Run) -> None:
    folder = site()
    assert run("create", "install-config", "--dir", folder)[0] == 0
    for path in folder.rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path


def test_the_log_tells_what_was_done_and_no_secret(site: Site, run: Run) -> None:
    folder = site()
    assert run("create", "install-config", "--dir", folder)[0] == 0
    log = (folder / LOG).read_text()
    assert 'level=info msg="Install-Config created in:' in log and "level=debug" in log
    assert not re.search("hunter|aHVudGVy", log)


def test_all_mistakes_are_told_with_file_and_line_and_nothing_is_changed(site: Site, run: Run) -> None:
    folder = site()
    bad = install_config().replace("192.168.111.4]", "10.9.9.9]").replace("name: master-1", "name: Master_1")
    (folder / "install-config.yaml").write_text(bad)
    code, said = run("create", "install-config", "--dir", folder)
    assert code == 3
    lines = bad.splitlines()
    vip, name = (number for number, line in enumerate(lines, 1) if "10.9.9.9" in line or "Master_1" in line)
    assert f"install-config.yaml:{vip}: " in said and f"install-config.yaml:{name}: " in said
    assert (folder / "install-config.yaml").read_text() == bad and not (folder / STATE).exists()
    assert "level=fatal" in (folder / LOG).read_text()


def test_a_folder_without_an_install_config_ends_with_3_and_says_how_to_get_one(tmp_path: Path, run: Run) -> None:
    code, said = run("create", "install-config", "--dir", tmp_path / "new")
    assert code == 3 and "rackless install-config -o" in said


def test_another_platform_is_refused(site: Site, run: Run) -> None:
    folder = site()
    text = install_config()
    start, end = text.index("  baremetal:"), text.index("pullSecret")
    (folder / "install-config.yaml").write_text(text[:start] + "  none: {}\n" + text[end:])
    code, said = run("create", "install-config", "--dir", folder)
    assert code == 3 and "only bare metal" in said


def test_two_commands_in_one_folder_do_not_meet(site: Site, run: Run) -> None:
    folder = site()
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        code, said = run("create", "install-config", "--dir", folder)
    finally:
        os.close(handle)
    assert code == 1 and "another command works in" in said


def test_what_is_not_a_text_or_too_large_is_refused_by_name(site: Site, run: Run) -> None:
    folder = site()
    (folder / "install-config.yaml").write_bytes(b"\xff\xfe")
    code, said = run("create", "install-config", "--dir", folder)
    assert code == 1 and "install-config.yaml is not a text" in said
    with (folder / "install-config.yaml").open("wb") as file:
        file.truncate(9 << 20)
    code, said = run("create", "install-config", "--dir", folder)
    assert code == 1 and "too large" in said


def test_a_damaged_state_ends_with_1_and_is_left_as_it_is(site: Site, run: Run) -> None:
    folder = site()
    (folder / STATE).write_text("{")
    code, said = run("create", "install-config", "--dir", folder)
    assert code == 1 and "damaged" in said and (folder / STATE).read_text() == "{"


def test_a_program_is_told_in_json(site: Site, run: Run) -> None:
    folder = site()
    code, said = run("create", "install-config", "--dir", folder, "--json")
    assert code == 0 and json.loads(said)["folders"] == [str(folder)]
    (folder / "install-config.yaml").write_text("{}")
    code, said = run("create", "install-config", "--dir", folder, "--json")
    error = json.loads(said)["error"]
    assert code == error["exit_code"] == 3 and "install-config.yaml:1:" in error["why"]


@pytest.mark.parametrize("form", ["text", "dot", "mermaid"])
def test_the_graph_is_drawn_with_every_asset(run: Run, form: str) -> None:
    code, said = run("graph", "--as", form)
    assert code == 0
    for asset in GRAPH.assets:
        assert asset.name.replace("-", "_" if form == "mermaid" else "-") in said


def test_the_graph_in_the_documentation_is_current() -> None:
    page = (Path(__file__).parents[3] / "docs/explanation/installer.md").read_text()
    assert page == redraw(page, GRAPH), "run scripts/docs"
    for target in GRAPH.targets:
        assert f"rackless install create {target.name}" in page


def test_from_an_install_config_to_ignition_configs_step_by_step(site: Site, run: Run) -> None:
    folder = site()
    for target in ("install-config", "manifests", "ignition-configs"):
        assert run("create", target, "--dir", folder)[0] == 0
    left = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert left == {STATE, LOG, "bootstrap.ign", "master.ign", "worker.ign", "metadata.json", "auth/kubeconfig"}
    assert not (folder / "manifests").exists() and not (folder / "openshift").exists()
    for path in folder.rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path
    assert not re.search("hunter|aHVudGVy|PRIVATE|token", (folder / LOG).read_text())


def test_mistakes_in_manifests_end_with_1_and_those_of_the_install_config_with_3(site: Site, run: Run) -> None:
    folder = site()
    assert run("create", "manifests", "--dir", folder)[0] == 0
    (folder / "openshift/mine.yaml").write_text("kind: ConfigMap\n")
    code, said = run("create", "ignition-configs", "--dir", folder)
    assert code == 1 and "openshift/mine.yaml:1: apiVersion is missing" in said
    assert (folder / "manifests").exists()
    (folder / "install-config.yaml").write_text("{}")
    code, said = run("create", "ignition-configs", "--dir", folder)
    assert code == 3 and "openshift/mine.yaml:1:" in said and "install-config.yaml:1:" in said
