"""What subscribers are told: everything that happens to a server and its BMC, by whichever way, and nothing to forbidden places."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from rackless.bmc.core.sockets import not_of_a_lab
from rackless.bmc.core.state import JsonFile
from rackless.bmc.redfish.subscriptions import Subscriptions, Wish
from rackless.events import Bus
from tests.bmc.conftest import ADMIN, OPERATOR, VIEWER, Files, MakeRack, Rack, basic
from tests.bmc.test_services import SUBSCRIPTIONS, SYSTEM, V1, Receiver

ACCOUNTS = f"{V1}/AccountService/Accounts"
STREAM = f"{V1}/EventService/SSE"


@asynccontextmanager
async def listening(rack: Rack, base: str = "", **kwargs: Any) -> AsyncIterator[aiohttp.ClientResponse]:
    headers = kwargs.pop("headers", basic(ADMIN.username, ADMIN.password))
    async with rack.client.get((base or rack.base()) + STREAM, headers=headers) as response:
        assert response.status == 200
        await response.content.readline()
        yield response


async def heard(response: aiohttp.ClientResponse) -> dict[str, Any]:
    async with asyncio.timeout(20):
        while not (line := await response.content.readline()).startswith(b"data: "):
            assert line, "the stream ended"
    found: dict[str, Any] = json.loads(line[6:])["Events"][0]
    return found


def shape(event: dict[str, Any]) -> tuple[str, str, str]:
    return event["EventType"], event["MessageId"].rpartition(".")[2], event["OriginOfCondition"]["@odata.id"]


@pytest.mark.parametrize(
    "change",
    [
        {"IndicatorLED": "Lit"},
        {"LocationIndicatorActive": True},
        {"AssetTag": "rack 7"},
        {"Boot": {"BootSourceOverrideEnabled": "Once", "BootSourceOverrideTarget": "Pxe"}},
        {"Boot": {"BootOrder": ["Boot0002"]}},
        {"PowerRestorePolicy": "AlwaysOn"},
    ],
    ids=lambda change: "-".join(change),
)
async def test_a_change_of_the_system_is_told_once_and_only_when_it_is_one(rack: Rack, change: dict[str, Any]) -> None:
    async with listening(rack) as response:
        for _ in range(2):
            assert (await rack.ask("PATCH", SYSTEM, change))[0] == 200
        assert shape(await heard(response)) == ("ResourceUpdated", "ResourceChanged", SYSTEM)
        await rack.reset("On")
        assert shape(await heard(response))[1] in ("ResourcePoweredOn", "ResourceChanged"), "nothing twice"


async def test_power_is_told_by_whoevers_hand_it_was_changed(rack: Rack) -> None:
    async with listening(rack) as response:
        await rack.reset("On")
        assert shape(await heard(response)) == ("StatusChange", "ResourcePoweredOn", SYSTEM)
        await rack.hypervisor.power_off("server-0")
        assert shape(await heard(response)) == ("StatusChange", "ResourcePoweredOff", SYSTEM)


async def test_an_aggregate_tells_of_each_of_its_systems(make_rack: MakeRack) -> None:
    rack = await make_rack(2, aggregate="127.0.0.78")
    base = f"http://127.0.0.78:{rack.port}"
    members = [one["@odata.id"] for one in (await rack.get(f"{base}{V1}/Systems"))["Members"]]
    async with listening(rack, base) as response:
        for uri in members:
            status, _, _ = await rack.ask("POST", f"{base}{uri}/Actions/ComputerSystem.Reset", {"ResetType": "On"})
            assert status == 204
            assert shape(await heard(response)) == ("StatusChange", "ResourcePoweredOn", uri)
            assert (await rack.ask("PATCH", base + uri, {"IndicatorLED": "Lit"}))[0] == 200
            assert shape(await heard(response)) == ("ResourceUpdated", "ResourceChanged", uri)


async def test_media_and_accounts_are_told(rack: Rack, files: Files) -> None:
    files.contents["a.iso"] = b"iso"
    async with listening(rack) as response:
        insert = f"{SYSTEM}/VirtualMedia/Cd/Actions/VirtualMedia.InsertMedia"
        assert (await rack.ask("POST", insert, {"Image": f"{files.url}/a.iso"}))[0] == 204
        assert shape(await heard(response)) == ("ResourceUpdated", "ResourceChanged", SYSTEM)
        new = {"UserName": "bob", "Password": "password", "RoleId": "ReadOnly"}
        _, _, headers = await rack.ask("POST", ACCOUNTS, new)
        uri = headers["Location"]
        assert shape(await heard(response)) == ("ResourceAdded", "ResourceCreated", uri)
        assert (await rack.ask("PATCH", uri, {"Enabled": False}))[0] == 200
        assert shape(await heard(response)) == ("ResourceUpdated", "ResourceChanged", uri)
        assert (await rack.ask("DELETE", uri))[0] == 204
        assert shape(await heard(response)) == ("ResourceRemoved", "ResourceRemoved", uri)


async def test_a_subscriber_gets_only_the_types_it_wants(rack: Rack) -> None:
    receiver = Receiver()
    runner = await receiver.start()
    wish = {"Destination": receiver.url, "Protocol": "Redfish", "EventTypes": ["StatusChange"]}
    _, body, _ = await rack.ask("POST", SUBSCRIPTIONS, wish)
    assert body["EventTypes"] == ["StatusChange"]
    await rack.ask("PATCH", SYSTEM, {"IndicatorLED": "Lit"})
    await rack.reset("On")

    async def told() -> bool:
        return bool(receiver.events)

    await rack.until(told)
    assert [one["Events"][0]["EventType"] for one in receiver.events] == ["StatusChange"]
    await runner.cleanup()


async def test_a_refused_login_is_no_event(rack: Rack) -> None:
    async with listening(rack) as response:
        wrong = {"UserName": "admin", "Password": "wrong"}
        assert (await rack.ask("POST", f"{V1}/SessionService/Sessions", wrong, as_=None))[0] == 401
        await rack.reset("On")
        assert shape(await heard(response))[1] == "ResourcePoweredOn"


# who may listen, and for how long


async def ended(response: aiohttp.ClientResponse) -> bool:
    async with asyncio.timeout(20):
        while await response.content.readline():
            pass
    return True


async def test_a_stream_ends_with_the_password_or_the_session_it_was_opened_with(rack: Rack) -> None:
    async with listening(rack, headers=basic(VIEWER.username, VIEWER.password)) as response:
        assert (await rack.ask("PATCH", f"{ACCOUNTS}/3", {"Password": "another one"}))[0] == 200
        assert await ended(response)
    _, _, headers = await rack.ask(
        "POST",
        f"{V1}/SessionService/Sessions",
        {"UserName": OPERATOR.username, "Password": OPERATOR.password},
        as_=None,
    )
    async with listening(rack, headers={"X-Auth-Token": headers["X-Auth-Token"]}) as response:
        assert (await rack.ask("DELETE", headers["Location"]))[0] == 204
        assert await ended(response)


async def test_streams_leave_room_for_subscriptions(rack: Rack) -> None:
    open_ones = [await rack.client.get(rack.base() + STREAM, headers=basic("viewer", "v1ewer")) for _ in range(9)]
    assert [one.status for one in open_ones] == [200] * 8 + [503]
    wish = {"Destination": "http://events.invalid/", "Protocol": "Redfish"}
    assert (await rack.ask("POST", SUBSCRIPTIONS, wish))[0] == 201
    for one in open_ones:
        one.close()


async def test_streams_and_subscriptions_that_are_asked_for_at_once_are_no_more(rack: Rack) -> None:
    """A look at how many there are, and a wait, before one more: whoever asked for all at once had all."""
    ask = [rack.client.get(rack.base() + STREAM, headers=basic("viewer", "v1ewer")) for _ in range(20)]
    open_ones = await asyncio.gather(*ask)
    assert sorted(one.status for one in open_ones) == [200] * 8 + [503] * 12
    wish = {"Destination": "http://events.invalid/", "Protocol": "Redfish"}
    answers = await asyncio.gather(*(rack.ask("POST", SUBSCRIPTIONS, wish) for _ in range(20)))
    assert sorted(status for status, _, _ in answers) == [201] * 8 + [503] * 12
    assert (await rack.get(SUBSCRIPTIONS))["Members@odata.count"] == 16
    for one in open_ones:
        one.close()

    async def gone() -> bool:
        return bool((await rack.get(SUBSCRIPTIONS))["Members@odata.count"] == 8)

    await rack.until(gone)


async def test_a_receivers_password_is_shown_to_nobody(rack: Rack) -> None:
    wish = {"Destination": "https://me:s3cret@events.invalid:8443/hook?token=t0ken", "Protocol": "Redfish"}
    status, made, headers = await rack.ask("POST", SUBSCRIPTIONS, wish)
    assert status == 201
    for found in (made, await rack.get(headers["Location"], as_=VIEWER)):
        assert found["Destination"] == "https://events.invalid:8443/hook?token=t0ken"
    [one] = rack.fleet.service(rack.addresses[0]).subscriptions.by_id.values()
    assert one.wish.destination == wish["Destination"], "events are sent with it"
    assert one.wish.logged == "https://events.invalid:8443/hook"
    assert Wish("http://t0ken@events.invalid/a#b").logged == "http://events.invalid/a"
    assert Wish("http://events.invalid").shown == "http://events.invalid" and Wish(None).shown is None


# where events are not told to


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1:9", "127.9.8.7", "[::1]:9", "localhost", "0.0.0.0", "[::]", "169.254.169.254", "[fe80::1]", "224.0.0.1",
        "[::ffff:127.0.0.1]", "[::ffff:169.254.169.254]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[::127.0.0.1]",
        "2130706433", "0x7f.1", "127.1",
    ],
)  # fmt: skip
async def test_a_lab_refuses_a_destination_at_its_own_services(make_rack: MakeRack, host: str) -> None:
    rack = await make_rack(forbids=not_of_a_lab)
    status, body, _ = await rack.ask("POST", SUBSCRIPTIONS, {"Destination": f"http://{host}/x", "Protocol": "Redfish"})
    assert status == 400, body
    assert body["error"]["@Message.ExtendedInfo"][0]["RelatedProperties"] == ["#/Destination"]
    assert (await rack.get(SUBSCRIPTIONS))["Members"] == []


async def test_no_bmc_asks_another_one_or_itself(make_rack: MakeRack, files: Files) -> None:
    rack = await make_rack(2)
    insert = f"{SYSTEM}/VirtualMedia/Cd/Actions/VirtualMedia.InsertMedia"
    for number in range(2):
        for host in (rack.addresses[number], f"[::ffff:{rack.addresses[number]}]"):
            wish = {"Destination": f"http://{host}:{rack.port}/", "Protocol": "Redfish"}
            assert (await rack.ask("POST", SUBSCRIPTIONS, wish))[0] == 400
            assert (await rack.ask("POST", insert, {"Image": f"http://{host}:{rack.port}/a.iso"}))[0] == 400


async def test_a_name_that_comes_to_lead_there_later_is_not_followed_either(
    make_rack: MakeRack, monkeypatch: pytest.MonkeyPatch
) -> None:
    rack = await make_rack(forbids=not_of_a_lab)
    receiver = Receiver()
    runner = await receiver.start()
    port = receiver.url.rpartition(":")[2].strip("/")
    wish = {"Destination": f"http://events.invalid:{port}/", "Protocol": "Redfish"}
    status, _, headers = await rack.ask("POST", SUBSCRIPTIONS, wish)
    assert status == 201
    service = rack.fleet.service(rack.addresses[0])
    service.subscriptions.interval, service.subscriptions.attempts = 0.01, 1
    monkeypatch.setattr(
        "socket.getaddrinfo", lambda host, port, *_: [(2, 1, 6, "", ("127.0.0.1", port))] if "events" in host else []
    )
    await rack.reset("On")

    async def given_up() -> bool:
        return bool((await rack.get(headers["Location"]))["Status"]["State"] == "Disabled")

    await rack.until(given_up)
    assert receiver.events == []
    await runner.cleanup()


async def test_headers_are_bounded(rack: Rack) -> None:
    ours = [[{name: "5"}] for name in ("Content-Length", "transfer-encoding", "Host", "Connection")]
    strange = [[{name: "x"}] for name in ("", "-", "X Y", "X:", "\u00e9")] + [
        [{"X": text}] for text in ("a\r\nb", "\0", 5)
    ]
    for headers in ([{f"X-{number}": "x"} for number in range(17)], [{"X": "y" * 1024}], *ours, *strange):
        wish = {"Destination": "http://events.invalid/", "Protocol": "Redfish", "HttpHeaders": headers}
        assert (await rack.ask("POST", SUBSCRIPTIONS, wish))[0] == 400


async def test_a_subscription_keeps_its_id_when_the_bmc_starts_again(tmp_path: Path) -> None:
    file = JsonFile(tmp_path / "subscriptions.json")
    first = Subscriptions(file, Bus())
    made = [(await first.add(Wish(f"http://192.0.2.1/{number}"))).id for number in range(3)]
    await first.remove(made[0])
    again = Subscriptions(file, Bus())
    assert {id: one.wish.destination for id, one in again.by_id.items()} == {
        made[1]: "http://192.0.2.1/1",
        made[2]: "http://192.0.2.1/2",
    }
    assert (await again.add(Wish("http://192.0.2.1/3"))).id not in made[1:]


async def test_subscriptions_that_were_kept_without_their_ids_are_there(tmp_path: Path) -> None:
    file = JsonFile(tmp_path / "subscriptions.json")
    old = asdict(Wish("http://192.0.2.1/"))
    await file.save({"subscriptions": [old, old]})
    assert list(Subscriptions(file, Bus()).by_id) == ["1", "2"]
