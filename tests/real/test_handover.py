"""Hand-over without guests: a bootstrap and a node of the control plane as network namespaces, each with the real etcd and haproxy,
our API server and VIP, and what its config starts. In the place of systemd stands a file of what was asked of it.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from rackless.events import Bus
from rackless.installer.assets.ignition import front
from rackless.installer.assets.signing import KeyPair, sign
from rackless.operations.install.assets import STATE, create
from rackless.provisioning.baremetalhost import PAUSED
from rackless.trust.authority import Use
from tests.installer.assets.conftest import install_config
from tests.real import node_programs, vip_watch
from tests.real.conftest import PretendHost
from tests.real.test_bootstrap_config import PACKAGES, VIP, _await, _end, _follow, _ours, _programs

pytestmark = pytest.mark.real

BOOTSTRAP, MASTER = "192.168.111.77", "192.168.111.20"
NAME = "bootstrap.ostest.example.com"


class Machine:
    """A network namespace on the pretend host's bridge, and a root with its files and programs."""

    def __init__(
        self, host: PretendHost, name: str, address: str, interface: str, root: Path, stack: ExitStack
    ) -> None:
        self.host, self.name, self.root, self.stack = host, name, root, stack
        self._interface = interface
        self.asked = host.folder / f"{name}.asked"
        self.asked.touch()
        self._heard = 0
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self._started: dict[str, list[str]] = {}
        holder = subprocess.Popen(host.enter("unshare", "--net", "--", "sleep", "3600"))
        stack.callback(_end, holder)
        outside = os.readlink(f"/proc/{host.pid}/ns/net")
        _await(lambda: os.readlink(f"/proc/{holder.pid}/ns/net") not in (outside, os.readlink("/proc/self/ns/net")))
        self._pid = holder.pid
        link = f"to-{name}"
        host.run("ip", "link", "add", link, "type", "veth", "peer", "name", interface, "netns", str(holder.pid))
        host.run("ip", "link", "set", link, "master", "baremetal", "up")
        for words in (["link", "set", "lo", "up"], ["address", "add", f"{address}/24", "dev", interface],
                      ["link", "set", interface, "up"]):  # fmt: skip
            subprocess.run(self.enter("ip", *words), check=True, capture_output=True)
        bin_ = host.folder / f"{name}.bin"
        bin_.mkdir()
        (bin_ / "systemctl").write_text(f'#!/bin/sh\necho "$@" >> {self.asked}\n')
        (bin_ / "systemctl").chmod(0o755)
        self._path = f"{bin_}:{os.environ['PATH']}"

    def enter(self, *argv: str) -> list[str]:
        named = ["unshare", "--uts", "sh", "-c", f'hostname {self.name} && exec "$@"', "sh"]
        return self.host.enter("nsenter", f"--net=/proc/{self._pid}/ns/net", "--", *named, *argv)

    def start(self, name: str, argv: list[str]) -> subprocess.Popen[bytes]:
        with (self.host.folder / f"{self.name}-{name}.log").open("ab") as log:
            process = subprocess.Popen(
                self.enter(*argv), stdout=log, stderr=log, env={**os.environ, "PATH": self._path}
            )
        self.stack.callback(_end, process)
        self.running[name], self._started[name] = process, argv
        return process

    def kill(self, name: str) -> subprocess.Popen[bytes]:
        """And start it again, as systemd does."""
        _end(self.running[name])
        return self.start(name, self._started[name])

    def log(self, name: str) -> str:
        return (self.host.folder / f"{self.name}-{name}.log").read_text()

    def hear(self) -> Iterator[tuple[str, str]]:
        """(verb, service) of what systemd was asked since the last time."""
        lines = self.asked.read_text().splitlines()
        for line in lines[self._heard :]:
            verb, *names = [word for word in line.split() if not word.startswith("--")]
            yield from ((verb, name.removesuffix(".service")) for name in names)
        self._heard = len(lines)

    @property
    def mac(self) -> str:
        shown = subprocess.run(
            self.enter("ip", "-json", "link", "show", "dev", self._interface), capture_output=True, check=True
        )
        return str(json.loads(shown.stdout)[0]["address"])

    @property
    def has_vip(self) -> bool:
        found = subprocess.run(self.enter("ip", "-4", "-o", "address"), capture_output=True, text=True, check=True)
        return f"{VIP}/32" in found.stdout


@pytest.fixture
def roots(host: PretendHost) -> Iterator[tuple[Path, Path]]:
    with node_programs.unpacked(PACKAGES) as first, node_programs.unpacked(PACKAGES) as second:
        for root in (first, second):
            for kind in ("proc", "dev"):
                host.run("mount", "--rbind", f"/{kind}", str(root / kind))
        yield first, second


class HandOver:
    """A bootstrap with all of its manifests, and a node that has joined."""

    def __init__(self, host: PretendHost, roots: tuple[Path, Path], folder: Path, stack: ExitStack) -> None:
        self.host, self.folder, self.told = host, folder, _teller(host)
        host.run("ip", "link", "add", "baremetal", "type", "bridge")
        host.run("ip", "address", "add", "192.168.111.1/24", "dev", "baremetal")
        host.run("ip", "link", "set", "baremetal", "up")
        names = host.folder / "hosts"
        names.write_text(f"127.0.0.1 localhost\n{BOOTSTRAP} {NAME}\n")  # in the place of the site's DNS
        host.run("mount", "--bind", str(names), "/etc/hosts")
        (folder / "install-config.yaml").write_text(install_config(1, 1))
        create(folder, "ignition-configs", Bus())
        self.config = json.loads((folder / "bootstrap.ign").read_text())
        self.old = Machine(host, "bootstrap", BOOTSTRAP, front.INTERFACE, roots[0], stack)
        self.new = Machine(host, "master-0", MASTER, "eth0", roots[1], stack)
        _follow(self.config, self.old.root)
        _give_what_a_node_has(self.new, self.old, folder)
        for name, argv in _programs(self.config, self.old.root).items():
            self.old.start(name, argv)
            if name == "etcd":
                _await(lambda: "client requests" in self.old.log("etcd"), self.told)
        self.ca = str(self.old.root / "etc/rackless/pki/ca.crt")

    def await_api(self) -> None:
        ready = ["curl", "-sf", "--cacert", self.ca, "--max-time", "5", f"https://{VIP}:{front.API_PORT}/readyz"]
        _await(lambda: self.host.run(*ready, check=False).stdout == "ok", self.told)

    def apply_manifests(self) -> None:
        argv = self.old.enter(*_ours(self.config, self.old.root, "rackless-manifests.service"))
        done = subprocess.run(argv, timeout=300, check=False, capture_output=True)
        assert done.returncode == 0, done.stderr

    def begin(self) -> None:
        """Both ends."""
        _pretend_joined(self.host, self.old, self.folder)
        self.old.start(
            "hand-over",
            [*_ours(self.config, self.old.root, "rackless-hand-over.service"), "--place", str(self.old.root)],
        )
        rendered = json.loads((self.old.root / "opt/openshift/machine-config/master.ign").read_text())
        join = _ours(rendered, self.new.root, "rackless-control-plane.service")
        self.new.start("join", [*join, "--place", str(self.new.root)])

    def await_words(self, machine: Machine, name: str, words: str) -> None:
        def told() -> bool:
            _serve(self.new, self.old)
            return words in machine.log(name)

        _await(told, self.told, within=300)

    def await_end(self) -> None:
        def over() -> bool:
            _serve(self.new, self.old)
            return self.old.running["hand-over"].poll() is not None

        _await(over, self.told, within=300)
        assert self.old.running["hand-over"].returncode == 0, self.told()
        assert '"phase": "complete"' in self.old.log("hand-over")
        assert self.new.has_vip and not self.old.has_vip

    def ask(self, path: str) -> dict[str, Any]:
        found = self.host.run(*_asking(self.new, self.folder), f"https://{VIP}:6443{path}")
        return dict(json.loads(found.stdout))


HOSTS = "/apis/metal3.io/v1alpha1/baremetalhosts"
COMPLETE = "/api/v1/namespaces/kube-system/configmaps/bootstrap"


def test_the_control_plane_takes_over_etcd_the_api_and_its_address(
    host: PretendHost, roots: tuple[Path, Path], tmp_path: Path
) -> None:
    with ExitStack() as stack:
        site = HandOver(host, roots, tmp_path, stack)
        old, new, told = site.old, site.new, site.told
        site.await_api()
        site.apply_manifests()
        site.begin()
        seen = _watch_vip(host, site.ca, stack)
        _await(lambda: vip_watch.holders(seen()) != [], told)
        site.await_end()
        _await(lambda: new.mac in vip_watch.holders(seen()), told)
        assert vip_watch.holders(seen()) == [old.mac, new.mac]
        assert vip_watch.find_wrong(seen()) == []
        looks = [json.loads(line) for line in seen()]
        assert len({each["certificate"] for each in looks if each["certificate"]}) == 2  # each has its own
        _await(lambda: old.running["etcd"].poll() is not None, told)  # a member that was removed ends
        assert site.ask(COMPLETE)["data"] == {"status": "complete"}
        hosts = {each["metadata"]["name"]: each["metadata"] for each in site.ask(HOSTS)["items"]}
        assert sorted(hosts) == ["master-0", "worker-0"]
        assert PAUSED not in hosts["worker-0"].get("annotations", {})  # it is the cluster's from now on
        root_ca = str(old.root / "opt/openshift/tls/root-ca.crt")
        asked = ("curl", "-sf", "--cacert", root_ca, "--max-time", "20", f"https://{VIP}:22623/config/worker")

        def config_of() -> str:
            _serve(new, old)  # it is started when the API is ready, and nobody at the hand-over waits for it
            return host.run(*asked, check=False).stdout

        _await(lambda: config_of() != "", told)
        assert json.loads(config_of()) == json.loads((old.root / "opt/openshift/machine-config/worker.ign").read_text())


def test_a_hand_over_whose_programs_are_killed_comes_to_its_end_and_nobody_shares_the_vip(
    host: PretendHost, roots: tuple[Path, Path], tmp_path: Path
) -> None:
    """On the bootstrap etcd, then the API; both ends of the hand-over; the VIP's holder; each is started again, as systemd does."""
    with ExitStack() as stack:
        site = HandOver(host, roots, tmp_path, stack)
        old, new = site.old, site.new
        site.await_api()
        seen = _watch_vip(host, site.ca, stack)
        old.kill("etcd")
        site.apply_manifests()
        site.begin()
        site.await_words(new, "join", "joins etcd")
        new.kill("join")
        old.kill("api")
        site.await_words(new, "join", "votes in etcd")
        old.kill("rackless-vip")
        site.await_words(old, "hand-over", "hands over")
        old.kill("hand-over")
        site.await_end()
        assert site.ask(COMPLETE)["data"] == {"status": "complete"}
        assert sorted(each["metadata"]["name"] for each in site.ask(HOSTS)["items"]) == ["master-0", "worker-0"]
        assert [line for line in vip_watch.find_wrong(seen()) if "two hold it" in line] == []


def _watch_vip(host: PretendHost, ca: str, stack: ExitStack) -> Callable[[], list[str]]:
    """From a neighbour of both; the lines that are whole."""
    log = host.folder / "vip.jsonl"
    with log.open("wb") as out:
        argv = [sys.executable, vip_watch.__file__, "baremetal", "192.168.111.1", VIP, ca, "900"]
        stack.callback(_end, subprocess.Popen(host.enter(*argv), stdout=out))
    return lambda: [line for line in log.read_text().splitlines(keepends=True) if line.endswith("\n")]


def _pretend_joined(host: PretendHost, old: Machine, folder: Path) -> None:
    """What the controllers and the node's agent, which are not here, would have said of it."""
    api, ready = f"https://{VIP}:6443", [{"type": "Ready", "status": "True"}]
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "master-0"}}
    said = {"conditions": ready, "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}}}
    hosts = f"{api}/apis/metal3.io/v1alpha1/namespaces/openshift-machine-api/baremetalhosts"
    state = {"errorCount": 0, "errorMessage": "", "goodCredentials": {}, "hardwareProfile": "unknown", "poweredOn": True,
             "operationalStatus": "OK", "triedCredentials": {}, "operationHistory": {},
             "provisioning": {"ID": "1", "state": "provisioned", "image": {"url": ""}}}  # fmt: skip
    for method, url, body, media in (
        ("POST", f"{api}/api/v1/nodes", node, "application/json"),
        ("PATCH", f"{api}/api/v1/nodes/master-0/status", {"status": said}, "application/merge-patch+json"),
        ("PATCH", f"{hosts}/master-0/status", {"status": state}, "application/merge-patch+json"),
    ):
        host.run(*_asking(old, folder), "-X", method, "-H", f"Content-Type: {media}", "-d", json.dumps(body), url)


def _teller(host: PretendHost) -> Callable[[], str]:
    def told() -> str:
        return "\n".join(f"--- {log.name}\n{log.read_text()[-2500:]}" for log in sorted(host.folder.glob("*.log")))

    return told


def _give_what_a_node_has(new: Machine, old: Machine, folder: Path) -> None:
    """What a node that has joined has: its config's files, and its certificate."""
    _follow(json.loads((old.root / "opt/openshift/machine-config/master.ign").read_text()), new.root)
    (new.root / "etc/hosts").write_text(f"127.0.0.1 localhost\n{BOOTSTRAP} {NAME}\n")
    parts = json.loads((folder / STATE).read_text())["assets"]["api-ca"]["parts"]
    authority = KeyPair(parts["certificate"], parts["key"])
    own = sign(authority, "system:node:master-0", uses=(Use.CLIENT,), groups=("system:nodes",))
    place = new.root / "var/lib/rackless-node/client.pem"
    place.parent.mkdir(parents=True)
    place.write_text(own.certificate + own.key)


def _serve(new: Machine, old: Machine) -> None:
    """Do what systemd was asked to."""
    for verb, service in new.hear():
        if verb == "restart":
            units = [
                {"name": unit.name, "contents": unit.read_text()}
                for unit in (new.root / "etc/systemd/system").glob("rackless-*.service")
            ]
            written: dict[str, object] = {"systemd": {"units": units}}
            names = ("rackless-api", "rackless-machine-config", "rackless-vip")
            own = {name: _ours(written, new.root, f"{name}.service") for name in names}
            new.start(service, _programs({"systemd": {"units": []}}, new.root, own=own)[service])
    for verb, service in old.hear():
        if verb == "disable" and service in old.running:
            old.running[service].terminate()


def _asking(new: Machine, folder: Path) -> list[str]:
    """curl as the cluster's administrator."""
    user = json.loads((folder / "auth/kubeconfig").read_text())["users"][0]["user"]
    for name in ("certificate", "key"):
        (folder / f"admin.{name}").write_bytes(base64.b64decode(user[f"client-{name}-data"]))
    ca = str(new.root / "etc/rackless/pki/ca.crt")
    return ["curl", "-sf", "--max-time", "20", "--cacert", ca, "--cert", str(folder / "admin.certificate"),
            "--key", str(folder / "admin.key")]  # fmt: skip
