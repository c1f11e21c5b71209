"""What a node may do: a kubelet with a certificate `system:node:NAME` works on its own Node, its own Lease and its own
certificates, and on nothing of the other nodes.

Both halves of the real server: the node authorizer (`allows`), which stands beside RBAC, and the admission called
NodeRestriction (`check_request`, `check_write`), which holds whatever else the node was granted.
"""

from __future__ import annotations

from rackless.api import status
from rackless.api.access.attributes import Attributes
from rackless.api.access.signing import NODE_SIGNERS, common_name
from rackless.api.kinds.access import LEASE
from rackless.api.kinds.certificates import CERTIFICATE_REQUEST
from rackless.api.kinds.core import NODE, SERVICE_ACCOUNT
from rackless.api.kinds.kind import Caller, Kind, Writing
from rackless.api.status import Json

GROUP, PREFIX = "system:nodes", "system:node:"
LEASES = "kube-node-lease"
_READ = ("get", "list", "watch")
_RULES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("", "nodes", ("create", "patch", "update")),
    ("", "nodes/status", ("patch", "update")),
    ("", "events", ("create", "patch", "update")),
    ("events.k8s.io", "events", ("create", "patch", "update")),
    ("", "pods", _READ),
    ("", "services", _READ),
    ("certificates.k8s.io", "certificatesigningrequests", ("create", *_READ)),
    ("authentication.k8s.io", "tokenreviews", ("create",)),
    ("authorization.k8s.io", "subjectaccessreviews", ("create",)),
    ("authorization.k8s.io", "localsubjectaccessreviews", ("create",)),
)
_OWN_LABELS = frozenset((
    "kubernetes.io/hostname", "kubernetes.io/arch", "kubernetes.io/os", "beta.kubernetes.io/arch", "beta.kubernetes.io/os",
    "beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type", "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region", "failure-domain.beta.kubernetes.io/zone",
))  # fmt: skip
_OWN_PREFIXES = (".kubelet.kubernetes.io", ".node.kubernetes.io")
_RESERVED, _PROJECT = ".node-restriction.kubernetes.io", (".kubernetes.io", ".k8s.io")


def node_of(caller: Caller) -> str | None:
    """The name of the node that asks; None when it is no node that asks."""
    if GROUP not in caller.groups or not caller.name.startswith(PREFIX):
        return None
    return caller.name.removeprefix(PREFIX)


def allows(caller: Caller, asked: Attributes) -> bool:
    """What every node may do, for the sake of what a kubelet does."""
    node = node_of(caller)
    if not node or asked.path:
        return False
    if (asked.group, asked.resource, asked.subresource) == ("", "nodes", "") and asked.verb in _READ:
        return asked.name == node
    if (asked.group, asked.resource, asked.subresource) == (LEASE.group, LEASE.plural, ""):
        own = asked.verb == "create" or (asked.verb in ("get", "update", "patch", "delete") and asked.name == node)
        return own and asked.namespace == LEASES
    return (asked.group, asked.full) in _ALLOWED and asked.verb in _ALLOWED[asked.group, asked.full]


_ALLOWED = {(group, resource): verbs for group, resource, verbs in _RULES}


def check_request(caller: Caller, asked: Attributes) -> None:
    """Refuse what a node asks of another one's objects, before it is known what they are."""
    node = node_of(caller)
    if node is None:
        return
    if (asked.group, asked.resource) == ("", "nodes") and asked.verb in (
        "update",
        "patch",
        "delete",
        "deletecollection",
    ):
        _own_node(node, asked.name)
    if (asked.group, asked.resource) == (LEASE.group, LEASE.plural):
        if asked.verb in ("create", "update", "patch", "delete", "deletecollection"):
            _own_lease(node, asked.namespace, node if asked.verb == "create" else asked.name)
    if (asked.group, asked.resource, asked.subresource) == ("", SERVICE_ACCOUNT.plural, "token"):
        raise _forbidden(SERVICE_ACCOUNT, asked.name, f'node "{node}" requested a token not bound to a pod')


def check_write(kind: Kind, writing: Writing) -> None:
    """Refuse an object that a node may not write so."""
    node = node_of(writing.caller)
    if node is None:
        return
    if not node:
        raise _forbidden(kind, writing.new["metadata"]["name"], "could not determine node from user")
    if kind is NODE:
        _own_node(node, writing.new["metadata"]["name"])
        _node(node, writing)
    elif kind is LEASE:
        _own_lease(node, writing.new["metadata"].get("namespace", ""), writing.new["metadata"]["name"])
    elif kind is CERTIFICATE_REQUEST and writing.old is None:
        spec = writing.new["spec"]
        if spec.get("signerName") in NODE_SIGNERS and common_name(spec["request"]) != writing.caller.name:
            why = f"can only create a node CSR with CN={writing.caller.name}"
            raise _forbidden(kind, writing.new["metadata"]["name"], why)


def _own_node(node: str, name: str) -> None:
    if name != node:
        raise _forbidden(NODE, name, f'node "{node}" is not allowed to modify node "{name}"')


def _own_lease(node: str, namespace: str, name: str) -> None:
    if namespace != LEASES:
        raise _forbidden(LEASE, name, f'can only access leases in the "{LEASES}" system namespace')
    if name != node:
        raise _forbidden(LEASE, name, "can only access node lease with the same name as the requesting node")


def _node(node: str, writing: Writing) -> None:
    new, old = writing.new, writing.old
    changed = _forbidden_labels(_labels(new), _labels(old or {}))
    if changed:
        verb = "set the following labels" if old is None else "modify labels"
        raise _forbidden(NODE, node, f'node "{node}" is not allowed to {verb}: {", ".join(sorted(changed))}')
    if old is None:
        return
    if (new.get("spec") or {}).get("taints") != (old.get("spec") or {}).get("taints"):
        raise _forbidden(NODE, node, f'node "{node}" is not allowed to modify taints')
    if new["metadata"].get("ownerReferences") != old["metadata"].get("ownerReferences"):
        raise _forbidden(NODE, node, f'node "{node}" is not allowed to modify ownerReferences')


def _labels(node: Json) -> dict[str, str]:
    return (node.get("metadata") or {}).get("labels") or {}


def _forbidden_labels(new: dict[str, str], old: dict[str, str]) -> set[str]:
    return {key for key in {*new, *old} if new.get(key) != old.get(key) and not _own_label(key)}


def _own_label(key: str) -> bool:
    """Whether a kubelet may set a label. The project's labels are not its own, but for those that say what it runs on."""
    prefix, slash, _ = key.rpartition("/")
    domain = "." + prefix
    if not slash:
        return True
    if domain.endswith(_RESERVED):
        return False
    return key in _OWN_LABELS or domain.endswith(_OWN_PREFIXES) or not domain.endswith(_PROJECT)


def _forbidden(kind: Kind, name: str, why: str) -> status.RequestRefused:
    return status.forbidden(kind.plural, kind.group, name, why)
