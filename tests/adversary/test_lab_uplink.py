"""What a lab reaches through its uplink, who reaches the lab, and what the host keeps of it. All in namespaces of our own."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator

import pytest

from tests.adversary.lab_site import (
    HOST_LAN,
    HOST_PUBLIC,
    INTERNET,
    METADATA,
    NEIGHBOUR,
    PUBLIC_LAN,
    Site,
    around,
    connects,
    serve,
    state,
)
from tests.real.conftest import PretendHost, host

__all__ = ["host"]

pytestmark = pytest.mark.real

NEARBY = (HOST_PUBLIC, HOST_LAN, NEIGHBOUR, PUBLIC_LAN, METADATA)


@pytest.fixture
def site(host: PretendHost) -> Iterator[Site]:
    with around(host) as site:
        yield site


def test_by_default_a_lab_reaches_the_internet_and_nothing_near_the_host(site: Site) -> None:
    guest = site.make_lab()
    site.uplink()
    assert guest.connects(INTERNET, 8080), "else nothing below means anything"
    for address in (*NEARBY, site.near()):
        assert not guest.connects(address, 8080), f"a guest reaches {address}"
        assert not connects(site.inside(), address), f"a process of the lab reaches {address}"


def test_what_is_named_is_reached_and_only_that(site: Site) -> None:
    guest = site.make_lab()
    site.uplink(f"{{reach: ['{NEIGHBOUR}:8080', 'host:8081', {METADATA}]}}")
    reached = {
        (address, port) for address in (*NEARBY, site.near()) for port in (8080, 8081) if guest.connects(address, port)
    }
    host = {(address, 8081) for address in (HOST_PUBLIC, HOST_LAN, site.near())}
    assert reached == {(NEIGHBOUR, 8080), (METADATA, 8080), (METADATA, 8081)} | host
    site.uplink("{reach: [192.168.77.0/24]}")
    assert guest.connects(NEIGHBOUR, 8081) and not guest.connects(METADATA, 8080)
    assert not guest.connects(HOST_LAN, 8080), "a network that is named does not open the host, which is in it"


def test_the_lab_asks_the_hosts_name_servers_and_its_guests_do_not(site: Site) -> None:
    guest = site.make_lab()
    for server in (PUBLIC_LAN, HOST_LAN):
        site.uplink("nat", more=f", dns: {{forward: [{server}]}}")
        assert connects(site.inside(), server, 53)
        assert not connects(site.inside(), server, 8080), "its other services are as closed as any"
        assert not guest.connects(server, 53)


def test_the_host_is_not_reached_by_the_addresses_a_link_gives_itself(site: Site) -> None:
    site.make_lab()
    site.uplink()
    shown = site.host.run("ip", "-json", "address", "show", site.link()).stdout
    assert [one["family"] for one in json.loads(shown)[0]["addr_info"]] == ["inet"]


def test_nobody_outside_reaches_the_lab_or_through_the_host(site: Site) -> None:
    site.make_lab()
    site.uplink()
    serve(site.stack, site.inside(), 7000)
    far = site.near().rpartition(".")[0] + "." + str(int(site.near().rpartition(".")[2]) + 1)
    subprocess.run([*site.world, "ip", "route", "add", f"{far}/32", "via", HOST_PUBLIC], check=True)
    assert not connects(site.world, far, 7000), "the Internet reaches the lab"
    assert not connects(site.host.enter(), far, 7000), "any user of the host reaches the lab's services"
    assert site.forwarding()["eth0"] == "1", "replies to the lab come in here"
    subprocess.run([*site.world, "ip", "route", "add", "192.168.77.0/24", "via", HOST_PUBLIC], check=True)
    assert not connects(site.world, NEIGHBOUR), "the host has become a router for its neighbours"


@pytest.mark.parametrize("order", [("lab", "other"), ("other", "lab")])
def test_two_labs_leave_the_host_as_it_was_in_whatever_order_they_go(site: Site, order: tuple[str, str]) -> None:
    before = site.forwarding()
    for name in ("lab", "other"):
        site.make_lab(name)
        site.uplink(lab=name)
    assert site.forwarding() == {**before, "eth0": "1"}, "only where replies come in"
    first, last = order
    site.retire(first)
    assert site.guests[last].connects(INTERNET, 8080), "the other lab still needs it"
    assert not site.guests[last].connects(NEIGHBOUR, 8080)
    site.retire(last)
    assert site.forwarding() == before
    assert "rl_" not in site.host.run("nft", "list", "ruleset").stdout


def test_a_program_that_needs_forwarding_keeps_it_when_the_lab_goes(site: Site) -> None:
    site.make_lab()
    site.uplink()
    assert site.forwarding()["all"] == "0", "programs look here whether they have to turn it on"
    site.set_forwarding(1)
    site.retire()
    assert set(site.forwarding().values()) == {"1"}


def test_a_host_that_forwarded_before_does_so_after_and_for_all(site: Site) -> None:
    site.set_forwarding(1)
    before = site.forwarding()
    guest = site.make_lab()
    site.uplink()
    assert guest.connects(INTERNET, 8080)
    subprocess.run([*site.world, "ip", "route", "add", "192.168.77.0/24", "via", HOST_PUBLIC], check=True)
    assert connects(site.world, NEIGHBOUR), "what it forwarded for others it still does"
    site.retire()
    assert site.forwarding() == before


def test_flushed_rules_neither_open_the_host_nor_lose_what_has_to_be_put_back(site: Site) -> None:
    before = site.forwarding()
    guest = site.make_lab()
    site.uplink()
    site.host.run("nft", "flush", "ruleset")
    for address in (*NEARBY, site.near()):
        assert not guest.connects(address, 8080), address
    site.uplink()
    assert guest.connects(INTERNET, 8080), "the next `up` mends it"
    site.host.run("nft", "flush", "ruleset")
    site.retire()
    assert site.forwarding() == before


def test_after_a_restart_of_the_machine_nothing_is_taken_that_others_turned_on(site: Site) -> None:
    site.make_lab()
    site.uplink()
    ledger = state(site) / "lab.ledger"
    entry = json.loads(ledger.read_text().splitlines()[-1])
    # the computer was restarted: the link, the rules and the switches are gone, the ledger is not
    site.host.run("ip", "link", "delete", entry["id"])
    site.host.run("nft", "flush", "ruleset")
    entry["detail"]["boot"] = "another"
    ledger.write_text(json.dumps(entry) + "\n")
    site.host.run("sysctl", "-qw", "net.ipv4.conf.eth0.forwarding=1")  # now by the administrator
    site.uplink()
    assert site.guests["lab"].connects(INTERNET, 8080)
    site.retire()
    assert site.forwarding()["eth0"] == "1"


def test_a_machine_that_moves_to_another_network_is_told_what_to_do_and_keeps_nothing_open(site: Site) -> None:
    before = site.forwarding()
    site.make_lab()
    site.uplink()

    def advice() -> list[str]:
        checks = json.loads(site.host.rackless("doctor", "--json", check=False).stdout)["checks"]
        return [check["fix"] for check in checks if check["about"] == "uplink"]

    assert advice() == []
    site.host.run("ip", "route", "replace", "default", "via", NEIGHBOUR)
    assert advice() == ["rackless up --name lab"]
    site.uplink()
    assert advice() == [] and site.forwarding() == {**before, "lan0": "1"}
    site.retire()
    assert site.forwarding() == before


def test_an_uplink_of_the_version_that_turned_on_the_whole_host_is_made_anew_and_that_is_taken_back(site: Site) -> None:
    guest = site.make_lab()
    site.uplink()
    ledger = state(site) / "lab.ledger"
    entry = json.loads(ledger.read_text().splitlines()[-1])
    site.host.run("sysctl", "-qw", "net.ipv4.conf.eth0.forwarding=0")
    site.set_forwarding(1)
    detail = entry["detail"]
    entry["detail"] = {"subnet": detail["subnet"], "table": detail["table"], "forwarding": "0"}
    ledger.write_text(json.dumps(entry) + "\n")
    site.uplink()
    assert guest.connects(INTERNET, 8080)
    assert site.forwarding()["all"] == "0"
    site.retire()
    assert set(site.forwarding().values()) == {"0"}
