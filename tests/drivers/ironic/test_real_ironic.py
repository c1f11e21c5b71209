"""Real Ironic from the package index, in a network namespace of its own, against a stand-in for a BMC."""

import asyncio
import ctypes
import json
import os
import signal
import ssl
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from rackless.drivers.ironic.client import IronicClient, IronicRefused, IronicUnreachable
from rackless.drivers.ironic.config import IronicConfig
from rackless.drivers.ironic.environment import ensure_environment
from rackless.drivers.ironic.provisioner import IronicProvisioner
from rackless.drivers.ironic.service import SHIM, IronicService
from rackless.drivers.process import LocalProcesses
from rackless.events import Bus
from rackless.lab.files import FileServer
from rackless.ports.ironic import Guest
from rackless.ports.process import Completed
from rackless.ports.provisioner import (
    Again,
    BmcLogin,
    ConfigDrive,
    Done,
    ErrorKind,
    Failed,
    HostAccess,
    Image,
    Result,
)
from rackless.run.paths import Roots
from rackless.run.supervise import KeptProcesses

from .certificates import write_certificates
from .redfish_standin import StandIn

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root for a network namespace"),
    pytest.mark.asyncio(loop_scope="module"),
]

ADDRESS = "192.0.2.1"
CLONE_NEWNET = 0x40000000


@pytest.fixture(scope="module")
def network() -> Iterator[None]:
    """This thread, and what it starts, in a network namespace with one address and no way out."""
    libc = ctypes.CDLL(None, use_errno=True)
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    assert libc.unshare(CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
    try:
        for words in ("link set lo up", f"address add {ADDRESS}/24 dev lo"):
            subprocess.run(["ip", *words.split()], check=True)
        yield
    finally:
        assert libc.setns(before, CLONE_NEWNET) == 0
        os.close(before)


@pytest.fixture(scope="module")
def venv() -> Path:
    """The one of the computer's cache, which `rackless prepare` fills; made before the network is taken away."""
    return asyncio.run(ensure_environment(Roots.from_environment().cache, LocalProcesses(), Bus()))


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> IronicConfig:
    directory = tmp_path_factory.mktemp("ironic")
    ca, certificate, key = write_certificates(directory, ADDRESS)
    images = directory / "boot"
    images.mkdir()
    for name, size in (("kernel", 8_000_000), ("ramdisk", 40_000_000), ("esp.img", 2_000_000)):
        (images / name).write_bytes(os.urandom(1000) * (size // 1000))
    return IronicConfig(
        state=directory / "state",
        address=IPv4Address(ADDRESS),
        certificate=certificate,
        key=key,
        ca=ca,
        username="rackless",
        password="a password",
        http_url=f"http://{ADDRESS}:8080",
        http_root=directory / "http",
        kernel=images / "kernel",
        ramdisk=images / "ramdisk",
        esp=images / "esp.img",
    )


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ironic(venv: Path, network: None, config: IronicConfig) -> AsyncIterator[IronicProvisioner]:
    service = IronicService(config, venv, LocalProcesses())
    await service.start()
    try:
        async with IronicProvisioner(
            config.url, config.username, config.password, config.ca, network_boot=True
        ) as provisioner:
            yield provisioner
    finally:
        await service.stop()


def host(name: str, number: int, ca: Path | None, *, password: str = "secret", port: int = 8443) -> HostAccess:
    address = f"redfish-virtualmedia://{ADDRESS}:{port}/redfish/v1/Systems/1"
    bmc = BmcLogin(address, "admin", password, ca)
    return HostAccess(name, f"00000000-0000-4000-8000-{number:012d}", bmc, f"02:00:00:00:01:{number:02x}")


async def until_not_again(step: Callable[[bool], Awaitable[Result]], *, restart: bool = False) -> Result:
    """Take the step until it is done or failed, as the controller does."""
    async with asyncio.timeout(300):
        while isinstance(result := await step(restart), Again):
            restart = restart and result.busy
            await asyncio.sleep(result.after)
    return result


async def registered(provisioner: IronicProvisioner, access: HostAccess) -> Result:
    return await until_not_again(lambda restart: provisioner.register(access, restart=restart))


def from_iso(iso: Path, name: str, directory: Path) -> str:
    target = directory / Path(name).name
    subprocess.run(
        ["xorriso", "-osirrox", "on", "-indev", iso, "-extract", name, target], check=True, capture_output=True
    )
    return target.read_text()


async def test_a_bmc_that_answers_is_registered(ironic: IronicProvisioner, config: IronicConfig) -> None:
    bmc = StandIn()
    async with bmc.serving(ADDRESS, 8443, config.certificate, config.key):
        result = await registered(ironic, host("good", 1, config.ca))
    assert isinstance(result, Done), result
    assert result.detail["id"]


async def test_a_wrong_password_is_a_registration_error_and_a_right_one_mends_it(
    ironic: IronicProvisioner, config: IronicConfig
) -> None:
    bmc = StandIn()
    async with bmc.serving(ADDRESS, 8443, config.certificate, config.key):
        result = await registered(ironic, host("wrong", 2, config.ca, password="guess"))
        assert isinstance(result, Failed) and result.kind is ErrorKind.REGISTRATION
        assert "401" in result.message or "auth" in result.message.lower()
        assert "guess" not in result.message
        assert isinstance(await registered(ironic, host("wrong", 2, config.ca)), Done)


async def test_a_bmc_that_refuses_connections_is_a_registration_error_with_its_address(
    ironic: IronicProvisioner, config: IronicConfig
) -> None:
    result = await registered(ironic, host("absent", 3, config.ca, port=8444))
    assert isinstance(result, Failed) and result.kind is ErrorKind.REGISTRATION
    assert f"https://{ADDRESS}:8444" in result.message


async def inspection_started(provisioner: IronicProvisioner, access: HostAccess, bmc: StandIn) -> None:
    assert isinstance(await registered(provisioner, access), Done)
    async with asyncio.timeout(240):
        while bmc.power != "On":
            assert isinstance(await provisioner.inspect(access), Again)
            await asyncio.sleep(0.2)


async def test_inspection_boots_an_iso_that_carries_the_labs_ca_and_takes_what_the_agent_found(
    ironic: IronicProvisioner, config: IronicConfig, tmp_path: Path
) -> None:
    bmc = StandIn()
    access = host("inspected", 4, config.ca)
    async with bmc.serving(ADDRESS, 8443, config.certificate, config.key):
        await inspection_started(ironic, access, bmc)
        assert bmc.media and bmc.media.startswith(f"{config.http_url}/redfish/")
        assert bmc.boot["BootSourceOverrideTarget"] == "Cd"
        iso = config.http_root / bmc.media.removeprefix(f"{config.http_url}/")
        assert f"ipa-api-url={config.url}" in from_iso(iso, "/boot/grub/grub.cfg", tmp_path)
        assert "cafile = /etc/ironic-python-agent/ironic.crt" in from_iso(
            iso, "/etc/ironic-python-agent.d/ironic-tls.conf", tmp_path
        )
        assert from_iso(iso, "/etc/ironic-python-agent/ironic.crt", tmp_path) == config.ca.read_text()

        await report_as_an_agent(config, tmp_path / "ironic.crt", access.boot_mac)
        result = await until_not_again(lambda restart: ironic.inspect(access, restart=restart))
        assert isinstance(result, Done), result
        assert result.detail["memory"] == {"physical_mb": 2048}

        assert await until_not_again(lambda restart: ironic.power(access, False, hard=True)) == Done(
            {"powered_on": False}
        )
        assert bmc.power == "Off"
        assert await until_not_again(lambda _: ironic.delete(access)) == Done()
        assert await ironic.delete(access) == Done()


async def test_an_iso_carries_the_addresses_of_a_host_without_dhcp(
    ironic: IronicProvisioner, config: IronicConfig, tmp_path: Path
) -> None:
    bmc = StandIn()
    plain = host("without-dhcp", 9, config.ca)
    data = {
        "links": [{"id": "nic0", "type": "phy", "ethernet_mac_address": plain.boot_mac}],
        "networks": [
            {"id": "net0", "type": "ipv4", "link": "nic0", "ip_address": "192.0.2.20", "netmask": "255.255.255.0"}
        ],
        "services": [{"type": "dns", "address": "192.0.2.1"}],
    }
    access = replace(plain, network=data)
    async with bmc.serving(ADDRESS, 8443, config.certificate, config.key):
        await inspection_started(ironic, access, bmc)
        assert bmc.media
        iso = config.http_root / bmc.media.removeprefix(f"{config.http_url}/")
        carried = json.loads(from_iso(iso, "/openstack/latest/network_data.json", tmp_path))
        assert carried == {**data, "networks": [{"network_id": "net0", **data["networks"][0]}]}
        assert await until_not_again(lambda _: ironic.delete(access)) == Done()


async def test_a_bios_gets_an_iso_it_can_start(ironic: IronicProvisioner, config: IronicConfig, tmp_path: Path) -> None:
    bmc = StandIn()
    bmc.boot["BootSourceOverrideMode"] = "Legacy"
    access = replace(host("with-a-bios", 6, config.ca), boot_mode="legacy")
    async with bmc.serving(ADDRESS, 8443, config.certificate, config.key):
        await inspection_started(ironic, access, bmc)
        assert bmc.media and bmc.boot["BootSourceOverrideMode"] == "Legacy"
        iso = config.http_root / bmc.media.removeprefix(f"{config.http_url}/")
        assert f"ipa-api-url={config.url}" in from_iso(iso, "/isolinux/isolinux.cfg", tmp_path)
        report = (await LocalProcesses().run(["xorriso", "-indev", iso, "-report_el_torito", "plain"])).stdout
        assert "BIOS" in report and "/isolinux/isolinux.bin" in report
        assert await until_not_again(lambda _: ironic.delete(access)) == Done()


async def test_over_the_network_inspection_boots_the_script_of_the_hosts_mac(
    ironic: IronicProvisioner, config: IronicConfig
) -> None:
    bmc = StandIn()
    access = host("over-network", 7, config.ca)
    access = replace(access, bmc=replace(access.bmc, address=f"redfish://{ADDRESS}:8443/redfish/v1/Systems/1"))
    async with bmc.serving(ADDRESS, 8443, config.certificate, config.key):
        await inspection_started(ironic, access, bmc)
        assert bmc.media is None and bmc.boot["BootSourceOverrideTarget"] == "Pxe"
        by_mac = access.boot_mac.replace(":", "-")
        assert "pxelinux.cfg/" in (config.http_root / "boot.ipxe").read_text()
        script = (config.http_root / "pxelinux.cfg" / by_mac).read_text()
        assert f"ipa-api-url={config.url}" in script and "ipa-insecure" not in script
        for name, origin in (("deploy_kernel", config.kernel), ("deploy_ramdisk", config.ramdisk)):
            (url,) = {word for word in script.split() if word.startswith("http://") and word.endswith(name)}
            served = config.http_root / url.removeprefix(f"{config.http_url}/")
            assert served.read_bytes() == origin.read_bytes()

        await report_as_an_agent(config, config.ca, access.boot_mac)
        assert isinstance(await until_not_again(lambda restart: ironic.inspect(access, restart=restart)), Done)
        assert await until_not_again(lambda _: ironic.delete(access)) == Done()


async def report_as_an_agent(config: IronicConfig, ca: Path, mac: str) -> None:
    """Send what an agent sends after it has looked around: it has no account, and trusts the CA it was given."""
    found = {
        "inventory": {
            "interfaces": [{"name": "eth0", "mac_address": mac, "has_carrier": True, "ipv4_address": "192.0.2.9"}],
            "memory": {"physical_mb": 2048},
            "cpu": {"count": 1, "architecture": "x86_64"},
            "disks": [{"name": "/dev/sda", "size": 8 * 1024**3}],
            "boot": {"current_boot_mode": "uefi"},
        },
        "root_disk": {"name": "/dev/sda", "size": 8 * 1024**3},
    }
    connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=ca))
    async with aiohttp.ClientSession(connector=connector) as session, asyncio.timeout(240):
        while True:
            async with session.post(
                f"{config.url}/v1/continue_inspection", json=found, headers={"X-OpenStack-Ironic-API-Version": "1.84"}
            ) as answer:
                if answer.status == 202:
                    return
                assert answer.status in (404, 409), await answer.text()  # not waiting for it yet
            await asyncio.sleep(0.5)


async def test_the_api_is_closed_to_who_has_no_password(ironic: IronicProvisioner, config: IronicConfig) -> None:
    async with IronicClient(config.url, config.username, "another", config.ca) as client:
        with pytest.raises(IronicRefused):
            await client.drivers()


async def test_a_live_iso_is_put_into_the_bmcs_drive_and_booted_and_taken_out_again(
    ironic: IronicProvisioner, config: IronicConfig
) -> None:
    (config.http_root / "rescue.iso").write_bytes(b"an ISO")
    image = Image(f"{config.http_url}/rescue.iso", "", "auto", "live-iso")
    access = replace(host("live", 5, config.ca), clean=False)
    bmc = StandIn()
    async with bmc.serving(ADDRESS, 8443, config.certificate, config.key), files(config):
        assert isinstance(await registered(ironic, access), Done)
        result = await until_not_again(lambda _: ironic.provision(access, image, ConfigDrive("")))
        assert result == Done()
        assert (bmc.power, bmc.boot["BootSourceOverrideTarget"]) == ("On", "Cd")
        assert (
            bmc.media and (config.http_root / bmc.media.removeprefix(f"{config.http_url}/")).read_bytes() == b"an ISO"
        )
        assert await until_not_again(lambda _: ironic.deprovision(access)) == Done()
        assert not bmc.media
        assert await until_not_again(lambda _: ironic.delete(access)) == Done()


@asynccontextmanager
async def files(config: IronicConfig) -> AsyncIterator[None]:
    server = FileServer(config.http_root, ADDRESS, port=8080)
    await server.start()
    try:
        yield
    finally:
        await server.stop()


async def test_an_adopted_host_is_active_and_was_not_touched(ironic: IronicProvisioner, config: IronicConfig) -> None:
    access = host("adopted", 6, config.ca)
    (config.http_root / "disk.raw").write_bytes(b"a disk")
    image = Image(f"{config.http_url}/disk.raw", "ab" * 32, "sha256", "raw")
    bmc = StandIn()
    async with bmc.serving(ADDRESS, 8443, config.certificate, config.key), files(config):
        assert isinstance(await registered(ironic, access), Done)
        assert await until_not_again(lambda restart: ironic.adopt(access, image, restart=restart)) == Done()
        assert not bmc.media and bmc.power == "Off"
        async with IronicClient(config.url, config.username, config.password, config.ca) as client:
            node = await client.node("adopted")
        assert node and node["provision_state"] == "active"
        assert await until_not_again(lambda _: ironic.delete(access)) == Done()


async def test_as_a_guest_we_register_switch_and_go_without_meeting_the_others(
    ironic: IronicProvisioner, config: IronicConfig
) -> None:
    bmc = StandIn()
    access, theirs = host("ctrl-0", 7, config.ca), host("ctrl-0", 8, config.ca)
    guest = Guest("mylab~", {"deploy_kernel": f"{config.http_url}/kernel"})
    async with (
        bmc.serving(ADDRESS, 8443, config.certificate, config.key),
        IronicProvisioner(config.url, config.username, config.password, config.ca, guest) as ours,
    ):
        assert isinstance(await registered(ironic, theirs), Done)
        assert isinstance(await registered(ours, access), Done)
        for on in (True, False):
            step = lambda restart, on=on: ours.power(access, on, hard=True, restart=restart)  # noqa: E731
            assert await until_not_again(step) == Done({"powered_on": on})
            assert bmc.power == ("On" if on else "Off")
        assert await ours.forget_all() == ["mylab~ctrl-0"]
        async with IronicClient(config.url, config.username, config.password, config.ca) as client:
            names = set(await client.nodes())
        assert "ctrl-0" in names and "mylab~ctrl-0" not in names
        assert await until_not_again(lambda _: ironic.delete(theirs)) == Done()


class Recorded(KeptProcesses):
    """Keeps programs running, and keeps the command lines of those that are only run."""

    def __init__(self, run: Path) -> None:
        super().__init__(LocalProcesses(), run, Bus())
        self.ran: list[str] = []

    async def run(self, argv: Sequence[str | Path], **more: Any) -> Completed:
        self.ran.append(" ".join(map(str, argv)))
        return await super().run(argv, **more)


async def test_a_killed_ironic_comes_back_and_a_newer_one_takes_the_database_over(
    venv: Path, network: None, config: IronicConfig, tmp_path: Path
) -> None:
    other = replace(config, state=tmp_path / "state", http_root=tmp_path / "http", port=6399)
    processes = Recorded(tmp_path)
    service = IronicService(other, venv, processes)
    await service.start()
    try:
        async with IronicClient(other.url, other.username, other.password, other.ca) as client:
            await client.create_node({"name": "kept", "driver": "redfish"})
            first = service.pid
            assert first
            os.killpg(first, signal.SIGKILL)
            async with asyncio.timeout(300):
                while service.pid in (None, 0, first) or not await answers(client):  # noqa: ASYNC110
                    await asyncio.sleep(0.2)
            assert "kept" in await client.nodes()
        assert not any("ironic-dbsync" in line for line in processes.ran)
        await service.stop()

        (other.state / "schema").write_text("an older one")
        service = IronicService(other, venv, processes)
        await service.start()
        async with IronicClient(other.url, other.username, other.password, other.ca) as client:
            assert "kept" in await client.nodes()
        (upgrade,) = [line for line in processes.ran if "ironic-dbsync" in line]
        assert upgrade.endswith(" upgrade")
        assert (other.state / "schema").read_text() == venv.name
    finally:
        await service.stop()


async def answers(client: IronicClient) -> bool:
    try:
        await client.drivers()
    except IronicUnreachable:
        return False
    return True


async def test_the_shim_has_ironic_look_at_the_agents_commands_every_second(venv: Path, tmp_path: Path) -> None:
    asks = tmp_path / "ironic"  # the shim knows Ironic by the name of its program
    asks.write_text(
        "from ironic.drivers.modules.agent_client import AgentClient\n"
        "print(AgentClient._wait_for_command.retry.wait.wait_fixed)\n"
    )
    environment = {"PYTHONPATH": str(SHIM)}
    done = await LocalProcesses().run([venv / "bin/python", asks], env=environment)
    assert float(done.stdout) == 1


async def test_the_shim_leaves_out_what_is_never_called_and_nothing_else(venv: Path, tmp_path: Path) -> None:
    asks = tmp_path / "ironic"
    asks.write_text(
        "import sys\n"
        "from ironic.command import singleprocess\n"
        "from ironic.db.sqlalchemy import api\n"
        "from openstack.baremetal import configdrive\n"
        "print([name for name in ('eventlet', 'keystoneclient', 'openstack.cloud') if sys.modules.get(name)])\n"
        "print('node_tags' in str(api._get_node_select()), configdrive.build.__name__)\n"
    )
    told = [
        (await LocalProcesses().run([venv / "bin/python", asks], env=environment)).stdout
        for environment in ({"PYTHONPATH": str(SHIM)}, {})
    ]
    assert told[0] == "[]\nFalse build\n"
    assert told[1].startswith("['eventlet', 'keystoneclient', 'openstack.cloud']\n")
