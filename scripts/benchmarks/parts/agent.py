"""What boots on a server that is none: it fetches nothing and only answers Ironic as the deploy agent does, in the time it is told
to take. Which Ironic it calls, and by which token, it reads in the boot ISO in its drive."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from rackless.drivers.fake.hypervisor import FakeHypervisor
from rackless.drivers.process import LocalProcesses
from rackless.ports.hypervisor import Power
from rackless.trust.authority import Authority, Use

_MEBI = 1 << 20
_STEPS = {"clean": [("erase_devices_metadata", 10)], "deploy": [("write_image", 0)]}
"""What an agent can do, by priority."""


@dataclass(frozen=True)
class Agent:
    """Of one server: boots from what is in its drive when it is switched on, calls, and does as it is told."""

    server: str
    address: str
    """Where it listens, and what it says is the address of its NIC."""
    mac: str
    hypervisor: FakeHypervisor
    trust: Path
    """The CA of Ironic's certificate."""
    folder: Path
    boot: float
    write: float
    """Seconds until it calls, and to write an image."""

    async def live(self) -> None:
        booted: asyncio.Task[None] | None = None
        authority = Authority.ensure(self.folder / f"agent-{self.server}", "an agent")
        leaf = authority.ensure_leaf("agent", [self.address], uses=(Use.SERVER,))
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(leaf.certificate, leaf.key)
        while True:
            state = await self.hypervisor.observe(self.server)
            runs = state is not None and state.power is Power.ON
            if booted is not None and (booted.done() or not runs):
                booted.cancel()
                with suppress(asyncio.CancelledError):
                    await booted
                booted = None
            if booted is None and runs and state is not None and state.media is not None:
                booted = asyncio.create_task(_Boot(self, tls, authority.certificate.read_text()).run(state.media))
            await asyncio.sleep(0.2)


class _Boot:
    """One start of it, until the server is switched off."""

    def __init__(self, agent: Agent, tls: ssl.SSLContext, ca: str) -> None:
        self._agent, self._tls, self._ca = agent, tls, ca
        self._commands: list[dict[str, Any]] = []
        self._calls = asyncio.Event()

    async def run(self, iso: Path) -> None:
        agent = self._agent
        menu = agent.folder / f"grub-{agent.server}.cfg"
        menu.unlink(missing_ok=True)
        argv = ["xorriso", "-osirrox", "on", "-indev", iso, "-extract", "/boot/grub/grub.cfg", menu]
        await LocalProcesses().run(argv)
        words = dict(word.partition("=")[::2] for word in menu.read_text().split() if word.startswith("ipa-"))
        ironic, token, inspects = (
            words["ipa-api-url"],
            words["ipa-agent-token"],
            words.get("ipa-inspection-callback-url"),
        )
        await asyncio.sleep(agent.boot)
        async with self._listening(), self._session() as session:
            if inspects:
                async with session.post(inspects, json=_inventory(agent.mac, agent.address)) as answer:
                    assert answer.status == 202, await answer.text()
            async with session.get(f"{ironic}/v1/lookup?addresses={agent.mac}") as answer:
                assert answer.status == 200, await answer.text()
                node = (await answer.json())["node"]["uuid"]
            while True:
                self._calls.clear()
                body = {"callback_url": f"https://{agent.address}:9999", "agent_token": token,
                        "agent_version": "11.0.0", "agent_verify_ca": self._ca}  # fmt: skip
                async with session.post(f"{ironic}/v1/heartbeat/{node}", json=body) as answer:
                    again = 5.0 if answer.status == 409 else 22.0
                with suppress(TimeoutError):
                    async with asyncio.timeout(again):
                        await self._calls.wait()

    def _session(self) -> aiohttp.ClientSession:
        headers = {"X-OpenStack-Ironic-API-Version": "1.84", "Accept": "application/json"}
        connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=self._agent.trust))
        return aiohttp.ClientSession(connector=connector, headers=headers)

    @asynccontextmanager
    async def _listening(self) -> AsyncIterator[None]:
        app = web.Application(client_max_size=64 * _MEBI)
        app.router.add_post("/v1/commands/", self._command)
        app.router.add_get("/v1/commands/", self._listed)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, self._agent.address, 9999, ssl_context=self._tls).start()
        try:
            yield
        finally:
            await runner.cleanup()

    async def _listed(self, request: web.Request) -> web.Response:
        return web.json_response({"commands": self._commands})

    async def _command(self, request: web.Request) -> web.Response:
        asked = json.loads(await request.read())
        _, _, name = asked["name"].partition(".")
        done: dict[str, Any] = {
            "id": str(len(self._commands)), "command_name": name, "command_params": asked["params"],
            "command_status": "SUCCEEDED", "command_error": None, "command_result": {"result": "ok"},
        }  # fmt: skip
        if name.startswith("get_") and name.endswith("_steps"):
            wanted = name.removeprefix("get_").removesuffix("_steps")
            steps = [{"step": step, "interface": "deploy", "priority": priority, "reboot_requested": False,
                      "abortable": True, "argsinfo": None} for step, priority in _STEPS.get(wanted, ())]  # fmt: skip
            done["command_result"] = {
                f"{wanted}_steps": {"GenericHardwareManager": steps},
                "hardware_manager_version": {"generic_hardware_manager": "1.1"},
            }
        self._commands.append(done)
        if name in ("prepare_image", "execute_clean_step", "execute_deploy_step", "install_bootloader", "cache_image"):
            done["command_status"] = "RUNNING"
            seconds = self._agent.write if (asked["params"].get("step") or {}).get("step") == "write_image" else 2.0
            if name.startswith("execute_"):
                done["command_result"] = {"clean_result": None, "clean_step": asked["params"].get("step"),
                                          "deploy_result": None, "deploy_step": asked["params"].get("step")}  # fmt: skip
            if name == "prepare_image":
                done["command_result"] = {"result": "prepare_image: image (x) written to device /dev/sda root_uuid=0"}
            asyncio.get_running_loop().call_later(seconds, self._end, done)
        if name in ("power_off", "run_image"):
            asyncio.get_running_loop().call_later(
                2.0, lambda: asyncio.ensure_future(self._agent.hypervisor.power_off(self._agent.server))
            )
        return web.json_response(done)

    def _end(self, command: dict[str, Any]) -> None:
        command["command_status"] = "SUCCEEDED"
        self._calls.set()


def _inventory(mac: str, address: str) -> dict[str, Any]:
    disk = {"name": "/dev/sda", "size": 8 << 30, "model": "QEMU HARDDISK", "rotational": True, "serial": "disk"}
    return {
        "inventory": {
            "interfaces": [{"name": "eth0", "mac_address": mac, "has_carrier": True, "ipv4_address": address}],
            "memory": {"physical_mb": 1536, "total": 1536 << 20},
            "cpu": {"count": 1, "architecture": "x86_64", "model_name": "QEMU", "frequency": "2000", "flags": []},
            "disks": [disk],
            "boot": {"current_boot_mode": "uefi"},
            "hostname": "agent",
            "system_vendor": {
                "product_name": "server",
                "manufacturer": "rackless",
                "serial_number": "1",
                "firmware": {},
            },
            "bmc_address": "0.0.0.0",
        },
        "root_disk": disk,
        "configuration": {"collectors": ["default"], "managers": []},
    }
