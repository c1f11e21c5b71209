"""What makes a node that has joined a control plane: keys from the API, then the files and units of one. Pure.

The keys are in a Secret that only the control plane's nodes may read. Every control plane signs its own certificates with them.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rackless.installer.assets.ignition import control_plane
from rackless.installer.assets.ignition.machines import OneCluster, OneMachine
from rackless.installer.assets.signing import KeyPair, sign
from rackless.spec.address import Ip
from rackless.trust.authority import BOTH_USES, Use

NAMESPACE, KEYS = "kube-system", "control-plane-keys"
KEY_FILES = ("etcd-ca.crt", "etcd-ca.key", "api-ca.crt", "api-ca.key", "service-account.key")
_RBAC = "rbac.authorization.k8s.io"
_LINK = "/etc/systemd/network/10-cluster.link"


@dataclass(frozen=True, slots=True)
class NewControlPlane:
    name: str
    cluster: str
    domain: str
    address: Ip
    interface: str
    api_vip: Ip

    @property
    def peer(self) -> str:
        return f"https://{self.address}:2380"


def keys_objects(keys: Mapping[str, str], nodes: Iterable[str]) -> list[dict[str, Any]]:
    """The Secret, and who may read it."""
    data = {name: base64.b64encode(keys[name].encode()).decode() for name in KEY_FILES}
    metadata = {"name": KEYS, "namespace": NAMESPACE}
    rule = {"apiGroups": [""], "resources": ["secrets"], "resourceNames": [KEYS], "verbs": ["get"]}
    subjects = [{"apiGroup": _RBAC, "kind": "User", "name": f"system:node:{node}"} for node in sorted(nodes)]
    role = {"apiGroup": _RBAC, "kind": "Role", "name": KEYS}
    return [
        {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": data},
        {"apiVersion": f"{_RBAC}/v1", "kind": "Role", "metadata": metadata, "rules": [rule]},
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": role,
            "subjects": subjects,
        },
    ]


def read_keys(secret: Mapping[str, Any]) -> dict[str, str]:
    return {name: base64.b64decode(secret["data"][name]).decode() for name in KEY_FILES}


def files(new: NewControlPlane, keys: Mapping[str, str], others: str) -> list[dict[str, Any]]:
    """As Ignition would write them; `others` are etcd's members that are there."""
    machine, cluster = _described(new)
    etcd = KeyPair(keys["etcd-ca.crt"], keys["etcd-ca.key"])
    names = [str(new.address), "127.0.0.1", "localhost", machine.name, machine.fqdn]
    member, client = sign(etcd, new.name, names, uses=BOTH_USES), sign(etcd, f"api-{new.name}", uses=(Use.CLIENT,))
    secrets = control_plane.ControlPlaneSecrets(
        etcd_ca=etcd.certificate, etcd_certificate=member.certificate, etcd_key=member.key,
        store_certificate=client.certificate, store_key=client.key,
        api_ca=keys["api-ca.crt"], api_ca_key=keys["api-ca.key"], api_token_key=keys["service-account.key"],
    )  # fmt: skip
    found = control_plane.files(machine, cluster, secrets, joins=others, interface=new.interface)
    return [each for each in found if each["path"] != _LINK]  # its NIC has a name already


def units(new: NewControlPlane) -> list[dict[str, Any]]:
    return control_plane.units(*_described(new))


def _described(new: NewControlPlane) -> tuple[OneMachine, OneCluster]:
    machine = OneMachine(new.name, f"{new.name}.{new.domain}", new.address, "")
    return machine, OneCluster(new.cluster, new.domain, new.api_vip, (machine,))
