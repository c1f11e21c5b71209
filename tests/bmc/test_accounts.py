"""Accounts and sessions by themselves: who is let in, for how long, and what a change of an account ends."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from rackless.bmc.core.accounts import PRIVILEGES, Account, Accounts, Lockout, Session, SessionLimit
from rackless.bmc.core.disk import StateDisk
from rackless.bmc.core.state import JsonFile

ANNA = Account("anna", "anna's own", "Administrator")
OTTO = Account("otto", "otto's own", "Operator")
OFF = Account("olga", "olga's own", "ReadOnly", enabled=False)


class Clock:
    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def accounts(clock: Clock) -> Accounts:
    return Accounts([ANNA, OTTO, OFF], now=clock)


@pytest.mark.parametrize(
    ("username", "password", "found"),
    [
        ("anna", "anna's own", ANNA),
        ("otto", "otto's own", OTTO),
        ("otto", "anna's own", None),
        ("anna", "", None),
        ("anna", "anna's own ", None),
        ("Anna", "anna's own", None),
        ("", "anna's own", None),
        ("olga", "olga's own", None),
        ("nobody", "x", None),
        ("\ud800", "\udfff", None),
    ],
)
def test_only_the_right_name_with_the_right_password_of_an_enabled_account(
    accounts: Accounts, username: str, password: str, found: Account | None
) -> None:
    assert accounts.check(username, password) == found


def test_the_roles_are_dmtfs() -> None:
    everything = {"Login", "ConfigureManager", "ConfigureUsers", "ConfigureComponents", "ConfigureSelf"}
    assert PRIVILEGES["Administrator"] == everything
    assert PRIVILEGES["Operator"] == {"Login", "ConfigureComponents", "ConfigureSelf"}
    assert PRIVILEGES["ReadOnly"] == {"Login", "ConfigureSelf"}
    assert ANNA.privileges == everything and OTTO.privileges == PRIVILEGES["Operator"]


# sessions


def test_a_session_is_known_by_its_token_alone(accounts: Accounts) -> None:
    session, token = accounts.open_session(OTTO, "192.0.2.7")
    other, other_token = accounts.open_session(OTTO, "192.0.2.7")
    assert (session.username, session.origin) == ("otto", "192.0.2.7")
    assert session.id != other.id and token != other_token and len(token) >= 32
    found = accounts.by_token(token)
    assert found is not None and found[0].id == session.id and found[1] == OTTO
    assert accounts.by_token("") is None
    assert accounts.by_token(token[:-1]) is None
    assert accounts.by_token(session.id) is None
    assert token not in repr(accounts.sessions())


def test_sessions_are_listed_found_and_closed_one_by_one(accounts: Accounts) -> None:
    first, first_token = accounts.open_session(ANNA, "a")
    second, second_token = accounts.open_session(ANNA, "b")
    assert [one.id for one in accounts.sessions()] == [first.id, second.id]
    assert accounts.session(second.id) == second
    assert accounts.session("x") is None
    accounts.close_session(first.id)
    assert accounts.by_token(first_token) is None
    assert accounts.by_token(second_token) is not None
    accounts.close_session("x")
    assert [one.id for one in accounts.sessions()] == [second.id]


@pytest.mark.parametrize(("idle", "lives"), [(0, True), (1799, True), (1800, True), (1801, False)])
def test_a_session_ends_when_it_was_not_used_for_its_time(
    accounts: Accounts, clock: Clock, idle: float, lives: bool
) -> None:
    session, token = accounts.open_session(ANNA, "")
    clock.seconds += idle
    assert (accounts.session(session.id) is not None) is lives
    assert (accounts.by_token(token) is not None) is lives


def test_use_and_an_open_stream_keep_a_session_alive(accounts: Accounts, clock: Clock) -> None:
    used, token = accounts.open_session(ANNA, "")
    streamed, _ = accounts.open_session(ANNA, "")
    for _ in range(3):
        clock.seconds += 1000
        assert accounts.by_token(token)
        assert accounts.keep_alive(streamed.id)
    assert {one.id for one in accounts.sessions()} == {used.id, streamed.id}
    assert not accounts.keep_alive("x")


@pytest.mark.parametrize(("idle", "made"), [(299, False), (300, True), (400, True)])
def test_only_a_session_unused_for_some_time_makes_room(clock: Clock, idle: float, made: bool) -> None:
    accounts = Accounts([ANNA, OTTO], session_limit=4, now=clock)
    oldest, _ = accounts.open_session(ANNA, "")
    clock.seconds += 1
    rest = [accounts.open_session(one, "")[0] for one in (ANNA, ANNA, OTTO)]
    clock.seconds += idle - 1
    if made:
        new, _ = accounts.open_session(OTTO, "")
        assert [one.id for one in accounts.sessions()] == [*(one.id for one in rest), new.id]
    else:
        with pytest.raises(SessionLimit):
            accounts.open_session(OTTO, "")
        assert len(accounts.sessions()) == 4 and accounts.session(oldest.id)


def test_one_account_leaves_a_quarter_of_the_sessions_to_others(clock: Clock) -> None:
    accounts = Accounts([ANNA, OTTO], session_limit=8, now=clock)
    for _ in range(6):
        accounts.open_session(OTTO, "")
    with pytest.raises(SessionLimit):
        accounts.open_session(OTTO, "")
    accounts.open_session(ANNA, "")
    accounts.open_session(ANNA, "")
    with pytest.raises(SessionLimit):
        accounts.open_session(ANNA, "")


# what a change ends


@pytest.mark.parametrize(
    ("change", "own_stays"),
    [
        ({"password": "another"}, True),
        ({"role": "ReadOnly"}, False),
        ({"enabled": False}, False),
        ({"username": "ottilie"}, False),
        ({"password": "another", "role": "ReadOnly"}, False),
    ],
)
async def test_a_changed_account_ends_its_sessions_and_no_others(
    accounts: Accounts, change: Mapping[str, object], own_stays: bool
) -> None:
    _, anna = accounts.open_session(ANNA, "")
    own, own_token = accounts.open_session(OTTO, "")
    _, other = accounts.open_session(OTTO, "")
    told: list[str] = []
    accounts.listen(told.append)
    await accounts.put("2", replace(OTTO, **change), by=own)  # type: ignore[arg-type]
    assert accounts.by_token(anna) is not None
    assert accounts.by_token(other) is None
    assert (accounts.by_token(own_token) is not None) is own_stays
    assert told == ["otto"]


async def test_a_session_of_somebody_else_does_not_stay_when_it_changes_a_password(accounts: Accounts) -> None:
    admin, admin_token = accounts.open_session(ANNA, "")
    _, token = accounts.open_session(OTTO, "")
    await accounts.put("2", replace(OTTO, password="another"), by=admin)
    assert accounts.by_token(token) is None
    assert accounts.by_token(admin_token) is not None


async def test_a_deleted_account_ends_its_sessions(accounts: Accounts) -> None:
    _, token = accounts.open_session(OTTO, "")
    await accounts.remove("2")
    assert accounts.by_token(token) is None
    assert list(accounts.by_id) == ["1", "3"]
    await accounts.put("2", OTTO)
    assert accounts.by_token(token) is None, "a new account of the same name has none of the old one's sessions"


async def test_an_account_that_stays_as_it_was_ends_nothing(accounts: Accounts) -> None:
    told: list[str] = []
    accounts.listen(told.append)
    _, token = accounts.open_session(OTTO, "")
    await accounts.put("2", replace(OTTO))
    assert accounts.by_token(token) and not told
    accounts.forget(told.append)
    await accounts.remove("2")
    assert told == []


async def test_parallel_changes_are_all_kept(tmp_path: Path) -> None:
    disk = StateDisk()
    accounts = Accounts([ANNA], file=JsonFile(tmp_path / "a.json", disk))

    def another(known: Mapping[str, Account]) -> dict[str, Account]:
        return {**known, str(len(known) + 1): Account(f"user-{len(known)}", "password")}

    await asyncio.gather(*(accounts.change(another) for _ in range(10)))
    assert len(accounts.by_id) == 11
    assert Accounts([ANNA], file=JsonFile(tmp_path / "a.json", disk)).by_id == accounts.by_id
    await disk.close()


# what is kept


async def test_changes_outlive_the_process_until_other_accounts_are_configured(tmp_path: Path) -> None:
    file = JsonFile(tmp_path / "a.json")
    accounts = Accounts([ANNA, OTTO], file=file)
    await accounts.put("2", replace(OTTO, role="ReadOnly"))
    await accounts.set_lockout(Lockout(3, 60, 10))
    again = Accounts([ANNA, OTTO], file=file)
    assert again.by_id == {"1": ANNA, "2": replace(OTTO, role="ReadOnly")}
    assert again.lockout == Lockout(3, 60, 10)
    other = Accounts([ANNA, replace(OTTO, password="new")], file=file)
    assert other.by_id["2"].password == "new" and other.lockout == Lockout()


@pytest.mark.parametrize("kept", [{"accounts": 7}, {"accounts": {"1": {"x": 1}}}, {}, {"accounts": {"1": None}}])
async def test_a_file_that_is_no_accounts_counts_for_nothing(tmp_path: Path, kept: dict[str, object]) -> None:
    file = JsonFile(tmp_path / "a.json")
    await Accounts([ANNA], file=file).put("2", OTTO)
    value = file.load()
    assert value is not None
    await file.save({"configured": value["configured"], **kept})
    assert Accounts([ANNA], file=file).by_id == {"1": ANNA}


async def test_an_account_of_an_unknown_role_is_left_out(tmp_path: Path) -> None:
    file = JsonFile(tmp_path / "a.json")
    await Accounts([ANNA], file=file).put("2", replace(OTTO, role="King"))
    assert Accounts([ANNA], file=file).by_id == {"1": ANNA}


async def test_what_cannot_be_kept_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = JsonFile(tmp_path / "a.json")
    accounts = Accounts([ANNA, OTTO], file=file)
    _, token = accounts.open_session(OTTO, "")

    async def full(value: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(file, "save", full)
    for work in (
        accounts.remove("2"),
        accounts.put("2", replace(OTTO, password="x")),
        accounts.set_lockout(Lockout(1)),
    ):
        with pytest.raises(OSError, match="No space"):
            await work
    assert accounts.by_id == {"1": ANNA, "2": OTTO}
    assert accounts.by_token(token) and accounts.lockout == Lockout()


# locking


def wrong(accounts: Accounts, times: int, name: str = "otto") -> None:
    for _ in range(times):
        assert accounts.check(name, "wrong") is None


def test_nobody_is_locked_unless_it_was_asked_for(accounts: Accounts) -> None:
    assert accounts.lockout.threshold == 0
    wrong(accounts, 100)
    assert not accounts.is_locked("otto") and accounts.check("otto", OTTO.password)


@pytest.mark.parametrize(("times", "locked"), [(2, False), (3, True), (4, True)])
def test_so_many_wrong_passwords_lock_an_account(accounts: Accounts, times: int, locked: bool) -> None:
    accounts.lockout = Lockout(3, 60, 10)
    wrong(accounts, times)
    assert accounts.is_locked("otto") is locked
    assert (accounts.check("otto", OTTO.password) is None) is locked
    assert accounts.check("anna", ANNA.password), "only that one"


@pytest.mark.parametrize(("after", "locked"), [(59.9, True), (60, False)])
def test_a_lock_ends_after_its_time(accounts: Accounts, clock: Clock, after: float, locked: bool) -> None:
    accounts.lockout = Lockout(3, 60, 10)
    wrong(accounts, 3)
    clock.seconds += after
    assert accounts.is_locked("otto") is locked
    if not locked:
        wrong(accounts, 2)
        assert not accounts.is_locked("otto"), "it begins to count anew"


def test_a_locked_account_is_not_locked_for_longer_by_more_wrong_passwords(accounts: Accounts, clock: Clock) -> None:
    accounts.lockout = Lockout(3, 60, 10)
    wrong(accounts, 3)
    clock.seconds += 50
    wrong(accounts, 3)
    clock.seconds += 10
    assert not accounts.is_locked("otto")


def test_a_lock_without_an_end_is_ended_by_an_administrator_or_a_new_password(accounts: Accounts, clock: Clock) -> None:
    accounts.lockout = Lockout(1, 0, 10)
    wrong(accounts, 1)
    clock.seconds += 1e9
    assert accounts.is_locked("otto")
    accounts.unlock("otto")
    assert accounts.check("otto", OTTO.password)


async def test_a_changed_account_is_not_locked_any_more(accounts: Accounts) -> None:
    accounts.lockout = Lockout(1, 0, 10)
    wrong(accounts, 1)
    await accounts.put("2", replace(OTTO, password="another"))
    assert accounts.check("otto", "another")


@pytest.mark.parametrize(("pause", "locked"), [(10, True), (10.1, False)])
def test_wrong_passwords_are_forgotten_after_a_while(
    accounts: Accounts, clock: Clock, pause: float, locked: bool
) -> None:
    accounts.lockout = Lockout(2, 60, 10)
    wrong(accounts, 1)
    clock.seconds += pause
    wrong(accounts, 1)
    assert accounts.is_locked("otto") is locked


def test_the_right_password_forgets_the_wrong_ones(accounts: Accounts) -> None:
    accounts.lockout = Lockout(2, 60, 10)
    wrong(accounts, 1)
    assert accounts.check("otto", OTTO.password)
    wrong(accounts, 1)
    assert not accounts.is_locked("otto")


def test_names_nobody_has_are_not_counted(accounts: Accounts) -> None:
    accounts.lockout = Lockout(1, 60, 10)
    for number in range(1000):
        wrong(accounts, 1, f"user-{number}")
    assert not accounts._failures


def test_a_session_does_not_show_what_it_must_not() -> None:
    assert "password" not in repr(ANNA)
    assert "anna's own" not in repr(ANNA)
    assert repr(Session("1", "anna", 0.0, "", 0.0))


def test_what_holds_unless_somebody_says_otherwise() -> None:
    accounts = Accounts([ANNA])
    assert accounts.lockout == Lockout(threshold=0, seconds=300, forget_seconds=30)
    assert (accounts.session_limit, accounts.session_timeout) == (64, 1800)
    session, token = accounts.open_session(ANNA, "")
    assert (len(session.id), len(token)) == (16, 43), "64 and 256 bits"


def test_the_first_wrong_password_is_one_also_right_after_the_start(accounts: Accounts, clock: Clock) -> None:
    clock.seconds = 5
    accounts.lockout = Lockout(2, 60, 10)
    wrong(accounts, 1)
    assert not accounts.is_locked("otto")


def test_whose_session_was_closed_is_told_and_nobody_elses(accounts: Accounts) -> None:
    told: list[str] = []
    accounts.listen(told.append)
    accounts.open_session(ANNA, "")
    closed, _ = accounts.open_session(OTTO, "")
    accounts.close_session(closed.id)
    assert told == ["otto"]
    accounts.close_session(closed.id)
    assert told == ["otto"]
    assert accounts.keep_alive(closed.id) is False
