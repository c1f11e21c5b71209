import re
from pathlib import Path

import pytest

from rackless.drivers.nodes.vip import holders_of
from rackless.installer.assets.ignition import control_plane, front
from rackless.plan.addressing import plan_lab
from rackless.ports.nodes import Vip
from rackless.spec.lab import LabSpec

THREE = plan_lab(LabSpec.model_validate({"servers": {"ctrl": {"role": "control-plane", "count": 3}, "worker": {}}}))
GOLDEN = Path(__file__).parent / "golden"


def test_haproxy_knows_the_control_planes_and_no_worker() -> None:
    assert front.haproxy_cfg(THREE) == (GOLDEN / "haproxy.cfg").read_text()


def test_the_vips_unit_is_as_written_down_and_needs_no_root() -> None:
    units = {each["name"]: each for each in control_plane.units(THREE.control_planes[1], THREE)}
    assert units[front.VIP_UNIT]["contents"] == (GOLDEN / "rackless-vip.service").read_text()


def test_the_unit_of_the_api_names_the_vip_and_asks_its_own_etcd_first() -> None:
    unit = control_plane.api_unit(THREE.control_planes[1], THREE)
    assert unit == (GOLDEN / "rackless-api.service").read_text()


def test_every_program_of_a_control_plane_lets_its_timers_fire_together() -> None:
    units = control_plane.units(THREE.control_planes[0], THREE)
    texts = {
        unit["name"]: unit.get("contents", "") + "".join(d["contents"] for d in unit.get("dropins", []))
        for unit in units
    }
    assert set(texts) == {"etcd.service", "rackless-api.service", "haproxy.service", front.VIP_UNIT}
    assert all("\n[Service]\n" in f"\n{text}" and "TimerSlackNSec=" in text for text in texts.values())
    slack = re.search(r"TimerSlackNSec=(\d+)ms", texts["etcd.service"])
    assert slack and int(slack[1]) < control_plane.HEARTBEAT_MS, "a tick that is later than the next one is left out"


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
