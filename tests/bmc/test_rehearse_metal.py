"""`rackless rehearse --bmcs real`: a site's servers are asked, and nothing is done to them that nobody allowed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from rackless.cli.commands.rehearse import rehearse
from rackless.cluster.openshift.report import LineVerdict, Report
from rackless.errors import InputError
from rackless.events import Bus
from rackless.installer.install_config.live import metal
from rackless.installer.install_config.writing import render
from rackless.operations.rehearsal.metal import Allowed, MetalWanted, rehearse_metal
from rackless.ports.hypervisor import Power
from tests.bmc.conftest import ADMIN, Files, MakeRack, Rack, server
from tests.installer.install_config.conftest import compact


def write_config(rack: Rack, folder: Path, *changes: tuple[str, str]) -> Path:
    """For masters whose BMCs are those of the rack."""
    site = compact()
    masters = [
        replace(
            host,
            boot_mac=server(number).macs[0],
            bmc_address=f"redfish-virtualmedia+http://{address}:{rack.port}/redfish/v1/Systems/1",
            bmc_username=ADMIN.username,
            bmc_password=ADMIN.password,
        )
        for number, (host, address) in enumerate(zip(site.hosts, rack.addresses, strict=True))
    ]
    text = render(replace(site, hosts=tuple(masters)))
    for old, new in changes:
        assert old in text, (old, text)
        text = text.replace(old, new)
    source = folder / "install-config.yaml"
    source.write_text(text)
    return source


def said(report: Report, subject: str) -> tuple[LineVerdict, str]:
    (found,) = [line for line in report.findings if line.subject == subject]
    return found.verdict, found.saw


async def test_asking_changes_nothing_and_tells_what_the_servers_are(make_rack: MakeRack, tmp_path: Path) -> None:
    rack = await make_rack(3)
    before = await rack.hypervisor.servers()
    report = await rehearse_metal(MetalWanted(write_config(rack, tmp_path)), Bus())
    assert report.good, report.findings
    verdict, saw = said(report, "server master-0")
    assert verdict is LineVerdict.PROVEN and "1.5 GiB of memory, power Off" in saw
    assert said(report, "boot NIC of master-2") == (LineVerdict.PROVEN, "is one of 1")
    assert "has a virtual CD" in said(report, "BMC of master-1")[1]
    assert await rack.hypervisor.servers() == before
    assert "power" in " ".join(report.not_proven) and ADMIN.password not in json.dumps(report.as_json())


async def test_another_servers_bmc_and_a_wrong_password_are_told_and_nothing_more_is_asked_there(
    make_rack: MakeRack, tmp_path: Path
) -> None:
    rack = await make_rack(3)
    source = write_config(rack, tmp_path, ("02:00:00:00:00:01", "02:00:00:00:00:77"))
    text = source.read_text()
    last = text.rindex(ADMIN.password)
    source.write_text(text[:last] + "a guess" + text[last + len(ADMIN.password) :])
    report = await rehearse_metal(MetalWanted(source, frozenset({Allowed.POWER})), Bus())
    assert not report.good
    assert said(report, "boot NIC of master-1") == (LineVerdict.FAILED, "its NICs are 02:00:00:00:00:01")
    assert "refuses the account admin (401)" in said(report, "BMC of master-2")[1]
    subjects = [line.subject for line in report.findings]
    assert "power of master-0" in subjects and "power of master-2" not in subjects
    assert [state.power for state in await rack.hypervisor.servers()] == [Power.OFF] * 3


async def test_what_is_allowed_is_done_and_undone_and_what_somebody_uses_is_left_alone(
    make_rack: MakeRack, files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metal, "LOOK_EVERY", 0.01)
    rack = await make_rack(3)
    files.contents |= {"a.iso": b"image", "own.iso": b"somebody's"}
    await rack.reset("On", 1)
    await rack.until(lambda: is_on(rack, 1))
    drive = "/redfish/v1/Systems/1/VirtualMedia/Cd/Actions/VirtualMedia.InsertMedia"
    assert (await rack.ask("POST", drive, {"Image": f"{files.url}/own.iso"}, number=2))[0] == 204
    wanted = MetalWanted(write_config(rack, tmp_path), frozenset(Allowed), f"{files.url}/a.iso")
    report = await rehearse_metal(wanted, Bus())
    assert report.good, report.findings
    assert said(report, "power of master-0") == (LineVerdict.PROVEN, "it did both, and is off again")
    verdict, saw = said(report, "power of master-1")
    assert verdict is LineVerdict.NOT_REACHED and "it is On: somebody may use it" in saw
    assert "drive is empty again" in said(report, "virtual CD of master-0")[1]
    told = [line.saw for line in report.findings if line.subject == "virtual CD of master-2"]
    assert told == [f"{files.url}/own.iso is in it", "somebody's disc is in the drive, and stays"]
    assert [state.power for state in await rack.hypervisor.servers()] == [Power.OFF, Power.ON, Power.OFF]
    drives = [state.media is not None for state in await rack.hypervisor.servers()]
    assert drives == [False, False, True] and files.asked.count("a.iso") >= 1


async def is_on(rack: Rack, number: int) -> bool:
    return await rack.power(number) == "On"


async def test_a_disc_that_the_bmc_cannot_fetch_is_told(make_rack: MakeRack, files: Files, tmp_path: Path) -> None:
    rack = await make_rack(3)
    wanted = MetalWanted(write_config(rack, tmp_path), frozenset({Allowed.MEDIA}), f"{files.url}/none.iso")
    report = await rehearse_metal(wanted, Bus())
    assert not report.good
    assert any("InsertMedia is answered with" in line.saw for line in report.findings)


async def test_a_disc_is_named_by_a_url_and_a_config_is_for_bare_metal(tmp_path: Path) -> None:
    source = tmp_path / "install-config.yaml"
    source.write_text("apiVersion: v1\n")
    with pytest.raises(InputError, match="no disc is named"):
        await rehearse_metal(MetalWanted(source, frozenset({Allowed.MEDIA})), Bus())
    with pytest.raises(InputError, match="no install-config for bare metal"):
        await rehearse_metal(MetalWanted(source), Bus())


def test_the_command_says_what_belongs_together(tmp_path: Path) -> None:
    source = tmp_path / "install-config.yaml"
    source.write_text("apiVersion: v1\n")
    for words, hint in ((["--allow", "power", "--quick"], "add --bmcs real"), (["--quick"], "--installer")):
        done = CliRunner().invoke(rehearse, [str(source), *words])
        assert isinstance(done.exception, InputError) and hint in str(done.exception.hint)
