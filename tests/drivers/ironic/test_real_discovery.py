"""A server that nobody has described, as far as it goes without one: the agent's own code in a network namespace of its own finds
the real Ironic by multicast DNS, tells it what is in the server, and is a stranger until it is dismissed."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import time
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from rackless.drivers.ironic.config import IronicConfig
from rackless.drivers.ironic.provisioner import IronicProvisioner
from rackless.drivers.ironic.service import IronicService
from rackless.drivers.process import LocalProcesses
from rackless.run.paths import Roots
from rackless.spec.discover import Discover

from .test_real_ironic import ADDRESS, config, network, venv

__all__ = ["config", "network", "venv"]

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root for a network namespace"),
    pytest.mark.skipif(not shutil.which("python3.11"), reason="the agent's wheels are for Python 3.11"),
]

MAC = "02:00:00:00:77:01"
AGENT = """
import sys
sys.path.insert(0, {agent!r})
from oslo_config import cfg
from ironic_python_agent import config, errors, inspector, mdns, utils
CONF = cfg.CONF
CONF([], project="ironic-python-agent")
url, params = mdns.get_endpoint("baremetal")
config.override(params)
print(url, CONF.inspection_callback_url)
CONF.set_override("cafile", {ca!r})
nics = [dict(name="eth0", mac_address={mac!r})]
inventory = dict(interfaces=nics, cpu=dict(architecture="x86_64", count=2), memory=dict(physical_mb=2048),
                 disks=[dict(name="/dev/sda", size=10**10)], boot=dict(pxe_interface={mac!r}), system_vendor=dict())
inspector.call_inspector(dict(inventory=inventory), utils.AccumulatedFailures(exc_class=errors.InspectionError))
"""


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """ironic-python-agent with all it needs, as the deploy ramdisk is made of it."""
    found = sorted(Roots.from_environment().cache.glob("images/entries/wheels-*/ironic_python_agent-*.whl"))
    if not found:
        pytest.skip("the agent's wheels are not in the cache; `rackless prepare` fetches them")
    folder = tmp_path_factory.mktemp("agent")
    for wheel in found[-1].parent.glob("*.whl"):
        with zipfile.ZipFile(wheel) as packed:
            packed.extractall(folder)
    return folder


@pytest.fixture
def server(network: None) -> Iterator[int]:
    """Another network namespace on the same wire: who is in it is reached by `nsenter`."""
    other = subprocess.Popen(["unshare", "-n", "sleep", "1200"])
    mine = os.readlink("/proc/thread-self/ns/net")
    while os.readlink(f"/proc/{other.pid}/ns/net") == mine:
        time.sleep(0.05)
    inside = f"nsenter -t {other.pid} -n ip"
    try:
        for words in (
            f"ip address del {ADDRESS}/24 dev lo", "ip link add wire type veth peer name far",
            f"ip address add {ADDRESS}/24 dev wire", "ip link set wire up", f"ip link set far netns {other.pid}",
            f"{inside} link set lo up", f"{inside} address add 192.0.2.50/24 dev far", f"{inside} link set far up",
        ):  # fmt: skip
            subprocess.run(words.split(), check=True)
        yield other.pid
    finally:
        other.terminate()
        other.wait()


async def test_an_agent_finds_ironic_by_multicast_dns_and_becomes_a_stranger(
    venv: Path, config: IronicConfig, server: int, agent: Path
) -> None:
    config = replace(config, discover=Discover.MDNS)
    service = IronicService(config, venv, LocalProcesses())
    await service.start(within=600)
    try:
        assert "chain discover.ipxe" in (config.http_root / "boot.ipxe").read_text()
        assert (config.http_root / "discover.initramfs").resolve() == config.ramdisk
        code = AGENT.format(agent=str(agent), ca=str(config.ca), mac=MAC)
        words = ["nsenter", "-t", str(server), "-n", "/usr/bin/python3.11", "-I", "-S", "-c", code]
        said = await LocalProcesses().run(words, within=600)
        assert said.stdout.split() == [config.url, config.reports]
        async with IronicProvisioner(config.url, config.username, config.password, config.ca) as ironic:
            async with asyncio.timeout(120):
                while not (came := await ironic.strangers()):  # noqa: ASYNC110
                    await asyncio.sleep(0.5)
            assert [each.inventory["interfaces"][0]["mac_address"] for each in came] == [MAC]
            await ironic.dismiss(came[0])
            assert await ironic.strangers() == []
            assert await ironic._ironic.nodes_with_port(MAC) == [], "a host with this MAC can be registered now"
    finally:
        await service.stop()
