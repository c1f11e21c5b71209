from __future__ import annotations

import base64

from rackless.bmc.accounts import Account, Accounts
from tests.bmc.conftest import ADMIN, OPERATOR, VIEWER, MakeRack, Rack

SYSTEM = "/redfish/v1/Systems/1"
SESSIONS = "/redfish/v1/SessionService/Sessions"


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
    for _ in range(64):
        await log_in(rack, ADMIN)
    status, body, headers = await rack.ask(
        "POST", SESSIONS, {"UserName": ADMIN.username, "Password": ADMIN.password}, as_=None
    )
    assert (status, "Retry-After" in headers) == (503, True)
    assert body["error"]["code"].endswith("SessionLimitExceeded")


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


def test_passwords_are_not_shown_when_an_account_is() -> None:
    assert ADMIN.password not in repr(ADMIN)
