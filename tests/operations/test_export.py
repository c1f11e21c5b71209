"""A lab's servers in other people's words; the lab is a description and a password, nothing runs."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from rackless.cli.main import cli
from rackless.errors import HypervisorError, InputError, LabError
from rackless.lab.forwards import own
from rackless.operations import export
from rackless.plan.addressing import plan_lab
from rackless.plan.exposure import forwards, places
from rackless.plan.model import LabPlan
from rackless.run.ledger import Ledger
from rackless.run.paths import LabPaths, Roots
from rackless.spec.load import parse

LAB = """\
name: lab
networks: {provisioning: {mode: managed}}
servers:
  ctrl: {role: control-plane, count: 1}
  node: {count: 1, bmc: redfish}
  old: {count: 1, bmc: ipmi, firmware: bios}
"""
PASSWORD = "the password of BMCs"


@pytest.fixture(autouse=True)
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LabPlan:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.delenv("SUDO_UID", raising=False)
    for name in ("STATE", "RUN", "CACHE"):
        monkeypatch.setenv(f"RACKLESS_{name}", str(tmp_path / name.lower()))
    return make_lab(LabPaths(Roots.from_environment(), "lab"), LAB)


def make_lab(paths: LabPaths, text: str) -> LabPlan:
    spec = parse(text, "lab.yaml")
    paths.secrets.mkdir(parents=True)
    paths.spec.write_text(spec.model_dump_json())
    (paths.secrets / "bmc.password").write_text(f"{PASSWORD}\n")
    Ledger(paths.ledger).own("folder", paths.state)
    return plan_lab(spec)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["export", *arguments])


def test_hosts_and_their_secrets_are_records_of_metal3(plan: LabPlan) -> None:
    records = list(yaml.safe_load_all(run("hosts", "--show-secrets", "--namespace", "metal").output))
    assert [(one["kind"], one["metadata"]["name"]) for one in records] == [
        (kind, name + end)
        for name in ("ctrl-0", "node-0", "old-0")
        for kind, end in (("Secret", "-bmc"), ("BareMetalHost", ""))
    ]
    assert {one["metadata"]["namespace"] for one in records} == {"metal"}
    ctrl, node, old = (server.bmc_address for server in plan.servers)
    assert [one["spec"]["bmc"]["address"] for one in records[1::2]] == [
        f"redfish-virtualmedia://{ctrl}/redfish/v1/Systems/1",
        f"redfish://{node}/redfish/v1/Systems/1",
        f"ipmi://{old}",
    ]
    assert [one["spec"]["bootMode"] for one in records[1::2]] == ["UEFI", "UEFI", "legacy"]
    assert [one["spec"]["bootMACAddress"] for one in records[1::2]] == [s.boot_nic.mac for s in plan.servers]


def test_secrets_go_to_a_file_of_ones_own_or_are_asked_for(tmp_path: Path) -> None:
    for what in ("hosts", "ironic"):
        error = run(what).exception
        assert isinstance(error, InputError) and "--show-secrets" in error.hint
        target = tmp_path / "made" / what
        assert run(what, "-o", str(target)).output == ""
        assert stat.S_IMODE(target.stat().st_mode) == 0o600
        listed = json.loads(run(what, "--show-secrets", "--json").output)
        assert len(listed["items" if what == "hosts" else "nodes"]) == (6 if what == "hosts" else 3)


def test_only_root_exports_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    error = run("hosts", "--show-secrets").exception
    assert isinstance(error, HypervisorError) and error.what == "only root can read the passwords of BMCs"


def test_an_enrolment_file_has_a_node_with_its_ports_for_each_server(plan: LabPlan) -> None:
    ctrl, node, old = yaml.safe_load(run("ironic", "--show-secrets").output)["nodes"]
    assert ctrl["driver"] == "redfish" and ctrl["boot_interface"] == "redfish-virtual-media"
    assert ctrl["driver_info"] == {
        "redfish_address": f"https://{plan.servers[0].bmc_address}",
        "redfish_system_id": "/redfish/v1/Systems/1",
        "redfish_username": "admin",
        "redfish_password": PASSWORD,
        "redfish_verify_ca": False,
    }
    assert "boot_interface" not in node
    assert old["driver"] == "ipmi" and old["driver_info"]["ipmi_port"] == 623
    assert old["properties"]["capabilities"] == "boot_mode:bios"
    assert node["properties"]["memory_mb"] == plan.servers[1].memory_mib
    booting = [port["address"] for one in (ctrl, node, old) for port in one["ports"] if port["pxe_enabled"]]
    assert booting == [server.boot_nic.mac for server in plan.servers]


def test_an_inventory_has_groups_and_no_password(plan: LabPlan) -> None:
    text = run("ansible").output
    found = yaml.safe_load(text)["all"]
    assert PASSWORD not in text
    assert {name: list(group["hosts"]) for name, group in found["children"].items()} == {
        "ctrl": ["ctrl-0"],
        "role_control_plane": ["ctrl-0"],
        "node": ["node-0"],
        "role_worker": ["node-0", "old-0"],
        "old": ["old-0"],
    }
    assert found["hosts"]["ctrl-0"]["ansible_host"] == str(plan.servers[0].address)
    assert found["hosts"]["old-0"]["bmc_password"].startswith("{{ lookup('file', '")


def test_what_is_exposed_is_told_by_its_place_outside(plan: LabPlan) -> None:
    roots = Roots.from_environment()
    with pytest.raises(LabError, match="the BMC of ctrl-0 is not exposed"):
        export.select("lab", roots, exposed=True)
    ledger = Ledger(LabPaths(roots, "lab").ledger)
    for first, what in ((9000, "bmc"), (9100, "ssh")):
        for one in forwards(places(plan, what), "192.0.2.7", first, ()):  # type: ignore[arg-type]
            own(ledger, one)
    records = list(yaml.safe_load_all(run("hosts", "--show-secrets", "--exposed").output))
    assert [one["spec"]["bmc"]["address"] for one in records[1::2]] == [
        "redfish-virtualmedia://192.0.2.7:9000/redfish/v1/Systems/1",
        "redfish://192.0.2.7:9001/redfish/v1/Systems/1",
        "ipmi://192.0.2.7:9002",
    ]
    (node,) = yaml.safe_load(run("ironic", "ctrl-0", "--show-secrets", "--exposed").output)["nodes"]
    assert node["driver_info"]["redfish_address"] == "https://192.0.2.7:9000"
    reached = yaml.safe_load(run("ansible", "--exposed").output)["all"]["hosts"]["old-0"]
    assert (reached["ansible_host"], reached["ansible_port"], reached["bmc_ipmi_port"]) == ("192.0.2.7", 9102, 9002)


def test_a_server_that_is_not_there_is_named() -> None:
    error = run("ansible", "moon").exception
    assert isinstance(error, InputError) and "has no server moon" in error.what


def test_a_lab_whose_first_up_was_cut_off_says_what_it_lacks() -> None:
    roots = Roots.from_environment()
    paths = LabPaths(roots, "lab")
    (paths.secrets / "bmc.password").unlink()
    with pytest.raises(LabError, match=r"the BMC of ctrl-0 has no password yet"):
        export.select("lab", roots)
    paths.spec.unlink()
    with pytest.raises(LabError, match=r"the lab lab has no description yet"):
        export.select("lab", roots)


def test_reservations_for_a_dhcp_server_of_others_have_every_server_and_the_bootstrap(plan: LabPlan) -> None:
    lines = run("dhcp").output.splitlines()
    (server,) = [one for one in plan.servers if one.name == "ctrl-0"]
    assert f"dhcp-host={server.mac},{server.address},ctrl-0" in lines
    assert lines[-1] == f"dhcp-host={plan.bootstrap_mac},{plan.bootstrap_address},bootstrap"
    assert json.loads(run("dhcp", "--json").output) == lines and len(lines) == len(plan.servers) + 1
