"""A disk that gets full while a BMC is told something: what it says it keeps it keeps, and the rest it refuses."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from typing import Any

import pytest

from rackless.bmc.core import disk
from tests.bmc.conftest import Rack, make_rack, rack  # noqa: F401 - fixtures
from tests.bmc.test_services import SUBSCRIPTIONS, SYSTEM, V1

WISHES: list[tuple[str, str, dict[str, Any]]] = [
    ("PATCH", SYSTEM, {"AssetTag": "rack 7"}),
    ("PATCH", SYSTEM, {"Boot": {"BootSourceOverrideEnabled": "Once", "BootSourceOverrideTarget": "Pxe"}}),
    ("PATCH", f"{V1}/AccountService/Accounts/3", {"Password": "another one"}),
    ("PATCH", f"{V1}/AccountService", {"AccountLockoutThreshold": 3}),
    ("DELETE", f"{V1}/AccountService/Accounts/3", {}),
    ("POST", f"{V1}/AccountService/Accounts", {"UserName": "bob", "Password": "password", "RoleId": "ReadOnly"}),
    ("POST", SUBSCRIPTIONS, {"Destination": "http://events.invalid/", "Protocol": "Redfish"}),
]
READ = (
    SYSTEM,
    f"{V1}/AccountService",
    f"{V1}/AccountService/Accounts",
    f"{V1}/AccountService/Accounts/3",
    SUBSCRIPTIONS,
)


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Takes half of the first piece and nothing of the next, as a disk with a few free blocks does."""

    class Full:
        def __getattr__(self, name: str) -> Any:
            return getattr(os, name)

        def write(self, handle: int, data: bytes) -> int:
            if os.fstat(handle).st_size:
                raise OSError(errno.ENOSPC, "No space left on device")
            return os.write(handle, bytes(data)[: len(data) // 2])

    with monkeypatch.context() as patched:
        patched.setattr(disk, "os", Full())
        yield


async def state(rack: Rack) -> list[Any]:  # noqa: F811
    return [await rack.get(path) for path in READ]


@pytest.mark.parametrize(("method", "path", "wish"), WISHES, ids=lambda one: one if isinstance(one, str) else "")
async def test_what_is_not_kept_is_not_acknowledged_and_did_not_happen(
    rack: Rack,  # noqa: F811
    full: None,
    method: str,
    path: str,
    wish: dict[str, Any],
) -> None:
    before = await state(rack)
    status, body, _ = await rack.ask(method, path, wish or None)
    assert status == 507, body
    assert body["error"]["code"].endswith("InsufficientStorage")
    assert await state(rack) == before
    for file in rack.state.iterdir():
        assert file.suffix == ".json" and not file.name.startswith("."), "no half of a file is left"
        json.loads(file.read_bytes())
    assert any("No space" in note for note in rack.notes)


async def test_a_write_that_takes_a_part_at_a_time_is_written_whole(
    rack: Rack,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Slow:
        def __getattr__(self, name: str) -> Any:
            return getattr(os, name)

        def write(self, handle: int, data: bytes) -> int:
            return os.write(handle, bytes(data)[:7])

    monkeypatch.setattr(disk, "os", Slow())
    assert (await rack.ask("PATCH", SYSTEM, {"AssetTag": "rack 7"}))[0] == 200
    assert json.loads((rack.state / "server-0.json").read_bytes())["settings"]["asset_tag"] == "rack 7"
