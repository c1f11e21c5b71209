"""Manifests about who is believed: the root that new machines believe, and what lets a node join."""

from __future__ import annotations

from rackless.installer.assets.asset import Asset, Given, Parts, as_is
from rackless.installer.assets.certificates import MACHINE_CONFIG_SERVER, NODE_TOKEN, ROOT_CA, NodeToken
from rackless.installer.assets.documents import render
from rackless.installer.assets.install_config import INSTALL_CONFIG
from rackless.installer.assets.manifests.checking import mistakes
from rackless.installer.assets.manifests.objects import MACHINE_CONFIG, Json, config_map, secret, thing
from rackless.installer.assets.names import NAMES

_ACCESS = "manifests/node-bootstrapper-access.yaml"
_RBAC = "rbac.authorization.k8s.io"
BOOTSTRAPPERS = "system:bootstrappers:nodes"
"""The group of whoever shows the token: API servers take extra groups of a token only if they begin with `system:bootstrappers:`.
One token is for all nodes, so it is none of the groups that stand for one node; which node may ask is decided by its Machine."""


def _make_trust(given: Given) -> Parts:
    root, server = given.of(ROOT_CA), given.of(MACHINE_CONFIG_SERVER)
    names = given.of(NAMES)
    shown = {"auth.openshift.io/certificate-hostnames": ",".join([*names.api_vips, names.api_internal])}
    made = {
        "kube-system-configmap-root-ca.yaml": config_map("root-ca", "kube-system", {"ca.crt": root.certificate}),
        "machine-config-server-ca-configmap.yaml": config_map(
            "machine-config-server-ca", MACHINE_CONFIG, {"ca-bundle.crt": root.certificate}
        ),
        "machine-config-server-tls-secret.yaml": secret(
            "machine-config-server-tls", MACHINE_CONFIG, {"tls.crt": server.certificate, "tls.key": server.key},
            type="kubernetes.io/tls", annotations=shown,
        ),
    }  # fmt: skip
    return {f"manifests/{file}": render(each) for file, each in made.items()}


TRUST_MANIFESTS = Asset(
    "trust-manifests", "Trust Manifests", _make_trust, as_is, (ROOT_CA, MACHINE_CONFIG_SERVER, NAMES),
    files=("manifests/kube-system-configmap-root-ca.yaml", "manifests/machine-config-server-*.yaml"), check=mistakes,
)  # fmt: skip


def _make_access(given: Given) -> Parts:
    return {_ACCESS: render(*access_objects(given.of(NODE_TOKEN)))}


def access_objects(token: NodeToken) -> list[Json]:
    """A token, and what its holder may do: ask for a certificate, and wait for it."""
    invitation = {
        "token-id": token.id,
        "token-secret": token.secret,
        "usage-bootstrap-authentication": "true",
        "auth-extra-groups": BOOTSTRAPPERS,
    }
    binding = thing(
        f"{_RBAC}/v1", "ClusterRoleBinding", "system-bootstrap-node-bootstrapper",
        roleRef={"apiGroup": _RBAC, "kind": "ClusterRole", "name": "system:node-bootstrapper"},
        subjects=[{"apiGroup": _RBAC, "kind": "Group", "name": BOOTSTRAPPERS}],
    )  # fmt: skip
    invited = secret(f"bootstrap-token-{token.id}", "kube-system", invitation, type="bootstrap.kubernetes.io/token")
    return [binding, invited]


ACCESS_MANIFESTS = Asset(
    "access-manifests", "Node Bootstrapper Access", _make_access, as_is, (NODE_TOKEN,), files=(_ACCESS,), check=mistakes
)


def _make_fencing(given: Given) -> Parts:
    """With two control planes, each must be able to switch off the other."""
    found = given.of(INSTALL_CONFIG).control_plane.credentials
    return {
        f"openshift/99_openshift-etcd_fencing-credentials-secrets-{number}.yaml": render(
            secret(
                f"fencing-credentials-{one.host_name or one.mac.lower().replace(':', '-')}",
                "openshift-etcd",
                {
                    "address": one.address,
                    "certificateVerification": one.certificate_verification,
                    "password": one.password,
                    "username": one.username,
                },
                annotations={"openshift.io/fencing-credentials": "hostname" if one.host_name else "macaddress"},
            )
        )
        for number, one in enumerate(found)
    }


FENCING_MANIFESTS = Asset(
    "fencing-manifests", "Fencing Credentials", _make_fencing, as_is, (INSTALL_CONFIG,),
    files=("openshift/99_openshift-etcd_fencing-credentials-secrets-*.yaml",), check=mistakes,
)  # fmt: skip
