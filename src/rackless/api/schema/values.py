"""Checks of single values: enums, ranges, patterns, formats and the logical combinations of schemas."""

from __future__ import annotations

import base64
import binascii
import logging
import re
from collections.abc import Callable
from datetime import datetime
from ipaddress import ip_address, ip_network
from typing import Any
from uuid import UUID

import re2

from rackless.api.status import Cause, Json, invalid_value, unsupported

log = logging.getLogger(__name__)

Check = Callable[[Any, list[Cause]], None]


def _body(value: Any, rest: str) -> Cause:
    """A sentence that repeats the path; `\\0` stands where the whole path will be known."""
    cause = invalid_value("", value, "")
    return Cause("", cause.reason, f"{cause.message}\0 in body {rest}")


def _enum(allowed: list[Any]) -> Check:
    def check(value: Any, out: list[Cause]) -> None:
        if value not in allowed:
            out.append(unsupported("", value, allowed))

    return check


_LONGEST_PATTERN = 10_000


class PatternUnknown(ValueError):
    """A pattern that is no regular expression of Go's: with look-around or back-references, say."""


def compile_pattern(pattern: str) -> Any:
    """A pattern in the engine that Go's is, too: the time it takes grows with the text, whatever the pattern.

    Raises PatternUnknown.
    """
    if len(pattern) > _LONGEST_PATTERN:
        raise PatternUnknown(f"longer than {_LONGEST_PATTERN} characters")
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options=options)
    except re2.error as error:
        why = error.args[0] if error.args else error
        raise PatternUnknown(why.decode(errors="replace") if isinstance(why, bytes) else str(why)) from None


def _pattern(pattern: str) -> Check:
    try:
        search = compile_pattern(pattern).search
    except PatternUnknown as error:  # kept by an earlier release: nothing fits a pattern that nobody can read
        log.warning("the pattern %r of a stored definition is not understood: %s", pattern[:200], error)
        return lambda value, out: out.append(_body(value, f"should match '{pattern}'")) if type(value) is str else None

    def check(value: Any, out: list[Cause]) -> None:
        if isinstance(value, str) and not search(value):
            out.append(_body(value, f"should match '{pattern}'"))

    return check


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _range(schema: Json) -> list[Check]:
    checks: list[Check] = []
    if (low := schema.get("minimum")) is not None:
        strict_low = bool(schema.get("exclusiveMinimum"))

        def above(value: Any, out: list[Cause]) -> None:
            if _number(value) and (value < low or (strict_low and value == low)):
                out.append(_body(value, f"should be greater than {'' if strict_low else 'or equal to '}{low}"))

        checks.append(above)
    if (high := schema.get("maximum")) is not None:
        strict_high = bool(schema.get("exclusiveMaximum"))

        def below(value: Any, out: list[Cause]) -> None:
            if _number(value) and (value > high or (strict_high and value == high)):
                out.append(_body(value, f"should be less than {'' if strict_high else 'or equal to '}{high}"))

        checks.append(below)
    if (factor := schema.get("multipleOf")) is not None:

        def multiple(value: Any, out: list[Cause]) -> None:
            if _number(value) and value % factor:
                out.append(_body(value, f"should be a multiple of {factor}"))

        checks.append(multiple)
    return checks


def _sizes(schema: Json) -> list[Check]:
    checks: list[Check] = []

    def sized(keyword: str, kind: type, problem: Callable[[Any, int], Cause | None]) -> None:
        limit = schema.get(keyword)
        if limit is None:
            return

        def check(value: Any, out: list[Cause]) -> None:
            if type(value) is kind and (cause := problem(value, limit)):
                out.append(cause)

        checks.append(check)

    sized("minLength", str, lambda v, n: _body(v, f"should be at least {n} chars long") if len(v) < n else None)
    sized("maxLength", str, lambda v, n: _too_long(n) if len(v) > n else None)
    sized("minItems", list, lambda v, n: _body(len(v), f"should have at least {n} items") if len(v) < n else None)
    sized("maxItems", list, lambda v, n: _too_many(len(v), n) if len(v) > n else None)
    sized(
        "minProperties",
        dict,
        lambda v, n: _body(len(v), f"should have at least {n} properties") if len(v) < n else None,
    )
    sized("maxProperties", dict, lambda v, n: _too_many(len(v), n) if len(v) > n else None)
    return checks


def _too_long(limit: int) -> Cause:
    return Cause("", "FieldValueTooLong", f"Too long: may not be more than {limit} bytes")


def _too_many(count: int, limit: int) -> Cause:
    return Cause("", "FieldValueTooMany", f"Too many: {count}: must have at most {limit} items")


_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")


def _date_time(value: str) -> None:
    if not _DATE_TIME.fullmatch(value):
        raise ValueError(value)
    datetime.fromisoformat(re.sub(r"\.\d+", "", value.upper()).replace("Z", "+00:00"))


def _date(value: str) -> None:
    datetime.strptime(value, "%Y-%m-%d")


def _byte(value: str) -> None:
    base64.b64decode(value, validate=True)


def _mac(value: str) -> None:
    if not re.fullmatch(r"[0-9a-fA-F]{2}([:-][0-9a-fA-F]{2}){5}", value):
        raise ValueError(value)


def _ipv4(value: str) -> None:
    if ip_address(value).version != 4:
        raise ValueError(value)


def _ipv6(value: str) -> None:
    if ip_address(value).version != 6:
        raise ValueError(value)


def _duration(value: str) -> None:
    if not re.fullmatch(r"[+-]?(\d+(\.\d+)?(ns|us|µs|ms|s|m|h))+|0", value):
        raise ValueError(value)


_FORMATS: dict[str, Callable[[str], object]] = {
    "date-time": _date_time,
    "date": _date,
    "byte": _byte,
    "mac": _mac,
    "ipv4": _ipv4,
    "ipv6": _ipv6,
    "cidr": ip_network,
    "uuid": UUID,
    "duration": _duration,
}
_WHOLE_RANGES = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}


def _format(name: str) -> list[Check]:
    if name in _WHOLE_RANGES:
        low, high = _WHOLE_RANGES[name]

        def whole(value: Any, out: list[Cause]) -> None:
            if _number(value) and not low <= value <= high:  # 1e15 is a whole number, too
                out.append(_body(value, f"must be of type {name}: {value}"))

        return [whole]
    parse = _FORMATS.get(name)
    if parse is None:
        return []

    def check(value: Any, out: list[Cause]) -> None:
        if type(value) is str:
            try:
                parse(value)
            except (ValueError, binascii.Error):
                out.append(_body(value, f'must be of type {name}: "{value}"'))

    return [check]


def _logic(schema: Json, fits: Callable[[Json], Callable[[Any], bool]]) -> list[Check]:
    checks: list[Check] = []

    def counted(keyword: str, good: Callable[[int, int], bool], sentence: str) -> None:
        parts = [fits(part) for part in schema.get(keyword) or ()]
        if not parts:
            return

        def check(value: Any, out: list[Cause]) -> None:
            if not good(sum(part(value) for part in parts), len(parts)):
                out.append(_body(value, sentence))

        checks.append(check)

    if not schema.get("x-kubernetes-int-or-string"):
        counted("anyOf", lambda n, _: n > 0, "must validate at least one schema (anyOf)")
    counted("oneOf", lambda n, _: n == 1, "must validate one and only one schema (oneOf)")
    counted("allOf", lambda n, total: n == total, "must validate all the schemas (allOf)")
    if schema.get("not"):
        refused = fits(schema["not"])

        def neither(value: Any, out: list[Cause]) -> None:
            if refused(value):
                out.append(_body(value, "must not validate the schema (not)"))

        checks.append(neither)
    return checks


def value_checks(schema: Json, fits: Callable[[Json], Callable[[Any], bool]]) -> list[Check]:
    checks: list[Check] = []
    if schema.get("enum"):
        checks.append(_enum(schema["enum"]))
    if schema.get("pattern"):
        checks.append(_pattern(schema["pattern"]))
    checks.extend(_range(schema))
    checks.extend(_sizes(schema))
    checks.extend(_format(schema.get("format", "")))
    checks.extend(_logic(schema, fits))
    return checks
