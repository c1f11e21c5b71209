"""The lab itself, with everything real and the servers switched off: made, looked at, killed, made again, taken away."""

from __future__ import annotations

import time

import pytest

from tests.real.conftest import PretendHost, kill, leaked_secrets

pytestmark = pytest.mark.real


def test_destroy_leaves_the_machine_as_it_was_found(host: PretendHost) -> None:
    before = host.snapshot()
    host.rackless("up", "--until", "bmc")
    assert {server["power"] for server in host.status()["servers"]} == {"off"}
    host.rackless("destroy", "--yes")
    assert host.snapshot() == before
    assert host.inhabitants() == []


def test_destroy_is_exact_after_everything_of_the_lab_was_killed(host: PretendHost) -> None:
    before = host.snapshot()
    host.rackless("up", "--until", "bmc")
    victims = host.inhabitants()
    assert {"holder", "labd", "libvirtd", "dnsmasq"} <= {
        name for name in ("holder", "labd", "libvirtd", "dnsmasq") for _, command in victims if name in command
    }
    kill(*(pid for pid, _ in victims))
    host.rackless("destroy", "--yes")
    assert host.snapshot() == before
    assert host.inhabitants() == []


@pytest.mark.parametrize("victim", ["rackless.holder.main", "rackless.labd.main", "libvirtd"])
def test_the_lab_goes_on_after_a_part_of_it_was_killed(host: PretendHost, victim: str) -> None:
    host.rackless("up", "--until", "bmc")
    dnsmasq = [pid for pid, command in host.inhabitants() if "dnsmasq" in command]
    kill(host.one(victim))
    time.sleep(0.3)
    host.rackless("up", "--until", "bmc")
    assert host.status()["reached"] == "bmc"
    assert [pid for pid, command in host.inhabitants() if "dnsmasq" in command] == dnsmasq
    for part in ("rackless.holder.main", "rackless.labd.main", "libvirtd"):
        host.one(part)


def test_the_networks_are_those_of_a_real_site(host: PretendHost) -> None:
    host.rackless("up", "--until", "lab")
    inside = ["nsenter", f"--net={host.folder}/run/lab/net", "--"]
    links = host.run(*inside, "ip", "-brief", "-4", "address").stdout
    assert "192.168.111.1/24" in links and "192.168.112.20/32" in links
    bridges = host.run(*inside, "bridge", "link").stdout
    assert "baremetal-up@baremetal-down" in bridges and "master virbr0" in bridges
    assert "baremetal-down@baremetal-up" in bridges and "master baremetal" in bridges
    # an installer asks libvirt for its bridge, as a network or as an interface
    assert "baremetal" in host.rackless("exec", "--", "virsh", "net-list", "--name").stdout.split()
    interfaces = host.rackless("exec", "--", "virsh", "iface-list").stdout
    assert ["baremetal", "active"] in [line.split()[:2] for line in interfaces.splitlines()]


def test_every_name_of_the_lab_resolves_and_nothing_else_is_asked_outside(host: PretendHost) -> None:
    host.rackless("up", "--until", "lab")
    inside = ["nsenter", "-t", str(host.one("rackless.labd.main")), "-m", "-n", "--", "getent", "hosts"]
    for name, address in {
        "api.lab.rackless.test": "192.168.111.5",
        "api-int.lab.rackless.test": "192.168.111.5",
        "console.apps.lab.rackless.test": "192.168.111.4",
        "ctrl-0.lab.rackless.test": "192.168.111.20",
        "192.168.111.23": "worker-0.lab.rackless.test",
    }.items():
        assert address in host.run(*inside, name).stdout
    assert host.run(*inside, "nowhere.lab.rackless.test", check=False).returncode == 2


def test_the_services_of_the_host_are_not_there_for_the_lab(host: PretendHost) -> None:
    host.rackless("up", "--until", "lab")
    inside = ["nsenter", "-t", str(host.one("rackless.labd.main")), "-m", "-n", "--"]
    assert set(host.run(*inside, "ls", "/run").stdout.split()) <= {"libvirt", "libvirtd.pid", "systemd", "lock"}
    assert host.run(*inside, "cat", "/etc/resolv.conf").stdout == "search lab.rackless.test\nnameserver 192.168.111.1\n"
    assert "resolve" not in host.run(*inside, "cat", "/etc/nsswitch.conf").stdout
    assert "virbr0" in host.run(*inside, "ls", "/sys/class/net").stdout
    assert "virbr0" not in host.run("ip", "link").stdout


def test_two_labs_with_the_same_addresses_run_side_by_side(host: PretendHost) -> None:
    host.rackless("up", "--until", "bmc")
    host.rackless("up", "--until", "bmc", "--name", "other")
    host.rackless("destroy", "--yes")
    assert host.inhabitants() == []
    assert host.inhabitants("other") != []
    found = host.rackless("status", "--name", "other", "--json").stdout
    assert '"lab": "other"' in found and '"reached": "bmc"' in found


def test_secrets_are_readable_by_root_only(host: PretendHost) -> None:
    host.rackless("up", "--until", "bmc")
    state = host.folder / "state" / "lab"
    private = [path for path in (state / "secrets").rglob("*") if path.suffix in {".key", ".password"}]
    assert private and all(path.stat().st_mode & 0o077 == 0 for path in private)
    assert leaked_secrets(state) == []


def test_a_change_that_loses_something_is_refused_and_says_what(host: PretendHost) -> None:
    host.rackless("up", "--until", "lab")
    (host.folder / "lab.yaml").write_text("servers: {ctrl: {role: control-plane, count: 3}}\n")
    done = host.rackless("up", "--until", "lab", check=False)
    assert done.returncode == 4
    assert "would lose something" in done.stderr and "remove server/worker-0" in done.stderr
