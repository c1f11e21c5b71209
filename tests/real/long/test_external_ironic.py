"""The whole way of a host through an Ironic that is not the lab's: inspected, written, a node, and given back."""

from __future__ import annotations

import pytest

from tests.drivers.ironic.certificates import write_certificates
from tests.real.conftest import PretendHost, leaked_secrets
from tests.real.other_ironic import PASSWORD
from tests.real.test_external_ironic import GATEWAY, LAB, await_host, their_ironic

pytestmark = [pytest.mark.real, pytest.mark.long]


def test_a_host_becomes_a_node_by_an_ironic_that_is_not_the_labs(host: PretendHost) -> None:
    theirs = host.folder / "theirs"
    theirs.mkdir()
    write_certificates(theirs, GATEWAY)
    (host.folder / "password").write_text(f"{PASSWORD}\n")
    (host.folder / "lab.yaml").write_text(LAB.replace("role: spare", "role: worker"))
    host.rackless("up", "--until", "bmc")
    with their_ironic(host, theirs):
        host.rackless("up", timeout=1500)
        (server,) = host.status()["servers"]
        assert (server["host"], server["node"]) == ("provisioned", "up")
        assert leaked_secrets(host.folder / "state" / "lab") == []
        host.rackless("host", "deprovision", "box-0", "--yes", timeout=900)
        await_host(host, "available", 600)
        host.rackless("destroy", "--yes")
