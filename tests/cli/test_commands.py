"""Commands as a person gives them, without a lab: what they print and how they end."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from rackless.cli.following import last_lines
from rackless.cli.handover import run_told
from rackless.cli.main import COMMANDS, cli
from rackless.errors import HypervisorError, InputError, RacklessError
from rackless.operations import this_computer
from rackless.protocol.build import fingerprint
from rackless.run.ledger import Ledger


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("STATE", "RUN", "CACHE"):
        monkeypatch.setenv(f"RACKLESS_{name}", str(tmp_path / name.lower()))


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


def walk(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    """Every command that does something, by its words."""
    if not isinstance(command, click.Group):
        yield " ".join(path), command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        inner = command.get_command(context, name)
        assert inner is not None
        yield from walk(inner, (*path, name))


def test_every_command_speaks_json() -> None:
    silent = [words for words, command in walk(cli) if not any("--json" in p.opts for p in command.params)]
    assert silent == []


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_has_help(name: str) -> None:
    done = run(name, "--help")
    assert done.exit_code == 0 and done.output.startswith("Usage:")


def test_validate_says_everything_that_is_wrong_to_programs_too() -> None:
    Path("lab.yaml").write_text("nmae: x\nservers: {a: {count: many}}\n")
    done = run("validate", "--json")
    found = json.loads(done.output)
    assert done.exit_code == 2 and not found["valid"]
    assert [(p["path"], p["line"]) for p in found["problems"]] == [("nmae", 1), ("servers.a.count", 2)]


def test_the_schema_of_a_lab_is_json_schema() -> None:
    assert json.loads(run("validate", "--schema").output)["properties"]["networks"]


def test_init_writes_a_valid_lab_and_never_over_another() -> None:
    assert run("init", "--profile", "tiny").exit_code == 0
    assert run("validate").exit_code == 0
    assert isinstance(run("init").exception, RacklessError)
    assert run("init", "--force", "--json").exit_code == 0


def test_the_plan_of_a_lab_that_is_not_there_is_to_make_all_of_it() -> None:
    found = json.loads(run("plan", "--until", "bmc", "--json").output)
    assert {action["verb"] for action in found["actions"]} == {"create", "start"}
    assert all(action["reason"] for action in found["actions"])


def test_without_labs_the_list_is_empty_and_status_says_how_to_make_one() -> None:
    assert json.loads(run("list", "--json").output) == []
    error = run("status").exception
    assert isinstance(error, RacklessError) and "rackless up" in error.hint


def test_the_doctor_has_a_fix_for_everything_it_finds_wanting() -> None:
    found = json.loads(run("doctor", "--json").output)
    assert {"root", "memory", "disk speed", "acceleration", "packages"} <= {check["about"] for check in found["checks"]}
    assert all(check["fix"] for check in found["checks"] if check["verdict"] == "missing")
    assert not Path("state").exists(), "it only looks"


def test_completion_is_a_script() -> None:
    assert "_RACKLESS_COMPLETE" in run("completion", "bash").output
    assert "_RACKLESS_COMPLETE" in json.loads(run("completion", "zsh", "--json").output)["script"]


def test_a_program_run_for_a_program_is_told_with_its_output_and_its_code() -> None:
    @click.command()
    def probe() -> None:
        run_told(["sh", "-c", "echo out; echo err >&2; exit 3"], {"lab": "x"})

    done = CliRunner().invoke(probe)
    assert done.exit_code == 3
    assert json.loads(done.output) == {"lab": "x", "returncode": 3, "stdout": "out\n", "stderr": "err\n"}


def test_uninstall_only_says_what_it_would_do_when_asked_to() -> None:
    Path("cache").mkdir()
    assert run("uninstall", "--dry-run").exit_code == 0
    assert Path("cache").exists()


def test_events_are_told_when_they_end_with_their_title(tmp_path: Path) -> None:
    logs = tmp_path / "state/lab/logs"
    logs.mkdir(parents=True)
    Ledger(tmp_path / "state/lab.ledger").own("folder", "x")
    start = {"event": "step-started", "step": "s1", "parent": None, "title": "networks", "at": 0}
    end = {"event": "step-finished", "step": "s1", "outcome": "done", "seconds": 1.25, "detail": "", "at": 1}
    note = {
        "seq": 3,
        "event": "note",
        "step": None,
        "message": "room is low",
        "at": 2,
        "level": "warning",
        "subject": "",
    }
    lines = [json.dumps(start), '{"event": "no', json.dumps(end), json.dumps(note)]
    (logs / "events.jsonl").write_text("\n".join(lines) + "\n")
    told = run("events", "--name", "lab").output.splitlines()
    assert len(told) == 2 and told[0].endswith("done       networks  1.2 s") and told[1].endswith("room is low")
    assert run("events", "--name", "lab", "-n", "1").output.splitlines() == told[1:]
    programs = [json.loads(line) for line in run("events", "--name", "lab", "--json").output.splitlines()]
    assert [(one["seq"], one["event"]) for one in programs] == [(1, "step-started"), (2, "step-finished"), (3, "note")]
    since = run("events", "--name", "lab", "--json", "--since", "2").output.splitlines()
    assert [json.loads(line)["seq"] for line in since] == [3]
    assert run("events", "--name", "lab", "--hear", "host/*").output == ""


def test_the_last_lines_of_a_file_are_found_from_its_end(tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.write_text("".join(f"{number}\n" for number in range(50_000)))
    assert list(last_lines(file, 3)) == ["49997", "49998", "49999"]
    assert list(last_lines(tmp_path / "nowhere", 3)) == []


def test_explain_knows_every_field_by_its_path_and_guesses_at_others() -> None:
    assert "change: restart" in run("explain", "servers.NAME.memory").output
    assert run("explain", "lab.networks.bmc.access").output == run("explain", "networks.bmc.access").output
    assert json.loads(run("explain", "networks.cluster.routes", "--json").output)[1]["path"].endswith("routes[].to")
    error = run("explain", "networks.cluster.dhpc").exception
    assert isinstance(error, RacklessError) and error.hint == "did you mean networks.cluster.dhcp?"
    for asked, meant in (("lab.network.link", "networks.cluster.link"), ("bmc.allow", "networks.bmc.allow")):
        error = run("explain", asked).exception
        assert isinstance(error, RacklessError) and error.hint == f"did you mean {meant}?", asked


HOST_VERBS = ("inspect", "clean", "retry", "deprovision", "adopt")


@pytest.mark.parametrize("verb", HOST_VERBS)
def test_what_is_asked_of_a_host_needs_a_lab(verb: str) -> None:
    error = run("host", verb, "ctrl-0").exception
    assert isinstance(error, RacklessError) and error.what == "there is no lab named lab"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--image", "ftp://192.0.2.1/a"], "neither an http URL nor a file"),
        ([], "Missing option '--image'"),
        (["--image", "a.raw", "--format", "vmdk"], "'vmdk' is not one of"),
        (["--image", "a.raw", "--user-data", "nowhere.ign"], "does not exist"),
    ],
)
def test_mistakes_in_what_a_host_should_run_are_named(options: list[str], said: str) -> None:
    done = run("host", "provision", "ctrl-0", *options)
    assert done.exit_code != 0
    assert said in f"{done.output} {done.exception}"


def test_an_image_at_a_url_needs_its_checksum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    (tmp_path / "state").mkdir()
    Ledger(tmp_path / "state/lab.ledger").own("folder", "x")
    error = run("host", "provision", "ctrl-0", "--image", "http://192.0.2.1/a.raw").exception
    assert isinstance(error, RacklessError) and error.what == "an image at a URL needs its checksum"


def test_who_cannot_write_into_a_lab_sends_it_what_they_can_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    (tmp_path / "state").mkdir()
    Ledger(tmp_path / "state/lab.ledger").own("folder", "x")
    (tmp_path / "a.iso").write_bytes(bytes(0x8001) + b"CD001" + bytes(2000))
    for file, said in (("missing.iso", "cannot be read"), ("a.iso", "the lab's daemon does not answer")):
        for words in (["host", "provision", "ctrl-0", "--image", file], ["bmc", "media", "insert", "ctrl-0", file]):
            error = run(*words).exception
            assert isinstance(error, RacklessError)
            assert said in error.what
    assert not (tmp_path / "state/lab").exists(), "nothing is placed there"


def test_the_version_tells_the_build_and_its_components() -> None:
    lines = run("--version").output.splitlines()
    assert lines[0].startswith("rackless, version ") and "aiohttp" in run("--version").output
    assert lines[1].split() == ["build", fingerprint()]
    assert re.fullmatch(r"  libvirt +\d+\.\d+\.\d+", lines[3])


def test_the_version_tells_how_to_have_libvirts_binding_where_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> str:
        raise HypervisorError(
            "the Python binding of libvirt is not installed", hint="install it: apt-get install python3-libvirt"
        )

    monkeypatch.setattr(this_computer, "library_version", missing)
    assert "is not installed: install it: apt-get install python3-libvirt" in run("--version").output


def test_a_lab_is_named_by_an_argument_an_option_or_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    def meant(*words: str) -> str:
        error = run(*words).exception
        assert isinstance(error, RacklessError)
        return error.what

    assert meant("stop", "this") == meant("down", "--name", "this") == "there is no lab named this"
    assert "two labs are named" in run("start", "this", "--name", "that").output
    monkeypatch.setenv("RACKLESS_LAB", "those")
    assert meant("start") == meant("status") == "there is no lab named those"
    for command in ("start", "status", "events", "gather", "kubeconfig"):
        assert meant(command, "this") == "there is no lab named this", command
    assert meant("bmc", "fault", "list") == meant("bmc", "list") == "there is no lab named those"
    assert json.loads(run("plan", "--json").output)["lab"] == "those", "of the lab that is made without a description"
    Path("lab.yaml").write_text("name: written\nservers: {a: {count: 1}}\n")
    for command in ("up", "plan"):
        error = run(command).exception
        assert isinstance(error, InputError) and "two labs are named: those by RACKLESS_LAB, and written" in error.what
        assert "--name those, or -f lab.yaml" in error.hint
    assert run("validate").output.startswith("lab.yaml is a lab: written")
    assert json.loads(run("plan", "-f", "lab.yaml", "--json").output)["lab"] == "written"
    assert meant("status", "-f", "lab.yaml") == "there is no lab named written", "what is said counts"
    assert json.loads(run("destroy", "this", "--json").output) == {"lab": "this", "there": False}


def test_fields_are_explained_by_the_way_people_say_them() -> None:
    assert run("explain", "lab.servers.memory").output == run("explain", "servers.NAME.memory").output != ""
    below = [one["path"] for one in json.loads(run("explain", "networks", "--json").output)]
    assert "networks.bmc" in below and "networks.bmc.access" not in below
    deep = [one["path"] for one in json.loads(run("explain", "networks", "--recursive", "--json").output)]
    assert set(below) < set(deep) and "networks.bmc.access" in deep


def test_a_log_is_followed_by_one_letter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logs = tmp_path / "state/lab/logs"
    logs.mkdir(parents=True)
    Ledger(tmp_path / "state/lab.ledger").own("folder", "x")
    (logs / "labd.log").write_text("one\ntwo\n")
    monkeypatch.setattr("rackless.cli.commands.logs.follow", lambda path, lines: iter([f"{path.name} from {lines}"]))
    assert run("logs", "labd", "-f", "-n", "5").output == "labd.log from 5\n"
    assert run("logs", "labd", "-n", "1").output == "two\n"


@pytest.mark.parametrize("verb", ["clean", "deprovision"])
def test_what_erases_a_host_is_asked_first(tmp_path: Path, verb: str) -> None:
    (tmp_path / "state").mkdir()
    Ledger(tmp_path / "state/lab.ledger").own("folder", "x")
    error = run("host", verb, "ctrl-0", "ctrl-1").exception
    assert isinstance(error, RacklessError) and "ctrl-0, ctrl-1" in error.what and "--yes" in error.hint
    assert "does not answer" in str(run("host", verb, "ctrl-0", "--yes").exception)


@pytest.mark.parametrize(
    "words",
    [
        ["host", "inspect"], ["host", "inspect", "ctrl-0", "--all"], ["power"], ["power", "--all", "flip"],
        ["power", "--all", "ctrl-0", "on"], ["expose"], ["unexpose"], ["unexpose", "bmc", "--all"],
    ],
)  # fmt: skip
def test_whom_it_is_about_is_said_once(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "state").mkdir()
    Ledger(tmp_path / "state/lab.ledger").own("folder", "x")
    assert run(*words).exit_code == 2


def test_an_empty_cache_is_an_empty_list_and_nothing_to_prune_or_to_complain_about() -> None:
    assert json.loads(run("images", "list", "--json").output) == []
    assert json.loads(run("images", "prune", "--dry-run", "--json").output)["removed"] == []
    assert json.loads(run("images", "verify", "--json").output.splitlines()[-1]) == []
    assert "0 MiB would be free again" in run("images", "prune", "--dry-run").output


def test_hosts_are_completed_by_name_and_without_a_lab_nothing_is_said() -> None:
    environment = {"_RACKLESS_COMPLETE": "bash_complete", "COMP_WORDS": "rackless host retry ", "COMP_CWORD": "3"}
    done = CliRunner().invoke(cli, [], prog_name="rackless", env=environment)
    assert (done.output.strip(), done.exit_code) == ("", 0)
    environment |= {"COMP_WORDS": "rackless host re", "COMP_CWORD": "2"}
    assert CliRunner().invoke(cli, [], prog_name="rackless", env=environment).output == "plain,retry\n"


def test_what_people_type_often_does_not_load_what_is_slow_to_load() -> None:
    """In one process, one after the other: none of them may."""
    slow = {"aiohttp", "cryptography", "kubernetes", "libvirt", "pyroute2"}
    code = "import json, sys\nloaded = {}\n"
    for command in ("up", "plan", "status", "destroy", "down"):
        module = COMMANDS[command][0].partition(":")[0]
        code += f"import {module}\nloaded['{command}'] = sorted({slow} & set(sys.modules))\n"
    code += "sys.stdout.write(json.dumps(loaded))"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == {command: [] for command in ("up", "plan", "status", "destroy", "down")}
