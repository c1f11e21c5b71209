"""Where a node of an install takes its name from: the node image's own script and programs, a real DNS server, no guest."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path

import pytest

from tests.real import node_programs
from tests.real.conftest import PretendHost

pytestmark = pytest.mark.real

PACKAGES = ("libc-bin", "dash", "coreutils", "sed", "mawk", "iproute2", "hostname", "base-passwd")
SCRIPT = "usr/lib/node/dhcp-hostname"


@pytest.fixture
def node(host: PretendHost) -> Iterator[Path]:
    """A root with the script; the pretend host has the address that it asks for, and the DNS server."""
    with node_programs.unpacked(PACKAGES) as root:
        host.run("mount", "--rbind", "/proc", str(root / "proc"))
        for words in (["link", "add", "provision0", "type", "bridge"], ["link", "set", "provision0", "up"],
                      ["address", "add", "172.22.0.89/24", "dev", "provision0"],
                      ["link", "add", "cluster0", "type", "bridge"], ["link", "set", "cluster0", "up"],
                      ["address", "add", "192.168.111.5/32", "dev", "cluster0"],
                      ["address", "add", "192.168.111.20/24", "dev", "cluster0"]):  # fmt: skip
            host.run("ip", *words)
        (root / SCRIPT).parent.mkdir(parents=True)
        (root / SCRIPT).write_bytes(
            resources.files("rackless.images.files").joinpath("node/dhcp-hostname").read_bytes()
        )
        (root / "etc/resolv.conf").write_text("nameserver 192.168.111.20\noptions timeout:1 attempts:1\n")
        (root / "etc/nsswitch.conf").write_text("hosts: files dns\n")
        (root / "etc/hosts").write_text("127.0.0.1 localhost\n")
        (root / "etc/hostname").unlink(missing_ok=True)
        (root / "usr/bin/awk").symlink_to("mawk")
        (root / "run/systemd/netif/leases").mkdir(parents=True)
        yield root


@contextmanager
def dns(host: PretendHost, *names: str) -> Iterator[None]:
    told = [f"--host-record={name},{address}" for name, address in (each.split("=") for each in names)]
    program = subprocess.Popen(
        host.enter("dnsmasq", "--keep-in-foreground", "--no-hosts", "--no-resolv", "--conf-file=/dev/null", "--user=root",
                   "--pid-file=", "--listen-address=192.168.111.20", "--bind-interfaces", *told),
    )  # fmt: skip
    try:
        time.sleep(0.5)
        yield
    finally:
        program.kill()
        program.wait()


def named(host: PretendHost, root: Path) -> tuple[int, str]:
    """What the script ends with, and the name that the machine has then."""
    inside = f'hostname localhost; chroot "{root}" /bin/sh /{SCRIPT}; echo $? $(hostname)'
    code, name = host.run("unshare", "--uts", "sh", "-c", inside).stdout.split()
    return int(code), name


def test_a_node_is_called_what_dns_calls_its_own_address_where_dhcp_gave_no_name(host: PretendHost, node: Path) -> None:
    assert named(host, node) == (1, "localhost")  # nobody answers: it asks again
    with dns(host, "api.lab.example.com=192.168.111.5"):
        assert named(host, node) == (1, "localhost")  # the VIP, which it has just now, is not its own
    with dns(host, "api.lab.example.com=192.168.111.5", "ctrl-0.lab.example.com=192.168.111.20"):
        assert named(host, node) == (0, "ctrl-0")
        (node / "run/systemd/netif/leases/2").write_text("ADDRESS=192.168.111.20\nHOSTNAME=by-dhcp\n")
        assert named(host, node) == (0, "by-dhcp")
        (node / "etc/hostname").write_text("by-ignition\n")
        assert named(host, node) == (0, "localhost")  # systemd has set that one, long before


def test_systemds_own_word_for_an_address_that_dns_does_not_know_is_no_name(host: PretendHost, node: Path) -> None:
    """As for the one that a server has on the network that it boots from, which comes first."""
    (node / "etc/hosts").write_text("127.0.0.1 localhost\n172.22.0.89 linux\n")  # in the place of systemd-resolved
    with dns(host, "api.lab.example.com=192.168.111.5"):
        assert named(host, node) == (1, "localhost")
    with dns(host, "ctrl-0.lab.example.com=192.168.111.20"):
        assert named(host, node) == (0, "ctrl-0")
