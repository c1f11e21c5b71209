"""BMCs for any libvirt domains: by libvirt's own pretend driver, and domains that come and go."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from click.testing import CliRunner

from rackless.cli.main import cli
from rackless.drivers.clock import SystemClock
from rackless.drivers.fake.hypervisor import FakeHypervisor
from rackless.errors import RacklessError
from rackless.events import Bus
from rackless.operations.serve_bmcs import ServedAddress, ServeSettings, serve_fleet
from rackless.ports.hypervisor import Disk, Firmware, Nic, Server
from tests.bmc.conftest import Files, basic, free_port, server

AUTH = basic("admin", "s3cret")
NODE = """<node>
<domain type='test'><name>bios</name><uuid>6695eb01-f6a4-8304-79aa-97f2502e0001</uuid><memory>2097152</memory>
<vcpu>2</vcpu><os><type arch='x86_64'>hvm</type><boot dev='hd'/></os>
<devices><disk type='file' device='disk'><source file='/d'/><target dev='vda' bus='virtio'/></disk></devices></domain>
<domain type='test'><name>with a drive</name><uuid>6695eb01-f6a4-8304-79aa-97f2502e0002</uuid><memory>524288</memory>
<vcpu>1</vcpu><os><type arch='x86_64'>hvm</type></os>
<devices><disk type='file' device='cdrom'><target dev='sda' bus='sata'/><readonly/></disk></devices></domain>
</node>"""
ID = "6695eb01-f6a4-8304-79aa-97f2502e000{}"


class Served:
    def __init__(self, url: str, ca: Path | None, lines: list[dict[str, Any]], client: aiohttp.ClientSession) -> None:
        self.url, self.ca, self.lines, self._client = url, ca, lines, client

    async def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        async with self._client.request(method, f"{self.url}/redfish/v1{path}", json=body, headers=AUTH) as response:
            text = await response.read()
            return response.status, json.loads(text) if text else None

    async def get(self, path: str) -> Any:
        status, value = await self.ask("GET", path)
        assert status == 200, (path, value)
        return value


@pytest.fixture
def program(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], int, Path]]:
    node, password = tmp_path / "node.xml", tmp_path / "password"
    node.write_text(NODE)
    password.write_text("s3cret\n")
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "rackless", "bmc", "serve", "--uri", f"test://{node}", "--redfish-port", str(port),
         "--password-file", str(password), "--ipmi-base-port", str(port), "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "RACKLESS_STATE": str(tmp_path / "state")},
    )  # fmt: skip
    try:
        yield process, port, tmp_path / f"state/bmc/127.0.0.1-{port}"
    finally:
        process.send_signal(signal.SIGTERM)
        out, errors = process.communicate(timeout=10)
        assert (process.returncode, out) == (0, ""), errors


@pytest.fixture
async def served(program: tuple[subprocess.Popen[str], int, Path]) -> AsyncIterator[Served]:
    process, port, folder = program
    assert process.stdout is not None and process.stderr is not None
    said = await asyncio.to_thread(process.stderr.readline)
    if "binding of libvirt" in said:
        pytest.skip("libvirt's Python binding is not installed")
    assert said == f"trust this CA: {folder / 'ca.crt'}\n"
    lines = [json.loads(process.stdout.readline()) for _ in range(2)]
    trust = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trust)) as client:
        yield Served(f"https://127.0.0.1:{port}", folder / "ca.crt", lines, client)


@pytest.mark.slow
async def test_domains_nobody_made_for_us_have_a_bmc_that_works(served: Served, files: Files) -> None:
    files.contents["a.iso"] = b"iso"
    assert [line["name"] for line in served.lines] == ["bios", "with a drive"]
    for number, line in enumerate(served.lines, 1):
        system = f"/Systems/{ID.format(number)}"
        assert line == {
            "name": line["name"], "uuid": ID.format(number), "redfish": f"{served.url}/redfish/v1{system}",
            "ipmi_port": int(served.url.rpartition(":")[2]) + number - 1,
        }  # fmt: skip
        assert (await served.get(system))["Name"] == line["name"]
        insert = f"{system}/VirtualMedia/Cd/Actions/VirtualMedia.InsertMedia"
        assert await served.ask("POST", insert, {"Image": f"{files.url}/a.iso"}) == (204, None)
        assert (await served.get(f"{system}/VirtualMedia/Cd"))["Inserted"] is True
        boot = {"Boot": {"BootSourceOverrideTarget": "Cd", "BootSourceOverrideEnabled": "Once"}}
        assert (await served.ask("PATCH", system, boot))[0] == 200
        for kind, power in (("ForceOff", "Off"), ("On", "On"), ("ForceRestart", "On"), ("GracefulShutdown", "Off")):
            reset = f"{system}/Actions/ComputerSystem.Reset"
            assert await served.ask("POST", reset, {"ResetType": kind}) == (204, None)
            assert (await served.get(system))["PowerState"] == power, kind
        assert (await served.get(system))["Boot"]["BootSourceOverrideEnabled"] == "Disabled"
        eject = f"{system}/VirtualMedia/Cd/Actions/VirtualMedia.EjectMedia"
        assert await served.ask("POST", eject, {}) == (204, None)
        assert (await served.get(f"{system}/VirtualMedia/Cd"))["Inserted"] is False
    members = (await served.get("/Systems"))["Members"]
    assert [member["@odata.id"] for member in members] == [f"/redfish/v1/Systems/{ID.format(n)}" for n in (1, 2)]
    assert (await served.ask("GET", "/Systems/bios"))[0] == 404


@pytest.mark.slow
async def test_faults_are_asked_of_it_like_of_a_lab(served: Served, tmp_path: Path) -> None:
    async def fault(*words: str) -> tuple[int, str, str]:
        runner = CliRunner(env={"RACKLESS_STATE": str(tmp_path / "state")})
        done = await asyncio.to_thread(runner.invoke, cli, ["bmc", "fault", *words])
        if isinstance(done.exception, RacklessError):
            return done.exception.exit_code, done.stdout, f"{done.exception}; {done.exception.hint}"
        return done.exit_code, done.stdout, done.stderr

    there = served.url.removeprefix("https://")
    reset = f"/Systems/{ID.format(1)}/Actions/ComputerSystem.Reset"
    assert (await fault("add", "refuse", "--serving", there, "--server", "bios", "--operation", "power", "--count", "1")) == (
        0, "fault 1: refuse with 503 at power of bios, 1 left, happened 0 times\n", "",
    )  # fmt: skip
    code, listed, _ = await fault("list", "--json", "--serving", f"{tmp_path}/state/bmc/{there.replace(':', '-')}")
    assert (code, [one["trouble"] for one in json.loads(listed)]) == (0, ["refuse"])
    assert [(await served.ask("POST", reset, {"ResetType": "On"}))[0] for _ in range(2)] == [503, 204]
    assert await fault("clear", "--serving", there) == (0, "0 taken away\n", "")
    code, _, errors = await fault("add", "drop", "--serving", there, "--server", "nobody")
    assert code == 2 and "there is: bios, with a drive" in errors
    code, _, errors = await fault("list", "--serving", "127.0.0.1:1")
    assert code == 2 and "no `rackless bmc serve` runs there" in errors


async def test_domains_come_and_go_while_it_runs(tmp_path: Path) -> None:
    hypervisor = FakeHypervisor()
    hypervisor.define([server(0)])
    announced: list[ServedAddress] = []
    ready = asyncio.Event()
    settings = ServeSettings("fake:", "admin", "s3cret", tmp_path, port=free_port(), tls=False)
    serving = asyncio.create_task(
        serve_fleet(settings, hypervisor, Bus(), announced.append, lambda _: ready.set(), SystemClock())
    )
    await ready.wait()
    async with aiohttp.ClientSession() as client:
        seen = Served(f"http://127.0.0.1:{settings.port}", None, [], client)
        assert [endpoint.name for endpoint in announced] == ["server-0"]
        await hypervisor.ensure(_defined(1))
        async with asyncio.timeout(30):
            while len(announced) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert announced[1].name == "server-1"
        assert (await seen.get(f"/Systems/{announced[1].uuid}"))["PowerState"] == "Off"
        await hypervisor.retire("server-0")
        async with asyncio.timeout(30):
            while len((await seen.get("/Managers"))["Members"]) > 1:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert (await seen.ask("GET", f"/Systems/{announced[0].uuid}"))[0] == 404
    serving.cancel()
    with suppress(asyncio.CancelledError):
        await serving


def _defined(number: int) -> Server:
    state = replace(server(number), disks=(Disk(Path("/d"), 1, "s"),))
    return Server(
        state.name, state.uuid, 512, 1, Firmware.BIOS, state.disks, (Nic(state.macs[0], "br"),), Path("/n"), Path("/c")
    )
