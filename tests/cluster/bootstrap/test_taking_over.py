"""What a node of the control plane is given, and what it makes of that."""

from __future__ import annotations

import base64
import json
from ipaddress import ip_address
from typing import Any

import pytest
from cryptography import x509

from rackless.cluster.bootstrap import taking_over
from rackless.cluster.bootstrap.taking_over import KEY_FILES, SERVER_FILES, NewControlPlane
from rackless.installer.assets.ignition import front
from rackless.installer.assets.signing import make_authority, make_token_key

NEW = NewControlPlane(
    "ctrl-0", "lab", "lab.example.com", ip_address("192.168.111.20"), "ens3", ip_address("192.168.111.5")
)


def make_keys() -> dict[str, str]:
    etcd, api, server = make_authority("etcd"), make_authority("api"), make_authority("root")
    authorities = (etcd.certificate, etcd.key, api.certificate, api.key, make_token_key())
    return {
        **dict(zip(KEY_FILES, authorities, strict=True)),
        **dict(zip(SERVER_FILES, (server.certificate, server.key), strict=True)),
        "master.ign": '{"ignition": {"version": "3.3.0"}}',
        "worker.ign": '{"ignition": {"version": "3.3.0"}, "storage": {}}',
    }


@pytest.fixture(scope="module")
def keys() -> dict[str, str]:
    return make_keys()


def contents(files: list[dict[str, Any]]) -> dict[str, str]:
    return {
        each["path"]: base64.b64decode(each["contents"]["source"].partition("base64,")[2]).decode() for each in files
    }


def test_keys_are_for_the_nodes_of_the_control_plane_and_read_back(keys: dict[str, str]) -> None:
    secret, role, binding = taking_over.keys_objects(keys, ["ctrl-1", "ctrl-0"])
    assert taking_over.read_keys(secret) == keys
    assert role["rules"] == [
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["control-plane-keys"], "verbs": ["get"]}
    ]
    assert [each["name"] for each in binding["subjects"]] == ["system:node:ctrl-0", "system:node:ctrl-1"]


def test_it_joins_the_etcd_that_is_there_under_its_own_address(keys: dict[str, str]) -> None:
    others = "bootstrap=https://bootstrap.lab.example.com:2380"
    etcd = contents([taking_over.membership(NEW, others)])["/etc/default/etcd"]
    assert 'ETCD_INITIAL_CLUSTER_STATE="existing"' in etcd
    assert (
        'ETCD_INITIAL_CLUSTER="bootstrap=https://bootstrap.lab.example.com:2380,ctrl-0=https://192.168.111.20:2380"'
        in etcd
    )


def test_what_is_laid_out_before_etcd_takes_it_would_not_begin_a_cluster_of_its_own(keys: dict[str, str]) -> None:
    assert "/etc/default/etcd" not in contents(taking_over.files(NEW, keys))


def test_its_vip_is_on_the_nic_that_it_has(keys: dict[str, str]) -> None:
    units = {each["name"]: each.get("contents", "") for each in taking_over.units(NEW, keys)}
    assert "rackless.node.vip.main 192.168.111.5 ens3 " in units[front.VIP_UNIT]


def test_keys_are_for_their_owners_only_and_its_nic_keeps_its_name(keys: dict[str, str]) -> None:
    files = taking_over.files(NEW, keys)
    secret = {each["path"] for each in files if "PRIVATE KEY" in contents([each])[each["path"]]}
    assert len(secret) == 5 and all(each["mode"] == 0o600 for each in files if each["path"] in secret)
    assert not any("network/" in each["path"] for each in files)


RELEASE = json.dumps({"payload": {"url": "http://192.168.111.1:6180/payload.img", "sha256": "ab" * 32}})


def test_it_serves_the_rendered_configs_that_the_bootstrap_served(keys: dict[str, str]) -> None:
    found = contents(taking_over.files(NEW, keys))
    assert found["/etc/rackless/machine-config/worker.ign"] == keys["worker.ign"]
    server = next(each for each in taking_over.units(NEW, keys) if each["name"] == "rackless-machine-config.service")
    for word in ("machine-config", "machine-config-server.crt", "machine-config-server.key"):
        assert f"/etc/rackless/{word}" in server["contents"]
    assert found["/etc/rackless/machine-config-server.key"] == keys["machine-config-server.key"]


def test_without_a_payload_it_has_nothing_to_look_after_hosts_with(keys: dict[str, str]) -> None:
    assert not any("metal3" in each["name"] for each in taking_over.units(NEW, keys))
    assert not any("metal3" in each["path"] for each in taking_over.files(NEW, keys))


def test_it_does_not_fetch_the_payload_while_it_becomes_a_control_plane(keys: dict[str, str]) -> None:
    """Three control planes do that side by side, on processors that are busy with it; one of them will need the payload."""
    units = {each["name"]: each for each in taking_over.units(NEW, {**keys, "release.json": RELEASE})}
    assert [name for name, each in units.items() if not each["enabled"]] == ["rackless-payload.service"]
    assert "rackless-payload" not in units["rackless-metal3.service"]["contents"]
    assert "OnActiveSec=" in units["rackless-payload.timer"]["contents"]


def test_metal3_on_it_asks_the_api_at_its_vip_as_somebody_the_cluster_believes(keys: dict[str, str]) -> None:
    given = {**keys, "release.json": RELEASE}
    found_units = taking_over.units(NEW, given)
    assert found_units[0]["name"] == "etcd.service" and found_units[-1]["name"] == "rackless-metal3.service"
    unit = taking_over.units(NEW, given)[-1]["contents"]
    assert "--interface ens3 --whole" in unit and "--kubeconfig /etc/rackless/metal3.kubeconfig" in unit
    found = contents(taking_over.files(NEW, given))
    assert found["/etc/rackless/release.json"] == RELEASE
    access = json.loads(found["/etc/rackless/metal3.kubeconfig"])
    assert access["clusters"][0]["cluster"]["server"] == "https://192.168.111.5:6443"
    shown = x509.load_pem_x509_certificate(base64.b64decode(access["users"][0]["user"]["client-certificate-data"]))
    assert shown.subject.rfc4514_string() == "CN=system:rackless:metal3,O=system:masters"
    shown.verify_directly_issued_by(x509.load_pem_x509_certificate(keys["api-ca.crt"].encode()))


def test_certificates_that_somebody_else_signed_for_the_api_go_along(keys: dict[str, str]) -> None:
    without = contents(taking_over.files(NEW, keys))
    assert not any("/named/" in path or path.endswith("clients.crt") for path in without)
    more = {**keys, "named.api.crt": "certificate", "named.api.key": "key", "api-clients.crt": "authorities"}
    found = {one["path"]: one for one in taking_over.files(NEW, more)}
    for path, mode in (("named/api.crt", 0o600), ("named/api.key", 0o600), ("clients.crt", 0o644)):
        one = found[f"/etc/rackless/pki/{path}"]
        assert (one["mode"], one["user"]["name"]) == (mode, "rackless")
