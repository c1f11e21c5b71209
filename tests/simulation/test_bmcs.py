"""What a person sees of a lab's BMCs and does with them, without a client of their own."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from pathlib import Path

import pytest

from rackless.bmc.core.media import MediaShelf
from rackless.cli.words import message
from rackless.errors import InputError, LabError
from rackless.events import Bus, Note, from_json
from rackless.operations import bmcs, hosts, lab, servers
from rackless.protocol.messages import BmcSeen, FaultWish, LabStatus, PowerAction
from rackless.spec.images import ImageSpec
from rackless.spec.load import parse
from tests.simulation.person import Person

LAB = "name: lab\nservers: {node: {count: 1}, spare: {role: spare, count: 1}}"
ASKED = ("media-inserted", "media-ejected", "boot-chosen", "power-pressed", "faults-cleared")


@pytest.fixture(autouse=True)
def as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)


def iso(folder: Path, name: str = "live.iso") -> Path:
    file = folder / name
    file.write_bytes(bytes(0x8001) + b"CD001" + bytes(4096))
    return file


def test_where_bmcs_answer_is_told_also_of_a_lab_that_is_stopped(person: Person) -> None:
    person.spec = parse(LAB, "lab.yaml")

    async def story() -> None:
        await person.up("bmc")
        node, _ = await person.run("list", bmcs.bmcs("lab", person.roots))
        assert (node.server, node.username, node.ipmi_port) == ("node-0", "admin", 623)
        assert node.redfish == f"https://{node.address}/redfish/v1/Systems/1"
        assert node.metal3 == f"redfish-virtualmedia://{node.address}/redfish/v1/Systems/1"
        assert node.seen == BmcSeen("node-0", "off", None, "none", False, first="disk")
        assert Path(node.ca).read_text().startswith("-----BEGIN CERTIFICATE")
        assert stat.S_IMODE(Path(node.password_file).stat().st_mode) == 0o600
        assert bmcs.read_password(node) == Path(node.password_file).read_text().strip() != ""
        await person.down()
        stopped = await person.run("show", bmcs.bmc("lab", "node-0", person.roots))
        assert (stopped.redfish, stopped.seen) == (node.redfish, None)
        with pytest.raises(InputError, match="has no server moon"):
            await person.run("show", bmcs.bmc("lab", "moon", person.roots))

    person.live(story)


def test_a_bmc_tells_its_sensors_and_its_log_and_status_what_a_server_boots_from(person: Person) -> None:
    person.spec = parse(LAB, "lab.yaml")

    async def story() -> None:
        await person.up("bmc")
        off = await person.run("inside", bmcs.bmc_inside("lab", "node-0", person.roots))
        assert [one.value for one in off.sensors if one.name == "Fan 1"] == [None] and off.log == ()
        await person.run("on", servers.power("lab", "node-0", "on", person.roots))
        await person.run("boot", bmcs.set_boot("lab", "node-0", "network", person.roots, once=True))
        on = await person.run("inside", bmcs.bmc_inside("lab", "node-0", person.roots))
        assert [(one.value, one.unit) for one in on.sensors if one.name == "Fan 1"] == [(5200.0, "rpm")]
        assert on.log[0].text == "node-0 was switched on."
        with pytest.raises(InputError, match="there is no server moon"):
            await person.run("inside", bmcs.bmc_inside("lab", "moon", person.roots))
        status = await person.run("status", lab.status("lab", person.roots))
        assert isinstance(status, LabStatus)
        assert [(one.boot, one.boot_once, one.media) for one in status.servers] == [
            ("network", True, None), ("disk", False, None),
        ]  # fmt: skip

    person.live(story)


@pytest.mark.parametrize(("before", "pressed"), [("off", "on"), ("on", "cycle"), ("on", "reset")])
def test_a_person_who_presses_a_button_starts_it_from_where_its_bmc_was_told(
    person: Person, before: PowerAction, pressed: PowerAction
) -> None:
    person.spec = parse(LAB, "lab.yaml")

    async def story() -> None:
        await person.up("bmc")
        await person.run("power", servers.power("lab", "node-0", before, person.roots))
        await person.run("boot", bmcs.set_boot("lab", "node-0", "network", person.roots, once=True))
        await person.run("power", servers.power("lab", "node-0", pressed, person.roots))
        await asyncio.sleep(30)  # a start may have to wait for its turn
        info = await person.run("show", bmcs.bmc("lab", "node-0", person.roots))
        assert info.seen == BmcSeen("node-0", "on", None, "none", False, first="disk"), "it was for one start"

    person.live(story)


def test_what_a_person_does_to_a_server_is_in_the_labs_events(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    person.spec = parse(LAB, "lab.yaml")
    monkeypatch.setattr("rackless.bmc.core.media.MediaShelf.fetch", _from_the_file_server)

    async def story() -> None:
        await person.up("bmc")
        image = ImageSpec(url="http://someone:secret@192.0.2.1/live.iso?signature=also-secret")
        await person.run("insert", bmcs.insert_media("lab", "node-0", image, person.roots, Bus()))
        await person.run("boot", bmcs.set_boot("lab", "node-0", "cdrom", person.roots, once=True))
        await person.run("power", servers.power("lab", "node-0", "on", person.roots))
        await person.run("eject", bmcs.eject_media("lab", "node-0", person.roots))
        fault = FaultWish("refuse", "node-0")
        await person.run("fault", hosts.add_fault(person.paths.socket, fault))
        await person.run("cleared", hosts.clear_faults(person.paths.socket, ()))

    person.live(story)
    written = person.paths.events.read_text()
    told = [from_json(json.loads(line)) for line in written.splitlines()]
    assert [message(one) for one in told if isinstance(one, Note) and one.code in ASKED] == [
        "node-0: http://192.0.2.1/live.iso is in its virtual drive",
        "node-0: boot device cdrom, once",
        "node-0: power on",
        "node-0: its virtual drive is empty",
        "faults taken back: 1",
    ]
    assert "secret" not in written


def test_only_root_reads_a_password(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    person.spec = parse(LAB, "lab.yaml")

    async def story() -> None:
        await person.up("bmc")
        info = await person.run("show", bmcs.bmc("lab", "node-0", person.roots))
        monkeypatch.setattr(os, "geteuid", lambda: 1000)
        with pytest.raises(Exception, match="only root can read the passwords of BMCs"):
            bmcs.read_password(info)

    person.live(story)


def test_a_boot_override_is_for_one_start_or_for_all_and_can_be_taken_back(person: Person) -> None:
    person.spec = parse(LAB, "lab.yaml")

    async def story() -> None:
        await person.up("lab")
        with pytest.raises(LabError, match="has no BMCs yet"):
            await person.run("boot", bmcs.set_boot("lab", "node-0", "disk", person.roots, once=True))
        await person.up("bmc")
        for once in (True, False):
            seen = await person.run("boot", bmcs.set_boot("lab", "node-0", "network", person.roots, once=once))
            assert (seen.boot, seen.once) == ("network", once)
        seen = await person.run("boot", bmcs.set_boot("lab", "node-0", "none", person.roots, once=True))
        assert (seen.boot, seen.once) == ("none", False)
        with pytest.raises(InputError, match="there is no server moon"):
            await person.run("boot", bmcs.set_boot("lab", "moon", "disk", person.roots, once=True))

    person.live(story)


def test_an_iso_of_this_computer_goes_into_the_drive_by_the_labs_file_server(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    person.spec = parse(LAB, "lab.yaml")
    monkeypatch.setattr("rackless.bmc.core.media.MediaShelf.fetch", _from_the_file_server)

    async def insert(image: str) -> BmcSeen:
        work = bmcs.insert_media("lab", "node-0", ImageSpec(url=image), person.roots, Bus())
        return await person.run("insert", work)

    async def story() -> None:
        await person.up("bmc")
        with pytest.raises(InputError, match="is not live-iso"):
            no_iso = person.folder / "disk.raw"
            no_iso.write_bytes(bytes(70_000))
            await insert(str(no_iso))
        seen = await insert(str(iso(person.folder)))
        assert seen.media is not None and seen.media.startswith(f"http://{person.described.gateway.ip}:6180/image-")
        server = (person.paths.files / seen.media.rpartition("/")[2]).read_bytes()
        assert server == (person.folder / "live.iso").read_bytes(), "it is what is offered there"
        assert (await person.run("eject", bmcs.eject_media("lab", "node-0", person.roots))).media is None

    person.live(story)


def test_labd_opens_no_path_that_somebody_names(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever may talk to labd asks for a file that only root may read, without offering it."""
    person.spec = parse(LAB, "lab.yaml")
    secret = iso(person.folder, "secret.iso")
    monkeypatch.setattr("rackless.lab.user_images.UserImages.offer", _nothing)

    async def story() -> None:
        await person.up("bmc")
        for named in (str(secret), f"file://{secret}"):
            with pytest.raises(LabError, match="is not offered to the lab"):
                work = bmcs.insert_media("lab", "node-0", ImageSpec(url=named), person.roots, Bus())
                await person.run("insert", work)

    person.live(story)


async def _nothing(self: object, wanted: object) -> None:
    return None


async def _from_the_file_server(self: MediaShelf, url: str, holder: str, **_: object) -> Path:
    """A BMC's fetch goes over a network that a fake world does not have."""
    file = self.directory / "fetched.iso"
    file.write_bytes(b"as it was fetched")
    self.hold(file, holder)
    return file
