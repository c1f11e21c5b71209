"""AccountService as Redfish has it: every field of the service, of accounts and roles, and the edges of what may be asked."""

from __future__ import annotations

import pytest

from tests.bmc.conftest import ADMIN, VIEWER, Rack

SERVICE = "/redfish/v1/AccountService"
ACCOUNTS, ROLES = f"{SERVICE}/Accounts", f"{SERVICE}/Roles"
NEW = {"UserName": "new", "Password": "long enough", "RoleId": "Operator"}


def plain(document: dict[str, object]) -> dict[str, object]:
    """Without what belongs to the protocol and to every resource."""
    return {name: value for name, value in document.items() if not name.startswith("@odata.") and name != "Description"}


async def test_the_service_says_what_it_asks_of_passwords_and_when_it_locks(rack: Rack) -> None:
    found = await rack.get(SERVICE)
    assert found["@odata.type"].startswith("#AccountService.") and found["@odata.id"] == SERVICE
    assert plain(found) == {
        "Id": "AccountService", "Name": "Account Service", "ServiceEnabled": True,
        "Status": {"State": "Enabled", "Health": "OK"}, "MinPasswordLength": 8, "MaxPasswordLength": 64,
        "AccountLockoutThreshold": 0, "AccountLockoutDuration": found["AccountLockoutDuration"],
        "AccountLockoutCounterResetAfter": found["AccountLockoutCounterResetAfter"],
        "AccountLockoutCounterResetEnabled": True, "SupportedAccountTypes": ["Redfish"], "LocalAccountAuth": "Enabled",
        "Accounts": {"@odata.id": ACCOUNTS}, "Roles": {"@odata.id": ROLES},
    }  # fmt: skip


async def test_a_lockout_is_changed_field_by_field_and_forgets_no_later_than_it_ends(rack: Rack) -> None:
    wish = {"AccountLockoutThreshold": 3, "AccountLockoutDuration": 60, "AccountLockoutCounterResetAfter": 60}
    assert (await rack.ask("PATCH", SERVICE, wish))[0] in (200, 204)
    assert (await rack.ask("PATCH", SERVICE, {"AccountLockoutThreshold": 5}))[0] in (200, 204)
    found = await rack.get(SERVICE)
    assert [found[name] for name in wish] == [5, 60, 60]
    status, body, _ = await rack.ask("PATCH", SERVICE, {"AccountLockoutCounterResetAfter": 61})
    told = body["error"]["@Message.ExtendedInfo"][0]
    assert status == 400 and told["RelatedProperties"] == ["#/AccountLockoutCounterResetAfter"]
    assert told["MessageArgs"] == ["AccountLockoutCounterResetAfter", "AccountLockoutDuration"]
    forever = {"AccountLockoutDuration": 0, "AccountLockoutCounterResetAfter": 86400}
    assert (await rack.ask("PATCH", SERVICE, forever))[0] in (200, 204), "a lock without an end outlasts everything"
    for name, value in (("Threshold", 101), ("Duration", 86401), ("CounterResetAfter", 0)):
        assert (await rack.ask("PATCH", SERVICE, {f"AccountLockout{name}": value}))[0] == 400


async def test_an_account_is_told_without_its_password(rack: Rack) -> None:
    found = await rack.get(f"{ACCOUNTS}/3")
    assert found["@odata.type"].startswith("#ManagerAccount.") and found["@odata.id"] == f"{ACCOUNTS}/3"
    assert plain(found) == {
        "Id": "3", "Name": "User Account", "UserName": VIEWER.username, "Password": None, "RoleId": "ReadOnly",
        "Enabled": True, "Locked": False, "AccountTypes": ["Redfish"], "Links": {"Role": {"@odata.id": f"{ROLES}/ReadOnly"}},
    }  # fmt: skip
    whole = await rack.get(ACCOUNTS)
    assert whole["@odata.type"].startswith("#ManagerAccountCollection.") and whole["Name"] == "Accounts"
    assert [one["@odata.id"] for one in whole["Members"]] == [f"{ACCOUNTS}/{number}" for number in (1, 2, 3)]


async def test_the_three_roles_say_what_they_may(rack: Rack) -> None:
    whole = await rack.get(ROLES)
    assert whole["@odata.type"].startswith("#RoleCollection.") and whole["Name"] == "Roles"
    assert [one["@odata.id"] for one in whole["Members"]] == [
        f"{ROLES}/{name}" for name in ("Administrator", "Operator", "ReadOnly")
    ]
    for name, most in (("Administrator", "ConfigureUsers"), ("Operator", "ConfigureComponents"), ("ReadOnly", "Login")):
        found = await rack.get(f"{ROLES}/{name}")
        assert found["@odata.type"].startswith("#Role.") and found["@odata.id"] == f"{ROLES}/{name}"
        assert (found["Id"], found["RoleId"], found["Name"], found["IsPredefined"]) == (
            name,
            name,
            f"{name} Role",
            True,
        )
        assert most in found["AssignedPrivileges"] and found["AssignedPrivileges"] == sorted(
            found["AssignedPrivileges"]
        )
    assert (await rack.ask("GET", f"{ROLES}/Boss"))[0] == 404


async def test_a_new_account_has_the_next_number_and_may_be_made_disabled(rack: Rack) -> None:
    status, body, headers = await rack.ask("POST", ACCOUNTS, {**NEW, "Enabled": False})
    assert (status, headers["Location"].rpartition("/")[2], body["Enabled"]) == (201, "4", False)
    assert (await rack.ask("DELETE", f"{ACCOUNTS}/2"))[0] == 204
    status, body, _ = await rack.ask("POST", ACCOUNTS, {**NEW, "UserName": "newer"})
    assert (status, body["Id"], body["UserName"], body["RoleId"], body["Enabled"]) == (
        201,
        "5",
        "newer",
        "Operator",
        True,
    )


async def test_there_are_sixteen_accounts_at_most(rack: Rack) -> None:
    for number in range(13):
        assert (await rack.ask("POST", ACCOUNTS, {**NEW, "UserName": f"u{number}"}))[0] == 201
    status, body, _ = await rack.ask("POST", ACCOUNTS, {**NEW, "UserName": "u13"})
    assert status == 400 and body["error"]["code"].endswith("CreateLimitReachedForResource")
    assert len((await rack.get(ACCOUNTS))["Members"]) == 16


@pytest.mark.parametrize("length", [7, 8, 64, 65])
async def test_a_password_is_as_long_as_the_service_says(rack: Rack, length: int) -> None:
    status, _, _ = await rack.ask("POST", ACCOUNTS, {**NEW, "Password": "x" * length})
    assert status == (201 if 8 <= length <= 64 else 400)


async def test_what_cannot_be_changed_says_which_part_of_it(rack: Rack) -> None:
    status, body, _ = await rack.ask("PATCH", f"{ACCOUNTS}/3", {"Locked": True})
    assert status == 400 and body["error"]["@Message.ExtendedInfo"][0]["RelatedProperties"] == ["#/Locked"]
    status, body, _ = await rack.ask("PATCH", f"{ACCOUNTS}/3", {"UserName": ADMIN.username})
    told = body["error"]["@Message.ExtendedInfo"][0]
    assert status == 400 and told["MessageArgs"] == ["ManagerAccount", "UserName", ADMIN.username]
    status, body, _ = await rack.ask("PATCH", f"{ACCOUNTS}/1", {"RoleId": "Operator"})
    assert status == 400 and body["error"]["@Message.ExtendedInfo"][0]["MessageArgs"] == ["RoleId", "Accounts"]
    for method in ("PATCH", "DELETE", "GET"):
        assert (await rack.ask(method, f"{ACCOUNTS}/9", {"Enabled": True} if method == "PATCH" else None))[0] == 404
