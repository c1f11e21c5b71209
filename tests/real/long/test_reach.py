"""Two that do not know each other on one wire: the servers of a lab as metal of another, and of an Ironic outside of all labs.

The wire is a bridge of the pretend host. The lab `rack` answers DHCP on it for its own servers, and its BMCs are behind its address
there, as at sites with a management network.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.real import bootable
from tests.real.conftest import PretendHost
from tests.real.test_expose import Call, ironic_outside

pytestmark = [pytest.mark.real, pytest.mark.long]

HOST, OURS, RACK = "10.9.0.2", "10.9.0.7", "10.9.0.8"
BMCS = "192.168.113.0/24"
SITE = f"""
ip link add br0 type bridge
ip address add {HOST}/24 dev br0
ip link set br0 up
ip route add {BMCS} via {RACK}
"""
STRANGERS = f"""\
name: rack
networks:
  cluster: {{attach: br0, dhcp: static-only, cidr: 10.9.0.0/24, gateway: {RACK}, api_vip: 10.9.0.25, ingress_vip: 10.9.0.24}}
  bmc: {{cidr: {BMCS}}}
servers: {{box: {{count: 1, role: spare, first: 200, disk: 5GiB}}}}
"""
LAB = f"""\
name: lab
networks:
  cluster:
    attach: br0
    cidr: 10.9.0.0/24
    gateway: {OURS}
    api_vip: 10.9.0.5
    ingress_vip: 10.9.0.4
    routes: [{{to: {BMCS}, via: {RACK}}}]
servers: {{}}
hosts:
  rack1-u7:
    bmc: redfish-virtualmedia://192.168.113.200/redfish/v1/Systems/1
    mac: "MAC"
    password_file: password
    insecure: true
"""


CLUSTER = LAB.replace("attach: br0\n", "attach: br0\n    dhcp: static-only\n").replace(
    "servers: {}", "servers: {ctrl: {role: control-plane, count: 1, first: 20}}"
)
"""Two answer DHCP on the wire then, each its own servers."""
PORT = 8099


def raise_rack(host: PretendHost) -> str:
    """The strangers' lab; gives the MAC of its server."""
    for line in SITE.strip().splitlines():
        host.run(*line.split())
    (host.folder / "rack.yaml").write_text(STRANGERS)
    host.rackless("up", "-f", "rack.yaml", "--until", "bmc")
    host.rackless("export", "ironic", "-f", "rack.yaml", "--json", "-o", "inside.json")
    (node,) = json.loads((host.folder / "inside.json").read_text())["nodes"]
    return str(node["ports"][0]["address"])


def power(host: PretendHost) -> str:
    return str(json.loads(host.rackless("status", "-f", "rack.yaml", "--json").stdout)["servers"][0]["power"])


def await_word(host: PretendHost, word: str, within: float = 300) -> None:
    console = host.folder / "state/rack/logs/console/box-0.log"
    deadline = time.monotonic() + within
    while word.encode() not in console.read_bytes():
        assert time.monotonic() < deadline, f"box-0 never said {word}"
        time.sleep(0.5)


def test_a_server_of_another_lab_is_metal_that_is_taken_inspected_and_provisioned(host: PretendHost) -> None:
    mac = raise_rack(host)
    (host.folder / "password").write_text((host.folder / "state/rack/secrets/bmc.password").read_text())
    (host.folder / "lab.yaml").write_text(LAB.replace("MAC", mac))
    bootable.partitioned_disk(host.folder, "METALDISK")

    host.rackless("up", "--until", "hosts")
    assert power(host) == "off", "nothing is asked of it"
    image = ("--image", "METALDISK.raw")
    for words in (("inspect", "rack1-u7"), ("provision", "rack1-u7", *image)):
        refused = host.rackless("host", *words, check=False)
        assert refused.returncode != 0 and "nobody has said that the lab may have rack1-u7" in refused.stderr
    assert host.rackless("host", "take", "rack1-u7", check=False).returncode != 0, "it asks, and nobody answers"
    assert power(host) == "off"

    host.rackless("host", "take", "rack1-u7", "--yes", timeout=1200)
    record = json.loads(host.rackless("host", "show", "rack1-u7", "--json").stdout)
    assert record["status"]["provisioning"]["state"] == "available"
    assert mac in {nic["mac"] for nic in record["status"]["hardware"]["nics"]}
    host.rackless("host", "provision", "rack1-u7", *image, timeout=1200)
    await_word(host, "METALDISK")

    host.rackless("destroy", "--yes")
    assert power(host) == "on", "metal is left as it is"
    host.rackless("destroy", "-f", "rack.yaml", "--yes")


def test_metal_is_claimed_by_a_machine_once_it_was_taken_and_is_given_back_with_it(host: PretendHost) -> None:
    """In a lab with a cluster: a Machine with an image and user data of its own waits for the word, and gets the metal."""
    mac = raise_rack(host)
    (host.folder / "password").write_text((host.folder / "state/rack/secrets/bmc.password").read_text())
    (host.folder / "lab.yaml").write_text(CLUSTER.replace("MAC", mac))
    site = host.folder / "site"
    site.mkdir()
    disk = bootable.partitioned_disk(site, "METALDISK")
    host.rackless("up", timeout=1800)

    def asked(kind: str, name: str) -> Any:
        return json.loads(host.rackless("exec", "--", "kubectl", "get", kind, name, "-o", "json").stdout)

    def claimed() -> Mapping[str, Any]:
        conditions = (asked("machine", "theirs").get("status") or {}).get("conditions") or ()
        return next((one for one in conditions if one["type"] == "HostClaimed"), {})

    _offer(host, disk)
    host.rackless("exec", "--", "kubectl", "apply", "-f", str(host.folder / "machine.yaml"))
    until(lambda: "rack1-u7: it is paused" in claimed().get("message", ""), claimed, within=120)
    assert power(host) == "off", "a Machine that wants it is no word that it may be had"

    with serving(host, site):
        host.rackless("host", "take", "rack1-u7", "--yes", timeout=1800)
        until(
            lambda: asked("machine", "theirs")["status"]["phase"] == "Provisioned", lambda: asked("machine", "theirs")
        )
    record = json.loads(host.rackless("host", "show", "rack1-u7", "--json").stdout)
    assert record["spec"]["consumerRef"]["name"] == "theirs" and record["spec"]["userData"]["name"] == "theirs"
    assert record["status"]["provisioning"]["state"] == "provisioned" and claimed()["status"] == "True"
    await_word(host, "METALDISK")
    (shown,) = json.loads(host.rackless("status", "--json").stdout)["metal"]
    assert shown["taken"] and (shown["power"], shown["host"], shown["machine"]) == ("on", "provisioned", "Provisioned")
    planned = json.loads(host.rackless("plan", "--json").stdout)["actions"]
    assert {action["verb"] for action in planned} == {"keep"}, planned

    host.rackless("exec", "--", "kubectl", "delete", "machine", "theirs", "--timeout=20m", timeout=1300)
    record = json.loads(host.rackless("host", "show", "rack1-u7", "--json").stdout)
    assert "consumerRef" not in record["spec"] and "image" not in record["spec"]
    until(
        lambda: asked("bmh", "rack1-u7")["status"]["provisioning"]["state"] == "available",
        lambda: asked("bmh", "rack1-u7"),
    )
    host.rackless("destroy", "--yes")
    host.rackless("destroy", "-f", "rack.yaml", "--yes")


def _offer(host: PretendHost, disk: Path) -> None:
    """A Machine that wants this disk, which `serving` serves, as a file for kubectl."""
    checksum = hashlib.sha256(disk.read_bytes()).hexdigest()
    image = {
        "url": f"http://{HOST}:{PORT}/{disk.name}",
        "checksum": checksum,
        "checksumType": "sha256",
        "format": "raw",
    }
    value = {
        "apiVersion": "baremetal.cluster.k8s.io/v1alpha1", "kind": "BareMetalMachineProviderSpec", "image": image,
        "userData": {"name": "theirs"},
    }  # fmt: skip
    data = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "theirs"},
        "stringData": {"userData": "#!/bin/true"},
    }
    machine = {
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine", "metadata": {"name": "theirs"},
        "spec": {"providerSpec": {"value": value}},
    }  # fmt: skip
    (host.folder / "machine.yaml").write_text(yaml.safe_dump_all([data, machine]))


@contextmanager
def serving(host: PretendHost, folder: Path) -> Iterator[None]:
    """The folder by HTTP, at the site's address of the hypervisor."""
    command = [sys.executable, "-m", "http.server", str(PORT), "--bind", HOST, "--directory", str(folder)]
    server = subprocess.Popen(host.enter(*command), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        server.terminate()
        server.wait(timeout=60)


def until(true: Callable[[], bool], seen: Callable[[], object], within: float = 1200) -> None:
    deadline = time.monotonic() + within
    while not true():
        assert time.monotonic() < deadline, seen()
        time.sleep(2)


def test_an_ironic_outside_of_all_labs_provisions_a_server_through_its_exposed_bmc(host: PretendHost) -> None:
    raise_rack(host)
    host.rackless("expose", "bmc", "-f", "rack.yaml", "--address", HOST)
    host.rackless("export", "ironic", "-f", "rack.yaml", "--exposed", "--json", "-o", "nodes.json")
    (node,) = json.loads((host.folder / "nodes.json").read_text())["nodes"]
    assert HOST in node["driver_info"]["redfish_address"]
    disk = bootable.partitioned_disk(host.folder, "THEIRDISK")
    with ironic_outside(host, HOST, "agent") as call:
        (host.folder / "theirs/http/their.raw").symlink_to(disk)
        ports = node.pop("ports")
        uuid = call("POST", "nodes", node)["uuid"]
        for port in ports:
            call("POST", "ports", {**port, "node_uuid": uuid})
        for target, state in (("manage", "manageable"), ("inspect", "manageable"), ("provide", "available")):
            _move(call, target, state)
        assert [port["address"] for port in call("GET", f"nodes/{uuid}/ports")["ports"]] == [ports[0]["address"]]
        said = {
            "image_source": f"http://{HOST}:6181/their.raw",
            "image_checksum": hashlib.sha256(disk.read_bytes()).hexdigest(),
            "image_disk_format": "raw",
            "image_type": "whole-disk",
        }
        call(
            "PATCH", "nodes/box-0", [{"op": "add", "path": f"/instance_info/{key}", "value": said[key]} for key in said]
        )
        _move(call, "active", "active")
        await_word(host, "THEIRDISK")
    host.rackless("destroy", "-f", "rack.yaml", "--yes")
    assert not Path(host.folder / "state/rack").exists()


def _move(call: Call, target: str, wanted: str, within: float = 1200) -> None:
    """Ask for a state, and wait until Ironic works no more and is in it."""
    call("PUT", "nodes/box-0/states/provision", {"target": target})
    deadline = time.monotonic() + within
    while True:
        seen = call("GET", "nodes/box-0")
        state = seen["provision_state"]
        assert not state.endswith("failed"), f"{target}: {state}: {seen['last_error']}"
        if state == wanted and seen["target_provision_state"] is None and not seen["reservation"]:
            return
        assert time.monotonic() < deadline, f"{target}: still {state}: {seen['last_error']}"
        time.sleep(1)
