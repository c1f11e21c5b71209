"""CustomResourceDefinition: the kind that adds kinds. Its own rules, and how a definition becomes a `Kind`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rackless.api.kinds.definition_rules import definition_problems
from rackless.api.kinds.kind import Column, Kind, Problems, Scale, Version, Writing
from rackless.api.kinds.tables import AGE, NAME, custom_column
from rackless.api.schema.jsonpath import compile_path
from rackless.api.schema.keywords import cleaned, keyword_problems
from rackless.api.status import Cause, Json

GROUP = "apiextensions.k8s.io"
CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
_ANY = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_TEXT = {"type": "string"}
_TEXTS = {"type": "array", "items": _TEXT, "nullable": True}
_NAMES: Json = {
    "type": "object",
    "properties": {
        "plural": _TEXT, "singular": _TEXT, "kind": _TEXT, "listKind": _TEXT, "shortNames": _TEXTS,
        "categories": _TEXTS,
    },
}  # fmt: skip
SCHEMA: Json = {
    "type": "object",
    "description": "CustomResourceDefinition represents a resource that should be exposed on the API server.",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "group": _TEXT,
                "scope": _TEXT,
                "names": _NAMES,
                "preserveUnknownFields": {"type": "boolean"},
                "conversion": _ANY,
                "versions": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "name": _TEXT,
                            "served": {"type": "boolean"},
                            "storage": {"type": "boolean"},
                            "deprecated": {"type": "boolean"},
                            "deprecationWarning": _TEXT,
                            "schema": {"type": "object", "properties": {"openAPIV3Schema": _ANY}},
                            "subresources": {
                                "type": "object",
                                "nullable": True,
                                "properties": {
                                    "status": {**_ANY, "nullable": True},
                                    "scale": {
                                        "type": "object",
                                        "nullable": True,
                                        "properties": {
                                            "specReplicasPath": _TEXT,
                                            "statusReplicasPath": _TEXT,
                                            "labelSelectorPath": _TEXT,
                                        },
                                    },
                                },
                            },
                            "additionalPrinterColumns": {
                                "type": "array",
                                "nullable": True,
                                "items": {
                                    "type": "object",
                                    "properties": {
                                        "name": _TEXT, "type": _TEXT, "format": _TEXT, "description": _TEXT,
                                        "priority": {"type": "integer"}, "jsonPath": _TEXT,
                                    },
                                },
                            },
                            "selectableFields": {
                                "type": "array",
                                "nullable": True,
                                "items": {"type": "object", "properties": {"jsonPath": _TEXT}},
                            },
                        },
                    },
                },
            },
            "required": ["group", "names", "scope", "versions"],
        },
        "status": {
            "type": "object",
            "properties": {
                "conditions": {
                    "type": "array",
                    "nullable": True,
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["type"],
                    "items": _ANY,
                },
                "acceptedNames": _NAMES,
                "storedVersions": _TEXTS,
            },
        },
    },
    "required": ["spec"],
}  # fmt: skip


def _prepare(writing: Writing) -> None:
    """Names that can be derived are; a new definition is established at once: there is no other server to wait for.

    A finalizer of ours is always there, so that the objects of a definition can go before it.
    """
    metadata = writing.new["metadata"]
    if "deletionTimestamp" not in metadata and CLEANUP not in metadata.get("finalizers", ()):
        metadata["finalizers"] = [*metadata.get("finalizers", ()), CLEANUP]
    spec = writing.new.get("spec")
    if not isinstance(spec, dict) or not isinstance(spec.get("names"), dict):
        return  # what is not even of its shape is refused next
    names = spec["names"]
    if isinstance(names.get("kind"), str):
        for field, derived in (("singular", names["kind"].lower()), ("listKind", names["kind"] + "List")):
            if not names.get(field):
                names[field] = derived
    spec.setdefault("conversion", {"strategy": "None"})
    versions = spec.get("versions")
    if not isinstance(versions, list) or not all(isinstance(version, dict) for version in versions):
        return
    for index, version in enumerate(versions):
        _prepare_version(version, f"spec.versions[{index}].schema.openAPIV3Schema", writing.warnings)
    if writing.subresource != "status":
        _accept(writing, names, [v["name"] for v in versions if v["storage"] and isinstance(v.get("name"), str)])


def _prepare_version(version: Json, at: str, warnings: list[str]) -> None:
    for field in ("served", "storage"):
        version.setdefault(field, False)
    outer = version.get("schema")
    if isinstance(outer, dict):
        unknown: list[str] = []
        outer["openAPIV3Schema"] = cleaned(outer.get("openAPIV3Schema"), at, unknown)
        warnings.extend(f'unknown field "{name}"' for name in unknown)


def _accept(writing: Writing, names: Json, storage: list[str]) -> None:
    before = (writing.old or {}).get("status") or {}
    writing.new["status"] = {
        "conditions": before.get("conditions")
        or [
            {"type": "NamesAccepted", "status": "True", "lastTransitionTime": writing.now,
             "reason": "NoConflicts", "message": "no conflicts found"},
            {"type": "Established", "status": "True", "lastTransitionTime": writing.now,
             "reason": "InitialNamesAccepted", "message": "the initial names have been accepted"},
        ],
        "acceptedNames": dict(names),
        "storedVersions": list(dict.fromkeys([*(before.get("storedVersions") or []), *storage])),
    }  # fmt: skip


def problems(writing: Writing) -> list[Cause]:
    """What is wrong with a definition in itself."""
    found = list(definition_problems(writing))
    if not found and not writing.subresource and (writing.old or {}).get("spec") != writing.new["spec"]:
        for index, version in enumerate(writing.new["spec"]["versions"]):
            for cause, warning in _rule_problems(version, f"spec.versions[{index}].schema.openAPIV3Schema"):
                found.extend([cause] if cause else [])
                writing.warnings.extend([warning] if warning else [])
    return found


def _rule_problems(version: Json, at: str) -> Iterable[tuple[Cause | None, str]]:
    from rackless.api.schema.rules import rule_problems

    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    return rule_problems(schema, at)


CRD = Kind(
    group=GROUP,
    plural="customresourcedefinitions",
    kind="CustomResourceDefinition",
    namespaced=False,
    short_names=("crd", "crds"),
    categories=("api-extensions",),
    generation=True,
    prepare=_prepare,
    problems=problems,
    versions=(
        Version(
            "v1",
            SCHEMA,
            status=True,
            columns=(
                NAME,
                Column(
                    "Created At", lambda obj: obj["metadata"]["creationTimestamp"], "date", description=AGE.description
                ),
            ),
        ),
    ),
)


def kind_of(definition: Json, rules: Mapping[str, Problems] | None = None) -> Kind:
    """The kind a stored definition describes; `rules` has what code adds to the schemas of some.

    Raises ValueError when it describes none: what is stored may have been written by an earlier program.
    """
    try:
        return _kind_of(definition, rules or {})
    except (KeyError, TypeError, AttributeError, StopIteration) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error


def _kind_of(definition: Json, rules: Mapping[str, Problems]) -> Kind:
    spec = definition["spec"]
    names = spec["names"]
    versions = tuple(_version(spec["group"], names, each) for each in spec["versions"])
    selectable = frozenset(
        field["jsonPath"].lstrip(".") for each in spec["versions"] for field in each.get("selectableFields") or ()
    )
    finders = {name: compile_path("." + name) for name in selectable}

    def fields(obj: Any) -> dict[str, str]:
        return {name: _field_text(find(obj)) for name, find in finders.items()}

    found = Kind(
        group=spec["group"],
        plural=names["plural"],
        kind=names["kind"],
        singular=names["singular"],
        list_kind=names["listKind"],
        namespaced=spec["scope"] == "Namespaced",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        custom=True,
        generation=True,
        versions=versions,
        field_names=selectable,
        fields=fields if selectable else None,
        problems=rules.get(f"{names['plural']}.{spec['group']}"),
    )
    if definition["metadata"]["name"] != f"{found.plural}.{found.group}":
        raise ValueError("its name is not that of its plural and group")
    if sum(version.storage for version in versions) != 1:
        raise ValueError("it has not exactly one stored version")
    return found


def _field_text(found: list[Any]) -> str:
    if not found or found[0] is None:
        return ""
    return str(found[0]).lower() if isinstance(found[0], bool) else str(found[0])


def _version(group: str, names: Json, definition: Json) -> Version:
    schema = definition["schema"]["openAPIV3Schema"]
    for problem in keyword_problems(schema, "openAPIV3Schema"):
        raise ValueError(str(problem))
    subresources = definition.get("subresources") or {}
    scale = subresources.get("scale")
    printed = definition.get("additionalPrinterColumns")
    columns = (NAME, *(custom_column(column) for column in printed)) if printed else (NAME, AGE)
    warning = ""
    if definition.get("deprecated"):
        warning = definition.get("deprecationWarning") or f"{group}/{definition['name']} {names['kind']} is deprecated"
        warning = "".join(letter for letter in warning if letter.isprintable())  # it becomes part of a header
    return Version(
        definition["name"],
        schema,
        columns,
        served=definition["served"],
        storage=definition["storage"],
        status=subresources.get("status") is not None,
        warning=warning,
        scale=Scale(
            _path(scale["specReplicasPath"]),
            _path(scale["statusReplicasPath"]),
            _path(scale["labelSelectorPath"]) if scale.get("labelSelectorPath") else None,
        )
        if scale
        else None,
    )


def _path(text: str) -> tuple[str, ...]:
    return tuple(text.strip(".").split("."))
