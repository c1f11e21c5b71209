"""What a node of the control plane is given, and what it makes of that."""

from __future__ import annotations

import base64
from ipaddress import ip_address
from typing import Any

import pytest

from rackless.cluster.bootstrap import taking_over
from rackless.cluster.bootstrap.taking_over import KEY_FILES, NewControlPlane
from rackless.installer.assets.signing import make_authority, make_token_key

NEW = NewControlPlane(
    "ctrl-0", "lab", "lab.example.com", ip_address("192.168.111.20"), "ens3", ip_address("192.168.111.5")
)


@pytest.fixture(scope="module")
def keys() -> dict[str, str]:
    etcd, api = make_authority("etcd"), make_authority("api")
    return dict(zip(KEY_FILES, (etcd.certificate, etcd.key, api.certificate, api.key, make_token_key()), strict=True))


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
    found = contents(taking_over.files(NEW, keys, "bootstrap=https://bootstrap.lab.example.com:2380"))
    etcd = found["/etc/default/etcd"]
    assert 'ETCD_INITIAL_CLUSTER_STATE="existing"' in etcd
    assert (
        'ETCD_INITIAL_CLUSTER="bootstrap=https://bootstrap.lab.example.com:2380,ctrl-0=https://192.168.111.20:2380"'
        in etcd
    )


def test_its_adverts_reach_a_bootstrap_whose_address_it_does_not_know(keys: dict[str, str]) -> None:
    """Adverts from address to address would not, and both would hold the VIP."""
    keepalived = contents(taking_over.files(NEW, keys, "bootstrap=https://b:2380"))["/etc/keepalived/keepalived.conf"]
    assert "unicast" not in keepalived and "interface ens3" in keepalived and "192.168.111.5/32 dev ens3" in keepalived


def test_keys_are_for_their_owners_only_and_its_nic_keeps_its_name(keys: dict[str, str]) -> None:
    files = taking_over.files(NEW, keys, "bootstrap=https://b:2380")
    secret = {each["path"] for each in files if "PRIVATE KEY" in contents([each])[each["path"]]}
    assert len(secret) == 4 and all(each["mode"] == 0o600 for each in files if each["path"] in secret)
    assert not any("network/" in each["path"] for each in files)
