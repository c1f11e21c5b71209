"""Hand-over, both ends: on a control plane's node, becoming one; on the bootstrap machine, letting go.

It runs on the node image, without pydantic. Both may be cut off anywhere and started again: what is done is found done.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
import ssl
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from rackless.api.access.keys import CLIENTS, NAMED
from rackless.cluster.bootstrap import taking_over
from rackless.cluster.bootstrap.following import CONTROL_PLANE, MACHINE_API, ROLE_LABEL, describe_lacking
from rackless.cluster.bootstrap.manifests import Manifest, apply, load_manifests
from rackless.cluster.bootstrap.membership import EtcdMembership, EtcdPeer, EtcdRefused, await_voter, ensure_learner
from rackless.cluster.bootstrap.provisioning_network import own_macs
from rackless.cluster.bootstrap.telling import Tell
from rackless.drivers.clock import SystemClock
from rackless.drivers.kubernetes.client import Client
from rackless.drivers.kubernetes.resources import KubernetesResources
from rackless.drivers.process import LocalProcesses
from rackless.installer.assets.ignition import control_plane, front, services
from rackless.installer.assets.ignition.node_agent import KUBECONFIG
from rackless.installer.assets.release import FILE as RELEASE_FILE
from rackless.installer.assets.signing import KeyPair, sign
from rackless.operations.bootstrap.parts import PATIENCE_SECONDS, ApiObjects
from rackless.operations.bootstrap.running import SYSTEMCTL
from rackless.ports.api import Access, ApiUnreachable
from rackless.ports.clock import Clock
from rackless.ports.resources import Refused
from rackless.provisioning.baremetalhost import PAUSED
from rackless.run.files import write_secret
from rackless.run.waiting import until
from rackless.spec.address import Ip
from rackless.trust.authority import Use
from rackless.trust.kubeconfig_reading import read_kubeconfig

BOOTSTRAP = "bootstrap"
NODE_CERTIFICATE = Path("/var/lib/rackless-node/client.pem")
WITHIN_SECONDS = 7200.0
LOOK_EVERY = 3.0
COMPLETE = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "bootstrap", "namespace": "kube-system"},
    "data": {"status": "complete"},
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a machine's files are: `/`, but for a machine that is none."""

    root: Path = Path("/")
    kubeconfig: Path = Path(KUBECONFIG)
    certificate: Path = NODE_CERTIFICATE

    @classmethod
    def inside(cls, root: Path) -> Place:
        return cls(root, root / KUBECONFIG.lstrip("/"), root / str(NODE_CERTIFICATE).lstrip("/"))

    def __truediv__(self, path: str) -> Path:
        return self.root / path.lstrip("/")


# on a node of the control plane


async def join(cluster: str, domain: str, vip: Ip, tell: Tell, place: Place | None = None) -> None:
    place, clock, processes = place or Place(), SystemClock(), LocalProcesses()
    marker = place / "/etc/rackless/control-plane.json"
    if marker.exists():
        return
    keys = await _await_keys(place, clock, tell)
    interface, address = await _way_to(vip, processes)
    new = taking_over.NewControlPlane(os.uname().nodename.lower(), cluster, domain, address, interface, vip)
    tell({"phase": "joins etcd", "node": new.name, "address": str(address)})
    own = sign(KeyPair(keys["etcd-ca.crt"], keys["etcd-ca.key"]), f"join-{new.name}", uses=(Use.CLIENT,))
    # All that takes long comes before etcd is asked: it takes one learner at a time, and the others of the control plane wait.
    names = await _lay_out(new, keys, place, processes)
    async with EtcdMembership(f"https://{BOOTSTRAP}.{domain}:2379", _tls(keys["etcd-ca.crt"], own)) as etcd:
        others = await _patient(lambda: ensure_learner(etcd, new.peer), clock, "the bootstrap's etcd")
        _place_files([taking_over.membership(new, others)], place)
        await _start(processes, names[0])
        await _sync(place)
        # Not before: an etcd that is started without knowing the others begins a cluster of its own.
        await processes.run([*SYSTEMCTL, "enable", "--no-reload", *names])
        await await_voter(etcd, new.peer, clock)
    tell({"phase": "votes in etcd", "node": new.name})
    await _start(processes, *(name for name in names[1:] if name not in _LATER))  # etcd runs
    access = Access("", place / f"{control_plane.PKI}/ca.crt", place.certificate, place.certificate)
    await _await_ready(f"https://{address}:{front.SERVER_PORT}", access, clock, "our own API")
    await _start(processes, *(name for name in names if name in _LATER))
    write_secret(marker, json.dumps({"address": str(address)}) + "\n")
    tell({"phase": "control plane", "node": new.name})


_LATER = (services.MACHINE_CONFIG, services.LATER, services.METAL3)
"""Units that nobody needs until the bootstrap has handed over. Each is a Python program that starts, beside the API's own start."""


async def _lay_out(
    new: taking_over.NewControlPlane, keys: Mapping[str, str], place: Place, processes: LocalProcesses
) -> list[str]:
    """Files and units but for etcd's membership; the units' names, etcd's first."""
    for folder in control_plane.folders():
        _own(place, folder["path"], folder["user"]["name"], folder=True)
    _place_files(taking_over.files(new, keys), place)
    wanted = taking_over.units(new, keys)
    _place_units(wanted, place)
    await processes.run([*SYSTEMCTL, "daemon-reload"])  # once for all: it takes seconds on an emulated machine
    return [each["name"] for each in wanted if each["enabled"]]


async def _await_keys(place: Place, clock: Clock, tell: Tell) -> dict[str, str]:
    """Once the node has joined, and the bootstrap has offered them. Over one connection: a TLS handshake for every question took a
    fifth of an emulated machine's processor."""
    with tempfile.TemporaryDirectory(prefix="rackless-join-") as keep:
        access, _ = read_kubeconfig(place.kubeconfig, Path(keep))
        found: list[dict[str, str]] = []
        opened: list[KubernetesResources] = []

        async def offered() -> tuple[bool, str]:
            if not place.certificate.exists():
                return False, "the node has no certificate yet"
            if not opened:
                own = Access(access.url, access.ca, place.certificate, place.certificate)
                opened.append(KubernetesResources(own, namespace=taking_over.NAMESPACE, patience=0.0, clock=clock))
            try:
                secret = await opened[0].get("Secret", taking_over.KEYS)
            except Refused as error:  # nobody may read them before they are offered
                return False, str(error)
            except ApiUnreachable as error:
                await opened.pop().close()  # the node may have another certificate by now
                return False, str(error)
            found[:] = [taking_over.read_keys(secret)] if secret is not None else []
            return bool(found), "the keys are not offered yet"

        def seen(what: str) -> None:
            tell({"waits": what[:300]})

        try:
            await until(
                offered,
                what="the control plane's keys",
                within=WITHIN_SECONDS,
                every=LOOK_EVERY,
                clock=clock,
                seen=seen,
            )
        finally:
            for each in opened:
                await each.close()
    return found[0]


async def _way_to(vip: Ip, processes: LocalProcesses) -> tuple[str, Ip]:
    """The NIC behind which the VIP is, and our address there."""
    done = await processes.run(["ip", "-json", "route", "get", str(vip)])
    route = json.loads(done.stdout)[0]
    return str(route["dev"]), ip_address(route["prefsrc"])


async def _patient(work: Any, clock: Clock, what: str) -> str:
    found: list[str] = []

    async def works() -> tuple[bool, str]:
        try:
            found[:] = [await work()]
        except EtcdRefused as error:
            return False, str(error)
        return True, "answers"

    await until(works, what=what, within=WITHIN_SECONDS, every=LOOK_EVERY, clock=clock)
    return found[0]


async def _sync(place: Place) -> None:
    """What is enabled from here on starts after a power cut, too, and has to find its files whole: ext4 keeps the name of a file
    that was just written, and not what is in it."""
    if place.root == Path("/"):
        await asyncio.to_thread(os.sync)


async def _start(processes: LocalProcesses, *names: str) -> None:
    """Not waited for: a member that learns is started before it is ready."""
    await processes.run([*SYSTEMCTL, "restart", "--no-block", *names])


def _place_files(files: Sequence[Mapping[str, Any]], place: Place) -> None:
    for each in files:
        path = place / each["path"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.touch(mode=0o600)
        path.write_bytes(base64.b64decode(each["contents"]["source"].partition("base64,")[2]))
        path.chmod(each["mode"])
        if "user" in each:
            _own(place, each["path"], each["user"]["name"])


def _place_units(units: Sequence[Mapping[str, Any]], place: Place) -> None:
    folder = place / "/etc/systemd/system"
    for each in units:
        if "contents" in each:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / each["name"]).write_text(each["contents"])
        for dropin in each.get("dropins", ()):
            (folder / f"{each['name']}.d").mkdir(parents=True, exist_ok=True)
            (folder / f"{each['name']}.d" / dropin["name"]).write_text(dropin["contents"])


def _own(place: Place, path: str, user: str, *, folder: bool = False) -> None:
    target = place / path
    if folder:
        target.mkdir(parents=True, exist_ok=True)
    if place.root == Path("/"):
        shutil.chown(target, user, user)


# on the bootstrap machine


async def hand_over(root: Path, vip: Ip, tell: Tell, place: Place | None = None) -> None:
    """Offer the keys, wait until the control plane can do without us, and go."""
    place, clock, processes = place or Place(), SystemClock(), LocalProcesses()
    with tempfile.TemporaryDirectory(prefix="rackless-handover-") as keep:
        access, _ = read_kubeconfig(root / "auth/kubeconfig-loopback", Path(keep))
        at_vip = Access(f"https://{vip}:{front.API_PORT}", access.ca, access.certificate, access.key)
        memory = place / "/var/lib/rackless/handover.json"
        store = (place / f"{control_plane.STORE}/ca.crt").read_text()
        client = KeyPair(*((place / f"{control_plane.STORE}/client.{end}").read_text() for end in ("crt", "key")))
        tls = _tls(store, client)
        if not memory.exists():
            nodes = await _offer_keys(root, place, access, clock, tell)
            async with EtcdMembership("https://127.0.0.1:2379", tls) as etcd:
                voters = await _await_voters(etcd, nodes, access, clock, tell)
            write_secret(memory, json.dumps([urlsplit(each.peer).hostname for each in voters]) + "\n")
        masters = json.loads(memory.read_text())
        tell({"phase": "hands over", "to": masters})
        provisions = (place / f"/etc/systemd/system/{services.METAL3}").exists()
        for service in (*([services.METAL3] if provisions else []), front.VIP_UNIT):
            await processes.run([*SYSTEMCTL, "disable", "--now", service])
        await _await_ready(f"https://{vip}:{front.API_PORT}", access, clock, f"the API at {vip}, elsewhere")
        await _leave(masters, tls, clock)
        api = KubernetesResources(at_vip, namespace=MACHINE_API, patience=600.0, clock=clock)
        try:
            tell({"phase": "workers", "released": await _release_workers(api, await own_macs(processes))})
            await api.apply(json.loads(json.dumps(COMPLETE)))
        finally:
            await api.close()
        tell({"phase": "complete"})


async def _release_workers(api: KubernetesResources, own: Collection[str]) -> list[str]:
    """The hosts that waited for the cluster: from now on it looks after them. Not the one that we run on, which its installer
    switches off first."""
    hosts = await api.list("BareMetalHost")
    others = [each for each in hosts if str(each["spec"].get("bootMACAddress", "")).lower() not in own]
    names = [each["metadata"]["name"] for each in others if PAUSED in (each["metadata"].get("annotations") or {})]
    for name in names:
        await api.patch("BareMetalHost", name, {"metadata": {"annotations": {PAUSED: None}}})
    return names


def control_planes_of(manifests: Iterable[Manifest]) -> set[str]:
    """The names of the hosts that become the control plane."""
    hosts = [each.thing["metadata"] for each in manifests if each.thing["kind"] == "BareMetalHost"]
    return {str(each["name"]) for each in hosts if (each.get("labels") or {}).get(ROLE_LABEL) == CONTROL_PLANE}


async def _offer_keys(root: Path, place: Place, access: Access, clock: Clock, tell: Tell) -> list[str]:
    """To all of the control plane: its hosts come into the API one by one, and who is asked for them too early knows the first."""
    api = KubernetesResources(access, namespace=MACHINE_API, patience=0.0, clock=clock)
    wanted = control_planes_of(load_manifests(root))
    found: list[str] = []

    async def known() -> tuple[bool, str]:
        try:
            hosts = await api.list("BareMetalHost", labels={ROLE_LABEL: CONTROL_PLANE})
        except (ApiUnreachable, Refused) as error:
            return False, str(error)
        found[:] = [each["metadata"]["name"] for each in hosts]
        lacking = wanted - set(found)
        return bool(found) and not lacking, f"not in the API yet: {', '.join(sorted(lacking)) or 'any host'}"

    try:
        await until(known, what="the control plane's hosts", within=WITHIN_SECONDS, every=LOOK_EVERY, clock=clock)
    finally:
        await api.close()
    pki = place / control_plane.PKI
    places = (root / "tls/etcd-ca.crt", root / "tls/etcd-ca.key", pki / "ca.crt", pki / "ca.key", pki / "sa.key")
    keys = {name: path.read_text() for name, path in zip(taking_over.KEY_FILES, places, strict=True)}
    keys |= {name: (root / "tls" / name).read_text() for name in taking_over.SERVER_FILES}
    keys |= {path.name: path.read_text() for path in (root / "machine-config").glob(f"*{taking_over.CONFIG_ENDING}")}
    keys |= {path.name: path.read_text() for path in root.glob(RELEASE_FILE)}
    keys |= {f"{taking_over.NAMED_PREFIX}{path.name}": path.read_text() for path in (pki / NAMED).glob("*")}
    if (pki / CLIENTS).exists():
        keys[taking_over.CLIENT_AUTHORITIES] = (pki / CLIENTS).read_text()
    client = Client(access, clock, PATIENCE_SECONDS)
    try:
        things = [Manifest("", each) for each in taking_over.keys_objects(keys, found)]
        await apply(things, ApiObjects(client), clock, lambda _: None)
    finally:
        await client.close()
    tell({"phase": "keys offered", "to": found})
    return found


async def _await_voters(
    etcd: EtcdMembership, nodes: Sequence[str], access: Access, clock: Clock, tell: Tell
) -> list[EtcdPeer]:
    found: list[EtcdPeer] = []
    answered: set[str] = set()
    api = KubernetesResources(access, namespace=MACHINE_API, patience=0.0, clock=clock)

    async def ready() -> tuple[bool, str]:
        try:
            found[:] = [each for each in await etcd.members() if each.votes and each.name != BOOTSTRAP]
        except EtcdRefused as error:
            return False, str(error)
        lacking = sorted(set(nodes) - {each.name for each in found})
        if lacking:
            return False, f"{', '.join(lacking)} not in etcd yet"
        try:
            hosts = await api.list("BareMetalHost", labels={ROLE_LABEL: CONTROL_PLANE})
            if why := describe_lacking(hosts, await api.list("Node")):
                return False, why  # whoever looks after them ends with us
        except (ApiUnreachable, Refused) as error:
            return False, str(error)
        # Those that were ready at an earlier look are asked again when all others are: each question is a TLS handshake.
        for each in sorted(found, key=lambda one: one.name in answered):
            url = f"https://{urlsplit(each.peer).hostname}:{front.SERVER_PORT}"
            if not await _is_ready(url, access):
                answered.discard(each.name)
                return False, f"the API of {each.name} is not ready"
            answered.add(each.name)
        return True, "ready"

    def seen(what: str) -> None:
        tell({"waits": what[:300]})

    try:
        await until(ready, what="the control plane", within=WITHIN_SECONDS, every=LOOK_EVERY, clock=clock, seen=seen)
    finally:
        await api.close()
    return found


async def _await_ready(url: str, access: Access, clock: Clock, what: str) -> None:
    async def ready() -> tuple[bool, str]:
        return await _is_ready(url, access), f"{url} is not ready"

    await until(ready, what=what, within=WITHIN_SECONDS, every=LOOK_EVERY, clock=clock)


async def _is_ready(url: str, access: Access) -> bool:
    timeout = aiohttp.ClientTimeout(total=30)
    connector = aiohttp.TCPConnector(ssl=access.tls())
    try:
        async with aiohttp.ClientSession(connector=connector, timeout=timeout, trust_env=False) as session:
            async with session.get(f"{url}/readyz") as answer:
                return answer.status == 200
    except (aiohttp.ClientError, TimeoutError, OSError):
        return False


async def _leave(masters: Sequence[str], tls: ssl.SSLContext, clock: Clock) -> None:
    """Our member goes, by the word of one that stays."""

    async def left() -> tuple[bool, str]:
        try:
            async with EtcdMembership(f"https://{masters[0]}:2379", tls) as etcd:
                mine = [each for each in await etcd.members() if each.name == BOOTSTRAP]
                for each in mine:
                    await etcd.remove(each)
        except EtcdRefused as error:
            return False, str(error)
        return not mine, "removed"

    await until(left, what="etcd to let us go", within=WITHIN_SECONDS, every=LOOK_EVERY, clock=clock)


def _tls(ca: str, own: KeyPair) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=ca)
    with tempfile.TemporaryDirectory(prefix="rackless-tls-") as folder:
        certificate, key = Path(folder) / "own.crt", Path(folder) / "own.key"
        write_secret(certificate, own.certificate)
        write_secret(key, own.key)
        context.load_cert_chain(certificate, key)
    return context
