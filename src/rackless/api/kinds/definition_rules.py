"""What a CustomResourceDefinition must say of itself: the checks of the real server, with its sentences.

Pure functions of the definition. What it may not be called because somebody else is called so is asked by the registry,
which knows the others. Whatever passes here becomes a kind (`custom.kind_of`) that can be served.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from rackless.api.kinds.kind import Writing
from rackless.api.names import subdomain_problem
from rackless.api.schema.declared import declared_problems
from rackless.api.schema.jsonpath import compile_path
from rackless.api.schema.keywords import keyword_problems
from rackless.api.status import Cause, Json, duplicate, forbidden_field, invalid_value, required, unsupported

APPROVED = "api-approved.kubernetes.io"
_PROTECTED = f'protected groups must have approval annotation "{APPROVED}"'
_APPROVAL = "https://github.com/kubernetes/enhancements/pull/1111"
_MOST_SELECTABLE = 8
_LONGEST_WARNING = 256
_COLUMN_TYPES = ("integer", "number", "string", "boolean", "date")
_COLUMN_FORMATS = ("int32", "int64", "float", "double", "byte", "date", "date-time", "password")
_NAME = r"[A-Za-z_][-A-Za-z0-9_]*"
_is_label = re.compile("[a-z]([-a-z0-9]*[a-z0-9])?").fullmatch
_is_field_path = re.compile(rf"(\.{_NAME})+").fullmatch
_NO_LABEL = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and "
    "end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)


def definition_problems(writing: Writing) -> Iterator[Cause]:
    """Everything that is wrong with a definition; nothing is asked again of one whose spec did not change."""
    new, old = writing.new, writing.old
    if old is not None and old.get("spec") == new.get("spec"):
        return
    spec: Json = new["spec"]
    if new["metadata"]["name"] != f"{spec['names'].get('plural')}.{spec['group']}":
        yield invalid_value("metadata.name", new["metadata"]["name"], 'must be spec.names.plural+"."+spec.group')
    yield from _group(spec["group"])
    yield from _approval(spec["group"], new["metadata"])
    yield from _names(spec["names"])
    if spec["scope"] not in ("Cluster", "Namespaced"):
        yield unsupported("spec.scope", spec["scope"], ["Cluster", "Namespaced"])
    yield from _conversion(spec)
    yield from _versions(spec["versions"])
    if old is not None:
        yield from _changes(old, new)


def _group(group: str) -> Iterator[Cause]:
    if not group:
        yield required("spec.group")
    elif problem := subdomain_problem(group):
        yield invalid_value("spec.group", group, problem)
    elif "." not in group:
        yield invalid_value("spec.group", group, "should be a domain with at least one dot")


def _approval(group: str, metadata: Json) -> Iterator[Cause]:
    """Groups of the project itself are for what it approved, or for who says in the open that it did not."""
    if not ("." + group).endswith((".k8s.io", ".kubernetes.io")):
        return
    value = (metadata.get("annotations") or {}).get(APPROVED)
    at = f"metadata.annotations[{APPROVED}]"
    if not value:
        yield required(at, f"{_PROTECTED}, see {_APPROVAL}")
    elif not value.startswith("unapproved") and not _is_url(value):
        why = f'{_PROTECTED} with either a URL or a reason starting with "unapproved", see {_APPROVAL}'
        yield invalid_value(at, value, why)


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.scheme and parts.netloc)


def _label(at: str, text: Any, *, mixed: bool = False) -> Iterator[Cause]:
    if not isinstance(text, str) or not text:
        yield required(at)
    elif len(text) > 63:
        yield invalid_value(at, text, "must be no more than 63 bytes")
    elif not _is_label(text.lower() if mixed else text):
        why = "may have mixed case, but should otherwise match: " if mixed else ""
        yield invalid_value(at, text, why + _NO_LABEL)


def _names(names: Json) -> Iterator[Cause]:
    for field in ("plural", "singular"):
        yield from _label(f"spec.names.{field}", names.get(field))
    for field in ("kind", "listKind"):
        yield from _label(f"spec.names.{field}", names.get(field), mixed=True)
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        yield invalid_value("spec.names.listKind", names["listKind"], "kind and listKind may not be the same")
    for field in ("shortNames", "categories"):
        for index, each in enumerate(names.get(field) or ()):
            yield from _label(f"spec.names.{field}[{index}]", each)


def _conversion(spec: Json) -> Iterator[Cause]:
    if spec.get("preserveUnknownFields"):
        why = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        yield invalid_value("spec.preserveUnknownFields", True, why)
    conversion = spec.get("conversion") or {}
    if conversion.get("strategy", "None") != "None":
        yield unsupported("spec.conversion.strategy", conversion["strategy"], ["None"])
    elif conversion.get("webhook"):
        yield forbidden_field("spec.conversion.webhook", "should not be set when strategy is not set to Webhook")


def _versions(versions: list[Json]) -> Iterator[Cause]:
    names = [version.get("name") for version in versions]
    if len(set(names)) != len(names):
        yield invalid_value("spec.versions", names, "must contain unique version names")
    if sum(bool(version.get("storage")) for version in versions) != 1:
        yield invalid_value("spec.versions", names, "must have exactly one version marked as storage version")
    for index, version in enumerate(versions):
        yield from _version(version, f"spec.versions[{index}]")


def _version(version: Json, at: str) -> Iterator[Cause]:
    yield from _label(f"{at}.name", version.get("name"))
    yield from _deprecation(version, at)
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if not isinstance(schema, dict):
        yield required(f"{at}.schema.openAPIV3Schema", "schemas are required")
        schema = {}
    else:
        malformed = list(keyword_problems(schema, f"{at}.schema.openAPIV3Schema"))
        yield from malformed or declared_problems(schema, f"{at}.schema.openAPIV3Schema")
        schema = {} if malformed else schema
    yield from _scale((version.get("subresources") or {}).get("scale"), f"{at}.subresources.scale")
    yield from _columns(version.get("additionalPrinterColumns") or [], f"{at}.additionalPrinterColumns")
    yield from _selectable(version.get("selectableFields") or [], schema, f"{at}.selectableFields")


def _deprecation(version: Json, at: str) -> Iterator[Cause]:
    """The warning becomes part of a header."""
    warning = version.get("deprecationWarning")
    if warning is None:
        return
    if not version.get("deprecated"):
        yield invalid_value(f"{at}.deprecationWarning", warning, "can only be set for deprecated versions")
    if not warning:
        yield invalid_value(f"{at}.deprecationWarning", warning, "must not be an empty string")
    if len(warning.encode(errors="replace")) > _LONGEST_WARNING:
        yield invalid_value(f"{at}.deprecationWarning", warning, f"must be <= {_LONGEST_WARNING} characters in length")
    if not warning.isprintable():
        place = next(index for index, letter in enumerate(warning) if not letter.isprintable())
        why = f"must only contain printable UTF-8 characters; non-printable character found at index {place}"
        yield invalid_value(f"{at}.deprecationWarning", warning, why)


def _scale(scale: Json | None, at: str) -> Iterator[Cause]:
    if scale is None:
        return
    for field, roots in (
        ("specReplicasPath", (".spec",)), ("statusReplicasPath", (".status",)), ("labelSelectorPath", (".spec", ".status"))
    ):  # fmt: skip
        path = scale.get(field)
        if not path:
            if field != "labelSelectorPath":
                yield required(f"{at}.{field}")
            continue
        if not path.startswith("."):
            yield invalid_value(f"{at}.{field}", path, "must be a simple json path starting with .")
        elif not _is_field_path(path):
            yield invalid_value(f"{at}.{field}", path, "must be a json path in the dot notation")
        elif not path.startswith(tuple(root + "." for root in roots)):
            where = roots[0] if len(roots) == 1 else f"either {' or '.join(roots)}"
            yield invalid_value(f"{at}.{field}", path, f"should be a json path under {where}")


def _columns(columns: list[Json], at: str) -> Iterator[Cause]:
    for index, column in enumerate(columns):
        where = f"{at}[{index}]"
        for field in ("name", "type", "jsonPath"):
            if not column.get(field):
                yield required(f"{where}.{field}")
        if column.get("type") and column["type"] not in _COLUMN_TYPES:
            yield invalid_value(f"{where}.type", column["type"], f"must be one of {','.join(_COLUMN_TYPES)}")
        if column.get("format") and column["format"] not in _COLUMN_FORMATS:
            yield invalid_value(f"{where}.format", column["format"], f"must be one of {','.join(_COLUMN_FORMATS)}")
        if not -(2**31) <= (column.get("priority") or 0) < 2**31:
            yield invalid_value(f"{where}.priority", column["priority"], "must be of type int32")
        path = column.get("jsonPath")
        if path and not path.startswith("."):
            yield invalid_value(f"{where}.jsonPath", path, "must be a simple json path starting with .")
        elif path:
            try:
                compile_path(path)
            except ValueError as error:
                yield invalid_value(f"{where}.jsonPath", path, str(error))


def _selectable(fields: list[Json], schema: Json, at: str) -> Iterator[Cause]:
    if len(fields) > _MOST_SELECTABLE:
        message = f"Too many: {len(fields)}: must have at most {_MOST_SELECTABLE} items"
        yield Cause(at, "FieldValueTooMany", message)
    seen: set[str] = set()
    for index, field in enumerate(fields):
        where, path = f"{at}[{index}].jsonPath", field.get("jsonPath")
        if not path:
            yield required(where)
        elif not path.startswith("."):
            yield invalid_value(where, path, "must be a simple json path starting with .")
        elif not _is_field_path(path):
            yield invalid_value(where, path, "is an invalid path: only names of fields may follow the dots")
        elif path in seen:
            yield duplicate(where, path)
        elif path == ".metadata" or path.startswith(".metadata."):
            yield invalid_value(where, path, "must not point to fields in metadata")
        elif _type_at(schema, path) not in ("string", "integer", "boolean"):
            why = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are "
            yield invalid_value(where, path, why + "allowed.")
        seen.add(path or "")


def _type_at(schema: Json, path: str) -> str:
    for name in path[1:].split("."):
        schema = (schema.get("properties") or {}).get(name) or {}
    return str(schema.get("type", ""))


def _changes(old: Json, new: Json) -> Iterator[Cause]:
    before, after = old["spec"], new["spec"]
    for path, was, now in (
        ("scope", before.get("scope"), after.get("scope")),
        ("group", before.get("group"), after.get("group")),
        ("names.kind", before["names"].get("kind"), after["names"].get("kind")),
        ("names.plural", before["names"].get("plural"), after["names"].get("plural")),
    ):
        if was != now:
            yield invalid_value(f"spec.{path}", now, "field is immutable")
    names = {version.get("name") for version in after["versions"]}
    for index, stored in enumerate((old.get("status") or {}).get("storedVersions") or ()):
        if stored not in names:
            yield invalid_value(f"status.storedVersions[{index}]", stored, "must appear in spec.versions")
