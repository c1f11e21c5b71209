"""What makes a node that has joined a control plane: keys from the API, then the files and units of one. Pure.

The keys are in a Secret that only the control plane's nodes may read, with all else that the bootstrap machine has and they will
need: rendered configs and the machine-config server's certificate, and where the payload is. Every control plane signs its own
certificates with them.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rackless.api.access.keys import CLIENTS, NAMED
from rackless.installer.assets.certificates import ADMINS, kubeconfig, shown
from rackless.installer.assets.ignition import control_plane, front, services
from rackless.installer.assets.ignition.machines import OneCluster, OneMachine
from rackless.installer.assets.ignition.parts import file
from rackless.installer.assets.release import FILE as RELEASE_FILE
from rackless.installer.assets.release import PAYLOAD
from rackless.installer.assets.signing import KeyPair, sign
from rackless.spec.address import Ip
from rackless.trust.authority import BOTH_USES, Use

NAMESPACE, KEYS = "kube-system", "control-plane-keys"
KEY_FILES = ("etcd-ca.crt", "etcd-ca.key", "api-ca.crt", "api-ca.key", "service-account.key")
SERVER_CERTIFICATE, SERVER_KEY = SERVER_FILES = ("machine-config-server.crt", "machine-config-server.key")
NAMED_PREFIX, CLIENT_AUTHORITIES = "named.", "api-clients.crt"
"""Of certificates that somebody else has signed for the API's names, and of CAs whose clients it takes; an install of our own has
neither."""
CONFIG_ENDING = ".ign"
"""Of the rendered configs, by role."""
FOLDER = "/etc/rackless"
MACHINE_CONFIGS = f"{FOLDER}/machine-config"
METAL3_KUBECONFIG, RELEASE = f"{FOLDER}/metal3.kubeconfig", f"{FOLDER}/release.json"
METAL3_USER = "system:rackless:metal3"
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
    data = {name: base64.b64encode(text.encode()).decode() for name, text in sorted(keys.items())}
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
    return {name: base64.b64decode(text).decode() for name, text in secret["data"].items()}


def files(new: NewControlPlane, keys: Mapping[str, str]) -> list[dict[str, Any]]:
    """As Ignition would write them: all but `membership`, which is known when etcd takes us."""
    machine, cluster = _described(new)
    etcd = KeyPair(keys["etcd-ca.crt"], keys["etcd-ca.key"])
    names = [str(new.address), "127.0.0.1", "localhost", machine.name, machine.fqdn]
    member, client = sign(etcd, new.name, names, uses=BOTH_USES), sign(etcd, f"api-{new.name}", uses=(Use.CLIENT,))
    secrets = control_plane.ControlPlaneSecrets(
        etcd_ca=etcd.certificate, etcd_certificate=member.certificate, etcd_key=member.key,
        store_certificate=client.certificate, store_key=client.key,
        api_ca=keys["api-ca.crt"], api_ca_key=keys["api-ca.key"], api_token_key=keys["service-account.key"],
    )  # fmt: skip
    found = control_plane.files(machine, cluster, secrets)
    own = [
        each for each in found if each["path"] not in (_LINK, control_plane.ENVIRONMENT)
    ]  # its NIC has a name already
    more = _metal3_files(new, keys) if _has_payload(keys) else ()
    return [*own, *_trust_files(keys), *_server_files(keys), *more]


def membership(new: NewControlPlane, others: str) -> dict[str, Any]:
    """What etcd is told of itself; `others` are the members that are there."""
    return control_plane.membership(*_described(new), others)


def _trust_files(keys: Mapping[str, str]) -> list[dict[str, Any]]:
    owner, pki = control_plane.API_USER, control_plane.PKI
    named = {name.removeprefix(NAMED_PREFIX): text for name, text in keys.items() if name.startswith(NAMED_PREFIX)}
    found = [file(f"{pki}/{NAMED}/{name}", text, mode=0o600, user=owner) for name, text in sorted(named.items())]
    if CLIENT_AUTHORITIES in keys:
        found.append(file(f"{pki}/{CLIENTS}", keys[CLIENT_AUTHORITIES], user=owner))
    return found


def units(new: NewControlPlane, keys: Mapping[str, str]) -> list[dict[str, Any]]:
    """In the order to start them."""
    server = services.machine_config_server(
        MACHINE_CONFIGS, certificate=f"{FOLDER}/{SERVER_CERTIFICATE}", key=f"{FOLDER}/{SERVER_KEY}"
    )
    metal3 = services.metal3(METAL3_KUBECONFIG, new.interface, whole=True)
    return [
        *control_plane.units(*_described(new), interface=new.interface),
        server,
        *([*services.late_payload(RELEASE), metal3] if _has_payload(keys) else []),
    ]


def _has_payload(keys: Mapping[str, str]) -> bool:
    return PAYLOAD in json.loads(keys.get(RELEASE_FILE, "{}"))


def _server_files(keys: Mapping[str, str]) -> list[dict[str, Any]]:
    rendered = sorted(name for name in keys if name.endswith(CONFIG_ENDING))
    return [
        *(file(f"{MACHINE_CONFIGS}/{name}", keys[name], mode=0o600) for name in rendered),
        *(file(f"{FOLDER}/{name}", keys[name], mode=0o600) for name in SERVER_FILES),
    ]


def _metal3_files(new: NewControlPlane, keys: Mapping[str, str]) -> list[dict[str, Any]]:
    """Whoever leads asks the API at its VIP, wherever that is."""
    own = sign(KeyPair(keys["api-ca.crt"], keys["api-ca.key"]), METAL3_USER, uses=(Use.CLIENT,), groups=(ADMINS,))
    vip = f"[{new.api_vip}]" if new.api_vip.version == 6 else str(new.api_vip)
    access = kubeconfig(new.cluster, keys["api-ca.crt"], f"https://{vip}:{front.API_PORT}", "metal3", shown(own))
    return [file(METAL3_KUBECONFIG, access, mode=0o600), file(RELEASE, keys[RELEASE_FILE], mode=0o600)]


def _described(new: NewControlPlane) -> tuple[OneMachine, OneCluster]:
    machine = OneMachine(new.name, f"{new.name}.{new.domain}", new.address, "")
    return machine, OneCluster(new.cluster, new.domain, new.api_vip, (machine,))
