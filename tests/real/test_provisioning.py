"""From nothing to a node and back, every part the real one: libvirt, QEMU, Redfish, Ironic, its agent, Ignition, etcd."""

from __future__ import annotations

import os
import time

import pytest

from tests.real.breakage import Kill, provision_through
from tests.real.conftest import PretendHost, leaked_secrets
from tests.real.test_cluster import await_status

pytestmark = pytest.mark.real

LAB = """\
servers:
  ctrl: {role: control-plane, count: 1}
"""


SEED = int(os.environ.get("RACKLESS_SEED") or time.time() // 86400)
"""Another kill every day; the same again with RACKLESS_SEED."""


@pytest.mark.parametrize("kill", [Kill.of(SEED)], ids=[f"RACKLESS_SEED={SEED}"])
def test_a_control_plane_is_provisioned_configured_by_ignition_and_taken_away_again(
    host: PretendHost, kill: Kill
) -> None:
    before = host.snapshot()
    (host.folder / "lab.yaml").write_text(LAB)

    # something dies on the way; the next `up` goes on
    provision_through(host, kill)

    # as seen from outside
    found = await_status(host, lambda seen: seen["servers"][0]["node"] == "up" and seen["etcd"]["complete"])
    (server,) = found["servers"]
    assert (server["power"], server["host"]) == ("on", "provisioned")
    assert found["etcd"]["leader"] == "ctrl-0"

    # as seen from inside the node
    inside = host.rackless(
        "ssh", "ctrl-0", "--",
        "cat /etc/hostname /etc/rackless-release; id -un; test -e /etc/ignition.done && echo ignited;"
        "systemctl is-active etcd; sudo -n cat /etc/ssh/ssh_host_ed25519_key.pub 2>/dev/null; lsblk -no SIZE /dev/sda",
    ).stdout.splitlines()  # fmt: skip
    assert inside[:4] == ["ctrl-0", "LAB=lab", "SERVER=ctrl-0", "ROLE=control-plane"]
    assert {"core", "ignited", "active"} <= set(inside)

    # no secret in a log, none readable by others
    assert leaked_secrets(host.folder / "state" / "lab") == []

    # and back
    host.rackless("host", "deprovision", "ctrl-0", "--yes")
    (server,) = host.status()["servers"]
    assert (server["host"], server["node"]) == ("available", None)
    (host.folder / "lab.yaml").unlink()
    host.rackless("destroy", "--yes")
    assert host.snapshot() == before
