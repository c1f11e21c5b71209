"""An install by a bootstrap, with each of its parts killed in each of its phases: `up` again ends in the finished cluster."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterable
from pathlib import Path
from unittest.mock import patch

import pytest

from rackless.simulation import story
from rackless.simulation.__main__ import load_everything
from rackless.simulation.campaign import Work, side_by_side
from rackless.simulation.faults import Mishap
from rackless.simulation.story import Scenario, live_through

IPI = "name: lab\nservers: {ctrl: {role: control-plane, count: 1}, worker: {count: 1}}\ncluster: {method: ipi}"
THREE = IPI.replace("count: 1}", "count: 3}", 1)
PHASES = {
    "while it fetches the payload": ("release.*", 1),
    "while it applies manifests": ("api.create *", 40),
    "while hosts are registered": ("provisioner.register *", 1),
    "while hosts are inspected": ("provisioner.inspect *", 5),
    "while hosts are provisioned": ("provisioner.provision *", 10),
    "while a control plane joins etcd": ("etcd.add", 1),
    "while it becomes a voter": ("etcd.promote", 1),
    "while the bootstrap leaves etcd": ("etcd.remove", 1),
}
"""By the phase: the call that is its moment."""
PROGRAMS = ("ironic", "api", "etcd", "metal3", "manifests", "hand-over")
HAPPENS = [
    *(("bootstrap's program dies", program, 0.0) for program in PROGRAMS),
    ("bootstrap goes off", "", 0.0),
    ("bootstrap reboots", "", 0.0),
    ("the VIP's holder goes off", "", 0.0),
    ("release server is away", "", 900.0),
]
MASTER = [("work fails", f"{work} ctrl-0", 1.0) for work in ("register", "inspect", "prepare", "provision")]


def wrong(cases: Iterable[tuple[str, Mishap]], folder: Path) -> dict[str, list[str]]:
    """What went wrong in an install in which this happens once, by the mishap."""
    load_everything()

    def live(lab: str, mishap: Mishap) -> Work:
        def work() -> tuple[str, list[str]]:
            logging.disable()
            with patch.object(story, "TRIES", 3):
                lived = live_through(Scenario(0, lab, ("up",), (mishap,)), Path(tempfile.mkdtemp(dir=folder)))
            return str(mishap), lived.wrong

        return work

    return {name: found for name, found in side_by_side([live(*case) for case in cases], 2) if found}


@pytest.mark.slow
def test_an_install_survives_the_end_of_a_part_of_it(tmp_path: Path) -> None:
    """Each part once; Ironic was not started again before, and the install waited for it without end."""
    moments = [*PHASES.values()][3:]
    cases = [
        (IPI, Mishap(kind, *moments[number % 5], about, amount)) for number, (kind, about, amount) in enumerate(HAPPENS)
    ]
    assert wrong(cases, tmp_path) == {}


@pytest.mark.slow
def test_a_control_plane_that_goes_off_while_nobody_looks_after_the_hosts_is_switched_on_by_up(tmp_path: Path) -> None:
    """The bootstrap has ended its Ironic and waits for etcd, which has lost its majority: no controller is left to do it."""
    moment = PHASES["while the bootstrap leaves etcd"]
    assert wrong([(IPI, Mishap("the VIP's holder goes off", *moment, "", 0.0))], tmp_path) == {}


@pytest.mark.slow
@pytest.mark.parametrize("host", ["ctrl-0", "worker-0"])
def test_a_host_that_failed_until_it_was_not_tried_any_more_is_tried_again_by_up(tmp_path: Path, host: str) -> None:
    """Five times is as often as a controller writes a system by itself."""
    assert wrong([(IPI, Mishap("work fails", "disk.*", 99, f"provision {host}", 7.0))], tmp_path) == {}


@pytest.mark.long("simulate")
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("lab", [IPI, THREE], ids=["one control plane", "three"])
def test_an_install_survives_the_end_of_any_part_of_it(lab: str, phase: str, tmp_path: Path) -> None:
    assert (
        wrong([(lab, Mishap(kind, *PHASES[phase], about, amount)) for kind, about, amount in HAPPENS], tmp_path) == {}
    )


@pytest.mark.long("simulate")
def test_an_install_survives_a_master_that_fails_once(tmp_path: Path) -> None:
    assert (
        wrong([(IPI, Mishap(kind, "api.create *", 5, about, amount)) for kind, about, amount in MASTER], tmp_path) == {}
    )
