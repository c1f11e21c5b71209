"""Three control planes from nothing to one cluster, and what is left of it when one of them is switched off."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from rackless.drivers.libvirt.domain_xml import translations_mib
from tests.real.conftest import PretendHost, leaked_secrets

pytestmark = pytest.mark.real

LAB = """\
servers:
  ctrl: {role: control-plane, count: 3, memory: 1GiB}
"""
NAMES = ["ctrl-0", "ctrl-1", "ctrl-2"]
ASK = """
import base64, json, ssl, sys, tempfile, urllib.request
config = json.load(open("kubeconfig"))
cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
plain = lambda text: base64.b64decode(text).decode()
tls = ssl.create_default_context(cadata=plain(cluster["certificate-authority-data"]))
with tempfile.NamedTemporaryFile("w") as pair:
    pair.write(plain(user["client-certificate-data"]) + plain(user["client-key-data"]))
    pair.flush()
    tls.load_cert_chain(pair.name)
data = sys.argv[2].encode() if len(sys.argv) > 2 else None
request = urllib.request.Request(cluster["server"] + sys.argv[1], data, {"Content-Type": "application/json"})
print(urllib.request.urlopen(request, context=tls, timeout=30).read().decode())
"""


def ask(host: PretendHost, path: str, body: dict[str, Any] | None = None, within: float = 120) -> dict[str, Any]:
    """The cluster's API, from the host's side, as the administrator.

    As any client does: who was being led to a server when it was found dead is cut off, and asks again.
    """
    words = [json.dumps(body)] if body is not None else []
    deadline = time.monotonic() + within
    while True:
        done = host.run(sys.executable, "-P", "-c", ASK, path, *words, check=False)
        if done.returncode == 0:
            found: dict[str, Any] = json.loads(done.stdout)
            return found
        if body is not None and "HTTP Error 409" in done.stderr:  # the last time it had been written
            return body
        assert time.monotonic() < deadline, done.stderr
        time.sleep(1)


def await_status(host: PretendHost, wanted: Callable[[dict[str, Any]], bool], within: float = 600) -> dict[str, Any]:
    deadline = time.monotonic() + within
    while True:
        found = host.status()
        if wanted(found):
            return found
        assert time.monotonic() < deadline, json.dumps({key: found[key] for key in ("servers", "etcd", "vip")})
        time.sleep(1)


def assert_it_can_stand_still(host: PretendHost) -> None:
    """What an idle lab costs hangs on these having arrived where they count; `scripts/bench idle` says how much."""
    asked = "systemctl show --value --property TimerSlackNSec etcd rackless-api haproxy rackless-vip rackless-node"
    assert host.rackless("ssh", NAMES[0], "--", asked).stdout.split() == ["400000000", *["100000000"] * 4]
    servers = [command for _, command in host.inhabitants() if "guest=ctrl-" in command]
    assert len(servers) == len(NAMES) and all('"free-page-reporting":true' in command for command in servers)
    assert all(f"tcg,tb-size={translations_mib(1024)}" in command or " kvm " in command for command in servers)


def assert_nodes_are_ready_by_their_own_word(host: PretendHost) -> None:
    """And small: a node has better uses for its memory."""
    nodes = ask(host, "/api/v1/nodes")["items"]
    assert [node["metadata"]["name"] for node in nodes] == NAMES
    for node in nodes:
        told = {each["type"]: each["status"] for each in node["status"]["conditions"]}
        assert told["Ready"] == "True" and told["DiskPressure"] == "False"
        assert "node-role.kubernetes.io/control-plane" in node["metadata"]["labels"]
        assert node["spec"]["taints"] and node["status"]["nodeInfo"]["systemUUID"]
    requests = ask(host, "/apis/certificates.k8s.io/v1/certificatesigningrequests")["items"]
    asked = sorted(each["spec"]["username"].partition(":node:")[2] for each in requests)
    assert asked == ["", "", "", *NAMES], "three by token, three by the nodes' own certificates"
    resident = "sed -n 's/^VmRSS: *//p' /proc/$(systemctl show --value --property MainPID rackless-node)/status"
    assert int(host.rackless("ssh", NAMES[0], "--", resident).stdout.split()[0]) < 25_000
    keys = "sudo find /var/lib/private/rackless-node/ -type f ! -perm 600"
    assert host.rackless("ssh", NAMES[0], "--", keys).stdout == ""


def renewals(host: PretendHost) -> dict[str, str]:
    leases = ask(host, "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases")["items"]
    return {lease["metadata"]["name"]: lease["spec"]["renewTime"] for lease in leases}


def journals(host: PretendHost, names: list[str]) -> str:
    """What the nodes' agents said last, and what they asked for."""
    asked = ask(host, "/apis/certificates.k8s.io/v1/certificatesigningrequests")["items"]
    told = [f"{each['metadata']['name']} of {each['spec'].get('username')}: {each.get('status')}" for each in asked]
    for name in names:
        journal = ("ssh", name, "--", "sudo journalctl -u rackless-node -n 30 --no-pager -o short-precise")
        told.append(f"--- {name}\n{host.rackless(*journal, check=False).stdout}")
    return "\n".join(told)


def assert_leases_go_on(host: PretendHost, names: list[str], within: float = 180) -> None:
    before, deadline = renewals(host), time.monotonic() + within
    while not all(renewals(host)[name] > before[name] for name in names):
        assert time.monotonic() < deadline, f"{renewals(host)}\n{journals(host, names)}"
        time.sleep(2)


def test_the_vip_moves_and_the_quorum_stands_when_a_control_plane_is_switched_off(host: PretendHost) -> None:
    (host.folder / "lab.yaml").write_text(LAB)
    told = host.rackless("up", timeout=1800).stdout
    assert "Kubernetes API at its VIP" in told and "PROVISIONING" in told

    # three members, one leader, one holder of the VIP, and an API behind it that knows its nodes
    found = await_status(host, lambda seen: seen["etcd"]["complete"] and seen["vip"]["ready"])
    assert [member["name"] for member in found["etcd"]["members"]] == NAMES and found["etcd"]["leader"] in NAMES
    assert found["vip"]["holders"] == [found["vip"]["holder"]] and found["vip"]["holder"] in NAMES
    host.rackless("kubeconfig", "--cluster", "-o", "kubeconfig")
    assert_nodes_are_ready_by_their_own_word(host)
    assert leaked_secrets(host.folder / "state" / "lab") == []

    assert_it_can_stand_still(host)

    # how long everything took
    timeline = json.loads(host.rackless("status", "--timeline", "--json").stdout)
    for name in NAMES:
        phases = [phase["name"] for phase in timeline[name]]
        assert phases == ["registering", "inspecting", "preparing", "provisioning", "booting its system"]
        assert all(phase["outcome"] == "done" and phase["seconds"] > 0 for phase in timeline[name])

    # its holder dies: another one holds it, two members lead on, and objects are still written
    first = await_status(host, lambda seen: seen["vip"]["ready"])["vip"]["holder"]
    host.rackless("power", first, "off")
    await_status(host, lambda seen: seen["vip"]["ready"] and seen["vip"]["holder"] != first)
    found = await_status(
        host, lambda seen: seen["etcd"]["healthy"] == 2 and seen["etcd"]["leader"] not in (None, first)
    )
    assert not found["etcd"]["complete"]
    (gone,) = [member for member in found["etcd"]["members"] if not member["healthy"]]
    assert gone["name"] == first and gone["problem"]
    note = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "note"}, "data": {"without": first}}
    ask(host, "/api/v1/namespaces/default/configmaps", note)

    # the others' Leases go on over the VIP's new place; the dead one's goes stale
    assert_leases_go_on(host, [name for name in NAMES if name != first])

    # it comes back: the quorum is whole again, and the VIP stays where it is
    host.rackless("power", first, "on")
    await_status(host, lambda seen: seen["etcd"]["complete"])
    journal = "sudo journalctl -u rackless-vip | grep -m1 ') has it' || sleep 1"
    await_status(host, lambda _: "has it" in host.rackless("ssh", first, "--", journal, check=False).stdout)
    found = await_status(host, lambda seen: seen["vip"]["ready"])
    assert found["vip"]["holder"] != first
    assert ask(host, "/api/v1/namespaces/default/configmaps/note")["data"] == {"without": first}
    assert_leases_go_on(host, NAMES)

    # a node whose certificates are gone asks for others with its token; `up` lets it in
    lose = "sudo systemctl stop rackless-node; sudo rm -r /var/lib/private/rackless-node; sudo systemctl start rackless-node"
    host.rackless("ssh", first, "--", lose)
    host.rackless("up", timeout=900)
    assert_leases_go_on(host, NAMES)
