"""CustomResourceDefinition: the kind that adds kinds. Its own rules, and how a definition becomes a `Kind`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from rackless.api.kinds.kind import Column, Kind, Problems, Scale, Version, Writing
from rackless.api.names import label_problem
from rackless.api.schema.jsonpath import compile_path
from rackless.api.schema.values import python_pattern
from rackless.api.status import Cause, Json, invalid_value, required, unsupported
from rackless.api.tables import AGE, NAME, custom_column

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
        return
    names = spec["names"]
    if isinstance(names.get("kind"), str):
        names.setdefault("singular", names["kind"].lower())
        names.setdefault("listKind", names["kind"] + "List")
    spec.setdefault("conversion", {"strategy": "None"})
    if writing.subresource == "status" or not isinstance(spec.get("versions"), list):
        return
    storage = [v.get("name") for v in spec["versions"] if isinstance(v, dict) and v.get("storage")]
    known = ((writing.old or {}).get("status") or {}).get("storedVersions") or []
    stored = list(dict.fromkeys([*known, *storage]))
    old_conditions = ((writing.old or {}).get("status") or {}).get("conditions")
    writing.new["status"] = {
        "conditions": old_conditions
        or [
            {"type": "NamesAccepted", "status": "True", "lastTransitionTime": writing.now,
             "reason": "NoConflicts", "message": "no conflicts found"},
            {"type": "Established", "status": "True", "lastTransitionTime": writing.now,
             "reason": "InitialNamesAccepted", "message": "the initial names have been accepted"},
        ],
        "acceptedNames": dict(names),
        "storedVersions": stored,
    }  # fmt: skip


def _problems(writing: Writing) -> list[Cause]:
    spec = writing.new["spec"]
    names = spec["names"]
    found: list[Cause] = []
    for field in ("plural", "kind"):
        if not names.get(field):
            found.append(required(f"spec.names.{field}"))
    if not spec["group"] or "." not in spec["group"]:
        found.append(invalid_value("spec.group", spec["group"], "should be a domain with at least one dot"))
    if spec["scope"] not in ("Cluster", "Namespaced"):
        found.append(unsupported("spec.scope", spec["scope"], ["Cluster", "Namespaced"]))
    wanted = f"{names.get('plural')}.{spec['group']}"
    if writing.new["metadata"]["name"] != wanted:
        found.append(
            invalid_value("metadata.name", writing.new["metadata"]["name"], 'must be spec.names.plural+"."+spec.group')
        )
    if (spec.get("conversion") or {}).get("strategy", "None") != "None":
        found.append(unsupported("spec.conversion.strategy", spec["conversion"]["strategy"], ["None"]))
    if writing.old and writing.old["spec"]["scope"] != spec["scope"]:
        found.append(invalid_value("spec.scope", spec["scope"], "field is immutable"))
    if sum(bool(v.get("storage")) for v in spec["versions"]) != 1:
        found.append(
            invalid_value(
                "spec.versions", len(spec["versions"]), "must have exactly one version marked as storage version"
            )
        )
    for index, version in enumerate(spec["versions"]):
        found.extend(_version_problems(version, f"spec.versions[{index}]"))
        if not writing.subresource:
            for cause, warning in _rule_problems(version, f"spec.versions[{index}].schema.openAPIV3Schema"):
                found.extend([cause] if cause else [])
                writing.warnings.extend([warning] if warning else [])
    return found


def _rule_problems(version: Json, at: str) -> Iterable[tuple[Cause | None, str]]:
    from rackless.api.schema.rules import rule_problems

    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    return rule_problems(schema, at)


def _version_problems(version: Json, at: str) -> list[Cause]:
    found: list[Cause] = []
    if not version.get("name") or label_problem(version["name"]):
        found.append(invalid_value(f"{at}.name", version.get("name", ""), label_problem(version.get("name") or "")))
    for field in ("served", "storage"):
        version.setdefault(field, False)
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if not isinstance(schema, dict):
        found.append(required(f"{at}.schema.openAPIV3Schema", "schemas are required"))
    else:
        _schema_problems(schema, f"{at}.schema.openAPIV3Schema", found, root=True)
    for number, column in enumerate(version.get("additionalPrinterColumns") or ()):
        where = f"{at}.additionalPrinterColumns[{number}]"
        for field in ("name", "type", "jsonPath"):
            if not column.get(field):
                found.append(required(f"{where}.{field}"))
        if column.get("type") and column["type"] not in ("integer", "number", "string", "boolean", "date"):
            found.append(
                invalid_value(f"{where}.type", column["type"], "must be one of boolean,date,integer,number,string")
            )
        if column.get("jsonPath"):
            try:
                compile_path(column["jsonPath"])
            except ValueError as error:
                found.append(invalid_value(f"{where}.jsonPath", column["jsonPath"], str(error)))
    return found


_TYPES = ("array", "boolean", "integer", "number", "object", "string")


def _schema_problems(schema: Any, at: str, found: list[Cause], *, root: bool = False, depth: int = 0) -> None:
    """Whether a schema is structural; of the rules, those that would make it fail to compile or to mean one thing."""
    if not isinstance(schema, dict):
        found.append(invalid_value(at, str(type(schema).__name__), "must be a schema"))
        return
    if depth > 100:
        found.append(invalid_value(at, "", "is nested too deeply"))
        return
    loose = schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields")
    kind = schema.get("type")
    if kind is None and not loose:
        found.append(
            required(
                f"{at}.type",
                "must not be empty for specified object fields" if not root else "must not be empty at the root",
            )
        )
    elif kind is not None and kind not in _TYPES:
        found.append(unsupported(f"{at}.type", kind, _TYPES))
    elif root and kind != "object":
        found.append(invalid_value(f"{at}.type", kind, "must be object at the root"))
    if isinstance(schema.get("pattern"), str):
        try:
            python_pattern(schema["pattern"])
        except re.error as error:
            found.append(
                invalid_value(
                    f"{at}.pattern", schema["pattern"], f"must be a valid regular expression, but isn't: {error}"
                )
            )
    if schema.get("uniqueItems"):
        found.append(
            Cause(
                f"{at}.uniqueItems",
                "FieldValueForbidden",
                "Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
            )
        )
    if not isinstance(schema.get("required") or [], list) or not isinstance(schema.get("enum") or [], list):
        found.append(invalid_value(at, "", "required and enum must be lists"))
    properties = schema.get("properties") or {}
    if not isinstance(properties, dict):
        found.append(invalid_value(f"{at}.properties", "", "must be a map"))
        return
    for name, each in properties.items():
        _schema_problems(each, f"{at}.properties[{name}]", found, depth=depth + 1)
    if isinstance(schema.get("items"), dict):
        _schema_problems(schema["items"], f"{at}.items", found, depth=depth + 1)
    elif kind == "array":
        found.append(required(f"{at}.items", "must be specified"))
    if isinstance(schema.get("additionalProperties"), dict):
        _schema_problems(schema["additionalProperties"], f"{at}.additionalProperties", found, depth=depth + 1)


def _condition(obj: Json, name: str) -> str:
    for condition in (obj.get("status") or {}).get("conditions") or ():
        if condition.get("type") == name:
            return str(condition.get("status"))
    return "False"


CRD = Kind(
    group=GROUP,
    plural="customresourcedefinitions",
    kind="CustomResourceDefinition",
    namespaced=False,
    short_names=("crd", "crds"),
    categories=("api-extensions",),
    generation=True,
    prepare=_prepare,
    problems=_problems,
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
    """The kind a stored definition describes; `rules` has what code adds to the schemas of some."""
    rules = rules or {}
    spec = definition["spec"]
    names = spec["names"]
    versions = tuple(_version(spec["group"], names, each) for each in spec["versions"])
    selectable = frozenset(
        field["jsonPath"].lstrip(".") for each in spec["versions"] for field in each.get("selectableFields") or ()
    )
    finders = {name: compile_path("." + name) for name in selectable}

    def fields(obj: Any) -> dict[str, str]:
        return {name: _field_text(find(obj)) for name, find in finders.items()}

    return Kind(
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


def _field_text(found: list[Any]) -> str:
    if not found or found[0] is None:
        return ""
    return str(found[0]).lower() if isinstance(found[0], bool) else str(found[0])


def _version(group: str, names: Json, definition: Json) -> Version:
    schema = definition["schema"]["openAPIV3Schema"]
    subresources = definition.get("subresources") or {}
    scale = subresources.get("scale")
    printed = definition.get("additionalPrinterColumns")
    columns = (NAME, *(custom_column(column) for column in printed)) if printed else (NAME, AGE)
    warning = ""
    if definition.get("deprecated"):
        warning = definition.get("deprecationWarning") or f"{group}/{definition['name']} {names['kind']} is deprecated"
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
