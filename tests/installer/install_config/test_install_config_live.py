"""Live checks against small stand-ins: frames, resolvers, a BMC on loopback, recorded programs."""

import asyncio
import json
import struct
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import IPv4Address, IPv4Interface, IPv6Address
from pathlib import Path
from typing import Any

import pytest

from rackless.errors import CommandFailed, HypervisorError
from rackless.installer.install_config import bmc_address
from rackless.installer.install_config.checking import read_config
from rackless.installer.install_config.cluster_input import ClusterInput
from rackless.installer.install_config.config import Config
from rackless.installer.install_config.live import bmcs, here, interfaces, libvirt, names, neighbours, redfish, vrrp
from rackless.installer.install_config.live.probe import ProbeOutcome
from rackless.installer.install_config.values import Address
from rackless.installer.install_config.writing import render
from rackless.ports.process import Child, Completed


def _config(wanted: ClusterInput, *changes: tuple[str, str]) -> Config:
    text = render(wanted)
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    config = read_config(text)
    assert config
    return config


@pytest.mark.parametrize(("name", "ids"), [("cnf10", (147, 2)), ("cnf11", (228, 147))])
def test_router_ids_are_those_of_the_documented_clusters(name: str, ids: tuple[int, int]) -> None:
    assert vrrp.router_ids(name) == ids


def test_an_advertisement_is_read_and_anything_else_is_not() -> None:
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 40, 0, 0, 255, 112, 0, bytes([10, 0, 0, 7]), bytes([224, 0, 0, 18]))
    frame = b"\x01\x00\x5e\x00\x00\x12" + b"\x02" * 6 + b"\x08\x00" + ip + bytes([0x21, 147, 100, 1])
    assert vrrp.router_id(frame) == (147, "10.0.0.7")
    for cut in range(len(frame)):
        vrrp.router_id(frame[:cut])
    assert vrrp.router_id(frame[:23] + b"\x11" + frame[24:]) is None


def test_an_arp_probe_has_no_sender_address_and_its_answer_is_recognised() -> None:
    address, mac = IPv4Address("192.168.111.5"), b"\x02\x00\x00\x00\x00\x01"
    frame = neighbours.arp_probe(address, mac)
    assert frame[28:32] == b"\0\0\0\0" and frame[38:42] == address.packed
    assert neighbours.answer(frame, address) == ""
    reply = frame[:22] + b"\x02\x00\x00\x00\x00\x09" + address.packed + mac + b"\0" * 4
    assert neighbours.answer(reply, address) == "02:00:00:00:00:09"
    assert neighbours.answer(reply, IPv4Address("192.168.111.6")) == ""


def test_a_solicitation_goes_to_the_addresss_own_group() -> None:
    address = IPv6Address("fd00::12:3456")
    frame = neighbours.solicitation(address, b"\x02" * 6)
    assert frame[:6] == bytes.fromhex("3333ff123456")
    assert neighbours.answer(frame, address) == ""


async def test_names_that_point_elsewhere_are_found(make_compact: Callable[[], ClusterInput]) -> None:
    async def ask(name: str) -> frozenset[Address]:
        if name.startswith("api."):
            return frozenset({IPv4Address("192.168.111.5")})
        return frozenset({IPv4Address("10.9.9.9")}) if ".apps." in name else frozenset()

    found = await names.observe(_config(make_compact()), ask)
    assert [probe.outcome for probe in found] == [ProbeOutcome.OK, ProbeOutcome.OK, ProbeOutcome.FAILED]
    assert found[2].subject == "DNS *.apps.lab.example.com" and "10.9.9.9" in found[2].saw


async def test_a_resolver_that_does_not_answer_is_not_a_missing_record(
    make_compact: Callable[[], ClusterInput],
) -> None:
    async def ask(name: str) -> frozenset[Address]:
        raise OSError("servfail")

    assert {probe.outcome for probe in await names.observe(_config(make_compact()), ask)} == {ProbeOutcome.UNKNOWN}


async def test_an_address_of_this_machine_is_not_free(make_compact: Callable[[], ClusterInput]) -> None:
    own = interfaces.Interface("br0", b"\0" * 6, (IPv4Interface("192.168.111.5/24"),))
    found = await neighbours.observe(_config(make_compact()), (own,))
    assert found[0].outcome is ProbeOutcome.FAILED and "this computer itself" in found[0].saw


async def test_without_an_interface_in_the_network_nothing_is_claimed(make_compact: Callable[[], ClusterInput]) -> None:
    assert {probe.outcome for probe in await neighbours.observe(_config(make_compact()), ())} == {ProbeOutcome.UNKNOWN}


class Recorded:
    """Processes that answer from a table, and remember what they were asked."""

    def __init__(self, answers: Mapping[tuple[str, ...], str | Exception]) -> None:
        self.answers = answers
        self.asked: list[tuple[str, ...]] = []
        self.environment: Mapping[str, str] = {}

    async def run(
        self,
        argv: Sequence[str | Path],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        input: bytes | None = None,
        check: bool = True,
        within: float | None = None,
        stdout: Path | None = None,
    ) -> Completed:
        words = tuple(map(str, argv))
        self.asked.append(words)
        self.environment = env or {}
        for ending, answer in self.answers.items():
            if words[-len(ending) :] == ending:
                if isinstance(answer, Exception):
                    raise answer
                return Completed(words, 0, answer, "")
        raise CommandFailed(words, 1, "not known")

    async def start(
        self, argv: Sequence[str | Path], *, log: Path, cwd: Path | None = None, env: Mapping[str, str] | None = None
    ) -> Child:
        raise NotImplementedError


async def test_a_libvirt_network_counts_only_if_it_is_called_like_its_bridge(
    make_compact: Callable[[], ClusterInput],
) -> None:
    processes = Recorded(
        {
            ("iface-list",): " eth1   active   aa:bb:cc:dd:ee:ff\n eth2   inactive   aa:bb:cc:dd:ee:f0\n",
            ("net-list", "--name"): "baremetal\ndefault\n",
            ("net-info", "baremetal"): "Name:  baremetal\nBridge:         baremetal\n",
            ("net-info", "default"): "Name:  default\nBridge:         virbr0\n",
        }
    )
    found = await libvirt.observe(_config(make_compact()), processes)
    assert found.names == frozenset({"eth1", "baremetal"})
    assert [probe.outcome for probe in found.probes] == [ProbeOutcome.OK]


async def test_a_libvirt_that_does_not_answer_is_said(make_compact: Callable[[], ClusterInput]) -> None:
    found = await libvirt.observe(_config(make_compact()), Recorded({}))
    assert found.names is None and found.probes[0].outcome is ProbeOutcome.FAILED
    gone = Recorded({("iface-list",): HypervisorError("no virsh")})
    assert (await libvirt.observe(_config(make_compact()), gone)).probes[0].outcome is ProbeOutcome.UNKNOWN


async def test_ipmi_is_asked_without_the_password_on_the_command_line(every_mode: dict[str, ClusterInput]) -> None:
    processes = Recorded({("power", "status"): "Chassis Power is off\n"})
    found = await bmcs.observe(_config(every_mode["managed-ipmi"]), processes)
    assert {probe.outcome for probe in found} == {ProbeOutcome.OK} and len(found) == 5
    assert all("not a secret" not in word for words in processes.asked for word in words)
    assert processes.environment == {"IPMI_PASSWORD": "not a secret"}


class _Bmc(BaseHTTPRequestHandler):
    media = True
    tree: Mapping[str, Any] = {
        "/redfish/v1/": {},
        "/redfish/v1/Systems/1": {
            "PowerState": "Off",
            "Boot": {"BootSourceOverrideTarget@Redfish.AllowableValues": ["Hdd"]},
            "Links": {"ManagedBy": [{"@odata.id": "/redfish/v1/Managers/1"}]},
        },
        "/redfish/v1/Managers/1": {"VirtualMedia": {"@odata.id": "/redfish/v1/Managers/1/VirtualMedia"}},
        "/redfish/v1/Managers/1/VirtualMedia": {"Members": [{"@odata.id": "/redfish/v1/Managers/1/VirtualMedia/Cd"}]},
        "/redfish/v1/Managers/1/VirtualMedia/Cd": {
            "MediaTypes": ["CD", "DVD"],
            "Actions": {"#VirtualMedia.InsertMedia": {"target": "/x"}},
        },
        "/redfish/v1/Systems/list": [],
    }

    def do_GET(self) -> None:
        body: object = self.tree.get(self.path)
        status = 200 if body is not None else 404
        if self.headers.get("Authorization") != "Basic YWRtaW46c2VjcmV0":
            status = 401
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *words: object) -> None:
        pass


@pytest.fixture(scope="module")
def bmc_port() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Bmc)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


def _client(
    port: int, scheme: str = "redfish-virtualmedia+http", system: str = "1", password: str = "secret"
) -> redfish.RedfishReader:
    address = bmc_address.parse(f"{scheme}://127.0.0.1:{port}/redfish/v1/Systems/{system}")
    return redfish.RedfishReader(address, "admin", password, within=2)


def test_a_bmc_that_can_do_what_its_scheme_needs_is_taken(bmc_port: int) -> None:
    assert "virtual CD" in redfish.examine(_client(bmc_port))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"password": "wrong"}, "refuses the account"),
        ({"system": "9"}, "has no /redfish/v1/Systems/9"),
        ({"system": "list"}, "not an object"),
        ({"system": "é"}, "not a path"),
        ({"scheme": "redfish+http"}, "cannot be told to boot by PXE"),
        # a plain server answers a TLS greeting with nonsense or, if no newline is in it, not at all
        ({"scheme": "redfish-virtualmedia+https"}, "TLS failed|cannot be reached"),
    ],
)
def test_a_bmc_that_will_not_do_is_refused_with_the_reason(bmc_port: int, changes: dict[str, str], said: str) -> None:
    with pytest.raises(redfish.RedfishError, match=said) as caught:
        redfish.examine(_client(bmc_port, **changes))
    assert caught.value.fix


def test_a_bmc_that_is_not_there_is_said_to_be_so() -> None:
    with pytest.raises(redfish.RedfishError, match="cannot be reached"):
        redfish.examine(_client(1))


async def test_an_image_on_this_machine_is_asked_for_and_another_is_not(bmc_port: int) -> None:
    elsewhere = "http://images.example.com/x?sha256=" + "a" * 64
    assert here.loopback_image_answers(elsewhere) is None
    assert await asyncio.to_thread(here.loopback_image_answers, f"http://127.0.0.1:{bmc_port}/x?sha256=a") is False
