from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from rackless.bmc.core.media import Limits
from rackless.bmc.core.sockets import Forbids, no_site, not_of_a_lab
from tests.bmc.conftest import Files, MakeRack, Rack

CD = "/redfish/v1/Systems/1/VirtualMedia/Cd"
OTHER_CD = "/redfish/v1/Managers/1/VirtualMedia/Cd"


async def insert(rack: Rack, url: str, number: int = 0, **more: str) -> int:
    status, _, _ = await rack.ask(
        "POST", f"{CD}/Actions/VirtualMedia.InsertMedia", {"Image": url, **more}, number=number
    )
    return status


async def eject(rack: Rack, number: int = 0) -> int:
    status, _, _ = await rack.ask("POST", f"{CD}/Actions/VirtualMedia.EjectMedia", number=number)
    return status


def shelf(rack: Rack) -> list[Path]:
    return sorted(rack.media.iterdir())


async def test_an_inserted_image_is_in_the_drive_of_the_running_server(rack: Rack, files: Files) -> None:
    files.contents["a.iso"] = b"image" * 1000
    await rack.reset("On")
    assert await insert(rack, f"{files.url}/a.iso") == 204
    state = await rack.hypervisor.observe("server-0")
    assert state is not None and state.media is not None
    assert state.media.read_bytes() == files.contents["a.iso"]
    for path in (CD, OTHER_CD):
        value = await rack.get(path)
        assert (value["Inserted"], value["Image"], value["ImageName"]) == (True, f"{files.url}/a.iso", "a.iso")


async def test_ejecting_leaves_no_bytes_behind(rack: Rack, files: Files) -> None:
    files.contents["a.iso"] = b"image"
    await insert(rack, f"{files.url}/a.iso")
    assert await eject(rack) == 204
    assert shelf(rack) == []
    value = await rack.get(CD)
    assert (value["Inserted"], value["Image"]) == (False, None)


async def test_ejecting_an_empty_drive_is_no_error(rack: Rack) -> None:
    assert await eject(rack) == 204


async def test_one_image_for_many_servers_is_sent_once_and_kept_once(make_rack: MakeRack, files: Files) -> None:
    rack = await make_rack(4)
    files.contents["a.iso"] = b"image"
    files.seconds = 0.05
    codes = await asyncio.gather(*(insert(rack, f"{files.url}/a.iso", number) for number in range(4)))
    assert codes == [204] * 4
    assert files.sent == ["a.iso"]
    assert len(shelf(rack)) == 1
    for number in range(3):
        await eject(rack, number)
        assert len(shelf(rack)) == 1
    await eject(rack, 3)
    assert shelf(rack) == []


async def test_an_image_that_changed_under_the_same_name_is_fetched_again(make_rack: MakeRack, files: Files) -> None:
    rack = await make_rack(2)
    files.contents["a.iso"] = b"old"
    await insert(rack, f"{files.url}/a.iso")
    assert await insert(rack, f"{files.url}/a.iso", 1) == 204
    assert files.sent == ["a.iso"], "the second is told that nothing changed"
    files.contents["a.iso"] = b"new"
    await insert(rack, f"{files.url}/a.iso", 1)
    state = await rack.hypervisor.observe("server-1")
    assert state is not None and state.media is not None and state.media.read_bytes() == b"new"
    assert len(shelf(rack)) == 2


async def test_replacing_an_image_throws_the_old_one_away(rack: Rack, files: Files) -> None:
    files.contents |= {"a.iso": b"a", "b.iso": b"b"}
    await insert(rack, f"{files.url}/a.iso")
    await insert(rack, f"{files.url}/b.iso")
    assert [file.read_bytes() for file in shelf(rack)] == [b"b"]


async def test_what_cannot_be_fetched_is_refused_and_changes_nothing(make_rack: MakeRack, files: Files) -> None:
    rack = await make_rack(media_limits=Limits(bytes=1000))
    files.contents |= {"a.iso": b"good", "big.iso": b"x" * 1001, "empty.iso": b"", "locked.iso": b"secret"}
    await insert(rack, f"{files.url}/a.iso")
    assert await insert(rack, f"{files.url}/absent.iso") == 400
    assert await insert(rack, f"{files.url}/big.iso") == 507
    assert await insert(rack, f"{files.url}/empty.iso") == 400
    assert await insert(rack, f"{files.url}/locked.iso") == 400
    assert await insert(rack, "http://127.0.0.1:1/a.iso") == 400
    assert await insert(rack, "file:///etc/passwd") == 400
    assert await insert(rack, "http://[") == 400
    assert (await rack.get(CD))["Image"] == f"{files.url}/a.iso"
    assert [file.read_bytes() for file in shelf(rack)] == [b"good"]


async def test_a_server_that_sends_nothing_is_given_up(make_rack: MakeRack, files: Files) -> None:
    rack = await make_rack(media_limits=Limits(stall_seconds=0.2))
    files.contents["slow.iso"], files.seconds = b"good", 1.0
    assert await insert(rack, f"{files.url}/slow.iso") == 400
    assert (await rack.get(CD))["Image"] is None and not shelf(rack)


async def test_credentials_are_used_and_not_shown(rack: Rack, files: Files) -> None:
    files.contents["locked.iso"] = b"secret"
    assert await insert(rack, files.url.replace("//", "//u:p@") + "/locked.iso") == 204
    value = await rack.get(CD)
    assert (value["Image"], value["UserName"], value["Password"]) == (f"{files.url}/locked.iso", "u", None)
    assert await insert(rack, f"{files.url}/locked.iso", UserName="u", Password="p") == 204


async def test_older_clients_insert_and_eject_by_patch(rack: Rack, files: Files) -> None:
    files.contents["a.iso"] = b"image"
    status, body, _ = await rack.ask("PATCH", OTHER_CD, {"Image": f"{files.url}/a.iso", "Inserted": True})
    assert (status, body["Inserted"]) == (200, True)
    status, body, _ = await rack.ask("PATCH", OTHER_CD, {"Image": None, "Inserted": False})
    assert (status, body["Inserted"]) == (200, False)


async def test_media_survive_a_restart_and_leftovers_do_not(make_rack: MakeRack, files: Files) -> None:
    files.contents["a.iso"] = b"image"
    first = await make_rack()
    await insert(first, f"{files.url}/a.iso")
    await first.fleet.stop()
    (first.media / "orphan.iso").write_bytes(b"left")
    (first.media / ".fetching-x").write_bytes(b"half")
    second = await make_rack(hypervisor=first.hypervisor)
    assert [file.read_bytes() for file in shelf(second)] == [b"image"]
    assert (await second.get(CD))["Image"] == f"{files.url}/a.iso"
    await eject(second)
    assert shelf(second) == []


async def test_a_slow_image_does_not_hold_up_anything_else(rack: Rack, files: Files) -> None:
    files.contents["a.iso"] = b"image"
    files.open.clear()
    inserting = asyncio.create_task(insert(rack, f"{files.url}/a.iso"))

    async def asked() -> bool:
        return files.asked == ["a.iso"]

    await rack.until(asked)
    async with asyncio.timeout(30):
        assert await rack.reset("On") == 204
        assert await rack.power() == "On"
    assert not inserting.done()
    files.open.set()
    assert await inserting == 204


@pytest.mark.parametrize("forbids", [no_site, not_of_a_lab])
async def test_a_bmc_asks_no_address_that_is_forbidden_whatever_leads_there(
    make_rack: MakeRack, files: Files, forbids: Forbids
) -> None:
    closed = False

    def make(family: int, kind: int, protocol: int) -> socket.socket:
        assert not closed, "no socket is made for such an address"  # and so nothing leaves this computer
        return socket.socket(family, kind, protocol)

    rack = await make_rack(forbids=forbids, sockets=make)
    files.contents["a.iso"] = b"image"
    closed = True
    for place in ("169.254.169.254", "[fe80::1]", "[::ffff:169.254.169.254]", "0.0.0.0", "224.0.0.1"):
        wish = {"Image": f"http://{place}/latest/meta-data"}
        status, body, _ = await rack.ask("POST", f"{CD}/Actions/VirtualMedia.InsertMedia", wish)
        assert status == 400 and "makes no request" in str(body), place
    closed = False
    assert await insert(rack, f"{files.url}/a.iso") == (204 if forbids is no_site else 400)
    assert files.asked == (["a.iso"] if forbids is no_site else [])
