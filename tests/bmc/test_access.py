from __future__ import annotations

import asyncio
import base64
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rackless.bmc.core.accounts import Account, Accounts
from rackless.bmc.core.log import Log, LogEntry, LogKind
from rackless.bmc.ipmi.sites import Ipmi
from rackless.bmc.redfish import sessions
from rackless.bmc.redfish.messages import Refusal
from rackless.bmc.redfish.resource import Scope
from rackless.bmc.redfish.schemas import SCHEMAS
from tests.bmc.conftest import ADMIN, OPERATOR, VIEWER, MakeRack, Rack, basic, free_port

SYSTEM = "/redfish/v1/Systems/1"
SERVICE = "/redfish/v1/SessionService"
SESSIONS = f"{SERVICE}/Sessions"


async def log_in(rack: Rack, account: Account) -> tuple[dict[str, str], str]:
    status, body, headers = await rack.ask(
        "POST", SESSIONS, {"UserName": account.username, "Password": account.password}, as_=None
    )
    assert status == 201, body
    return {"X-Auth-Token": headers["X-Auth-Token"]}, headers["Location"]


async def test_only_the_way_in_is_open_to_strangers(rack: Rack) -> None:
    for path in ("/redfish", "/redfish/v1", "/redfish/v1/", "/redfish/v1/odata", "/redfish/v1/$metadata"):
        assert (await rack.ask("GET", path, as_=None))[0] == 200, path
    for path in ("/redfish/v1/Systems", SYSTEM, SESSIONS, "/redfish/v1/Nothing", "/nothing"):
        status, _, headers = await rack.ask("GET", path, as_=None)
        assert (status, "WWW-Authenticate" in headers) == (401, True), path


async def test_wrong_passwords_names_and_headers_are_refused(rack: Rack) -> None:
    for account in (Account("admin", "wrong"), Account("nobody", ADMIN.password), Account("", "")):
        assert (await rack.ask("GET", SYSTEM, as_=account))[0] == 401
    for header in ("Basic", "Basic !!!", "Basic " + base64.b64encode(b"\xff:\xff").decode(), "Bearer x"):
        assert (await rack.ask("GET", SYSTEM, as_=None, headers={"Authorization": header}))[0] == 401
    assert (await rack.ask("GET", SYSTEM, as_=None, headers={"X-Auth-Token": "guess"}))[0] == 401
    assert (await rack.ask("POST", SESSIONS, {"UserName": "admin", "Password": "wrong"}, as_=None))[0] == 401


async def test_a_session_opens_the_door_until_it_is_closed(rack: Rack) -> None:
    token, uri = await log_in(rack, ADMIN)
    assert (await rack.ask("GET", SYSTEM, as_=None, headers=token))[0] == 200
    assert (await rack.get(uri))["UserName"] == "admin"
    assert (await rack.ask("DELETE", uri, as_=None, headers=token))[0] == 204
    assert (await rack.ask("GET", SYSTEM, as_=None, headers=token))[0] == 401


async def test_a_session_is_only_good_at_the_bmc_that_gave_it(make_rack: MakeRack) -> None:
    rack = await make_rack(2)
    token, _ = await log_in(rack, ADMIN)
    assert (await rack.ask("GET", SYSTEM, as_=None, headers=token, number=1))[0] == 401


def test_a_session_that_is_not_used_expires() -> None:
    now = [0.0]
    accounts = Accounts([ADMIN], session_timeout=30, now=lambda: now[0])
    _, token = accounts.open_session(ADMIN, "")
    now[0] = 29
    assert accounts.by_token(token)
    now[0] = 58
    assert accounts.by_token(token), "use keeps it alive"
    now[0] = 89
    assert accounts.by_token(token) is None
    assert accounts.sessions() == []


def test_a_session_forgotten_by_its_client_makes_room_for_a_new_one() -> None:
    now = [0.0]
    accounts = Accounts([ADMIN], session_limit=2, now=lambda: now[0])
    _, first = accounts.open_session(ADMIN, "")
    now[0] = 200
    _, second = accounts.open_session(ADMIN, "")
    now[0] = 301
    _, third = accounts.open_session(ADMIN, "")
    assert [bool(accounts.by_token(token)) for token in (first, second, third)] == [False, True, True]


async def test_too_many_sessions_are_refused_with_a_time_to_come_back(rack: Rack) -> None:
    for _ in range(48):
        await log_in(rack, ADMIN)
    status, body, headers = await rack.ask(
        "POST", SESSIONS, {"UserName": ADMIN.username, "Password": ADMIN.password}, as_=None
    )
    assert (status, headers["Retry-After"]) == (503, "30")
    assert body["error"]["code"].endswith("SessionLimitExceeded")
    for _ in range(16):
        await log_in(rack, VIEWER)  # one account does not use up everybody's
    with pytest.raises(AssertionError, match="SessionLimitExceeded"):
        await log_in(rack, OPERATOR)


async def test_roles_are_enforced(rack: Rack) -> None:
    reset = f"{SYSTEM}/Actions/ComputerSystem.Reset"
    assert (await rack.ask("GET", SYSTEM, as_=VIEWER))[0] == 200
    assert (await rack.ask("POST", reset, {"ResetType": "On"}, as_=VIEWER))[0] == 403
    assert (await rack.ask("PATCH", SYSTEM, {"AssetTag": "x"}, as_=VIEWER))[0] == 403
    assert (await rack.ask("POST", reset, {"ResetType": "On"}, as_=OPERATOR))[0] == 204
    timeout = {"SessionTimeout": 60}
    assert (await rack.ask("PATCH", "/redfish/v1/SessionService", timeout, as_=OPERATOR))[0] == 403
    assert (await rack.ask("PATCH", "/redfish/v1/SessionService", timeout, as_=ADMIN))[0] == 200


async def test_only_the_owner_or_an_administrator_closes_a_session(rack: Rack) -> None:
    _, uri = await log_in(rack, OPERATOR)
    assert (await rack.ask("DELETE", uri, as_=VIEWER))[0] == 403
    assert (await rack.ask("DELETE", uri, as_=OPERATOR))[0] == 204


async def test_the_service_and_its_sessions_are_told_as_redfish_has_them(rack: Rack) -> None:
    async def told(path: str) -> Any:
        found = await rack.get(path)
        assert found.pop("@odata.etag")
        return found

    service = await told(SERVICE)
    assert service.pop("Status") == {"State": "Enabled", "Health": "OK"}
    assert service == {
        "@odata.id": SERVICE, "@odata.type": SCHEMAS["SessionService"], "Id": "SessionService", "Name": "Session Service",
        "ServiceEnabled": True, "SessionTimeout": 1800, "Sessions": {"@odata.id": SESSIONS},
    }  # fmt: skip
    before = datetime.now(UTC).replace(microsecond=0)
    _, uri = await log_in(rack, VIEWER)
    found = await told(uri)
    assert before <= datetime.fromisoformat(found.pop("CreatedTime")) <= datetime.now(UTC)
    assert found == {
        "@odata.id": uri, "@odata.type": SCHEMAS["Session"], "Id": uri.rpartition("/")[2], "Name": "User Session",
        "UserName": "viewer", "Password": None, "ClientOriginIPAddress": "127.0.0.1", "SessionType": "Redfish",
    }  # fmt: skip
    assert uri.rpartition("/")[0] == SESSIONS
    assert await told(SESSIONS) == {
        "@odata.id": SESSIONS, "@odata.type": "#SessionCollection.SessionCollection", "Name": "Sessions",
        "Members": [{"@odata.id": uri}], "Members@odata.count": 1,
    }  # fmt: skip


async def test_a_session_that_is_not_there_is_not_found_and_an_administrator_closes_that_of_another(rack: Rack) -> None:
    _, uri = await log_in(rack, OPERATOR)
    assert (await rack.ask("DELETE", uri, as_=ADMIN))[0] == 204
    for method in ("GET", "DELETE"):
        assert (await rack.ask(method, uri))[0] == 404


@pytest.mark.parametrize(("seconds", "status"), [(29, 400), (30, 200), (86400, 200), (86401, 400)])
async def test_a_session_lasts_half_a_minute_to_a_day(rack: Rack, seconds: int, status: int) -> None:
    assert (await rack.ask("PATCH", SERVICE, {"SessionTimeout": seconds}))[0] == status
    assert (await rack.get(SERVICE))["SessionTimeout"] == (seconds if status == 200 else 1800)


async def test_who_fails_to_log_in_is_written_down_as_a_warning_and_told_to_nobody() -> None:
    """Strangers could fill the queues of subscribers otherwise."""
    told: list[LogEntry] = []
    log = Log()
    log.listen(told.append)
    service = SimpleNamespace(accounts=Accounts([ADMIN]), log=log)
    scope = cast(Scope, SimpleNamespace(service=service, origin="192.0.2.7"))
    with pytest.raises(Refusal) as refused:
        await sessions.log_in(scope, {"UserName": "admin", "Password": "wrong"})
    assert refused.value.status == 401
    (entry,) = log.entries()
    assert entry.warning and entry.kind is LogKind.CHANGED and "192.0.2.7" in entry.text and "wrong" not in entry.text
    assert told == []


def test_passwords_are_not_shown_when_an_account_is() -> None:
    assert ADMIN.password not in repr(ADMIN)


# what a client is told, and what a change ends


@pytest.mark.parametrize(
    ("headers", "key"),
    [
        ({}, "NoValidSession"),
        ({"X-Auth-Token": "expired"}, "NoValidSession"),
        ({"Authorization": "Bearer x"}, "NoValidSession"),
        (basic("admin", "wrong"), "ResourceAtUriUnauthorized"),
        (basic("nobody", "x"), "ResourceAtUriUnauthorized"),
        ({"Authorization": "Basic ???"}, "HeaderInvalid"),
        ({"Authorization": "Basic YWRt\u00e9"}, "HeaderInvalid"),
        ({"Authorization": "Basic /////w=="}, "HeaderInvalid"),
    ],
)
async def test_a_client_is_told_what_was_wrong(rack: Rack, headers: dict[str, str], key: str) -> None:
    status, body, told = await rack.ask("GET", SYSTEM, as_=None, headers=headers)
    assert (status, body["error"]["code"].rpartition(".")[2]) == (401, key)
    assert told["WWW-Authenticate"].startswith("Basic")


async def test_a_wrong_password_at_login_is_told_as_one(rack: Rack) -> None:
    status, body, _ = await rack.ask("POST", SESSIONS, {"UserName": "admin", "Password": "wrong"}, as_=None)
    assert status == 401
    assert body["error"]["@Message.ExtendedInfo"][0]["MessageArgs"] == [SESSIONS, "Invalid username or password"]


@pytest.mark.parametrize("change", [{"Password": "another one"}, {"RoleId": "Operator"}, {"Enabled": False}, None])
async def test_a_changed_account_ends_its_sessions(rack: Rack, change: dict[str, object] | None) -> None:
    headers, _ = await log_in(rack, VIEWER)
    admin, _ = await log_in(rack, ADMIN)
    uri = "/redfish/v1/AccountService/Accounts/3"
    status, _, _ = await rack.ask("PATCH", uri, change) if change else await rack.ask("DELETE", uri)
    assert status in (200, 204)
    assert (await rack.ask("GET", SYSTEM, as_=None, headers=headers))[0] == 401
    assert (await rack.ask("GET", SYSTEM, as_=None, headers=admin))[0] == 200


async def test_the_session_that_changes_its_own_password_stays(rack: Rack) -> None:
    own, _ = await log_in(rack, VIEWER)
    other, _ = await log_in(rack, VIEWER)
    uri = "/redfish/v1/AccountService/Accounts/3"
    assert (await rack.ask("PATCH", uri, {"Password": "another one"}, as_=None, headers=own))[0] == 200
    assert (await rack.ask("GET", SYSTEM, as_=None, headers=own))[0] == 200
    assert (await rack.ask("GET", SYSTEM, as_=None, headers=other))[0] == 401


async def test_accounts_lock_when_the_service_is_told_to(rack: Rack) -> None:
    service = "/redfish/v1/AccountService"
    assert (await rack.get(service))["AccountLockoutThreshold"] == 0
    assert (await rack.ask("PATCH", service, {"AccountLockoutThreshold": 2}))[0] == 200
    for _ in range(2):
        assert (await rack.ask("GET", SYSTEM, as_=Account("viewer", "wrong")))[0] == 401
    assert (await rack.ask("GET", SYSTEM, as_=VIEWER))[0] == 401
    uri = f"{service}/Accounts/3"
    assert (await rack.get(uri))["Locked"] is True
    servers = [bmc.server for bmc in rack.fleet.observe()]
    assert any(rack.fleet.is_locked(server, "viewer") for server in servers)
    assert not any(rack.fleet.is_locked(server, "admin") for server in servers) and not rack.fleet.is_locked(
        "none", "viewer"
    )
    assert (await rack.ask("PATCH", uri, {"Locked": True}))[0] == 400
    assert (await rack.ask("PATCH", uri, {"Locked": False}))[0] == 200
    assert not any(rack.fleet.is_locked(server, "viewer") for server in servers)
    assert (await rack.ask("GET", SYSTEM, as_=VIEWER))[0] == 200
    assert (await rack.ask("PATCH", service, {"AccountLockoutThreshold": 2}, as_=OPERATOR))[0] == 403
    wrong = {"AccountLockoutDuration": 10, "AccountLockoutCounterResetAfter": 11}
    assert (await rack.ask("PATCH", service, wrong))[0] == 400


async def test_accounts_made_at_once_are_all_made_and_none_twice(rack: Rack) -> None:
    uri = "/redfish/v1/AccountService/Accounts"

    async def make(name: str) -> int:
        return (await rack.ask("POST", uri, {"UserName": name, "Password": "password", "RoleId": "ReadOnly"}))[0]

    answers = await asyncio.gather(*(make(f"user-{number % 5}") for number in range(10)))
    assert sorted(answers) == [201] * 5 + [400] * 5
    assert len((await rack.get(uri))["Members"]) == 8


async def test_what_answers_is_told_and_what_does_not_is_not(make_rack: MakeRack) -> None:
    without = await make_rack()
    protocols = "/redfish/v1/Managers/1/NetworkProtocol"
    assert (await without.get(protocols))["IPMI"]["ProtocolEnabled"] is False


async def test_ipmi_that_answers_is_told(make_rack: MakeRack) -> None:
    port = free_port()
    rack = await make_rack(ipmi=Ipmi(port=port))
    assert (await rack.get("/redfish/v1/Managers/1/NetworkProtocol"))["IPMI"] == {"ProtocolEnabled": True, "Port": port}


async def test_registries_say_severity_in_both_words_and_the_bios_one_is_where_bios_says(rack: Rack) -> None:
    for name in ("Base", "ResourceEvent"):
        file = await rack.get(f"/redfish/v1/Registries/{name}")
        registry = await rack.get(file["Location"][0]["Uri"])
        for entry in registry["Messages"].values():
            assert entry["Severity"] == entry["MessageSeverity"] in ("OK", "Warning", "Critical")
    bios = await rack.get(f"{SYSTEM}/Bios")
    file = await rack.get(f"/redfish/v1/Registries/{bios['AttributeRegistry']}")
    assert file["Registry"] == bios["AttributeRegistry"]
    assert (await rack.get(file["Location"][0]["Uri"]))["RegistryEntries"]["Attributes"]
    former = await rack.get("/redfish/v1/Registries/BiosAttributeRegistry")
    assert former["@odata.id"] == file["@odata.id"]
    members = {one["@odata.id"] for one in (await rack.get("/redfish/v1/Registries"))["Members"]}
    assert file["@odata.id"] in members
