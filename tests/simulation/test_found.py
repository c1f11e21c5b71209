"""Stories that once went wrong, kept as they were told: the lab, the verbs and the faults that it took, not the seed alone."""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path

import pytest

from rackless.simulation.__main__ import load_everything
from rackless.simulation.campaign import side_by_side
from rackless.simulation.faults import Mishap
from rackless.simulation.story import Scenario, live_through

MIXED = (
    "name: lab\nservers: {ctrl: {role: control-plane, count: 1}, spare: {role: spare, count: 1}, worker: {count: 1}}"
)
WORKERS = "name: lab\nservers: {worker: {count: 2}}"
IPI = "name: lab\nservers: {ctrl: {role: control-plane, count: 1}, worker: {count: 1}}\ncluster: {method: ipi}"
ON_SERVER = (
    "name: lab\nservers: {ctrl: {role: control-plane, count: 3}, worker: {count: 2, memory: 3GiB}}\n"
    "cluster: {method: ipi, bootstrap: {on: worker-0}}"
)

FOUND = {
    # the first description was synced before the power failed, under the name that it had until then
    "1473 the power fails at the first write of the description": Scenario(
        1473, MIXED, ("up", "more"), (Mishap("restart the computer", "disk.replace *", 1, amount=5.0),)
    ),
    # who asks for a host that was never written down is told the truth
    "1676 a host is asked for that a full disk kept from being written": Scenario(
        1676, WORKERS, ("up", "deprovision", "clean", "destroy"), (Mishap("disk full", "disk.*", 300, amount=60.0),)
    ),
    # up waited a quarter of an hour for a server to answer that a person had switched off
    "105 up after a person switched a server off": Scenario(105, WORKERS, ("up", "power off", "up"), ()),
    "149 a person shuts a worker down that is a Machine's": Scenario(149, MIXED, ("up", "shutdown", "wait", "up"), ()),
    # a renewed Lease counted from its answer, which came when the other who stood for election had long seen it
    "two lead when a renewal is answered late, and the next one not at all": Scenario(
        0,
        MIXED,
        ("up", "controllers", "wait"),
        (
            Mishap("answer comes late", "api.patch leases *", 3, amount=7.9),
            Mishap("hang", "api.patch leases *", 4, amount=600),
        ),
    ),
    # the cluster's API did not answer yet, so `up` made another bootstrap machine, which wrote the control plane anew
    "92 a cluster that installed itself is stopped and started": Scenario(92, IPI, ("up", "down", "up"), ()),
    # nobody could be asked which servers were on when the lab was stopped, and the cluster's stayed off ever after
    "301 the holder is killed during an install, and the lab is stopped": Scenario(
        301, IPI, ("up", "down", "up"), (Mishap("kill", "provisioner.provision *", 3, "holder"),)
    ),
    # an error that nobody expected came right after the install, which was not written down yet and counted as failed
    "471 a host's power cannot be told at the moment it is installed": Scenario(
        471, WORKERS, ("up",), (Mishap("fail", "provisioner.power *", 1),)
    ),
    # `why` offered to start the daemon of a lab whose description had never been written
    "2359 the power fails before the lab is described, and a person asks why": Scenario(
        2359, WORKERS, ("up", "why", "destroy"), (Mishap("restart the computer", "disk.sync *", 2, amount=1),)
    ),
    # the simulator did not tell its client of a refusal when the request had been doubled
    "2293 a Secret that is not there yet is asked for twice": Scenario(
        2293, WORKERS, ("up",), (Mishap("request is doubled", "api.get secrets *", 1, amount=0.01),)
    ),
    # the simulator took another call for the one that a fault was about
    "5071 two people edit what is read": Scenario(
        5071,
        MIXED,
        ("up", "put on spare"),
        (
            Mishap("somebody edits", "provisioner.inspect *", 12, amount=20.0),
            Mishap("somebody edits", "provisioner.provision *", 4, amount=20.0),
        ),
    ),
    # all stores of the simulator had the same namespaces, by their uids: a move to another API was taken for one to the same
    "51 hosts are moved to another API and back": Scenario(51, MIXED, ("up", "move away", "status", "move back"), ()),
    # the simulator's store told of changes that a watch had missed without their resource versions
    "585 the API is killed while hosts are watched": Scenario(
        585, MIXED, ("up", "scale up"), (Mishap("kill", "api.replace baremetalhosts *", 4, "api"),)
    ),
    # the node of a server that a BMC says is on, and is not, does not join; the simulator took that for nobody's fault
    "302 a BMC says of a control plane that it is on": Scenario(
        302, ON_SERVER, ("up",), (Mishap("BMC lies about power", "*", 189, "ctrl-0"),)
    ),
    # `up` waited an hour for a worker, and did not say that the only host for it could not be prepared
    "6232 the last worker of an install cannot be prepared": Scenario(
        6232,
        "name: lab\nservers: {ctrl: {role: control-plane, count: 1}, worker: {count: 1, memory: 3GiB}}\n"
        "cluster: {method: ipi, bootstrap: {on: worker-0}}",
        ("up",),
        (
            Mishap("work fails", "api.patch*", 31, "prepare worker-0", 7.0),
            Mishap("work fails", "api.*", 251, "prepare worker-0", 7.0),
        ),
    ),
    "a person edits a host each time that anybody reads it": Scenario(
        0,
        MIXED,
        ("up", "deprovision", "retry"),
        (Mishap("somebody edits", "provisioner.provision *", 3, amount=20.0),),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FOUND)
def test_a_story_that_once_went_wrong_ends_well(name: str, tmp_path: Path) -> None:
    load_everything()

    def live() -> list[str]:
        logging.disable()
        return live_through(FOUND[name], Path(tempfile.mkdtemp(dir=tmp_path))).wrong

    assert next(side_by_side([live], 1)) == []
