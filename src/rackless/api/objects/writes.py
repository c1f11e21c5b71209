"""What a write means: pure functions from the object that is stored and the request to the object to store.

They decide names, generation, status, finalizers and deletion, and refuse what the real server refuses. They do not
store, wait or speak HTTP; `operations` runs them again when somebody else wrote in between.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from rackless.api import status
from rackless.api.kinds.kind import Caller, Kind, Version, Writing
from rackless.api.names import generated, immutable_problems, metadata_problems, name_required
from rackless.api.schema.metadata import walk_metadata
from rackless.api.schema.structural import WalkReport, finished
from rackless.api.status import Cause, Json, bad_request

FieldValidation = Literal["Strict", "Warn", "Ignore"]


@dataclass(slots=True)
class Context:
    """The circumstances of one write; `warnings` become Warning headers."""

    caller: Caller
    now: str
    validation: FieldValidation = "Warn"
    warnings: list[str] = field(default_factory=list)
    duplicates: list[str] = field(default_factory=list)
    guard: Callable[[Kind, Writing], None] | None = None
    manager: str = "unknown"
    weight: int = 0
    """How many bytes the request brought: heavy ones are worked on in a thread."""


@dataclass(frozen=True, slots=True)
class WriteOutcome:
    """The object after a write. `removed` says that it is gone with it."""

    obj: Json
    removed: bool = False


def create(kind: Kind, version: Version, body: Json, namespace: str, context: Context) -> Json:
    """A new object; its name is settled, everything the server owns is the server's."""
    report = WalkReport()
    metadata = _own_metadata(kind, version, body, namespace, report)
    if metadata.get("resourceVersion"):
        raise bad_request("resourceVersion should not be set on objects to be created")
    if not metadata.get("name"):
        if not metadata.get("generateName"):
            raise status.invalid(kind.kind, kind.group, "", [name_required()])
        metadata["name"] = generated(metadata["generateName"])
    for gone in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "resourceVersion"):
        metadata.pop(gone, None)
    metadata["uid"] = str(uuid.uuid4())
    metadata["creationTimestamp"] = context.now
    metadata.pop("generation", None)
    if kind.generation:
        metadata["generation"] = 1
    if version.status:
        body.pop("status", None)
    obj: Json = {"apiVersion": kind.api_version(version.name), "kind": kind.kind, "metadata": metadata}
    obj.update((key, value) for key, value in body.items() if key not in obj)
    writing = Writing(obj, None, context.caller, context.now, warnings=context.warnings)
    _shape(kind, version, writing, context, report)
    causes = []
    if problem := kind.name_problem(metadata["name"]):
        causes.append(status.invalid_value("metadata.name", metadata["name"], problem))
    _validate(kind, version, writing, causes, context)
    return obj


def replace(
    kind: Kind,
    version: Version,
    old: Json,
    body: Json,
    namespace: str,
    subresource: str,
    context: Context,
    *,
    patched: bool = False,
) -> WriteOutcome:
    """An update, or (`patched`) a patch already applied, which need not name a resource version. `body` is used up."""
    report = WalkReport()
    metadata = _own_metadata(kind, version, body, namespace, report)
    before = old["metadata"]
    _meets(kind, before, metadata, patched or kind.unconditional_update)
    for owned in ("creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds", "uid"):
        metadata.pop(owned, None)
        if owned in before:
            metadata[owned] = before[owned]
    metadata.pop("selfLink", None)
    metadata["resourceVersion"] = before["resourceVersion"]
    obj: Json = {"apiVersion": kind.api_version(version.name), "kind": kind.kind, "metadata": metadata}
    if subresource in ("status", "approval"):
        managed = metadata.get("managedFields")
        metadata = obj["metadata"] = dict(before)
        if managed:
            metadata["managedFields"] = managed
        obj.update((key, value) for key, value in old.items() if key not in obj and key != "status")
        if "status" in body:
            obj["status"] = body["status"]
    elif version.status:
        obj.update((key, value) for key, value in body.items() if key not in obj and key != "status")
        if "status" in old:
            obj["status"] = old["status"]
    else:
        obj.update((key, value) for key, value in body.items() if key not in obj)
    writing = Writing(obj, old, context.caller, context.now, subresource, context.warnings)
    _shape(kind, version, writing, context, report)
    causes = immutable_problems(before, metadata)
    _validate(kind, version, writing, causes, context)
    if kind.generation and _wanted(obj, version) != _wanted(old, version):
        metadata["generation"] = before.get("generation", 0) + 1
    removed = "deletionTimestamp" in metadata and not metadata.get("finalizers") and _releasable(obj)
    return WriteOutcome(obj, removed)


def retire(
    kind: Kind,
    old: Json,
    context: Context,
    *,
    propagation: str = "",
    grace: int | None = None,
    preconditions: Json | None = None,
) -> WriteOutcome:
    """A deletion: gone at once, or marked when finalizers hold it. `orphan` and foreground put their finalizer on."""
    metadata = old["metadata"]
    if metadata["name"] in kind.immortal:
        raise status.forbidden(kind.plural, kind.group, metadata["name"], "this namespace may not be deleted")
    wanted = preconditions or {}
    for field_name, word, value in (
        ("uid", "UID", metadata["uid"]),
        ("resourceVersion", "ResourceVersion", metadata["resourceVersion"]),
    ):
        if wanted.get(field_name) not in (None, value):
            why = f"Precondition failed: {word} in precondition: {wanted[field_name]}, {word} in object meta: {value}"
            raise status.conflict(kind.plural, kind.group, metadata["name"], why)
    obj = {**old, "metadata": dict(metadata)}
    finalizers = [f for f in metadata.get("finalizers") or () if f not in ("orphan", "foregroundDeletion")]
    if propagation == "Orphan":
        finalizers.append("orphan")
    elif propagation == "Foreground":
        finalizers.append("foregroundDeletion")
    elif not propagation:
        finalizers = list(metadata.get("finalizers") or ())
    if finalizers:
        obj["metadata"]["finalizers"] = finalizers
    else:
        obj["metadata"].pop("finalizers", None)
    if not finalizers and _releasable(obj):
        return WriteOutcome(obj, removed=True)
    if "deletionTimestamp" not in metadata:
        obj["metadata"]["deletionTimestamp"] = context.now
        obj["metadata"]["deletionGracePeriodSeconds"] = grace or 0
        if kind.generation and "generation" in metadata:
            obj["metadata"]["generation"] = metadata["generation"] + 1
        if obj["kind"] == "Namespace":
            obj["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}
    return WriteOutcome(obj)


def unchanged(old: Json, new: Json) -> bool:
    """Whether writing would change nothing; then nothing is written, as the real server does."""
    return old == new


def _releasable(obj: Json) -> bool:
    """A namespace also has finalizers in its spec: it goes when its content is gone."""
    return obj["kind"] != "Namespace" or not (obj.get("spec") or {}).get("finalizers")


def _wanted(obj: Json, version: Version) -> Json:
    """What `generation` counts: everything but metadata and, where it is a subresource, status."""
    left_out = ("metadata", "status", "apiVersion") if version.status else ("metadata", "apiVersion")
    return {key: value for key, value in obj.items() if key not in left_out}


def _own_metadata(kind: Kind, version: Version, body: Any, namespace: str, report: WalkReport) -> Json:
    """The body's metadata as a dict of its own, with the namespace of the request; refuses bodies of another kind."""
    if not isinstance(body, dict):
        raise bad_request("the object provided is unrecognized (must be an object)")
    wanted = kind.api_version(version.name)
    found, found_kind = body.get("apiVersion"), body.get("kind")
    if kind.custom and not found_kind:
        raise bad_request(f"Object 'Kind' is missing in '{status.shown(body)[:512]}'")
    if kind.custom and not found:
        raise bad_request(f"Object 'apiVersion' is missing in '{status.shown(body)[:512]}'")
    if found and found != wanted:
        raise bad_request(f"the API version in the data ({found}) does not match the expected API version ({wanted})")
    if found_kind and found_kind != kind.kind:
        raise bad_request(
            f"the object provided is unrecognized (must be of type {kind.kind}): the kind in the data ({found_kind}) "
            f"does not match the expected kind ({kind.kind})"
        )
    metadata = body.get("metadata")
    if metadata is None:
        metadata = {}
    metadata = dict(metadata) if isinstance(metadata, dict) else metadata
    walk_metadata(metadata, report)
    if report.causes:
        raise bad_request(
            f'{kind.kind} in version "{version.name}" cannot be handled as a {kind.kind}: json: cannot unmarshal: '
            + ", ".join(map(str, finished(report.causes)))
        )
    if kind.namespaced:
        if metadata.get("namespace") not in (None, "", namespace):
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        metadata["namespace"] = namespace
    elif metadata.get("namespace"):
        metadata.pop("namespace")
    return metadata


def _meets(kind: Kind, before: Json, metadata: Json, unconditional: bool) -> None:
    """Optimistic concurrency: the version and the identity the writer has seen must be the stored ones."""
    name = before["name"]
    seen = metadata.get("resourceVersion")
    if seen in (None, "", "0"):
        if not unconditional:
            message = "Invalid value: 0x0: must be specified for an update"
            raise status.invalid(
                kind.kind, kind.group, name, [Cause("metadata.resourceVersion", "FieldValueInvalid", message)]
            )
    elif not str(seen).isdigit():
        cause = status.invalid_value("metadata.resourceVersion", seen, "must be a number")
        raise status.invalid(kind.kind, kind.group, name, [cause])
    elif seen != before["resourceVersion"]:
        raise status.conflict(kind.plural, kind.group, name)
    if metadata.get("uid") not in (None, "", before["uid"]):
        why = f"Precondition failed: UID in precondition: {metadata['uid']}, UID in object meta: {before['uid']}"
        raise status.conflict(kind.plural, kind.group, name, why)


def _shape(kind: Kind, version: Version, writing: Writing, context: Context, report: WalkReport) -> None:
    """Prune, default, and check the shape; unknown fields refuse, warn or pass, as the client asked."""
    version.walk(writing.new, report)
    problems = [f'unknown field "{name}"' for name in report.unknown]
    problems += [f'duplicate field "{name}"' for name in context.duplicates]
    if problems and context.validation == "Strict":
        raise bad_request(
            f'{kind.kind} in version "{version.name}" cannot be handled as a {kind.kind}: strict decoding error: '
            + ", ".join(problems)
        )
    if problems and context.validation == "Warn":
        context.warnings.extend(problems)
    if report.causes:  # what is not of its shape is nothing for the kind's own rules
        name = writing.new["metadata"].get("name", "")
        raise status.invalid(kind.kind, kind.group, str(name), finished(report.causes))
    if kind.prepare:
        kind.prepare(writing)


def _validate(kind: Kind, version: Version, writing: Writing, causes: list[Cause], context: Context) -> None:
    causes.extend(metadata_problems(writing.new["metadata"]))
    if kind.custom and version.rules:
        causes.extend(version.rules(writing.new, writing.old))
    if kind.problems:
        causes.extend(kind.problems(writing))
    if causes:
        raise status.invalid(kind.kind, kind.group, writing.new["metadata"]["name"], causes)
    if context.guard:
        context.guard(kind, writing)
