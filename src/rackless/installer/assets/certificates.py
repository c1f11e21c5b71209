"""CAs, certificates and tokens of a cluster. Each is made once and kept.

Three root CAs that do not trust each other: a certificate of etcd's gives full access to etcd, a client certificate of the API's
is accepted by the API, and the machine-config server's CA is given to new machines.
"""

from __future__ import annotations

import json
import secrets
import string
from dataclasses import dataclass, field
from typing import Any

from rackless.installer.assets.asset import Asset, Given, Parts, as_is, only
from rackless.installer.assets.documents import encoded
from rackless.installer.assets.names import NAMES
from rackless.installer.assets.signing import OPTIONS, KeyPair, make_authority, make_token_key, read_pair, sign
from rackless.trust.authority import BOTH_USES, Use

ADMIN, ADMINS = "system:admin", "system:masters"
KUBECONFIG = "auth/kubeconfig"
BOOTSTRAP = "bootstrap"
"""The name of the bootstrap machine, and of its member of etcd."""


def _authority(name: str, title: str, called: str) -> Asset[KeyPair]:
    return Asset(name, title, lambda given: make_authority(called).parts, read_pair, options=OPTIONS, chance=True)


ROOT_CA = _authority("root-ca", "Root CA", "root-ca")
ETCD_CA = _authority("etcd-ca", "etcd CA", "etcd-signer")
API_CA = _authority("api-ca", "API CA", "kube-apiserver-signer")

TOKEN_KEY = Asset("token-key", "Service Account Key", lambda given: {"key": make_token_key()}, only, chance=True)


def _make_server(given: Given) -> Parts:
    names = given.of(NAMES)
    hosts = [*names.api_vips, names.api_internal]
    return sign(given.of(ROOT_CA), "machine-config-server", hosts, uses=(Use.SERVER,)).parts


MACHINE_CONFIG_SERVER = Asset(
    "machine-config-server", "Machine Config Server Certificate", _make_server, read_pair, (ROOT_CA, NAMES),
    options=OPTIONS, chance=True,
)  # fmt: skip


def _make_member(given: Given) -> Parts:
    names = given.of(NAMES)
    hosts = ["127.0.0.1", "localhost", BOOTSTRAP, f"{BOOTSTRAP}.{names.domain}"]
    return sign(given.of(ETCD_CA), BOOTSTRAP, hosts, uses=BOTH_USES).parts


ETCD_MEMBER = Asset(
    "etcd-member",
    "Bootstrap's etcd Certificate",
    _make_member,
    read_pair,
    (ETCD_CA, NAMES),
    options=OPTIONS,
    chance=True,
)
ETCD_CLIENT = Asset(
    "etcd-client", "API's etcd Certificate",
    lambda given: sign(given.of(ETCD_CA), f"api-{BOOTSTRAP}", uses=(Use.CLIENT,)).parts, read_pair, (ETCD_CA,),
    options=OPTIONS, chance=True,
)  # fmt: skip
ADMIN_CERTIFICATE = Asset(
    "admin-certificate", "Administrator's Certificate",
    lambda given: sign(given.of(API_CA), ADMIN, uses=(Use.CLIENT,), groups=(ADMINS,)).parts, read_pair, (API_CA,),
    options=OPTIONS, chance=True,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class NodeToken:
    """The bootstrap token with which a new node asks for its first certificate, and for nothing else."""

    id: str
    secret: str = field(repr=False)


def _make_node_token(given: Given) -> Parts:
    letters = string.ascii_lowercase + string.digits
    return {name: "".join(secrets.choice(letters) for _ in range(size)) for name, size in (("id", 6), ("secret", 16))}


NODE_TOKEN = Asset(
    "node-token", "Node Bootstrap Token", _make_node_token, lambda parts: NodeToken(parts["id"], parts["secret"]),
    chance=True,
)  # fmt: skip


def kubeconfig(called: str, ca: str, server: str, user: str, credentials: dict[str, str]) -> str:
    """JSON, which is YAML: a node's agent reads it without a parser for the rest."""
    cluster = {"server": server, "certificate-authority-data": encoded(ca)}
    config: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": called, "cluster": cluster}],
        "users": [{"name": user, "user": credentials}],
        "contexts": [{"name": user, "context": {"cluster": called, "user": user}}],
        "current-context": user,
    }
    return json.dumps(config, indent=2) + "\n"


def _make_kubeconfig(given: Given) -> Parts:
    names, ca = given.of(NAMES), given.of(API_CA).certificate
    return {KUBECONFIG: kubeconfig(names.cluster, ca, names.api_url, "admin", shown(given.of(ADMIN_CERTIFICATE)))}


def shown(pair: KeyPair) -> dict[str, str]:
    """The `user` entry of a kubeconfig, with certificate and key."""
    return {"client-certificate-data": encoded(pair.certificate), "client-key-data": encoded(pair.key)}


ADMIN_KUBECONFIG = Asset(
    "admin-kubeconfig", "Administrator's Kubeconfig", _make_kubeconfig, as_is, (NAMES, API_CA, ADMIN_CERTIFICATE),
    files=(KUBECONFIG,),
)  # fmt: skip
