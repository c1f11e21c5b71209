"""When the installer of a full rehearsal that is to fail begins to wait in vain."""

from __future__ import annotations

from typing import Any

import pytest

from rackless.cluster.openshift.faults import InstallFault
from rackless.cluster.openshift.waiting import VainWait


def _ended(host: str, phase: str, outcome: str = "done") -> dict[str, Any]:
    return {"subject": f"host/{host}", "ended": phase, "outcome": outcome, "seconds": 3, "detail": "401"}


def test_a_missing_config_map_is_waited_for_once_all_control_planes_are_provisioned() -> None:
    vain = VainWait(InstallFault.CONFIG_MAP_MISSING, ["m-0", "m-1"])
    for told in (
        _ended("m-0", "inspecting"), _ended("m-0", "provisioning"), _ended("w-0", "provisioning"),
        _ended("m-1", "provisioning", "failed"), _ended("m-1", "provisioning", "cancelled"),
    ):  # fmt: skip
        assert vain.hear(told) == ""
    assert "ConfigMap" in vain.hear(_ended("m-1", "provisioning"))
    assert vain.hear(_ended("m-1", "provisioning")) == ""


def test_a_host_in_error_is_one_of_the_control_plane() -> None:
    vain = VainWait(InstallFault.HOST_ERROR, ["m-0"])
    assert vain.hear(_ended("w-0", "registering", "failed")) == vain.hear(_ended("m-0", "registering")) == ""
    assert "m-0, which is in error: 401" in vain.hear(_ended("m-0", "registering", "failed"))


@pytest.mark.parametrize("fault", [None, InstallFault.NO_CONSOLE, InstallFault.OPERATOR_DEGRADED])
def test_what_the_bootstrap_knows_nothing_of_is_not_told_by_it(fault: InstallFault | None) -> None:
    vain = VainWait(fault, ["m-0"])
    for told in (_ended("m-0", "provisioning"), _ended("m-0", "registering", "failed"), {"phase": "complete"}):
        assert vain.hear(told) == ""


def test_etcd_is_waited_for_once_the_bootstrap_has_said_that_it_is_complete() -> None:
    vain = VainWait(InstallFault.ETCD_STAYS, ["m-0"])
    assert vain.hear({"phase": "hands over"}) == "" and "etcd" in vain.hear({"phase": "complete"})
