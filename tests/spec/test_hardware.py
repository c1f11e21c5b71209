from __future__ import annotations

from ipaddress import ip_network

import pytest

from rackless.errors import SpecError
from rackless.plan.actions import Observed, Scene, Verb, plan_servers
from rackless.plan.addressing import plan_lab
from rackless.spec.disks import DiskBus, DiskCache
from rackless.spec.load import parse


def test_disks_of_a_group_have_their_own_bus_cache_and_root_device() -> None:
    a = "{disk_bus: virtio, disk_cache: unsafe, root_device: {serial: S1, min_size: 20GiB}}"
    text = f"disk: {{cache: safe}}\nservers: {{a: {a}, b: {{}}}}"
    first, second = plan_lab(parse(text, "x")).servers
    assert (first.disk_bus, first.disk_cache) == (DiskBus.VIRTIO, DiskCache.UNSAFE)
    assert dict(first.root_device) == {"serialNumber": "S1", "minSizeGigabytes": 20}
    assert (second.disk_bus, second.disk_cache, second.root_device) == (DiskBus.SCSI, DiskCache.SAFE, ())


def test_a_server_of_a_site_has_the_serial_number_that_its_disk_has_there() -> None:
    (server,) = plan_lab(parse("servers: {a: {members: [{name: n1, disk_serial: WD-1}]}}", "x")).servers
    assert server.disk_serial == "WD-1"
    with pytest.raises(SpecError, match="serial number"):
        parse("servers: {a: {members: [{name: n1, disk_serial: 'much too long for a disk'}]}}", "x")


def test_another_bus_makes_the_server_anew_and_another_cache_waits_for_its_next_start() -> None:
    old = parse("servers: {a: {count: 1}}", "x")
    for text, verb in (("disk_bus: sata", Verb.RECREATE), ("disk_cache: safe", Verb.RESTART)):
        scene = Scene.of(parse(f"servers: {{a: {{{text}}}}}", "x"), Observed(old, True, servers={"a-0": "on"}))
        assert [action.verb for action in plan_servers(scene)] == [verb]


def test_the_largest_packet_of_a_network_is_that_of_its_bridges_and_cards() -> None:
    text = "networks: {cluster: {mtu: 9000}, extra: {storage: {cidr: 10.8.0.0/24, mtu: 4000}}}\nservers: {a: {}}"
    plan = plan_lab(parse(text, "x"))
    assert (plan.cluster.mtu, plan.baremetal.mtu, plan.cable.mtu, plan.extra[0].mtu) == (9000, 9000, 9000, 4000)
    assert {nic.network: nic.mtu for nic in plan.servers[0].nics} == {"cluster": 9000, "storage": 4000}


def test_who_may_talk_to_bmcs_is_a_network_an_address_or_a_range() -> None:
    allow = parse(
        "networks: {bmc: {allow: [10.0.0.0/8, 192.168.111.9, 192.168.111.30-192.168.111.33]}}", "x"
    ).networks.bmc.allow
    assert allow == tuple(map(ip_network, ["10.0.0.0/8", "192.168.111.9/32", "192.168.111.30/31", "192.168.111.32/31"]))
    with pytest.raises(SpecError, match="before it starts"):
        parse("networks: {bmc: {allow: [192.168.111.33-192.168.111.30]}}", "x")
