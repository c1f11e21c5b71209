"""Faults planted in a cluster without machines, and what the lab's own looks make of them: etcd's members, the API VIP, Nodes,
certificate requests, Machines.

`python -m tests.real.planting_cluster FOLDER` records it; `tests/diagnosis/data` is what it wrote. etcd is Debian's, the API, the
node's agent and the controllers are ours, and a control plane that holds the VIP is a network namespace on a bridge.
"""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import ssl
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress
from datetime import UTC, datetime
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec

from rackless.api.process import ApiServer, ApiSettings
from rackless.cluster.reference import joining
from rackless.cluster.reference.keys import Keys
from rackless.codec import encode
from rackless.controllers.machines.controller import machine_controller
from rackless.controllers.nodes.approving import approve, pending
from rackless.controllers.nodes.judging import SERVING
from rackless.controllers.nodes.life import node_life_controller
from rackless.controllers.runtime.runtime import Runtime
from rackless.drivers import namespaces as ns
from rackless.drivers.clock import SystemClock
from rackless.drivers.kubernetes.resources import KubernetesResources
from rackless.drivers.nodes.observer import NetworkNodes
from rackless.drivers.nodes.vip import API_PORT
from rackless.events import Bus
from rackless.labd.report import describe_quorum, describe_vip
from rackless.node import keypair, settings
from rackless.node.agent import Agent
from rackless.plan.addressing import plan_lab
from rackless.ports.nodes import Members, Quorum, Vip
from rackless.run.waiting import until
from rackless.spec.load import parse
from rackless.trust.authority import BOTH_USES, Authority
from rackless.trust.kubeconfig_reading import read_kubeconfig
from rackless.trust.requests import make_request
from tests.api.conftest import Etcd, debian_program
from tests.node.cluster import facts

ROOT = Path(__file__).parents[2]
NAMES = ("ctrl-0", "ctrl-1", "ctrl-2")
PLAN = plan_lab(parse("name: lab\nservers: {ctrl: {role: control-plane, count: 3}}", "lab.yaml"))
LOOPBACK, VIP, BRIDGE = IPv4Address("127.0.0.1"), IPv4Address("192.0.2.5"), "planted0"
MACS = {"02:00:00:00:00:10": "ctrl-0", "02:00:00:00:00:11": "ctrl-1"}
WITHIN = 120.0
GRACE_SECONDS = 2.0
"""How long a Node may be silent here; it is told as after 40 s."""
HOSTS: Mapping[str, Mapping[str, Any]] = {
    "worker-0": {"spec": {"online": True}, "status": {"provisioning": {"state": "inspecting"}}},
    "worker-1": {"spec": {"online": True}, "status": {
        "provisioning": {"state": "registering"}, "errorType": "registration error", "errorMessage": "the BMC does not answer",
    }},
    "worker-2": {
        "spec": {"online": True, "consumerRef": {"kind": "Machine", "name": "another", "namespace": "rackless"}},
        "status": {"provisioning": {"state": "provisioned"}},
    },
}  # fmt: skip
"""None of them can be had by a Machine, each for a reason of its own."""


async def _until(what: str, look: Callable[[], Awaitable[bool]]) -> None:
    async def seen() -> tuple[bool, str]:
        return await look(), ""

    await until(seen, what=what, within=WITHIN, every=0.2, clock=SystemClock())


def _keep(folder: Path, name: str, **seen: Any) -> None:
    (folder / f"cluster-{name}.json").write_text(json.dumps(encode(seen), indent=1) + "\n")


# etcd


async def plant_etcd(folder: Path, scratch: Path) -> None:
    program = debian_program("etcd-server", "usr/bin/etcd")
    assert program is not None, "etcd-server cannot be had here"
    addresses = [f"127.0.0.{number}" for number in (1, 2, 3)]
    authority = Authority.ensure(scratch / "pki", "etcd")
    serving = authority.ensure_leaf("serving", addresses, uses=BOTH_USES)
    members = {
        name: Etcd(program, scratch, name, (2379, 12380 + number, 13380 + number)) for number, name in enumerate(NAMES)
    }
    tls = ssl.create_default_context(cafile=authority.certificate)
    tls.load_cert_chain(serving.certificate, serving.key)
    with ExitStack() as stack:
        for each, address in zip(members.values(), addresses, strict=True):
            each.url = f"https://{address}:2379"
            each.more = ("--cert-file", str(serving.certificate), "--key-file", str(serving.key), "--client-cert-auth",
                         "--trusted-ca-file", str(authority.certificate))  # fmt: skip
            each.members = [other.membership for other in members.values()]
            each.launch()
            stack.callback(each.kill)
        async with NetworkNodes().members(list(zip(NAMES, addresses, strict=True)), tls, 30.0) as asked:
            _keep(folder, "etcd-well", etcd=describe_quorum(await _quorum(asked, lambda seen: seen.complete)))
            members["ctrl-2"].kill()
            one = await _quorum(asked, lambda seen: seen.healthy == 2 and seen.leader is not None)
            _keep(folder, "etcd-member", etcd=describe_quorum(one))
            members["ctrl-1"].kill()
            lost = await _quorum(asked, lambda seen: seen.healthy == 0 and _gone(seen) == 2)
            _keep(folder, "no-quorum", etcd=describe_quorum(lost))


def _gone(seen: Quorum) -> int:
    return sum(member.problem == "no etcd listening" for member in seen.members)


async def _quorum(members: Members, wanted: Callable[[Quorum], bool]) -> Quorum:
    found: list[Quorum] = []

    async def look() -> bool:
        found.append(await members.observe())
        return wanted(found[-1])

    await _until("etcd to be seen so", look)
    return found[-1]


# the VIP


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


async def plant_vip(folder: Path, scratch: Path) -> None:
    _ip("link", "add", BRIDGE, "type", "bridge")
    _ip("address", "add", "192.0.2.1/24", "dev", BRIDGE)
    _ip("link", "set", BRIDGE, "up")
    rooms = {name: ns.ThreadRoom(name) for name in MACS.values()}
    try:
        for mac, name in MACS.items():
            _ip("link", "add", name, "type", "veth", "peer", "name", "eth0", "address", mac)
            _ip("link", "set", name, "master", BRIDGE, "up")
            _ip("link", "set", "eth0", "netns", str(rooms[name].path))
            rooms[name].call(lambda: _ip("link", "set", "eth0", "up"))
        keys = Keys(scratch / "vip-keys")
        for server in PLAN.control_planes[:1]:
            keys.ensure_invitation(server, PLAN)
        pki = ApiSettings(f"sqlite:{scratch}/vip.db", keys.api, port=0, names=(str(VIP),))
        async with ApiServer(pki) as api:
            await _hold_vip(folder, keys, rooms, int(api.url.rpartition(":")[2]))
    finally:
        for room in rooms.values():
            room.close()


async def _hold_vip(folder: Path, keys: Keys, rooms: Mapping[str, ns.ThreadRoom], behind: int) -> None:
    async def look(wanted: Callable[[Vip], bool]) -> Any:
        found: list[Vip] = []

        async def so() -> bool:
            found.append(await NetworkNodes().vip(VIP, BRIDGE, MACS, keys.api_client()))
            return wanted(found[-1])

        await _until("the VIP to be seen so", so)
        return describe_vip(found[-1])

    _keep(folder, "vip-nobody", vip=await look(lambda seen: seen.holders == ()))
    rooms["ctrl-0"].call(lambda: _ip("address", "add", f"{VIP}/24", "dev", "eth0"))
    _keep(folder, "vip-not-ready", vip=await look(lambda seen: seen.holder == "ctrl-0" and bool(seen.problem)))
    async with _leading(rooms["ctrl-0"], behind):
        _keep(folder, "vip-well", vip=await look(lambda seen: seen.ready))
        rooms["ctrl-1"].call(lambda: _ip("address", "add", f"{VIP}/24", "dev", "eth0"))
        _keep(folder, "vip-two", vip=await look(lambda seen: len(seen.holders) == 2))


@asynccontextmanager
async def _leading(room: ns.ThreadRoom, behind: int) -> AsyncIterator[None]:
    """As haproxy on the holder leads to its API."""

    async def lead(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ours = await asyncio.open_connection(str(LOOPBACK), behind)
        await asyncio.gather(_pass_on(reader, ours[1]), _pass_on(ours[0], writer))

    server = await asyncio.start_server(lead, sock=room.call(lambda: socket.create_server((str(VIP), API_PORT))))
    try:
        yield
    finally:
        server.close()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


# the API's objects


async def plant_objects(folder: Path, scratch: Path) -> None:
    keys = Keys(scratch / "keys")
    server = PLAN.control_planes[0]
    keys.ensure_invitation(server, PLAN)
    kubeconfig = scratch / "kubeconfig"
    keep = scratch / "keep"
    keep.mkdir()
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(
            ApiServer(ApiSettings(f"sqlite:{scratch}/objects.db", keys.api, port=API_PORT, kubeconfig=kubeconfig))
        )
        access, _ = read_kubeconfig(kubeconfig, keep)
        resources = KubernetesResources(access)
        stack.push_async_callback(resources.close)
        await _ask_for_certificates(folder, scratch, keys, resources)
        await _end_heartbeats(folder, resources)
        await _want_hosts(folder, resources)


async def _requests(resources: KubernetesResources) -> list[Any]:
    return list(await resources.list("CertificateSigningRequest"))


async def _ask_for_certificates(folder: Path, scratch: Path, keys: Keys, resources: KubernetesResources) -> None:
    """A node that nobody approves, and somebody who asks for a name that is no server's."""
    server = PLAN.control_planes[0]
    await NetworkNodes().admit(LOOPBACK, keys.api_client(), [joining.admission(server, keys.token(server.name) or "")])
    agent = _agent(scratch, keys)
    try:
        await asyncio.to_thread(agent.step)
        _keep(folder, "csr-ours", requests=await _requests(resources), domain=PLAN.domain, address=str(server.address))
        await _approve(resources)

        async def ready() -> bool:
            await asyncio.to_thread(agent.step)
            await _approve(resources)
            await NetworkNodes().admit(
                LOOPBACK, keys.api_client(), [joining.admission(server, keys.token(server.name) or "")]
            )
            return not joining.lacking(await NetworkNodes().objects(LOOPBACK, keys.api_client()), [server.name])

        await _until("the node to join", ready)
    finally:
        await asyncio.to_thread(agent.close)
    _keep(folder, "node-well", nodes=list(await resources.list("Node")), requests=await _requests(resources))
    stranger = make_request(
        ec.generate_private_key(ec.SECP256R1()), "system:node:stranger", ["system:nodes"], ("stranger",)
    )
    spec = {"request": stranger, "signerName": SERVING, "usages": ["digital signature", "server auth"]}
    kind = {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest"}
    await resources.create({**kind, "metadata": {"name": "csr-stranger"}, "spec": spec})
    _keep(folder, "csr-pending", requests=await _requests(resources))


def _agent(scratch: Path, keys: Keys) -> Agent:
    """As on the node, with what its Ignition config says."""
    server = PLAN.control_planes[0]
    described = {each["path"]: each for each in joining.files(server, PLAN, keys.ensure_invitation(server, PLAN))}
    for name, path in {"node-kubeconfig": joining.KUBECONFIG, "node.json": joining.SETTINGS}.items():
        (scratch / name).write_bytes(base64.b64decode(described[path]["contents"]["source"].partition("base64,")[2]))
    told = settings.load(scratch / "node-kubeconfig", scratch / "node.json")
    told = told._replace(name=server.name, host=str(LOOPBACK), port=API_PORT)
    looks = facts(addresses=(str(server.address),))
    return Agent(told, scratch / "node", lambda: looks, lambda _: None, make_key=keypair.make)


async def _approve(resources: KubernetesResources) -> None:
    for each in await _requests(resources):
        if pending(each):
            await approve(resources, each, "ByHand", "planted", datetime.now(UTC))


async def _end_heartbeats(folder: Path, resources: KubernetesResources) -> None:
    """The node's agent has ended: who looks after Nodes says what it says after its grace period."""
    runtime = Runtime(SystemClock(), Bus())
    node_life_controller(runtime, resources, grace=GRACE_SECONDS)
    working = asyncio.create_task(runtime.run())

    async def unknown() -> bool:
        (node,) = await resources.list("Node")
        return any((one["type"], one["status"]) == ("Ready", "Unknown") for one in node["status"]["conditions"])

    try:
        await _until("the node to be NotReady", unknown)
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
    _keep(folder, "node-not-ready", nodes=list(await resources.list("Node")))


async def _want_hosts(folder: Path, resources: KubernetesResources) -> None:
    kind = {"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost"}
    for name, told in HOSTS.items():
        await resources.create({**kind, "metadata": {"name": name}, "spec": told["spec"]})
        told_of_all = {"errorMessage": "", "operationalStatus": "OK", "poweredOn": False}
        provisioning = {"ID": "", **told["status"]["provisioning"]}
        await resources.patch_status(
            "BareMetalHost", name, {**told_of_all, **told["status"], "provisioning": provisioning}
        )
    value = {"apiVersion": "baremetal.cluster.k8s.io/v1alpha1", "kind": "BareMetalMachineProviderSpec",
             "image": {"url": "http://192.0.2.1/node.qcow2", "checksum": "0" * 64}}  # fmt: skip
    await resources.create({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine", "metadata": {"name": "wanted"},
        "spec": {"providerSpec": {"value": value}},
    })  # fmt: skip
    runtime = Runtime(SystemClock(), Bus())
    machine_controller(runtime, resources, resources)
    working = asyncio.create_task(runtime.run())

    async def refused() -> bool:
        (machine,) = await resources.list("Machine")
        conditions = (machine.get("status") or {}).get("conditions") or ()
        return any(one.get("reason") == "NoHostAvailable" for one in conditions)

    try:
        await _until("the Machine to find no host", refused)
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
    _keep(folder, "no-host", machines=list(await resources.list("Machine")))


async def _plant(folder: Path) -> None:
    """Call it in a network namespace of its own: `unshare --net`."""
    _ip("link", "set", "lo", "up")
    with tempfile.TemporaryDirectory() as name:
        for number, plant in enumerate((plant_etcd, plant_vip, plant_objects)):
            scratch = Path(name) / str(number)
            scratch.mkdir()
            await plant(folder, scratch)


def record(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    argv = ["unshare", "--net", sys.executable, "-m", "tests.real.planting_cluster", "--inside", str(folder)]
    subprocess.run(argv, check=True, cwd=ROOT)


if __name__ == "__main__":
    if sys.argv[1] == "--inside":
        asyncio.run(_plant(Path(sys.argv[2])))
    else:
        record(Path(sys.argv[1]))
