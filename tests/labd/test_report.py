"""What `rackless status` is told of metal: what the record of its host says, and whether the lab may have it."""

from __future__ import annotations

import json
from pathlib import Path

from rackless.labd.report import describe_metal
from rackless.plan.addressing import plan_lab
from rackless.provisioning.baremetalhost import NOT_TAKEN, PAUSED
from rackless.spec.load import parse


def test_metal_is_told_as_its_record_has_it_and_its_power_only_once_it_was_taken(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("secret")
    hosts = {
        name: {
            "bmc": f"redfish-virtualmedia://192.0.2.{unit}/redfish/v1/Systems/1",
            "mac": f"3c:ec:ef:00:00:0{unit}",
            "password_file": str(tmp_path / "password"),
        }
        for unit, name in enumerate(("new", "theirs", "ours"))
    }
    plan = plan_lab(parse(json.dumps({"servers": {}, "hosts": hosts}), "lab.yaml"))
    status = {"poweredOn": True, "provisioning": {"state": "provisioned"}, "errorMessage": "it is hot"}
    theirs = {
        "metadata": {
            "name": "theirs",
            "uid": "1",
            "resourceVersion": "1",
            "generation": 1,
            "annotations": {PAUSED: NOT_TAKEN},
        },
        "spec": {"online": True},
    }
    ours = {
        "metadata": {"name": "ours", "uid": "2", "resourceVersion": "1", "generation": 1},
        "spec": {"online": True, "consumerRef": {"name": "m-0"}},
        "status": status,
    }
    found = {one.name: one for one in describe_metal(plan, [theirs, ours], {"ours": True}, {"m-0": "Running"})}
    assert list(found) == ["new", "theirs", "ours"]
    new = found["new"]
    assert (new.bmc, new.mac) == (hosts["new"]["bmc"], hosts["new"]["mac"])
    assert (new.taken, new.power, new.host, new.machine) == (False, None, None, None)
    assert (found["theirs"].taken, found["theirs"].power) == (False, None)
    mine = found["ours"]
    assert (mine.taken, mine.power, mine.host, mine.error) == (True, "on", "provisioned", "it is hot")
    assert (mine.node, mine.machine) == ("up", "Running")
