"""What may be called what: names, labels, annotations, owner references, with the real server's sentences."""

from __future__ import annotations

import re
import secrets
from typing import Any

from rackless.api.status import Cause, Json, forbidden_field, invalid_value, required

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_QUALIFIED = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = f"({_QUALIFIED})?"
_is_label = re.compile(_LABEL).fullmatch
_is_subdomain = re.compile(_SUBDOMAIN).fullmatch
_is_qualified = re.compile(_QUALIFIED).fullmatch
_is_value = re.compile(_VALUE).fullmatch

_ANNOTATIONS_LIMIT = 256 * 1024
_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"


def subdomain_problem(name: str) -> str:
    if len(name) > 253:
        return "must be no more than 253 bytes"
    if _is_subdomain(name):
        return ""
    return (
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and "
        "must start and "
        "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
        rf"'{_LABEL}(\.{_LABEL})*')"
    )


def label_problem(name: str) -> str:
    if len(name) > 63:
        return "must be no more than 63 bytes"
    if _is_label(name):
        return ""
    return (
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start "
        "and end with "
        f"an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '{_LABEL}')"
    )


def path_segment_problem(name: str) -> str:
    if name in (".", ".."):
        return f"may not be '{name}'"
    for forbidden in ("/", "%"):
        if forbidden in name:
            return f"may not contain '{forbidden}'"
    return ""


def label_key_problem(key: str) -> str:
    prefix, slash, name = key.rpartition("/")
    if slash and not prefix:
        return "prefix part must be non-empty"
    if prefix and (problem := subdomain_problem(prefix)):
        return f"prefix part {problem}"
    if not name:
        return "name part must be non-empty"
    if len(name) > 63:
        return "name part must be no more than 63 bytes"
    if not _is_qualified(name):
        return (
            "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with "
            "an alphanumeric "
            "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
            "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
        )
    return ""


def label_value_problem(value: str) -> str:
    if len(value) > 63:
        return "must be no more than 63 bytes"
    if _is_value(value):
        return ""
    return (
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and "
        "must start and "
        "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
        "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
    )


def generated(prefix: str) -> str:
    """`generateName` plus five letters no one can make a word of."""
    return prefix[:58] + "".join(secrets.choice(_SUFFIX_LETTERS) for _ in range(5))


def metadata_problems(metadata: Json) -> list[Cause]:
    """What is wrong with labels, annotations, finalizers and owner references; the name is the kind's business."""
    found: list[Cause] = []
    labels: dict[str, str] = metadata.get("labels") or {}
    for key, value in labels.items():
        if problem := label_key_problem(key):
            found.append(invalid_value("metadata.labels", key, problem))
        if problem := label_value_problem(value):
            found.append(invalid_value("metadata.labels", value, problem))
    annotations: dict[str, str] = metadata.get("annotations") or {}
    size = 0
    for key, value in annotations.items():
        size += len(key) + len(value)
        if problem := label_key_problem(key.lower()):
            found.append(invalid_value("metadata.annotations", key, problem))
    if size > _ANNOTATIONS_LIMIT:
        found.append(
            Cause(
                "metadata.annotations",
                "FieldValueTooLong",
                f"Too long: may not be more than {_ANNOTATIONS_LIMIT} bytes",
            )
        )
    for index, finalizer in enumerate(metadata.get("finalizers") or ()):
        if problem := label_key_problem(finalizer):
            found.append(invalid_value(f"metadata.finalizers[{index}]", finalizer, problem))
    found.extend(_owner_problems(metadata.get("ownerReferences") or []))
    return found


def _owner_problems(owners: list[Any]) -> list[Cause]:
    found: list[Cause] = []
    controllers = []
    for index, owner in enumerate(owners):
        at = f"metadata.ownerReferences[{index}]"
        for field in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(field):
                if field in ("apiVersion", "kind"):
                    found.append(invalid_value(f"{at}.{field}", "", "must not be empty"))
                else:
                    found.append(invalid_value(f"{at}.{field}", "", "must not be empty"))
        if owner.get("controller"):
            controllers.append(owner)
    if len(controllers) > 1:
        names = " and ".join(str(owner.get("name")) for owner in controllers[:2])
        found.append(
            invalid_value(
                "metadata.ownerReferences",
                owners,
                f'Only one reference can have Controller set to true. Found "true" in references for {names}',
            )
        )
    return found


def immutable_problems(old: Json, new: Json) -> list[Cause]:
    """What an update may not change; both are metadata."""
    found: list[Cause] = []
    for field in ("name", "namespace", "uid", "creationTimestamp"):
        if new.get(field, "") != old.get(field, ""):
            found.append(invalid_value(f"metadata.{field}", new.get(field, ""), "field is immutable"))
    if old.get("deletionTimestamp"):
        before = set(old.get("finalizers") or ())
        for finalizer in new.get("finalizers") or ():
            if finalizer not in before:
                found.append(
                    forbidden_field(
                        "metadata.finalizers",
                        "no new finalizers can be added if the object is being deleted, found new finalizers "
                        f'[]string{{"{finalizer}"}}',
                    )
                )
    return found


def name_required() -> Cause:
    return required("metadata.name", "name or generateName is required")
