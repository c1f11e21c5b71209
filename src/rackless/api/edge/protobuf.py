"""Kubernetes' protobuf bodies of built-in kinds, read: typed Go clients, kubectl among them, write nothing else.

Only reading: such clients accept JSON in return. Each message is a line of `number:name:type`; a type is a scalar,
another message, `[]` before a repeated one, `{}` before the values of a map; `?` ends what may be present and empty.
"""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from functools import cache
from typing import Any

from rackless.api.status import Json, bad_request, unsupported_media_type
from rackless.api.wire import parts

MEDIA = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"

_MESSAGES = {
    "Meta": "1:name:s 2:generateName:s 3:namespace:s 5:uid:s 6:resourceVersion:s 7:generation:i "
    "8:creationTimestamp:Time "
    "9:deletionTimestamp:Time 10:deletionGracePeriodSeconds:i 11:labels:{}s 12:annotations:{}s "
    "13:ownerReferences:[]Owner "
    "14:finalizers:[]s 17:managedFields:[]Managed",
    "Owner": "1:kind:s 3:name:s 4:uid:s 5:apiVersion:s 6:controller:b? 7:blockOwnerDeletion:b?",
    "Managed": "1:manager:s 2:operation:s 3:apiVersion:s 4:time:Time 6:fieldsType:s 7:fieldsV1:Raw 8:subresource:s",
    "Reference": "1:kind:s 2:namespace:s 3:name:s 4:uid:s 5:apiVersion:s 6:resourceVersion:s 7:fieldPath:s",
    "v1/Namespace": "1:metadata:Meta 2:spec:NamespaceSpec 3:status:NamespaceStatus",
    "NamespaceSpec": "1:finalizers:[]s",
    "NamespaceStatus": "1:phase:s 2:conditions:[]NamespaceCondition",
    "NamespaceCondition": "1:type:s 2:status:s 4:lastTransitionTime:Time 5:reason:s 6:message:s",
    "v1/Secret": "1:metadata:Meta 2:data:{}x 3:type:s 4:stringData:{}s 5:immutable:b?",
    "v1/ConfigMap": "1:metadata:Meta 2:data:{}s 3:binaryData:{}x 4:immutable:b?",
    "v1/ServiceAccount": "1:metadata:Meta 2:secrets:[]Reference 3:imagePullSecrets:[]Named "
    "4:automountServiceAccountToken:b?",
    "Named": "1:name:s",
    "v1/Event": "1:metadata:Meta 2:involvedObject:Reference 3:reason:s 4:message:s 5:source:Source "
    "6:firstTimestamp:Time "
    "7:lastTimestamp:Time 8:count:i 9:type:s 10:eventTime:Micro 11:series:Series 12:action:s 13:related:Reference "
    "14:reportingComponent:s 15:reportingInstance:s",
    "Source": "1:component:s 2:host:s",
    "Series": "1:count:i 2:lastObservedTime:Micro",
    "events.k8s.io/v1/Event": "1:metadata:Meta 2:eventTime:Micro 3:series:Series 4:reportingController:s "
    "5:reportingInstance:s 6:action:s 7:reason:s 8:regarding:Reference 9:related:Reference 10:note:s 11:type:s "
    "12:deprecatedSource:Source 13:deprecatedFirstTimestamp:Time 14:deprecatedLastTimestamp:Time 15:deprecatedCount:i",
    "coordination.k8s.io/v1/Lease": "1:metadata:Meta 2:spec:LeaseSpec",
    "LeaseSpec": "1:holderIdentity:s? 2:leaseDurationSeconds:i? 3:acquireTime:Micro 4:renewTime:Micro "
    "5:leaseTransitions:i? 6:strategy:s 7:preferredHolder:s",
    "v1/Node": "1:metadata:Meta 2:spec:NodeSpec 3:status:NodeStatus",
    "NodeSpec": "1:podCIDR:s 2:externalID:s 3:providerID:s 4:unschedulable:b 5:taints:[]Taint 7:podCIDRs:[]s",
    "Taint": "1:key:s 2:value:s 3:effect:s 4:timeAdded:Time",
    "NodeStatus": "1:capacity:{}Quantity 2:allocatable:{}Quantity 3:phase:s 4:conditions:[]NodeCondition "
    "5:addresses:[]NodeAddress 6:daemonEndpoints:Daemons 7:nodeInfo:NodeInfo 8:images:[]NodeImage 9:volumesInUse:[]s",
    "NodeCondition": "1:type:s 2:status:s 3:lastHeartbeatTime:Time 4:lastTransitionTime:Time 5:reason:s 6:message:s",
    "NodeAddress": "1:type:s 2:address:s",
    "Daemons": "1:kubeletEndpoint:Daemon",
    "Daemon": "1:Port:i?",
    "NodeInfo": "1:machineID:s 2:systemUUID:s 3:bootID:s 4:kernelVersion:s 5:osImage:s 6:containerRuntimeVersion:s "
    "7:kubeletVersion:s 8:kubeProxyVersion:s 9:operatingSystem:s 10:architecture:s",
    "NodeImage": "1:names:[]s 2:sizeBytes:i",
    "rbac.authorization.k8s.io/v1/Role": "1:metadata:Meta 2:rules:[]Rule",
    "rbac.authorization.k8s.io/v1/ClusterRole": "1:metadata:Meta 2:rules:[]Rule",
    "Rule": "1:verbs:[]s 2:apiGroups:[]s? 3:resources:[]s 4:resourceNames:[]s 5:nonResourceURLs:[]s",
    "rbac.authorization.k8s.io/v1/RoleBinding": "1:metadata:Meta 2:subjects:[]Subject 3:roleRef:RoleRef",
    "rbac.authorization.k8s.io/v1/ClusterRoleBinding": "1:metadata:Meta 2:subjects:[]Subject 3:roleRef:RoleRef",
    "Subject": "1:kind:s 2:apiGroup:s 3:name:s 4:namespace:s",
    "RoleRef": "1:apiGroup:s 2:kind:s 3:name:s",
    "certificates.k8s.io/v1/CertificateSigningRequest": "1:metadata:Meta 2:spec:RequestSpec 3:status:RequestStatus",
    "RequestSpec": "1:request:x 2:username:s 3:uid:s 4:groups:[]s 5:usages:[]s 6:extra:{}Extra 7:signerName:s "
    "8:expirationSeconds:i",
    "RequestStatus": "1:conditions:[]RequestCondition 2:certificate:x",
    "RequestCondition": "1:type:s 2:reason:s 3:message:s 4:lastUpdateTime:Time 5:lastTransitionTime:Time 6:status:s",
    "authorization.k8s.io/v1/SelfSubjectAccessReview": "1:metadata:Meta 2:spec:AccessSpec",
    "authorization.k8s.io/v1/SubjectAccessReview": "1:metadata:Meta 2:spec:AccessSpec",
    "authorization.k8s.io/v1/LocalSubjectAccessReview": "1:metadata:Meta 2:spec:AccessSpec",
    "AccessSpec": "1:resourceAttributes:ResourceAttributes 2:nonResourceAttributes:PathAttributes 3:user:s "
    "4:groups:[]s "
    "5:extra:{}Extra 6:uid:s",
    "ResourceAttributes": "1:namespace:s 2:verb:s 3:group:s 4:version:s 5:resource:s 6:subresource:s 7:name:s",
    "PathAttributes": "1:path:s 2:verb:s",
    "authorization.k8s.io/v1/SelfSubjectRulesReview": "1:metadata:Meta 2:spec:RulesSpec",
    "RulesSpec": "1:namespace:s",
    "authentication.k8s.io/v1/TokenReview": "1:metadata:Meta 2:spec:TokenSpec",
    "TokenSpec": "1:token:s 2:audiences:[]s",
    "authentication.k8s.io/v1/SelfSubjectReview": "1:metadata:Meta",
    "authentication.k8s.io/v1/TokenRequest": "1:metadata:Meta 2:spec:TokenRequestSpec",
    "TokenRequestSpec": "1:audiences:[]s 4:expirationSeconds:i",
    "autoscaling/v1/Scale": "1:metadata:Meta 2:spec:ScaleSpec",
    "ScaleSpec": "1:replicas:i?",
    "DeleteOptions": "1:gracePeriodSeconds:i? 2:preconditions:Preconditions 3:orphanDependents:b? "
    "4:propagationPolicy:s "
    "5:dryRun:[]s",
    "Preconditions": "1:uid:s 2:resourceVersion:s",
    "Unknown": "1:typeMeta:TypeMeta 2:raw:y 3:contentEncoding:s 4:contentType:s",
    "TypeMeta": "1:apiVersion:s 2:kind:s",
}  # fmt: skip


@cache
def _fields(message: str) -> dict[int, tuple[str, str, str, bool]]:
    """number → (name, how many, type, kept when empty)."""
    found = {}
    for line in _MESSAGES[message].split():
        number, name, kind = line.split(":")
        many = kind[:2] if kind[:2] in ("[]", "{}") else ""
        found[int(number)] = (name, many, kind.removeprefix(many).rstrip("?"), kind.endswith("?"))
    return found


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _stamp(data: bytes, micro: bool) -> str | None:
    values = {number: value for number, value in parts(data) if isinstance(value, int)}
    if not values:
        return None
    try:
        moment = datetime.fromtimestamp(_signed(values.get(1, 0)), UTC)
    except (OverflowError, OSError) as error:
        raise ValueError("a time is out of range") from error
    text = moment.strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{values.get(2, 0) // 1000:06d}Z" if micro else f"{text}Z"


def _value(kind: str, value: int | bytes, depth: int) -> Any:
    if kind in ("i", "b"):
        if not isinstance(value, int):
            raise ValueError("a number was expected")
        return bool(value) if kind == "b" else _signed(value)
    if not isinstance(value, bytes):
        raise ValueError("bytes were expected")
    match kind:
        case "s":
            return value.decode()
        case "x":
            return base64.b64encode(value).decode()
        case "y":
            return value
        case "Time" | "Micro":
            return _stamp(value, kind == "Micro")
        case "Quantity":
            return next((v.decode() for n, v in parts(value) if n == 1 and isinstance(v, bytes)), "0")
        case "Extra":
            return [v.decode() for n, v in parts(value) if n == 1 and isinstance(v, bytes)]
        case "Raw":
            from rackless.api.encoding import decode

            raw = next((v for n, v in parts(value) if n == 1 and isinstance(v, bytes)), b"{}")
            return decode(raw)
    return _message(kind, value, depth + 1)


def _message(name: str, data: bytes, depth: int = 0) -> Json:
    if depth > 20:
        raise ValueError("nested too deeply")
    found: Json = {}
    fields = _fields(name)
    for number, value in parts(data):
        if number not in fields:
            continue
        field, many, kind, kept = fields[number]
        if many == "[]":
            found.setdefault(field, []).append(_value(kind, value, depth))
        elif many == "{}":
            pair = dict(parts(value)) if isinstance(value, bytes) else {}
            key, inner = pair.get(1, b""), pair.get(2, b"")
            found.setdefault(field, {})[_value("s", key, depth)] = _value(kind, inner, depth)
        else:
            decoded = _value(kind, value, depth)
            if kept or decoded not in (None, "", 0, False, {}):
                found[field] = decoded
    return found


def parse(raw: bytes) -> Json:
    """The object of a body in Kubernetes' envelope."""
    if not raw.startswith(_MAGIC):
        raise bad_request("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    try:
        envelope = _message("Unknown", raw[4:])
        meta = envelope.get("typeMeta") or {}
        name = f"{meta.get('apiVersion', '')}/{meta.get('kind', '')}"
        if meta.get("kind") == "DeleteOptions":
            name = "DeleteOptions"
        if name not in _MESSAGES or ("/" not in name and name != "DeleteOptions"):
            raise unsupported_media_type(("application/json", "application/yaml"))
        return {**meta, **_message(name, envelope.get("raw", b""))}
    except (ValueError, RecursionError) as error:
        raise bad_request(f"the protobuf body cannot be read: {error}") from error
