from __future__ import annotations

import asyncio
from pathlib import Path
from unittest.mock import patch

import pytest
from aiohttp import ClientConnectorError, ClientSession

from rackless.bmc.core.state import JsonFile, load_memory
from rackless.bmc.fleet import Bmc
from rackless.drivers.fake.hypervisor import FakeHypervisor
from rackless.errors import LabError
from rackless.ports.hypervisor import BootDevice, Power, ServerState, Unreachable
from tests.bmc.conftest import ADMIN, Files, MakeRack, Rack, server

SYSTEM = "/redfish/v1/Systems/1"


async def test_reading_never_asks_the_hypervisor(rack: Rack) -> None:
    before = list(rack.hypervisor.calls)
    for path in ("", "/Processors", "/Memory", "/EthernetInterfaces", "/Storage", "/VirtualMedia/Cd"):
        await rack.get(SYSTEM + path)
    await rack.get("/redfish/v1/Managers/1")
    await rack.get("/redfish/v1/Chassis/1")
    assert rack.hypervisor.calls == before
    assert list(rack.state.iterdir()) == []


async def test_changes_by_other_hands_are_seen(rack: Rack) -> None:
    rack.hypervisor.started_by_hand("server-0")

    async def on() -> bool:
        return await rack.power() == "On"

    await rack.until(on)


async def test_a_power_command_is_one_question_to_the_hypervisor(rack: Rack) -> None:
    before = len(rack.hypervisor.calls)
    for kind, state in (("On", "On"), ("ForceOff", "Off"), ("ForceOn", "On")):
        assert await rack.reset(kind) == 204
        assert await rack.power() == state
    await asyncio.sleep(0.05)  # whatever the events of it cause
    asked = [method for method, _ in rack.hypervisor.calls[before:]]
    assert asked == ["power_on", "power_off", "power_on"]


class Frail(FakeHypervisor):
    """Its servers die while they are started, before it answers that it started them."""

    async def power_on(self, name: str, *, boot: BootDevice | None = None) -> None:
        await super().power_on(name, boot=boot)
        self.guest_stops(name)
        await asyncio.sleep(0.02)  # so that the events are there before the answer


async def test_a_server_that_dies_while_it_starts_is_not_called_on(make_rack: MakeRack) -> None:
    hypervisor = Frail()
    hypervisor.define([server(0)])
    rack = await make_rack(hypervisor=hypervisor)
    assert await rack.reset("On") == 204
    assert await rack.power() == "Off"


async def test_a_look_that_was_under_way_does_not_undo_what_a_button_did(rack: Rack) -> None:
    chassis = rack.fleet.chassis("server-0")
    slow = OldNews(rack.hypervisor)
    with patch.object(rack.hypervisor, "observe", slow.observe):
        looking = asyncio.create_task(chassis.look())
        await slow.seen.wait()
        assert await rack.reset("On") == 204
        slow.told.set()
        await looking
    assert await rack.power() == "On"
    assert slow.asked == 2


class OldNews:
    """What is observed was so some time before it is told."""

    def __init__(self, hypervisor: FakeHypervisor) -> None:
        self._hypervisor = hypervisor
        self.asked = 0
        self.seen, self.told = asyncio.Event(), asyncio.Event()

    async def observe(self, name: str) -> ServerState | None:
        self.asked += 1
        found = {server.name: server for server in await self._hypervisor.servers()}.get(name)
        self.seen.set()
        await self.told.wait()
        return found


async def test_a_server_without_a_definition_is_gone_when_it_is_switched_off(make_rack: MakeRack) -> None:
    hypervisor = FakeHypervisor()
    hypervisor.define([server(0, power=Power.ON, lasting=False)])
    rack = await make_rack(hypervisor=hypervisor)
    assert await rack.reset("ForceOff") == 204
    assert (await rack.ask("GET", SYSTEM))[0] == 404


async def test_sixteen_parallel_patches_are_all_kept(rack: Rack) -> None:
    wishes = [
        {"AssetTag": "a7"},
        {"LocationIndicatorActive": True},
        {"Boot": {"BootSourceOverrideTarget": "Pxe"}},
        {"Boot": {"BootSourceOverrideEnabled": "Continuous"}},
    ]
    codes = await asyncio.gather(*(rack.ask("PATCH", SYSTEM, wish) for wish in wishes * 4))
    assert {code for code, _, _ in codes} == {200}
    value = await rack.get(SYSTEM)
    assert (value["AssetTag"], value["LocationIndicatorActive"]) == ("a7", True)
    boot = value["Boot"]
    assert (boot["BootSourceOverrideTarget"], boot["BootSourceOverrideEnabled"]) == ("Pxe", "Continuous")


async def test_a_hypervisor_that_went_away_is_said_and_never_guessed(rack: Rack) -> None:
    await rack.reset("On")
    rack.hypervisor.go_away()

    async def blind() -> bool:
        status, _, headers = await rack.ask("GET", SYSTEM)
        return status == 503 and "Retry-After" in headers

    await rack.until(blind)
    assert (await rack.ask("GET", "/redfish/v1/", as_=None))[0] == 200
    assert await rack.reset("ForceOff") == 503
    assert rack.fleet.observe()[0].seen is False
    rack.hypervisor.define([server(0, power=Power.OFF)])
    rack.hypervisor.come_back()

    async def seen() -> bool:
        return (await rack.ask("GET", SYSTEM))[0] == 200

    await rack.until(seen)
    assert await rack.power() == "Off"
    assert sum("cannot see" in note for note in rack.notes) == 1


async def test_a_server_that_is_gone_is_404_and_back_when_it_is_back(rack: Rack) -> None:
    await rack.hypervisor.retire("server-0")

    async def gone() -> bool:
        return (await rack.ask("GET", SYSTEM))[0] == 404

    await rack.until(gone)
    assert (await rack.get("/redfish/v1/Systems"))["Members"] == []
    assert await rack.reset("On") == 404


async def test_one_call_that_was_not_answered_does_not_blind_a_bmc_for_long(rack: Rack) -> None:
    assert await rack.reset("On") == 204
    rack.hypervisor.fail_once("observe", Unreachable("busy"))
    assert await rack.reset("ForceRestart") == 204
    assert not rack.hypervisor.faults["observe"]

    async def seen() -> bool:
        return (await rack.ask("GET", SYSTEM))[0] == 200

    await rack.until(seen)
    assert await rack.power() == "On"


async def test_servers_that_cannot_be_listed_for_a_moment_do_not_blind_everybody(make_rack: MakeRack) -> None:
    rack = await make_rack(resync_seconds=0.03)
    rack.hypervisor.fail_once("servers", LabError("a server vanished while it was looked at"))
    codes = set()

    async def again() -> bool:
        codes.add((await rack.ask("GET", SYSTEM))[0])
        return not rack.hypervisor.faults["servers"] and len(rack.hypervisor.called("servers")) >= 5

    await rack.until(again)
    assert codes == {200}


async def test_a_look_that_fails_as_nobody_foresaw_is_not_the_last_one(make_rack: MakeRack) -> None:
    rack = await make_rack(resync_seconds=0.03)
    assert await rack.power() == "Off"
    with patch.object(rack.hypervisor, "servers", side_effect=KeyError("nobody foresaw this")):

        async def blind() -> bool:
            return (await rack.ask("GET", SYSTEM))[0] == 503

        await rack.until(blind)
    rack.hypervisor.started_by_hand("server-0")

    async def on() -> bool:
        return (await rack.ask("GET", SYSTEM))[0] == 200 and await rack.power() == "On"

    await rack.until(on)
    assert sum("cannot see" in note for note in rack.notes) == 1


async def test_bmcs_come_and_go_while_the_others_go_on(make_rack: MakeRack, files: Files) -> None:
    rack = await make_rack(2)
    files.contents["a.iso"] = b"image"
    insert = f"{SYSTEM}/VirtualMedia/Cd/Actions/VirtualMedia.InsertMedia"
    await rack.ask("POST", insert, {"Image": f"{files.url}/a.iso"}, number=1)
    await rack.ask("PATCH", SYSTEM, {"AssetTag": "kept"})
    first, second = (Bmc(f"server-{number}", rack.addresses[number]) for number in range(2))
    third = Bmc("server-2", rack.addresses[1].rpartition(".")[0] + ".9")
    rack.hypervisor.define([server(2)])
    assert await rack.fleet.ensure([first, second]) is False
    assert await rack.fleet.ensure([first, third]) is True
    assert [one.server for one in rack.fleet.observe()] == ["server-0", "server-2"]
    assert (await rack.get(f"http://{third.address}:{rack.port}{SYSTEM}"))["Name"] == "server-2"
    assert (await rack.get(SYSTEM))["AssetTag"] == "kept"
    with pytest.raises(ClientConnectorError):
        async with ClientSession() as stranger:
            await stranger.get(rack.base(1))
    assert list(rack.media.iterdir()) == []
    moved = Bmc("server-0", rack.addresses[1])
    assert await rack.fleet.ensure([moved]) is True
    assert (await rack.get(SYSTEM, number=1))["AssetTag"] == "kept"


async def test_every_bmc_is_its_own_system_one(make_rack: MakeRack) -> None:
    rack = await make_rack(3)
    await rack.reset("On", 1)
    names = [(await rack.get(SYSTEM, number=number))["Name"] for number in range(3)]
    assert names == ["server-0", "server-1", "server-2"]
    assert [await rack.power(number) for number in range(3)] == ["Off", "On", "Off"]
    assert [one.power for one in rack.fleet.observe()] == [Power.OFF, Power.ON, Power.OFF]


async def test_an_etag_guards_a_change(rack: Rack) -> None:
    _, value, headers = await rack.ask("GET", SYSTEM)
    tag = headers["ETag"]
    assert value["@odata.etag"] == tag
    assert (await rack.ask("GET", SYSTEM, headers={"If-None-Match": tag}))[0] == 304
    assert (await rack.ask("PATCH", SYSTEM, {"AssetTag": "one"}, headers={"If-Match": tag}))[0] == 200
    assert (await rack.ask("PATCH", SYSTEM, {"AssetTag": "two"}, headers={"If-Match": tag}))[0] == 412
    assert (await rack.get(SYSTEM))["AssetTag"] == "one"


async def test_of_parallel_changes_guarded_by_one_etag_one_wins(rack: Rack) -> None:
    _, _, headers = await rack.ask("GET", SYSTEM)
    guard = {"If-Match": headers["ETag"]}
    answers = await asyncio.gather(
        *(rack.ask("PATCH", SYSTEM, {"AssetTag": f"tag {number}"}, headers=guard) for number in range(8))
    )
    assert sorted(status for status, _, _ in answers) == [200] + [412] * 7


async def test_a_guarded_change_is_not_overtaken_by_one_without_a_guard(rack: Rack) -> None:
    _, _, headers = await rack.ask("GET", SYSTEM)
    service = rack.fleet.service(rack.addresses[0])
    async with service.systems["1"].lock:  # both wait
        theirs = asyncio.create_task(rack.ask("PATCH", SYSTEM, {"AssetTag": "theirs"}))
        await asyncio.sleep(0.2)
        ours = asyncio.create_task(
            rack.ask("PATCH", SYSTEM, {"AssetTag": "ours"}, headers={"If-Match": headers["ETag"]})
        )
        await asyncio.sleep(0.2)
    assert [(await theirs)[0], (await ours)[0]] == [200, 412]
    assert (await rack.get(SYSTEM))["AssetTag"] == "theirs"


async def test_a_write_that_fails_leaves_the_old_state_and_no_rubbish(tmp_path: Path) -> None:
    file = JsonFile(tmp_path / "x.json")
    await file.save({"a": 1})
    with patch("os.replace", side_effect=OSError("disk full")), pytest.raises(OSError):
        await file.save({"a": 2})
    assert file.load() == {"a": 1}
    assert [one.name for one in tmp_path.iterdir()] == ["x.json"]


async def test_a_state_file_that_cannot_be_read_is_set_aside(make_rack: MakeRack) -> None:
    first = await make_rack()
    await first.ask("PATCH", SYSTEM, {"AssetTag": "kept"})
    await first.fleet.stop()
    file = first.state / "server-0.json"
    assert file.stat().st_mode & 0o777 == 0o600
    assert load_memory(JsonFile(file)).settings == {"asset_tag": "kept"}
    file.write_text('{"boot": {"device": "teapot"}}')
    second = await make_rack(hypervisor=first.hypervisor)
    assert (await second.get(SYSTEM, as_=ADMIN))["AssetTag"] == ""
    assert (first.state / "server-0.unreadable").exists()
