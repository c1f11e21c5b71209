"""The stage of a rehearsal and the program of its bootstrap machine: on loopback, with the computer's programs as functions."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from rackless.cluster.openshift.faults import InstallFault
from rackless.errors import CommandFailed, HypervisorError, LabError
from rackless.images.bootstrap_iso import NO_FAULT, NO_RELEASE
from rackless.operations.rehearsal import bootstrap as rehearsal_bootstrap
from rackless.operations.rehearsal import full as rehearsal_full
from rackless.operations.rehearsal import stage as rehearsal_stage
from rackless.operations.rehearsal.bootstrap import MARK, BootstrapPlace, play
from rackless.operations.rehearsal.stage import RehearsalStage, StageSetting
from rackless.ports.process import Child, Completed
from tests.cluster.openshift.bootstrap_config import DOMAIN, Made
from tests.cluster.openshift.stand_in import StandIn

MACHINE = "site-abcde-bootstrap"
VIP = f"127.83.{os.getpid() >> 8 & 255}.{os.getpid() % 254 + 1}"
"""On loopback, and no other test's: the ports of a cluster are always the same."""
OFFSET, AREA = 4096, 1 << 20
COMMAND_LINE = f"console=ttyS0 rehearsal.fail={NO_FAULT} rehearsal.release={NO_RELEASE} quiet"


class Commands:
    """`ports.process.Processes`: what virsh, ip and ipmitool answer."""

    def __init__(self, volume: Path) -> None:
        self.volume = volume
        self.domains: set[str] = {"ctrl-0"}
        self.addresses = f"1: lo    inet 127.0.0.1/8 scope host lo\n2: eth0    inet {VIP}/24 scope global eth0\n"
        self.asked: list[str] = []
        self.silent: set[str] = set()
        """BMCs that do not answer."""

    async def run(self, argv: Sequence[str | Path], *, check: bool = True, **_: Any) -> Completed:
        words = [str(word) for word in argv if str(word) not in ("--quiet", "--readonly", "/bin/busybox")]
        self.asked.append(" ".join(words))
        match words:
            case ["virsh", "list", *_]:
                said, code = "\n".join(self.domains), 0
            case ["virsh", "vol-path", *_]:
                said, code = f"{self.volume}\n", int(not self.volume.exists())
            case ["virsh", "destroy", name]:
                self.domains.discard(name)
                said, code = "", 0
            case ["ip", "-o", *_]:
                said, code = self.addresses, 0
            case ["ipmitool", *_]:
                gone = bool(self.silent & set(words))
                said, code = "no answer from it" if gone else "Chassis Power is off", int(gone)
            case ["ip" | "arping", *_]:
                said, code = "", 0
            case _:
                raise HypervisorError(f"the program {words[0]} is not here")
        if check and code:
            raise CommandFailed(words, code, said)
        return Completed(tuple(words), code, said, "")

    async def start(self, argv: Sequence[str | Path], **_: Any) -> Child:
        raise AssertionError(argv)


class Rehearsed:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.made = Made(bmc="ipmi://192.0.2.{n}", api_vip=VIP)
        self.iso = folder / "live.iso"
        self.iso.write_bytes(COMMAND_LINE.encode().ljust(OFFSET, b"\0") + bytes(AREA))
        self.boots = self.iso
        """What the installer's machine is to boot."""
        self.commands = Commands(folder / "volume")
        self.console = folder / "consoles" / f"{MACHINE}-serial0.log"
        self.console.parent.mkdir()
        self.said: list[Mapping[str, Any]] = []
        self.root = folder / "machine"
        for path, text in {"proc/cmdline": COMMAND_LINE, "etc/resolv.conf": "", "sys/class/net/eth0/address": "52:54:00:0:0:1\n",
                           "sys/class/net/eth0/device": ""}.items():  # fmt: skip
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_text(text)
        (folder / "config.ign").write_bytes(self.made.text())

    def add_nic(self, name: str, mac: str) -> None:
        place = self.root / "sys/class/net" / name
        place.mkdir()
        (place / "device").touch()
        (place / "address").write_text(f"{mac}\n")

    def boot(self) -> None:
        """The installer has written its config into the ISO, and made a machine of it."""
        content = bytearray(self.iso.read_bytes())
        embedded = self.made.embedded()
        content[OFFSET : OFFSET + len(embedded)] = embedded
        self.commands.volume.write_bytes(content)
        self.commands.domains.add(MACHINE)

    def speak(self, what: Mapping[str, Any]) -> None:
        with self.console.open("a") as console:
            console.write(f"\n{MARK}{json.dumps(dict(what))}\n")

    async def told(self, found: Callable[[Mapping[str, Any]], object]) -> Mapping[str, Any]:
        async with asyncio.timeout(60):
            while True:
                for one in self.said:
                    if found(one):
                        return one
                await asyncio.sleep(0.005)

    async def phase(self, name: str) -> Mapping[str, Any]:
        return await self.told(lambda one: one.get("phase") == name)

    @asynccontextmanager
    async def stage(self, fault: InstallFault | None = None, release: str = "", **more: Any) -> AsyncIterator[str]:
        setting = StageSetting(
            str(self.boots), OFFSET, AREA, str(self.folder), "virbr0", str(self.folder / "libvirt.sock"),
            fault.value if fault else "", release=release, consoles=str(self.console.parent), **more,
        )  # fmt: skip
        stop = asyncio.Event()
        as_written = StageSetting(**json.loads(setting.dump()))
        running = asyncio.create_task(RehearsalStage(as_written, self.commands, self.said.append).run(stop))
        try:
            yield str((await self.told(lambda one: "iso" in one))["iso"])
        finally:
            stop.set()
            await running

    def play(self) -> asyncio.Task[None]:
        place = BootstrapPlace(self.root, VIP)
        return asyncio.create_task(play(self.folder / "config.ign", self.commands, self.speak, place, step=0.0))


@pytest.fixture
async def rehearsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rehearsed:
    monkeypatch.setattr(rehearsal_stage, "_LOOK_SECONDS", 0.01)
    loop = asyncio.get_running_loop()

    async def addresses(host: str, port: Any, **_: Any) -> list[Any]:
        """The names of the site, and no resolver's."""
        if host.endswith(DOMAIN):
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (VIP, port or 0))]
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    async def names(*_: Any) -> tuple[str, str]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(loop, "getaddrinfo", addresses)
    monkeypatch.setattr(loop, "getnameinfo", names)
    return Rehearsed(tmp_path)


async def test_an_installer_comes_to_its_end_with_the_bootstrap_and_the_cluster_after_it(
    rehearsed: Rehearsed, capsys: pytest.CaptureFixture[str]
) -> None:
    installer = StandIn(rehearsed.made, rehearsed.folder, VIP)
    async with rehearsed.stage() as iso:
        assert (await _download(iso))[1] == rehearsed.iso.read_bytes()
        rehearsed.boot()
        assert (await rehearsed.phase("ignition read"))["infrastructure"] == "site-abcde"
        machine = rehearsed.play()
        await rehearsed.told(lambda one: "machine_config" in one)
        await installer.bootstrap(6443)
        machine.cancel()
        await asyncio.gather(machine, return_exceptions=True)
        rehearsed.commands.domains.discard(MACHINE)
        await rehearsed.phase("the cluster answers (simulated)")
        await installer.cluster(6443)
        assert await rehearsal_stage._ask_by_kubeconfig(_kubeconfig(rehearsed)) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert found["available"] == "True" and found["hosts"] == {f"m-{number}": "provisioned" for number in range(3)}
    assert installer.steps[-1] == "console"
    asked = rehearsed.commands.asked
    assert asked[-1] == f"ip address delete {VIP}/32 dev virbr0" and f"ip address replace {VIP}/32 dev virbr0" in asked

    heard = [one["bootstrap"] for one in rehearsed.said if "bootstrap" in one]
    network = next(one for one in heard if one.get("phase") == "network")
    assert (network["interface"], network["mac"], network["address"]) == ("eth0", "52:54:00:0:0:1", f"{VIP}/24")
    (names,) = [one["names"] for one in heard if "names" in one]
    assert [one["good"] for one in names] == [True, True, False, False]  # the ingress VIP is another; nobody has a name
    assert {one["bmc"]: one["good"] for one in heard if "bmc" in one} == {"m-0": True, "m-1": True, "m-2": True}
    (asked_for,) = [one["machine_config"] for one in rehearsed.said if "machine_config" in one]
    assert asked_for["good"] and asked_for["saw"] == "answers 200"


async def test_the_live_iso_carries_what_is_to_go_wrong_or_is_not_there(rehearsed: Rehearsed) -> None:
    async with rehearsed.stage(InstallFault.HOST_ERROR) as iso:
        _, content = await _download(iso)
    assert b"rehearsal.fail=host-error-" in content and len(content) == len(rehearsed.iso.read_bytes())
    rehearsed.said.clear()
    async with rehearsed.stage(InstallFault.ISO_MISSING) as iso:
        assert (await _download(iso))[0] == 404
    assert {"fault": "iso-missing"} in rehearsed.said
    rehearsed.said.clear()
    rehearsed.iso.write_bytes(rehearsed.iso.read_bytes() + b"# COREOS_KARG_EMBED_AREA")
    async with rehearsed.stage(InstallFault.ISO_DAMAGED) as iso:
        _, content = await _download(iso)
    assert b"COREOS_KARG" not in content and len(content) == len(rehearsed.iso.read_bytes())


async def test_an_installer_that_boots_a_disk_gets_one_and_its_config_is_read_from_its_own_volume(
    rehearsed: Rehearsed,
) -> None:
    rehearsed.boots = rehearsed.folder / "bootstrap.qcow2"
    rehearsed.boots.write_bytes(rehearsed.iso.read_bytes())
    async with rehearsed.stage(InstallFault.CONFIG_MAP_MISSING) as disk:
        place, _, checksum = disk.partition("?sha256=")
        _, content = await _download(disk)
        rehearsed.commands.volume.write_bytes(rehearsed.made.text())
        rehearsed.commands.domains.add(MACHINE)
        found = await rehearsed.phase("ignition read")
    assert place.endswith("/rehearsal.qcow2") and checksum == hashlib.sha256(content).hexdigest()
    assert b"rehearsal.fail=configmap-missing-" in content and len(content) == len(rehearsed.boots.read_bytes())
    assert found["infrastructure"] == "site-abcde"
    assert f"virsh vol-path {MACHINE}.ign --pool {MACHINE}" in rehearsed.commands.asked


async def test_a_bootstrap_that_is_to_be_switched_off_is_once_its_api_answers(rehearsed: Rehearsed) -> None:
    async with rehearsed.stage(InstallFault.BOOTSTRAP_OFF):
        rehearsed.boot()
        rehearsed.console.write_bytes(b"\xff firmware\n" + MARK.encode() + b"{half a line\n")
        rehearsed.speak({"phase": "api", "vip": VIP})
        await rehearsed.phase("bootstrap machine gone")
    assert f"virsh destroy {MACHINE}" in rehearsed.commands.asked
    (found,) = [one["machine_config"] for one in rehearsed.said if "machine_config" in one]
    assert not found["good"]  # nobody serves it


async def test_what_goes_wrong_beside_the_installer_is_told_and_the_stage_stays_until_it_is_stopped(
    rehearsed: Rehearsed,
) -> None:
    rehearsed.commands.domains.add(MACHINE)  # without a volume
    async with rehearsed.stage():
        failed = await rehearsed.told(lambda one: "failed" in one)
        assert "CommandFailed" in failed["failed"]
    assert not [one for one in rehearsed.commands.asked if one.startswith("ip address replace")]


async def test_a_bmc_that_does_not_answer_leaves_the_bootstrap_waiting_and_it_says_for_what(
    rehearsed: Rehearsed,
) -> None:
    rehearsed.commands.silent.add("192.0.2.1")
    async with rehearsed.stage():
        rehearsed.boot()
        machine = rehearsed.play()
        waits = await rehearsed.told(lambda one: (one.get("bootstrap") or {}).get("in_vain"))
        machine.cancel()
        await asyncio.gather(machine, return_exceptions=True)
    assert waits["bootstrap"]["waits"] == "control planes that cannot be provisioned: m-1"
    (bad,) = [one["bootstrap"] for one in rehearsed.said if (one.get("bootstrap") or {}).get("good") is False]
    assert bad["bmc"] == "m-1" and "no answer from it" in bad["saw"] and "check address" in bad["saw"]


async def test_a_bootstrap_with_a_fixed_address_takes_it_and_one_that_is_to_serve_nothing_says_so(
    rehearsed: Rehearsed,
) -> None:
    """On the NIC that the installer's config names, which is not the first here, and instead of what DHCP may give."""
    rehearsed.add_nic("eth1", "52:54:00:0:0:2")
    rehearsed.commands.addresses = (
        f"2: eth1    inet 127.83.0.99/8 scope global eth1\n3: eth1    inet {VIP}/24 scope global eth1\n"
    )
    rehearsed.made.files["/etc/NetworkManager/system-connections/nmconnection"] = (
        "[ethernet]\nmac-address=52:54:00:0:0:2\n"
        f"[ipv4]\nmethod=manual\naddresses={VIP}/24\ngateway=127.83.0.1\ndns=127.83.0.2\n"
    )
    (rehearsed.folder / "config.ign").write_bytes(rehearsed.made.text())
    word = InstallFault.API_NEVER_UP.value.ljust(len(NO_FAULT), "-")
    (rehearsed.root / "proc/cmdline").write_text(COMMAND_LINE.replace(NO_FAULT, word))
    dhcp = await asyncio.create_subprocess_exec("sleep", "600")
    (rehearsed.root / "run").mkdir()
    (rehearsed.root / "run/udhcpc.eth1.pid").write_text(f"{dhcp.pid}\n")
    machine = rehearsed.play()
    async with asyncio.timeout(30):
        while "in_vain" not in (rehearsed.console.read_text() if rehearsed.console.exists() else ""):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    machine.cancel()
    await asyncio.gather(machine, return_exceptions=True)
    assert await dhcp.wait() == -signal.SIGTERM  # its lease would take the place of the fixed address
    asked = rehearsed.commands.asked
    assert asked[:2] == [f"ip addr replace {VIP}/24 dev eth1", "ip route replace default via 127.83.0.1 dev eth1"]
    assert (rehearsed.root / "etc/resolv.conf").read_text() == "nameserver 127.83.0.2\n"
    assert not [one for one in asked if one.startswith("arping")]  # the VIP is left alone


async def test_a_bootstrap_without_a_lease_in_the_vips_network_says_what_it_has(
    rehearsed: Rehearsed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rehearsal_bootstrap, "_NETWORK_SECONDS", 0.05)
    rehearsed.commands.addresses = "2: eth0    inet 169.254.7.7/16 scope link eth0\n"
    with pytest.raises(LabError, match=f"no address in the network of the API VIP {VIP}: it has eth0 169.254.7.7/16"):
        await rehearsed.play()


async def test_in_a_full_rehearsal_the_iso_says_where_the_release_is_and_the_cluster_keeps_its_vip(
    rehearsed: Rehearsed,
) -> None:
    release = "http://10.20.30.1:6180/release.json"
    async with rehearsed.stage(release=release) as iso:
        _, content = await _download(iso)
        rehearsed.boot()
        await rehearsed.phase("ignition read")
        with rehearsed.console.open("a") as console:
            console.write('\nlogin: [ 9.1] rackless[302]: BOOTSTRAP {"phase": "hands over", "to": ["10.20.30.20"]}\n')
        told = await rehearsed.told(lambda one: "installs" in one)
        rehearsed.commands.domains.discard(MACHINE)
        await rehearsed.phase("bootstrap machine gone")
    assert f"rehearsal.release={release}-".encode() in content and len(content) == len(rehearsed.iso.read_bytes())
    assert told["installs"] == {"phase": "hands over", "to": ["10.20.30.20"]}
    assert not [one for one in rehearsed.commands.asked if one.startswith("ip address")]


@pytest.mark.parametrize("stays", [False, True])
async def test_the_gateway_answers_meanwhile_for_the_sites_name_servers(rehearsed: Rehearsed, *, stays: bool) -> None:
    """In a lab that stays also afterwards: nodes may have been told of them."""
    async with rehearsed.stage(aliases=("10.0.0.53",), remember=stays):
        assert "ip address replace 10.0.0.53/32 dev virbr0" in rehearsed.commands.asked
    assert ("ip address delete 10.0.0.53/32 dev virbr0" in rehearsed.commands.asked) != stays


@pytest.mark.parametrize(
    ("fault", "installs", "waits"),
    [
        (InstallFault.HOST_ERROR, {"subject": "host/m-0", "ended": "registering", "outcome": "failed", "detail": "401"},
         "the control plane m-0, which is in error: 401"),
        (InstallFault.ETCD_STAYS, {"phase": "complete"}, "etcd to give up the bootstrap's member"),
        (InstallFault.BOOTSTRAP_OFF, {"phase": "manifests applied"}, "its bootstrap machine, which is off"),
    ],
)  # fmt: skip
async def test_a_full_rehearsal_that_is_to_fail_tells_from_when_on_its_installer_waits_in_vain(
    rehearsed: Rehearsed, fault: InstallFault, installs: Mapping[str, Any], waits: str
) -> None:
    """And carries what is to go wrong into the machine, beside the release."""
    async with rehearsed.stage(fault, release="http://10.20.30.1:6180/release.json") as iso:
        _, content = await _download(iso)
        rehearsed.boot()
        await rehearsed.phase("ignition read")
        with rehearsed.console.open("a") as console:
            for one in ({"subject": "host/m-0", "begun": "registering"}, installs, installs):
                console.write(f"rackless[302]: BOOTSTRAP {json.dumps(dict(one))}\n")
        told = await rehearsed.told(lambda one: "in_vain" in one)
        async with asyncio.timeout(30):
            while len([one for one in rehearsed.said if "installs" in one]) < 3:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    assert waits in told["waits"] and len([one for one in rehearsed.said if "in_vain" in one]) == 1
    assert (f"rehearsal.fail={fault.value}-".encode() in content) == (fault is not InstallFault.BOOTSTRAP_OFF)
    assert (f"virsh destroy {MACHINE}" in rehearsed.commands.asked) == (fault is InstallFault.BOOTSTRAP_OFF)


async def test_a_bootstrap_that_is_to_install_leaves_the_vip_alone_and_prepares_itself(
    rehearsed: Rehearsed, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared: list[tuple[Any, ...]] = []

    async def prepare(*given: Any) -> None:
        prepared.append(given)

    monkeypatch.setattr(rehearsal_full, "prepare", prepare)
    word = "http://10.20.30.1:6180/release.json".ljust(len(NO_RELEASE), "-")
    (rehearsed.root / "proc/cmdline").write_text(COMMAND_LINE.replace(NO_RELEASE, word))
    rehearsed.made.add_installing("Managed")
    (rehearsed.folder / "config.ign").write_bytes(rehearsed.made.text())
    with pytest.raises(LabError, match="no NIC with the MAC 52:54:00:aa:00:02"):
        await rehearsed.play()
    rehearsed.add_nic("eth1", "52:54:00:AA:00:02")
    await rehearsed.play()
    ((_, own, mac, release, *_, disk, config, fault),) = prepared
    assert fault is None
    assert (str(own), mac, release) == (f"{VIP}/24", "52:54:00:0:0:1", "http://10.20.30.1:6180/release.json")
    assert (disk, config) == (rehearsed.root / "dev/vda", rehearsed.root / "run/rehearsal/bootstrap.ign")
    asked = rehearsed.commands.asked
    assert any(one.startswith("arping -D") for one in asked) and not any("/32" in one for one in asked)


async def _download(url: str) -> tuple[int, bytes]:
    async with aiohttp.ClientSession() as client, client.get(url) as answer:
        return answer.status, await answer.read()


def _kubeconfig(rehearsed: Rehearsed) -> Path:
    certificate, key = (base64.b64encode(text.encode()).decode() for text in rehearsed.made.admin)
    ca = base64.b64encode(rehearsed.made.root.certificate.encode()).decode()
    cluster = {"server": f"https://api.{DOMAIN}:6443", "certificate-authority-data": ca}
    user = {"client-certificate-data": certificate, "client-key-data": key}
    path = rehearsed.folder / "kubeconfig"
    path.write_text(yaml.safe_dump({"clusters": [{"cluster": cluster}], "users": [{"user": user}]}))
    return path
