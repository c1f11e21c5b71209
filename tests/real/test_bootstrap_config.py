"""bootstrap.ign, read by the real Ignition's checker and followed without a guest: its etcd and haproxy from packages, our
API server and VIP, in a network namespace that stands for the bootstrap machine.

Its address is one that the config does not know, as with DHCP.
"""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import rackless
from rackless.events import Bus
from rackless.installer.assets.ignition import front
from rackless.operations.install.assets import create
from tests.installer.assets.conftest import install_config
from tests.real import node_programs
from tests.real.conftest import PretendHost

pytestmark = pytest.mark.real

PACKAGES = ("etcd-server", "haproxy", "base-passwd", "ignition")
VIP = "192.168.111.5"


@pytest.fixture
def programs(host: PretendHost) -> Iterator[Path]:
    with node_programs.unpacked(PACKAGES) as root:
        for kind in ("proc", "dev"):
            host.run("mount", "--rbind", f"/{kind}", str(root / kind))  # in the pretend host's own mount namespace
        yield root


@pytest.fixture
def machine(host: PretendHost) -> Iterator[Callable[..., list[str]]]:
    """A network namespace on a bridge of the pretend host's, with an address that somebody gave it."""
    host.run("ip", "link", "add", "baremetal", "type", "bridge")
    host.run("ip", "address", "add", "192.168.111.1/24", "dev", "baremetal")
    host.run("ip", "link", "set", "baremetal", "up")
    holder = subprocess.Popen(host.enter("unshare", "--net", "--", "sleep", "3600"))
    try:
        outside = os.readlink(f"/proc/{host.pid}/ns/net")
        _await(lambda: os.readlink(f"/proc/{holder.pid}/ns/net") not in (outside, os.readlink("/proc/self/ns/net")))

        def inside(*argv: str) -> list[str]:
            return host.enter("nsenter", f"--net=/proc/{holder.pid}/ns/net", "--", *argv)

        host.run("ip", "link", "add", "bootstrap", "type", "veth", "peer", "name", front.INTERFACE)
        host.run("ip", "link", "set", "bootstrap", "master", "baremetal", "up")
        host.run("ip", "link", "set", front.INTERFACE, "netns", str(holder.pid))
        for words in (
            ["link", "set", "lo", "up"],
            ["address", "add", "192.168.111.77/24", "dev", front.INTERFACE],
            ["link", "set", front.INTERFACE, "up"],
        ):
            subprocess.run(inside("ip", *words), check=True, capture_output=True)
        yield inside
    finally:
        holder.kill()
        holder.wait()


def test_the_bootstraps_config_brings_up_an_api_at_the_vip_that_takes_every_manifest(
    host: PretendHost, programs: Path, machine: Callable[..., list[str]], tmp_path: Path
) -> None:
    (tmp_path / "install-config.yaml").write_text(install_config(1, 1))
    create(tmp_path, "ignition-configs", Bus())
    for path in tmp_path.glob("*.ign"):
        subprocess.run([programs / "usr/bin/ignition-validate", path], check=True, capture_output=True)
    config = json.loads((tmp_path / "bootstrap.ign").read_text())
    _follow(config, programs)
    for role in ("master", "worker"):
        rendered = programs / f"opt/openshift/machine-config/{role}.ign"
        subprocess.run([programs / "usr/bin/ignition-validate", rendered], check=True, capture_output=True)

    def told() -> str:
        return "\n".join(f"--- {log.name}\n{log.read_text()[-1500:]}" for log in sorted(host.folder.glob("*.log")))

    with ExitStack() as stack:
        for name, argv in _programs(config, programs).items():
            with (host.folder / f"{name}.log").open("ab") as log:
                process = subprocess.Popen(machine(*argv), stdout=log, stderr=log)
            stack.callback(_end, process)
            if name == "etcd":  # whoever needs it is started again by systemd until it is there; here, it waits
                _await(lambda: "client requests" in (host.folder / "etcd.log").read_text(), told)
        ca = str(programs / "etc/rackless/pki/ca.crt")
        ready = ["curl", "-sf", "--cacert", ca, "--max-time", "5", f"https://{VIP}:{front.API_PORT}/readyz"]
        _await(lambda: host.run(*ready, check=False).stdout == "ok", told)
        done = subprocess.run(
            machine(*_ours(config, programs, "rackless-manifests.service")),
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == 0 and '"phase": "manifests applied"' in done.stdout, (
            f"{done.stdout}{done.stderr}{told()}"
        )
        assert done.stdout.count('"manifest": "BareMetalHost ') == 2
        fetch = ["curl", "-sf", "--cacert", str(programs / "opt/openshift/tls/root-ca.crt"), "--max-time", "5"]
        url = f"https://{VIP}:22623/config"
        wanted = (programs / "opt/openshift/machine-config/master.ign").read_text()
        _await(lambda: host.run(*fetch, f"{url}/master", check=False).stdout == wanted, told)
        assert host.run(*fetch, f"{url}/bootstrap", check=False).returncode == 22


def _follow(config: dict[str, object], root: Path) -> None:
    """Do what Ignition would."""
    storage = config["storage"]
    assert isinstance(storage, dict)
    for file in storage["files"]:
        path = root / file["path"].lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(file["contents"]["source"].partition("base64,")[2]))
        path.chmod(file["mode"])


def _programs(config: dict[str, object], root: Path, own: dict[str, list[str]] | None = None) -> dict[str, list[str]]:
    """What the units start, here and now; `own` are programs of ours, where they are not those of a bootstrap."""
    settings = re.findall(r'(\w+)="(.*)"', (root / "etc/default/etcd").read_text())
    (root / "var/lib/etcd").mkdir(parents=True, exist_ok=True)
    chroot = ["chroot", str(root)]
    return {
        "etcd": ["env", *(f"{name}={value}" for name, value in settings), *chroot, "etcd"],
        **(own if own is not None else {
            "api": _ours(config, root, "rackless-api.service"),
            "machine-config": _ours(config, root, "rackless-machine-config.service"),
            "rackless-vip": _ours(config, root, front.VIP_UNIT),
        }),
        "haproxy": [*chroot, "haproxy", "-db", "-f", "/etc/haproxy/haproxy.cfg"],
    }  # fmt: skip


def _ours(config: dict[str, object], root: Path, name: str) -> list[str]:
    """What a unit of ours starts, with its files where they are here."""
    systemd = config["systemd"]
    assert isinstance(systemd, dict)
    (unit,) = [each for each in systemd["units"] if each["name"] == name]
    (line,) = re.findall(r"ExecStart=((?:.|\\\n)*?[^\\])\n", unit["contents"])
    words = [
        re.sub(r"^/(etc/rackless|opt/openshift)", rf"{root}/\1", word) for word in line.replace("\\\n", " ").split()
    ]
    if words[0] == "/usr/bin/python3":  # without the libraries that others of ours need
        return ["env", f"PYTHONPATH={Path(rackless.__file__).parents[1]}", sys.executable, *words[1:]]
    return [sys.executable, "-P", "-m", "rackless", *words[1:]]


def _await(condition: Callable[[], bool], describe: Callable[[], str] = lambda: "", within: float = 120) -> None:
    deadline = time.monotonic() + within
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"it never came to be; {describe()}")
        time.sleep(0.1)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
