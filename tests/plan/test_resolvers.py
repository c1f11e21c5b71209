from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from rackless.plan.addressing import plan_lab
from rackless.plan.exposure import Forward, forwards, places
from rackless.plan.resolvers import Resolver, drop_in
from rackless.spec.load import parse


def exposed() -> list[Forward]:
    plan = plan_lab(parse("servers: {ctrl: {role: control-plane}}", "lab.yaml"))
    return [one for what in ("bmc", "apps") for one in forwards(places(plan, what), "127.0.0.1", None, ())]


def in_folder(script: str, folder: Path) -> str:
    """The same for a computer below a folder; what it would do to services is written down."""
    script = script.replace("/etc", f"{folder}/etc")
    for program in ("systemctl", "systemd-run"):
        script = script.replace(f"\n{program} ", f"\necho {program} ")
    return script


@pytest.mark.parametrize("resolver", list(Resolver))
def test_a_shell_puts_names_in_place_and_takes_all_of_them_away(resolver: Resolver, tmp_path: Path) -> None:
    made = drop_in(resolver, "lab", exposed())
    done = subprocess.run(
        ["sh", "-eu"], input=in_folder(made.script, tmp_path), text=True, capture_output=True, check=True
    )
    written = {f"/{path.relative_to(tmp_path)}": path.read_text() for path in tmp_path.rglob("*") if path.is_file()}
    assert {path: text.replace(str(tmp_path), "") for path, text in written.items()} == dict(made.files)
    assert done.stdout.splitlines() == [command.replace("/etc", f"{tmp_path}/etc") for command in made.apply]
    names = next(text for path, text in written.items() if "address=" in text)
    assert "address=/ctrl-0-bmc.lab.rackless.test/127.0.0.1\n" in names
    subprocess.run(["sh", "-eu"], input=in_folder(made.way_back, tmp_path), text=True, capture_output=True, check=True)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_resolved_asks_for_what_is_exposed_and_for_nothing_else() -> None:
    (_, names), (_, told) = drop_in(Resolver.RESOLVED, "lab", exposed()).files
    assert "Domains=~ctrl-0-bmc.lab.rackless.test ~apps.lab.rackless.test\n" in told
    assert "DNS=127.0.0.1:17053\n" in told and "port=17053\n" in names


@pytest.mark.skipif(shutil.which("dnsmasq") is None, reason="dnsmasq is not installed")
@pytest.mark.parametrize("resolver", list(Resolver))
def test_dnsmasq_takes_the_names(resolver: Resolver, tmp_path: Path) -> None:
    file = tmp_path / "names.conf"
    file.write_text(drop_in(resolver, "lab", exposed()).files[0][1])
    done = subprocess.run(["dnsmasq", "--test", f"--conf-file={file}"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
