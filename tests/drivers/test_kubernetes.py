"""Records in a real embedded API that restarts, forgets and refuses; and hosts looked after through it."""

from __future__ import annotations

import asyncio
import socket as sockets
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from rackless.api.process import ApiServer, ApiSettings
from rackless.controllers.host import host_controller
from rackless.controllers.runtime.runtime import Runtime
from rackless.drivers.clock import SystemClock
from rackless.drivers.fake.provisioner import FakeProvisioner
from rackless.drivers.kubernetes import watching
from rackless.drivers.kubernetes.client import HttpRefused
from rackless.drivers.kubernetes.resources import KubernetesResources
from rackless.events import Bus
from rackless.ports.api import Access, ApiUnreachable
from rackless.ports.provisioner import Image
from rackless.ports.resources import RecordEvent
from rackless.provisioning.baremetalhost import KIND, State, Status, baremetalhost, read, secret, status_record
from rackless.provisioning.hardware import hardware
from rackless.provisioning.waiting import until_state


class Quick(SystemClock):
    """A thousand times faster."""

    def now(self) -> float:
        return super().now() * 1000

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds / 1000)


def settings(folder: Path, port: int = 0) -> ApiSettings:
    return ApiSettings(f"sqlite:{folder}/objects.db", folder / "pki", port=port, kubeconfig=folder / "kubeconfig")


def access(url: str, folder: Path, **more: Any) -> Access:
    pki = folder / "pki"
    return Access(url, pki / "ca.crt", **({"certificate": pki / "admin.crt", "key": pki / "admin.key"} | more))


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[ApiServer]:
    async with ApiServer(settings(tmp_path)) as api:
        yield api


@pytest.fixture
async def resources(api: ApiServer, tmp_path: Path) -> AsyncIterator[KubernetesResources]:
    found = KubernetesResources(access(api.url, tmp_path))
    yield found
    await found.close()


def host(name: str = "one") -> dict[str, Any]:
    return {"apiVersion": "metal3.io/v1alpha1", "kind": KIND, "metadata": {"name": name}, "spec": {"online": True}}


async def next_of(events: AsyncIterator[RecordEvent]) -> tuple[str, str]:
    async with asyncio.timeout(60):
        event = await anext(events)
    return event.type, event.record["metadata"]["name"]


async def test_requests_and_watches_outlast_a_restart_of_the_api(tmp_path: Path) -> None:
    async with ApiServer(settings(tmp_path)) as first:
        port = int(first.url.rpartition(":")[2])
        resources = KubernetesResources(access(first.url, tmp_path))
        await resources.apply(host("one"))
        watch = resources.watch(KIND)
        assert await next_of(watch) == ("ADDED", "one")
        following = asyncio.create_task(next_of(watch))
        await asyncio.sleep(0.1)
    writing = asyncio.create_task(resources.apply(host("two")))
    await asyncio.sleep(0.2)
    assert not writing.done()
    async with ApiServer(settings(tmp_path, port)):
        assert (await writing)["metadata"]["name"] == "two"
        assert await following == ("ADDED", "two")
        await watch.aclose()
        await resources.close()


async def test_a_watch_that_is_left_hangs_up_without_waiting_for_the_server(resources: KubernetesResources) -> None:
    await resources.apply(host("one"))
    watch = resources.watch(KIND)
    assert await next_of(watch) == ("ADDED", "one")
    following = asyncio.create_task(next_of(watch))
    session = resources._client._session
    assert session and session.connector
    for _ in range(1000):
        if session.connector._acquired:
            break
        await asyncio.sleep(0.01)
    (connection,) = session.connector._acquired
    transport = connection.transport
    assert transport is not None
    socket = transport.get_extra_info("socket")
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    await asyncio.sleep(0)
    assert socket.fileno() == -1


async def test_tcp_asks_a_silent_server_whether_it_is_there(resources: KubernetesResources) -> None:
    """A control plane that loses its power closes nothing, and the address that its watches came from is another's then."""
    await resources.apply(host("one"))
    session = resources._client._session
    assert session and session.connector
    ((connection, *_),) = session.connector._conns.values()
    transport = connection[0].transport
    assert transport is not None
    opened = transport.get_extra_info("socket")
    options = (sockets.TCP_KEEPIDLE, sockets.TCP_KEEPINTVL, sockets.TCP_KEEPCNT)
    idle, every, times = (opened.getsockopt(sockets.IPPROTO_TCP, option) for option in options)
    assert opened.getsockopt(sockets.SOL_SOCKET, sockets.SO_KEEPALIVE)
    assert idle + every * times <= 30


async def test_a_watch_whose_version_is_forgotten_tells_the_difference(
    api: ApiServer, resources: KubernetesResources, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("kept", "gone", "again"):
        await resources.apply(host(name))
    changes = watching._changes

    async def forgotten(*asked: Any) -> AsyncIterator[tuple[str, Any]]:
        monkeypatch.setattr(watching, "_changes", changes)
        await resources.delete(KIND, "gone")
        await resources.delete(KIND, "again")
        await resources.apply(host("again"))
        await resources.apply(host("new"))
        await api.objects.store.compact(api.objects.store.revision)  # type: ignore[union-attr]
        async for change in changes(*asked):
            yield change

    monkeypatch.setattr(watching, "_changes", forgotten)
    async with aclosing(resources.watch(KIND)) as events:
        seen = [await next_of(events) for _ in range(7)]
    assert sorted(seen[:3]) == [("ADDED", "again"), ("ADDED", "gone"), ("ADDED", "kept")]
    assert sorted(seen[3:]) == [("ADDED", "again"), ("ADDED", "new"), ("DELETED", "again"), ("DELETED", "gone")]
    assert seen.index(("DELETED", "again")) < len(seen) - 1 - seen[::-1].index(("ADDED", "again"))


async def test_who_waits_too_long_is_told(tmp_path: Path) -> None:
    async with ApiServer(settings(tmp_path)) as api:
        url = api.url
    resources = KubernetesResources(access(url, tmp_path), patience=0.2)
    with pytest.raises(ApiUnreachable, match="does not answer"):
        await resources.list(KIND)
    await resources.close()


async def test_what_the_api_refuses_is_said_in_its_words(resources: KubernetesResources) -> None:
    record = host()
    record["spec"]["bmc"] = {"address": "carrier-pigeon://192.0.2.1", "credentialsName": "bmc"}
    with pytest.raises(HttpRefused, match="unknown BMC type"):
        await resources.apply(record)


async def test_without_a_certificate_nothing_is_told_and_a_token_is_not_shown(api: ApiServer, tmp_path: Path) -> None:
    stranger = access(api.url, tmp_path, certificate=None, key=None, token="not-a-token")
    resources = KubernetesResources(stranger)
    with pytest.raises(HttpRefused) as refusal:
        await resources.list(KIND)
    assert refusal.value.code == 401
    assert "not-a-token" not in repr(stranger)
    await resources.close()


async def test_a_host_goes_all_its_way_through_the_api(resources: KubernetesResources) -> None:
    clock = Quick()
    await resources.apply(secret("bmc", {"username": "admin", "password": "secret"}))
    await resources.apply(secret("ignition", {"userData": "{}"}))
    image = Image("http://192.0.2.1/node.qcow2", "ab" * 32)
    address = "redfish-virtualmedia://192.0.2.9/redfish/v1/Systems/1"
    await resources.apply(baremetalhost("one", address, "bmc", "02:00:00:00:00:01", image, "ignition"))
    runtime = Runtime(clock, Bus())
    host_controller(runtime, resources, FakeProvisioner(clock))
    controller = asyncio.create_task(runtime.run())
    try:
        await until_state(resources, ["one"], within=20)
        record = await resources.get(KIND, "one")
        assert record and read(record).status.state is State.PROVISIONED
        assert record["status"]["hardware"] and record["status"]["goodCredentials"]
        told = set()
        async with asyncio.timeout(20), aclosing(resources.watch("Event")) as happened:  # written beside the work
            async for event in happened:
                told.add(event.record["reason"])
                if {"Registered", "InspectionComplete", "ProvisioningComplete"} <= told:
                    break
        async with asyncio.timeout(20), aclosing(resources.watch(KIND)) as events:
            await resources.delete(KIND, "one")
            async for event in events:
                if event.type == "DELETED":
                    break
        assert await resources.list(KIND) == []
    finally:
        controller.cancel()
        await asyncio.gather(controller, return_exceptions=True)


@pytest.mark.parametrize(
    "inventory",
    [
        {},
        {
            "interfaces": [
                {"name": "ib0", "mac_address": "80:00:02:08:fe:80:00:00"},
                {"name": "lo", "mac_address": None},
            ]
        },
        {"cpu": {"count": "many", "frequency": "2100.5", "flags": [1, "vmx"]}, "memory": {"physical_mb": 1e300}},
        {"disks": [{"name": "/dev/nvme0n1", "size": "1e99", "rotational": "yes", "wwn": 7}], "hostname": ["x"]},
    ],
)
async def test_whatever_a_server_says_of_itself_its_host_can_be_written(
    resources: KubernetesResources, inventory: dict[str, Any]
) -> None:
    await resources.apply(host())
    status = status_record(Status(State.PREPARING, hardware=hardware(inventory)))
    record = await resources.patch_status(KIND, "one", status)
    assert record["status"]["hardware"] == status["hardware"]
