"""Label selectors as they stand in records. Operators in any case, and those of host selectors besides Kubernetes' four. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

Selector = Mapping[str, Any]
"""`{matchLabels: {…}, matchExpressions: [{key, operator, values}]}`."""


class BadSelector(ValueError):
    """A selector with an unknown operator or a wrong shape."""


def _number(text: str | None) -> int:
    try:
        return int(text or "")
    except ValueError as error:
        raise BadSelector(f"{text!r} is not a whole number") from error


def _one(values: Sequence[str]) -> str:
    if len(values) != 1:
        raise BadSelector(f"one value is needed, not {len(values)}")
    return values[0]


OPERATORS: Mapping[str, Callable[[str | None, Sequence[str]], bool]] = {
    "in": lambda value, values: value is not None and value in values,
    "notin": lambda value, values: value is None or value not in values,
    "exists": lambda value, values: value is not None,
    "doesnotexist": lambda value, values: value is None,
    "!": lambda value, values: value is None,
    "=": lambda value, values: value == _one(values),
    "==": lambda value, values: value == _one(values),
    "!=": lambda value, values: value != _one(values),
    "gt": lambda value, values: value is not None and value.isdigit() and int(value) > _number(_one(values)),
    "lt": lambda value, values: value is not None and value.isdigit() and int(value) < _number(_one(values)),
}
"""A label's value, None where there is none, and the values of the expression."""


def check(selector: Selector) -> None:
    """Raises BadSelector, whatever labels there will be."""
    for expression in selector.get("matchExpressions") or ():
        if not expression.get("key"):
            raise BadSelector("an expression without a key")
        if (operator := str(expression.get("operator") or "").lower()) not in OPERATORS:
            raise BadSelector(f"{expression['key']}: operator {operator!r} is unknown")


def mismatch(selector: Selector, labels: Mapping[str, str]) -> str:
    """Which part of the selector these labels do not match; empty when they match. Raises BadSelector."""
    check(selector)
    for key, wanted in (selector.get("matchLabels") or {}).items():
        if labels.get(key) != wanted:
            return f"label {key} is not {wanted or 'empty'}"
    for expression in selector.get("matchExpressions") or ():
        key, values = expression["key"], [str(value) for value in expression.get("values") or ()]
        operator = str(expression["operator"]).lower()
        if not OPERATORS[operator](labels.get(key), values):
            return f"not {_words(key, operator, values)}"
    return ""


def matches(selector: Selector, labels: Mapping[str, str]) -> bool:
    return not mismatch(selector, labels)


def empty(selector: Selector) -> bool:
    return not (selector.get("matchLabels") or selector.get("matchExpressions"))


def text(selector: Selector) -> str:
    """As `kubectl -l` takes it."""
    parts = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for expression in selector.get("matchExpressions") or ():
        values = [str(value) for value in expression.get("values") or ()]
        parts.append(_words(expression.get("key") or "", str(expression.get("operator") or "").lower(), values))
    return ",".join(parts)


def _words(key: str, operator: str, values: Sequence[str]) -> str:
    match operator:
        case "exists":
            return key
        case "doesnotexist" | "!":
            return f"!{key}"
        case "in" | "notin":
            return f"{key} {operator} ({','.join(values)})"
        case "gt" | "lt":
            return f"{key} {'>' if operator == 'gt' else '<'} {','.join(values)}"
    return f"{key}{operator}{','.join(values)}"
