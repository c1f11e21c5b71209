import re
from ipaddress import ip_address
from itertools import pairwise
from pathlib import Path

import pytest

from rackless.drivers.nodes.vip import holders_of
from rackless.installer.assets.ignition import control_plane, front
from rackless.installer.assets.ignition.machines import OneCluster, OneMachine
from rackless.plan.addressing import plan_lab
from rackless.ports.nodes import Vip
from rackless.spec.lab import LabSpec

THREE = plan_lab(LabSpec.model_validate({"servers": {"ctrl": {"role": "control-plane", "count": 3}, "worker": {}}}))
ONE = plan_lab(LabSpec.model_validate({"servers": {"ctrl": {"role": "control-plane"}}}))
GOLDEN = Path(__file__).parent / "golden"


def test_keepalived_of_the_second_control_plane_is_as_written_down() -> None:
    assert front.keepalived_conf(THREE.control_planes[1], THREE) == (GOLDEN / "keepalived.conf").read_text()


def test_haproxy_knows_the_control_planes_and_no_worker() -> None:
    assert front.haproxy_cfg(THREE) == (GOLDEN / "haproxy.cfg").read_text()


def test_keepalived_needs_no_shell_to_ask_whether_there_is_an_api_server_that_is_ready() -> None:
    """On an emulated node it is what an idle control plane would spend a fifth of its time on."""
    program, *_, url = front.READY.split()
    assert program == "/usr/bin/busybox" and url.endswith(f":{front.HEALTH_PORT}/ready")


def test_the_unit_of_the_api_names_the_vip_and_asks_its_own_etcd_first() -> None:
    unit = control_plane.api_unit(THREE.control_planes[1], THREE)
    assert unit == (GOLDEN / "rackless-api.service").read_text()


def test_every_program_of_a_control_plane_lets_its_timers_fire_together() -> None:
    units = control_plane.units(THREE.control_planes[0], THREE)
    texts = {
        unit["name"]: unit.get("contents", "") + "".join(d["contents"] for d in unit.get("dropins", []))
        for unit in units
    }
    assert set(texts) == {"etcd.service", "rackless-api.service", "haproxy.service", "keepalived.service"}
    assert all("\n[Service]\n" in f"\n{text}" and "TimerSlackNSec=" in text for text in texts.values())
    slack = re.search(r"TimerSlackNSec=(\d+)ms", texts["etcd.service"])
    assert slack and int(slack[1]) < control_plane.HEARTBEAT_MS, "a tick that is later than the next one is left out"


def test_no_two_control_planes_want_the_vip_equally_and_none_prefers_to_get_it_back() -> None:
    configs = [front.keepalived_conf(server, THREE) for server in THREE.control_planes]
    lines = [line for config in configs for line in config.splitlines() if "priority" in line]
    assert len(set(lines)) == 3
    assert all("nopreempt" in config and "state BACKUP" in config for config in configs)


@pytest.mark.parametrize("members", [2, 3, 5])
def test_control_planes_that_an_install_makes_do_not_want_the_vip_equally_either(members: int) -> None:
    """Each is made on its own: when the bootstrap lets go, one takes the VIP well before the others would."""
    priorities = []
    for place in range(members):
        machine = OneMachine(f"ctrl-{place}", f"ctrl-{place}.lab.test", ip_address("192.168.111.20") + place, "")
        cluster = OneCluster("lab", "lab.test", ip_address("192.168.111.5"), (machine,))
        config = front.keepalived_conf(machine, cluster, interface="enp1s0", known=False, place=(place, members))
        priorities += [int(line.split()[1]) for line in config.splitlines() if "priority" in line]
    ordered = sorted(priorities)
    assert len(ordered) == members and all(high - low >= 30 for low, high in pairwise(ordered)), ordered


def test_a_single_control_plane_has_no_peers_and_still_a_vip() -> None:
    config = front.keepalived_conf(ONE.control_planes[0], ONE)
    assert "unicast_peer {\n    }" in config and f"{ONE.api_vip}/32" in config


@pytest.mark.parametrize(
    ("holders", "problem", "words", "ready"),
    [
        ((), "no answer", "is held by nobody", False),
        (("ctrl-1",), "", "is held by ctrl-1; the API there: ready", True),
        (("ctrl-1",), "no answer in time", "is held by ctrl-1; the API there: no answer in time", False),
        (("ctrl-0", "ctrl-1"), "", "is held by 2 nodes at once: ctrl-0, ctrl-1; the API there: ready", False),
    ],
)
def test_the_vip_is_well_when_one_holds_it_and_the_api_answers_there(
    holders: tuple[str, ...], problem: str, words: str, ready: bool
) -> None:
    vip = Vip(THREE.api_vip, holders, problem)
    assert (vip.describe(), vip.ready) == (f"{THREE.api_vip} {words}", ready)


def test_a_server_that_answers_with_two_of_its_nics_is_one_holder_and_a_stranger_is_named_by_its_mac() -> None:
    names = {"02:00:00:00:00:01": "ctrl-0", "02:00:00:00:00:02": "ctrl-0"}
    assert holders_of(set(names), names) == ("ctrl-0",)
    assert holders_of({"02:00:00:00:00:09", "02:00:00:00:00:01"}, names) == ("02:00:00:00:00:09", "ctrl-0")
