"""Background work that meets what nobody expected: it is told, the others go on, and it is tried again."""

from __future__ import annotations

import asyncio
import base64
import logging
import sqlite3
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtensionOID, NameOID

from rackless.api.duties import supervision
from rackless.api.duties import upkeep as keeping
from rackless.api.duties.supervision import Retries, Supervisor
from rackless.api.process import ApiServer
from rackless.api.stores.port import StoreUnreachable
from tests.adversary.api_load_attacks import CONFIG_MAPS
from tests.adversary.test_api_load_clients import LONG, number
from tests.api.conftest import Client

REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"


async def until(true: Callable[[], Awaitable[Any]]) -> Any:
    async with asyncio.timeout(LONG):
        while not (found := await true()):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    return found


def _request(name: str, extension: bytes | None = None) -> dict[str, Any]:
    """For a kubelet's serving certificate; `extension` is its SAN, in bytes that may mean nothing."""
    attributes = [
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:nodes"),
        x509.NameAttribute(NameOID.COMMON_NAME, f"system:node:{name}"),
    ]
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(attributes))
    if extension is None:
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
    else:
        oid = ExtensionOID.SUBJECT_ALTERNATIVE_NAME
        builder = builder.add_extension(x509.UnrecognizedExtension(oid, extension), critical=False)
    pem = builder.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256()).public_bytes(
        serialization.Encoding.PEM
    )
    spec = {
        "request": base64.b64encode(pem).decode(), "signerName": "kubernetes.io/kubelet-serving",
        "usages": ["digital signature", "server auth"],
    }  # fmt: skip
    return {"metadata": {"name": name}, "spec": spec}


async def _approve(client: Client, name: str) -> None:
    condition = {"type": "Approved", "status": "True", "reason": "Test"}
    path = f"{REQUESTS}/{name}/approval"
    code, answer = await client.merge(path, {"status": {"conditions": [condition]}})
    assert code == 200, answer


async def test_an_approved_request_that_cannot_be_read_fails_and_signing_deleting_and_collecting_go_on(
    client: Client,
) -> None:
    created = []
    for name, extension in (("odd", b"\x30\x03\x82\x01\xff"), ("worse", b"\xff\xff")):
        code, _ = await client.call("POST", REQUESTS, _request(name, extension))
        if code == 201:  # what cannot be read may be refused at once, too
            created.append(name)
            await _approve(client, name)
    await client.create(REQUESTS, _request("good"))
    await _approve(client, "good")

    async def signed() -> Any:
        _, answer = await client.get(f"{REQUESTS}/good")
        return answer["status"].get("certificate")

    await until(signed)
    for name in created:
        _, answer = await client.get(f"{REQUESTS}/{name}")
        assert [c["type"] for c in answer["status"]["conditions"]] == ["Approved", "Failed"]
    await client.create("/api/v1/namespaces", {"metadata": {"name": "short"}})
    await client.call("DELETE", "/api/v1/namespaces/short")

    async def gone() -> bool:
        return (await client.get("/api/v1/namespaces/short"))[0] == 404

    await until(gone)
    owner = await client.create(CONFIG_MAPS, {"metadata": {"name": "owner"}})
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    await client.create(CONFIG_MAPS, {"metadata": {"name": "owned", "ownerReferences": [reference]}})
    await client.call("DELETE", f"{CONFIG_MAPS}/owner")

    async def collected() -> bool:
        return (await client.get(f"{CONFIG_MAPS}/owned"))[0] == 404

    await until(collected)


async def test_an_object_that_raises_is_told_retried_and_holds_up_nobody(
    client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    end, poisoned = keeping.Upkeep._keep_namespace, True

    async def ended(self: keeping.Upkeep, obj: Any) -> None:
        if poisoned and obj["metadata"]["name"] == "poison" and "deletionTimestamp" in obj["metadata"]:
            raise KeyError("nobody expected this")
        await end(self, obj)

    monkeypatch.setattr(keeping.Upkeep, "_keep_namespace", ended)
    monkeypatch.setattr(supervision, "_OBJECT_FIRST_PAUSE", 0.05)
    for name in ("poison", "other"):
        await client.create("/api/v1/namespaces", {"metadata": {"name": name}})
        await client.call("DELETE", f"/api/v1/namespaces/{name}")

    async def gone(name: str) -> bool:
        return (await client.get(f"/api/v1/namespaces/{name}"))[0] == 404

    async def stuck() -> bool:
        return await number(client, "rackless_stuck_objects") == 1

    await until(lambda: gone("other"))
    await until(stuck)  # what was begun before its end may still succeed in between
    assert (await client.get("/readyz"))[0] == 200, "one object is no reason to turn clients away"
    assert "namespaces//poison cannot be worked on" in caplog.text
    poisoned = False
    await until(lambda: gone("poison"))
    assert await number(client, "rackless_stuck_objects") == 0


async def test_a_namespace_that_ends_for_long_keeps_no_node_from_its_certificate(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody deletes a namespace with tens of thousands of objects; a node joins, and somebody else makes a namespace."""
    go_on, end = asyncio.Event(), keeping.Upkeep._retire_all

    async def slowly(self: keeping.Upkeep, kind: Any, namespace: str) -> int:
        await go_on.wait()
        return await end(self, kind, namespace)

    monkeypatch.setattr(keeping.Upkeep, "_retire_all", slowly)
    await client.create("/api/v1/namespaces", {"metadata": {"name": "large"}})
    await client.call("DELETE", "/api/v1/namespaces/large")
    await client.create("/api/v1/namespaces", {"metadata": {"name": "other"}})
    await client.create(REQUESTS, _request("node"))
    await _approve(client, "node")

    async def signed() -> Any:
        return (await client.get(f"{REQUESTS}/node"))[1]["status"].get("certificate")

    async def account() -> bool:
        return (await client.get("/api/v1/namespaces/other/serviceaccounts/default"))[0] == 200

    async def gone() -> bool:
        return (await client.get("/api/v1/namespaces/large"))[0] == 404

    await until(signed)
    await until(account)
    assert not await gone()
    go_on.set()
    await until(gone)


async def test_a_task_that_dies_is_told_and_begun_anew(caplog: pytest.LogCaptureFixture) -> None:
    supervisor, runs, well = Supervisor(first_pause=0.01), 0, asyncio.Event()

    async def work() -> None:
        nonlocal runs
        runs += 1
        if runs == 1:
            raise KeyError("nobody expected this")
        if runs == 2:
            return
        well.set()
        await asyncio.Event().wait()

    supervisor.tend("worker", work)
    async with asyncio.timeout(LONG):
        await well.wait()
    assert supervisor.tasks["worker"].restarts == 2
    assert "KeyError" in caplog.text and "ended by itself" in caplog.text

    async def is_well() -> bool:
        return not supervisor.problems()

    await until(is_well)
    await supervisor.stop()


async def test_a_dead_task_is_told_by_readyz_and_metrics(client: Client, api: ApiServer, caplog: Any) -> None:
    caplog.set_level(logging.CRITICAL)
    assert api.keeper

    async def broken() -> None:
        raise OSError("nobody expected this")

    assert 'rackless_task_up{task="keeper"} 1' in (await client.get("/metrics"))[1]
    api.keeper.supervisor.tend("broken", broken)
    await asyncio.sleep(0)
    code, text = await client.get("/readyz")
    assert (
        code == 500 and "[-]task/broken failed: OSError: nobody expected this" in text and "[+]task/keeper ok" in text
    )
    assert (await client.get("/readyz/task/keeper"))[0] == 200
    page = (await client.get("/metrics"))[1]
    assert 'rackless_task_up{task="broken"} 0' in page and 'rackless_task_restarts_total{task="broken"}' in page


async def test_what_is_retried_pauses_longer_every_time_and_is_forgotten_when_it_works(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses: list[float] = []
    loop = asyncio.get_running_loop()
    real = loop.call_later
    monkeypatch.setattr(loop, "call_later", lambda delay, *more: [pauses.append(delay), real(0, *more)][1])  # type: ignore[func-returns-value]
    offered: list[str] = []
    retries = Retries("test", offered.append)
    for _ in range(3):
        retries.failed("a/b//c", KeyError("x"), expected=True)
    assert pauses == [1, 2, 4] and list(retries.waiting) == ["a/b//c"]
    retries.succeeded("a/b//c")
    assert not retries.waiting
    retries.stop()


# -- a full disk ---------------------------------------------------------------------------------------------------


class FullDisk:
    """SQLite as it is on a full disk: it refuses to grow."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full = False
        disk, connect = self, sqlite3.connect

        class Connection(sqlite3.Connection):
            def execute(self, statement: str, *more: Any) -> sqlite3.Cursor:
                if disk.full and statement.split()[0] in ("INSERT", "DELETE", "COMMIT"):
                    raise sqlite3.OperationalError("database or disk is full")
                return super().execute(statement, *more)

        monkeypatch.setattr(sqlite3, "connect", lambda *a, **k: connect(*a, factory=Connection, **k))


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> FullDisk:
    monkeypatch.setattr("rackless.api.stores.sqlite._PROBE_EVERY", 0.05)
    return FullDisk(monkeypatch)


async def test_a_full_disk_refuses_writes_and_room_again_is_noticed_without_a_write(
    disk: FullDisk, client: Client, api: ApiServer
) -> None:
    assert api.objects
    store = api.objects.store
    before = await client.create(CONFIG_MAPS, {"metadata": {"name": "before"}})
    disk.full = True
    for name in ("a", "b", "c"):
        async with asyncio.timeout(LONG):
            code, answer = await client.call("POST", CONFIG_MAPS, {"metadata": {"name": name}})
        assert (code, answer["reason"]) == (503, "ServiceUnavailable")
    with pytest.raises(StoreUnreachable):
        await store.compact(store.revision)
    assert (await client.get("/readyz"))[0] == 500
    assert (await client.get(f"{CONFIG_MAPS}/before"))[1] == before, "what is there can be read"
    disk.full = False

    async def ready() -> bool:
        return (await client.get("/readyz"))[0] == 200

    await until(ready)
    await client.create(CONFIG_MAPS, {"metadata": {"name": "a"}})
    await store.compact(store.revision)


async def test_one_write_that_cannot_be_done_is_not_the_others_trouble(
    client: Client, api: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a group that is refused each is tried alone."""
    assert api.objects
    store: Any = api.objects.store
    commit, groups = store._commit, list[int]()

    def refusing(connection: sqlite3.Connection, batch: list[Any]) -> None:
        class Refusing:
            in_transaction = False

            def execute(self, statement: str, values: list[Any]) -> None:
                groups.append(len(batch))
                if any("poison" in str(value) for value in values):
                    raise sqlite3.OperationalError("too large for this disk")
                connection.execute(statement, values)

        commit(Refusing(), batch)

    monkeypatch.setattr(store, "_commit", refusing)
    names = ["a", "poison", "b", "c", "d", "e"]
    made = [client.call("POST", CONFIG_MAPS, {"metadata": {"name": name}}) for name in names]
    codes = [code for code, _ in await asyncio.gather(*made)]
    assert codes == [201, 503, 201, 201, 201, 201]


async def test_the_writer_survives_whatever_it_meets(
    client: Client, api: ApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    assert api.objects
    store: Any = api.objects.store

    def explode(connection: sqlite3.Connection) -> None:
        raise MemoryError("nobody expected this")

    with pytest.raises(StoreUnreachable):
        await store._job(explode)
    store._queue.put(object())  # not even a job
    await client.create(CONFIG_MAPS, {"metadata": {"name": "after"}})
