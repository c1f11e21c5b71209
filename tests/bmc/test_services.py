from __future__ import annotations

import asyncio
import json
import socket
from typing import Any

from aiohttp import web

from rackless.bmc.core import bios
from rackless.bmc.core.accounts import Account
from rackless.bmc.core.log import Log, LogKind
from tests.bmc.conftest import ADMIN, OPERATOR, VIEWER, Files, MakeRack, Rack, basic, free_port

V1 = "/redfish/v1"
SYSTEM = f"{V1}/Systems/1"
ACCOUNTS = f"{V1}/AccountService/Accounts"
SUBSCRIPTIONS = f"{V1}/EventService/Subscriptions"


async def test_an_account_can_be_made_used_changed_and_removed(make_rack: MakeRack) -> None:
    rack = await make_rack()
    new = Account("alice", "first-password", "Operator")
    wish = {"UserName": "alice", "Password": new.password, "RoleId": "Operator"}
    status, body, headers = await rack.ask("POST", ACCOUNTS, wish)
    assert (status, body["Password"]) == (201, None)
    uri = headers["Location"]
    assert (await rack.ask("POST", ACCOUNTS, wish))[0] == 400
    assert (await rack.ask("GET", SYSTEM, as_=new))[0] == 200
    assert (await rack.ask("PATCH", uri, {"Password": "second-password"}, as_=new))[0] == 200
    assert (await rack.ask("GET", SYSTEM, as_=new))[0] == 401
    changed = Account("alice", "second-password")
    assert (await rack.ask("PATCH", uri, {"RoleId": "Administrator"}, as_=changed))[0] == 403
    await rack.fleet.stop()
    again = await make_rack(hypervisor=rack.hypervisor)
    again_uri = uri
    # the address is another one, so this is another BMC: it has the accounts it was configured with
    assert (await again.ask("GET", again_uri))[0] == 404


async def test_accounts_changed_by_clients_survive_until_the_configured_ones_change(tmp_path: Any) -> None:
    from rackless.bmc.core.accounts import Accounts
    from rackless.bmc.core.state import JsonFile

    file = JsonFile(tmp_path / "accounts.json")
    first = Accounts([ADMIN], file=file)
    await first.put("2", VIEWER)
    assert file.path.stat().st_mode & 0o777 == 0o600
    assert Accounts([ADMIN], file=file).named("viewer") == VIEWER
    assert Accounts([OPERATOR], file=file).named("viewer") is None


async def test_accounts_are_for_administrators_and_for_oneself(rack: Rack) -> None:
    assert len((await rack.get(ACCOUNTS))["Members"]) == 3
    assert len((await rack.get(ACCOUNTS, as_=VIEWER))["Members"]) == 1
    assert (await rack.ask("GET", f"{ACCOUNTS}/1", as_=VIEWER))[0] == 403
    assert (await rack.ask("GET", f"{ACCOUNTS}/3", as_=VIEWER))[0] == 200
    assert (await rack.ask("DELETE", f"{ACCOUNTS}/3", as_=OPERATOR))[0] == 403
    assert (await rack.ask("DELETE", f"{ACCOUNTS}/3", as_=VIEWER))[0] == 403, "others may use it, too"
    assert (await rack.ask("PATCH", f"{ACCOUNTS}/3", {"Password": "short"}))[0] == 400


async def test_the_last_administrator_cannot_be_lost(rack: Rack) -> None:
    assert (await rack.ask("DELETE", f"{ACCOUNTS}/1"))[0] == 400
    assert (await rack.ask("PATCH", f"{ACCOUNTS}/1", {"RoleId": "ReadOnly"}))[0] == 400
    assert (await rack.ask("PATCH", f"{ACCOUNTS}/1", {"Enabled": False}))[0] == 400


async def test_removing_an_account_ends_its_sessions(rack: Rack) -> None:
    _, _, headers = await rack.ask(
        "POST", f"{V1}/SessionService/Sessions", {"UserName": "viewer", "Password": VIEWER.password}, as_=None
    )
    token = {"X-Auth-Token": headers["X-Auth-Token"]}
    assert (await rack.ask("GET", SYSTEM, as_=None, headers=token))[0] == 200
    assert (await rack.ask("DELETE", f"{ACCOUNTS}/3"))[0] == 204
    assert (await rack.ask("GET", SYSTEM, as_=None, headers=token))[0] == 401


async def test_sixteen_parallel_wishes_for_the_bios_are_all_kept_and_wait_for_the_next_start(rack: Rack) -> None:
    wishes = {one.name: one.values[-1] for one in bios.ATTRIBUTES[-16:]}
    answers = await asyncio.gather(
        *(rack.ask("PATCH", f"{SYSTEM}/Bios/Settings", {"Attributes": {key: wish}}) for key, wish in wishes.items())
    )
    assert {status for status, _, _ in answers} == {200}
    before = (await rack.get(f"{SYSTEM}/Bios"))["Attributes"]
    assert (await rack.get(f"{SYSTEM}/Bios/Settings"))["Attributes"] == before | wishes
    assert before != before | wishes
    await rack.reset("On")
    assert (await rack.get(f"{SYSTEM}/Bios"))["Attributes"] == before | wishes
    await rack.ask("POST", f"{SYSTEM}/Bios/Actions/Bios.ResetBios")
    rack.hypervisor.guest_reboots("server-0")

    async def defaults() -> bool:
        return bool((await rack.get(f"{SYSTEM}/Bios"))["Attributes"] == before)

    await rack.until(defaults)


async def test_an_unknown_bios_attribute_or_value_is_refused(rack: Rack) -> None:
    for attributes in ({"Teapot": "On"}, {"NumLock": "Maybe"}, {"NumLock": 1}):
        status, _, _ = await rack.ask("PATCH", f"{SYSTEM}/Bios/Settings", {"Attributes": attributes})
        assert status == 400


async def test_an_image_can_be_inserted_by_a_task(rack: Rack, files: Files) -> None:
    files.contents["a.iso"] = b"image"
    files.open.clear()
    insert = f"{SYSTEM}/VirtualMedia/Cd/Actions/VirtualMedia.InsertMedia"
    later = {"Prefer": "respond-async"}
    status, body, headers = await rack.ask("POST", insert, {"Image": f"{files.url}/a.iso"}, headers=later)
    assert (status, body["TaskState"]) == (202, "Running")
    monitor = headers["Location"]
    assert (await rack.ask("GET", monitor))[0] == 202
    files.open.set()

    async def done() -> bool:
        return (await rack.ask("GET", monitor))[0] != 202

    await rack.until(done)
    assert (await rack.ask("GET", monitor))[0] == 200
    assert (await rack.get(body["@odata.id"]))["TaskState"] == "Completed"
    assert (await rack.get(f"{SYSTEM}/VirtualMedia/Cd"))["Inserted"] is True

    _, body, headers = await rack.ask("POST", insert, {"Image": f"{files.url}/b.iso"}, headers=later)
    monitor = headers["Location"]
    await rack.until(done)
    assert (await rack.ask("GET", monitor))[0] == 400
    assert (await rack.get(body["@odata.id"]))["TaskState"] == "Exception"

    files.seconds = 30
    _, body, headers = await rack.ask("POST", insert, {"Image": f"{files.url}/c.iso"}, headers=later)
    assert (await rack.ask("DELETE", headers["Location"]))[0] == 204
    assert (await rack.ask("GET", body["@odata.id"]))[0] == 404
    assert not list(rack.media.glob(".*")), "nobody waits for it, so it is not fetched any more"


async def test_what_happens_is_in_the_logs(rack: Rack) -> None:
    await rack.reset("On")
    log = f"{SYSTEM}/LogServices/EventLog"
    entries = (await rack.get(f"{log}/Entries"))["Members"]
    assert [one["MessageId"].rpartition(".")[2] for one in entries] == ["ResourcePoweredOn"]
    await rack.get(entries[0]["@odata.id"])
    assert (await rack.ask("POST", f"{log}/Actions/LogService.ClearLog", as_=VIEWER))[0] == 403
    assert (await rack.ask("POST", f"{log}/Actions/LogService.ClearLog"))[0] == 204
    assert (await rack.get(f"{log}/Entries"))["Members"] == []


async def test_logins_of_strangers_push_nothing_out_of_the_log(rack: Rack) -> None:
    """Whoever may not even log in could wipe what had happened to a BMC's accounts out of its log."""
    new = {"UserName": "carol", "Password": "an0ther one", "RoleId": "ReadOnly"}
    assert (await rack.ask("POST", ACCOUNTS, new))[0] == 201
    wrong = {"UserName": "admin", "Password": "wrong"}
    for _ in range(300):
        assert (await rack.ask("POST", f"{V1}/SessionService/Sessions", wrong, as_=None))[0] == 401
    found = rack.fleet.service(rack.addresses[0]).log.entries()
    assert any("carol" in entry.text for entry in found)
    assert len([entry for entry in found if "refused" in entry.text]) == 16


def test_a_log_keeps_the_newest_and_of_strangers_a_few() -> None:
    log = Log(32)
    for number in range(5):
        log.add(LogKind.CHANGED, f"stranger {number}", told=False)
    assert [entry.text for entry in log.entries()] == ["stranger 3", "stranger 4"]
    for number in range(40):
        log.add(LogKind.CHANGED, f"ours {number}")
    log.add(LogKind.CHANGED, "stranger 5", told=False)
    assert [entry.text for entry in log.entries()] == [f"ours {number}" for number in range(8, 40)]
    log.remove(log.entries()[0].number)
    log.add(LogKind.CHANGED, "stranger 6", told=False)
    log.add(LogKind.CHANGED, "stranger 7", told=False)
    assert [entry.text for entry in log.entries()][-2:] == ["ours 39", "stranger 7"]


class Receiver:
    """Somebody who subscribed; refuses the first events when told to."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.senders: set[str | None] = set()
        self.refuse = 0
        self.url = ""

    async def start(self) -> web.AppRunner:
        async def take(request: web.Request) -> web.Response:
            if self.refuse:
                self.refuse -= 1
                return web.Response(status=500)
            self.events.append(await request.json())
            self.senders.add(request.remote)
            return web.Response(status=204)

        application = web.Application()
        application.router.add_post("/", take)
        runner = web.AppRunner(application)
        await runner.setup()
        port = free_port()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        self.url = f"http://127.0.0.1:{port}/"
        return runner


async def test_a_subscriber_is_told_also_when_it_was_away_for_a_moment(rack: Rack) -> None:
    receiver = Receiver()
    runner = await receiver.start()
    rack.fleet.service(rack.addresses[0]).subscriptions.interval = 0.01
    wish = {"Destination": receiver.url, "Protocol": "Redfish", "Context": "mine"}
    status, _, headers = await rack.ask("POST", SUBSCRIPTIONS, wish)
    assert status == 201
    receiver.refuse = 2
    await rack.reset("On")

    async def told() -> bool:
        return bool(receiver.events)

    await rack.until(told)
    event = receiver.events[0]
    assert event["Context"] == "mine"
    assert event["Events"][0]["MessageId"].endswith("ResourcePoweredOn")
    assert event["Events"][0]["OriginOfCondition"] == {"@odata.id": SYSTEM}

    receiver.refuse = 1000
    await rack.reset("ForceOff")

    async def suspended() -> bool:
        return bool((await rack.get(headers["Location"]))["Status"]["State"] == "Disabled")

    await rack.until(suspended)
    receiver.refuse = 0
    assert (await rack.ask("POST", headers["Location"] + "/Actions/EventDestination.ResumeSubscription"))[0] == 204
    assert (await rack.ask("POST", f"{V1}/EventService/Actions/EventService.SubmitTestEvent", {}))[0] == 204

    async def tested() -> bool:
        return bool(receiver.events[-1]["Events"][0]["MessageId"].endswith("TestMessage"))

    await rack.until(tested)
    assert (await rack.ask("DELETE", headers["Location"]))[0] == 204
    await runner.cleanup()


async def test_a_subscriber_is_told_from_where_the_bmc_lives(make_rack: MakeRack) -> None:
    made: list[int] = []

    def make(family: int, kind: int, protocol: int) -> socket.socket:
        made.append(family)
        return socket.socket(family, kind, protocol)

    rack = await make_rack(sockets=make)
    receiver, listeners = Receiver(), len(made)
    runner = await receiver.start()
    assert (await rack.ask("POST", SUBSCRIPTIONS, {"Destination": receiver.url, "Protocol": "Redfish"}))[0] == 201
    await rack.reset("On")

    async def told() -> bool:
        return bool(receiver.events)

    await rack.until(told)
    assert receiver.senders == {rack.addresses[0]}
    assert len(made) > listeners
    await runner.cleanup()


async def test_events_come_by_stream_and_the_stream_is_a_subscription(rack: Rack) -> None:
    headers = basic(ADMIN.username, ADMIN.password)
    async with rack.client.get(rack.base() + f"{V1}/EventService/SSE", headers=headers) as response:
        assert response.content_type == "text/event-stream"
        assert (await response.content.readline()).startswith(b":")
        members = (await rack.get(SUBSCRIPTIONS))["Members"]
        assert (await rack.get(members[0]["@odata.id"]))["SubscriptionType"] == "SSE"
        await rack.reset("On")
        while not (line := await response.content.readline()).startswith(b"data: "):
            pass
        assert json.loads(line[6:])["Events"][0]["MessageId"].endswith("ResourcePoweredOn")
        assert (await rack.ask("DELETE", members[0]["@odata.id"]))[0] == 204
        assert await response.content.read() in (b"", b"\n")


async def test_subscriptions_are_distrusted(rack: Rack) -> None:
    for wish in (
        {"Destination": "ftp://x/", "Protocol": "Redfish"},
        {"Destination": "http://x/", "Protocol": "Smoke"},
        {"Destination": "http://x/", "Protocol": "Redfish", "HttpHeaders": [{"A": "b\r\nC: d"}]},
        {"Destination": "http://x/", "Protocol": "Redfish", "HttpHeaders": "A: b"},
        {"Protocol": "Redfish"},
    ):
        assert (await rack.ask("POST", SUBSCRIPTIONS, wish))[0] == 400


async def test_a_reset_of_the_bmc_ends_the_sessions_and_leaves_the_server_alone(rack: Rack) -> None:
    await rack.reset("On")
    _, _, headers = await rack.ask(
        "POST", f"{V1}/SessionService/Sessions", {"UserName": "admin", "Password": ADMIN.password}, as_=None
    )
    reset = f"{V1}/Managers/1/Actions/Manager.Reset"
    assert (await rack.ask("POST", reset, {"ResetType": "ForceRestart"}))[0] == 204
    assert (await rack.ask("GET", SYSTEM, as_=None, headers={"X-Auth-Token": headers["X-Auth-Token"]}))[0] == 401
    assert await rack.power() == "On"


async def test_a_method_nobody_knows_and_what_is_no_http_are_answered(rack: Rack) -> None:
    assert (await rack.ask("POST", f"{V1}/", {}))[0] == 405
    assert (await rack.ask("GET", f"{V1}/"))[0] == 200, "the refused body is not taken for the next request"
    for text, code in ((b"BREW / HTTP/1.1\r\nHost: x\r\n\r\n", b"501"), (b"\x16\x03\x01\x00\r\n\r\n", b"50")):
        reader, writer = await asyncio.open_connection(rack.addresses[0], rack.port)
        writer.write(text)
        line = await reader.readline()
        assert code in line
        writer.close()
        await writer.wait_closed()


async def test_one_address_can_answer_for_all_servers_by_uuid(make_rack: MakeRack) -> None:
    rack = await make_rack(3, aggregate="127.0.0.77")
    base = f"http://127.0.0.77:{rack.port}"
    members = (await rack.get(f"{base}{V1}/Systems"))["Members"]
    assert len(members) == 3
    second = members[1]["@odata.id"]
    status, _, _ = await rack.ask("POST", f"{base}{second}/Actions/ComputerSystem.Reset", {"ResetType": "On"})
    assert status == 204
    assert (await rack.get(base + second))["Name"] == "server-1"
    assert (await rack.get(base + (await rack.get(base + second))["Links"]["ManagedBy"][0]["@odata.id"]))["Id"]
    assert [await rack.power(number) for number in range(3)] == ["Off", "On", "Off"]
    assert (await rack.ask("GET", f"{base}{V1}/Systems/1"))[0] == 404
    await rack.hypervisor.retire("server-2")

    async def fewer() -> bool:
        return len((await rack.get(f"{base}{V1}/Systems"))["Members"]) == 2

    await rack.until(fewer)
