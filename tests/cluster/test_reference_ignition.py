import base64
import json
from typing import Any

from rackless.cluster.reference.ignition import NodeSecrets, render
from rackless.cluster.reference.joining import Invitation
from rackless.installer.assets.ignition.control_plane import ControlPlaneSecrets
from rackless.plan.addressing import plan_lab
from rackless.ports.nodes import Quorum, QuorumMember
from rackless.spec.lab import LabSpec

PLAN = plan_lab(LabSpec())
SECRETS = NodeSecrets(
    "HOSTKEY",
    ControlPlaneSecrets(
        etcd_ca="ETCDCA",
        etcd_certificate="ETCDCERT",
        etcd_key="ETCDKEY",
        store_certificate="STORECERT",
        store_key="STOREKEY",
        api_ca="APICA",
        api_ca_key="APICAKEY",
        api_token_key="TOKENKEY",
    ),
    Invitation("APICA", "abcdef.SECRETTOKEN"),
)
WORKER_SECRETS = NodeSecrets("HOSTKEY", invitation=SECRETS.invitation)


def config(name: str) -> dict[str, Any]:
    server = PLAN.server(name)
    assert server is not None
    secrets = SECRETS if server in PLAN.control_planes else WORKER_SECRETS
    found: dict[str, Any] = json.loads(render(server, PLAN, "ssh-ed25519 AAAA me", secrets))
    return found


def content(config: dict[str, Any], path: str) -> str:
    (file,) = [file for file in config["storage"]["files"] if file["path"] == path]
    return base64.b64decode(file["contents"]["source"].partition("base64,")[2]).decode()


def test_every_node_gets_its_name_its_user_and_a_host_key_we_know() -> None:
    node = config("worker-0")
    assert content(node, "/etc/hostname") == "worker-0\n"
    assert content(node, "/etc/ssh/ssh_host_ed25519_key") == "HOSTKEY"
    (user,) = node["passwd"]["users"]
    assert (user["name"], user["sshAuthorizedKeys"]) == ("core", ["ssh-ed25519 AAAA me"])


def test_control_planes_are_members_of_one_etcd_with_tls_on_both_sides() -> None:
    node = config("ctrl-1")
    settings = content(node, "/etc/default/etcd")
    assert 'ETCD_NAME="ctrl-1"' in settings
    for member in PLAN.control_planes:
        assert f"{member.name}=https://{member.address}:2380" in settings
    assert 'ETCD_CLIENT_CERT_AUTH="true"' in settings and 'ETCD_PEER_CLIENT_CERT_AUTH="true"' in settings
    assert "http://" not in settings
    units = [unit["name"] for unit in node["systemd"]["units"]]
    assert units == [
        "etcd.service",
        "rackless-api.service",
        "haproxy.service",
        "rackless-vip.service",
        "rackless-node.service",
    ]
    assert all(unit["enabled"] for unit in node["systemd"]["units"])


def test_workers_get_nothing_of_a_control_plane() -> None:
    node = config("worker-0")
    assert [unit["name"] for unit in node["systemd"]["units"]] == ["rackless-node.service"]
    assert "directories" not in node["storage"]
    assert not any("etcd" in file["path"] or "pki" in file["path"] for file in node["storage"]["files"])


def test_the_nic_of_the_vip_is_known_by_its_mac() -> None:
    server = PLAN.server("ctrl-0")
    assert server is not None
    assert f"MACAddress={server.mac}" in content(config("ctrl-0"), "/etc/systemd/network/10-cluster.link")
    (vip,) = [each for each in config("ctrl-0")["systemd"]["units"] if each["name"] == "rackless-vip.service"]
    assert f"vip.main {PLAN.api_vip} cluster0 " in vip["contents"]


def test_private_keys_are_for_their_owner_only_and_never_in_a_repr() -> None:
    modes = {file["path"]: file["mode"] for file in config("ctrl-0")["storage"]["files"]}
    keys = ["/etc/ssh/ssh_host_ed25519_key", "/etc/etcd/member.key", "/etc/rackless/etcd/client.key"]
    keys += ["/etc/rackless/pki/ca.key", "/etc/rackless/pki/sa.key"]
    assert {path for path in modes if path.endswith("key")} == set(keys)
    assert all(modes[path] == 0o600 for path in [*keys, "/etc/kubernetes/bootstrap-kubeconfig"])
    private = ("HOSTKEY", "ETCDKEY", "STOREKEY", "APICAKEY", "TOKENKEY", "SECRETTOKEN")
    assert not any(secret in repr(SECRETS) for secret in private)


def test_every_node_is_told_how_to_join_and_a_control_plane_to_keep_others_work_off() -> None:
    for name, taints in {"ctrl-0": 1, "worker-0": 0}.items():
        node = config(name)
        told = json.loads(content(node, "/etc/kubernetes/bootstrap-kubeconfig"))
        assert told["clusters"][0]["cluster"]["server"] == f"https://{PLAN.api_vip}:6443"
        assert told["users"][0]["user"]["token"] == "abcdef.SECRETTOKEN"
        assert len(json.loads(content(node, "/etc/rackless/node.json"))["taints"]) == taints
        (unit,) = [unit for unit in node["systemd"]["units"] if unit["name"] == "rackless-node.service"]
        assert unit["enabled"] and "DynamicUser=yes" in unit["contents"]


def test_a_node_without_an_api_to_join_gets_no_agent() -> None:
    server = PLAN.server("worker-0")
    assert server is not None
    found = json.loads(render(server, PLAN, "ssh-ed25519 AAAA me", NodeSecrets("HOSTKEY")))
    assert found["systemd"]["units"] == []


def test_a_quorum_is_complete_only_when_every_member_counts_all_and_one_leads() -> None:
    members = tuple(QuorumMember(f"ctrl-{n}", True, leader=n == 0, members=3) for n in range(3))
    assert Quorum(members).complete
    assert not Quorum((*members[:2], QuorumMember("ctrl-2", False, problem="no answer in time"))).complete
    assert not Quorum(tuple(QuorumMember(f"ctrl-{n}", True, members=3) for n in range(3))).complete
    assert not Quorum(()).complete
    assert Quorum(members).describe() == "3 of 3 members healthy, ctrl-0 leads"
