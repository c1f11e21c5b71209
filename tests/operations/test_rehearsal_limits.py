"""What a full rehearsal is otherwise than the site, and what it refuses: said of the install-config, before anything is made."""

from __future__ import annotations

import pytest

from rackless.cluster.openshift.report import BOOT_NETWORK, Report
from rackless.errors import InputError
from rackless.installer.twin.site import ARBITERS
from rackless.operations.rehearsal.limits import announce_full, refuse_full
from tests.installer.twin.configs import config, host, masters

MEDIA = "redfish-virtualmedia://10.20.30.22{n}/redfish/v1/Systems/1"
WITH_ARBITER = config(
    [*masters(MEDIA)[:2], host(0, MEDIA.format(n=7), "arbiter")],
    provisioningNetwork="Disabled",
    top={"controlPlane": {"name": "master", "replicas": 2}, "arbiter": {"name": "arbiter", "replicas": 1}},
)


def _announced(text: str) -> Report:
    report = Report("site.example.net", deviations=[ARBITERS])
    announce_full(report, text)
    return report


def test_arbiters_are_control_planes_and_no_longer_workers() -> None:
    report = _announced(WITH_ARBITER)
    assert ARBITERS not in report.deviations and "arbiters are control planes like the others" in report.deviations
    assert report.kind == "full" and BOOT_NETWORK not in report.subjects


@pytest.mark.parametrize(("mode", "served"), [("Managed", True), ("Unmanaged", True), ("Disabled", False)])
def test_a_network_that_the_bootstrap_serves_is_a_line_of_the_report(mode: str, *, served: bool) -> None:
    report = _announced(config(masters(MEDIA), provisioningNetwork=mode))
    assert (BOOT_NETWORK in report.subjects) == served and report.kind == "full"


@pytest.mark.parametrize("text", [WITH_ARBITER, config(masters(MEDIA)), "- no install-config", "platform: {none: {}}"])
def test_what_can_be_installed_or_is_said_better_elsewhere_is_not_refused(text: str) -> None:
    refuse_full(text)
    announce_full(Report("x"), text)


def test_a_bmc_in_the_network_that_hosts_boot_from_is_refused() -> None:
    text = config(masters("redfish://172.22.0.10{n}/redfish/v1/Systems/1"))
    with pytest.raises(InputError, match="cannot install master-0") as refused:
        refuse_full(text)
    assert "172.22.0.100 is in the provisioning network" in refused.value.why
    refuse_full(
        config(masters("redfish-virtualmedia://172.22.0.10{n}/redfish/v1/Systems/1"), provisioningNetwork="Disabled")
    )
