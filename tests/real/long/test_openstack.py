"""`openstack baremetal` at the lab's own Ironic, as `docs/howto/use-an-ironic.md` says it: look, enrol, switch."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from tests import kept
from tests.real.conftest import PretendHost

pytestmark = [pytest.mark.real, pytest.mark.long("reach")]

CLIENT = kept.CACHE / "openstack/bin/openstack"
LAB = "servers: {box: {count: 1, role: spare}}\n"


def test_the_labs_own_ironic_is_worked_by_the_openstack_client(host: PretendHost) -> None:
    if not CLIENT.exists():
        pytest.skip("the OpenStack client is not installed here")
    (host.folder / "lab.yaml").write_text(LAB)
    host.rackless("up", "--until", "engine")
    secrets = host.folder / "state/lab/secrets"
    login = {
        "OS_AUTH_TYPE": "http_basic",
        "OS_ENDPOINT": "https://192.168.111.1:6385",
        "OS_USERNAME": "admin",
        "OS_PASSWORD": (secrets / "ironic.password").read_text().strip(),
        "OS_CACERT": str(secrets / "tls/ca.crt"),
    }
    known = [f"{name}={value}" for name, value in login.items()]

    def baremetal(*words: str) -> str:
        rackless = [sys.executable, "-P", "-m", "rackless", "exec", "--"]
        return host.run("env", *known, *rackless, str(CLIENT), "baremetal", *words).stdout

    def shown(*words: str) -> Any:
        return json.loads(baremetal(*words, "-f", "json"))

    assert shown("node", "list") == []
    assert "redfish" in baremetal("driver", "list")
    host.rackless("export", "ironic", "-o", "nodes.yaml")
    baremetal("create", "nodes.yaml")
    baremetal("node", "manage", "--wait", "120", "box-0")
    assert shown("node", "show", "box-0")["provision_state"] == "manageable"
    baremetal("node", "power", "on", "--power-timeout", "60", "box-0")
    assert host.status()["servers"][0]["power"] == "on"
