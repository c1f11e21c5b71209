"""Refusals, worded as the real API server words them: a `Status` object with a reason that clients switch on.

Every layer of the API raises `RequestRefused`; only the HTTP edge turns it into a response.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

MOST_TOLD = 100
"""Mistakes that are told of one object."""


@dataclass(frozen=True, slots=True)
class Cause:
    """One thing wrong with one field; `reason` is the word clients know, `message` the sentence."""

    field: str
    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


def required(field: str, detail: str = "") -> Cause:
    return Cause(field, "FieldValueRequired", f"Required value{f': {detail}' if detail else ''}")


def invalid_value(field: str, value: Any, detail: str) -> Cause:
    return Cause(field, "FieldValueInvalid", f"Invalid value: {shown(value)}: {detail}")


def unsupported(field: str, value: Any, supported: Sequence[Any]) -> Cause:
    words = ", ".join(shown(each) for each in supported)
    return Cause(field, "FieldValueNotSupported", f"Unsupported value: {shown(value)}: supported values: {words}")


def forbidden_field(field: str, detail: str) -> Cause:
    return Cause(field, "FieldValueForbidden", f"Forbidden: {detail}")


def duplicate(field: str, value: Any) -> Cause:
    return Cause(field, "FieldValueDuplicate", f"Duplicate value: {shown(value)}")


def shown(value: Any) -> str:
    """A value inside a message."""
    import orjson

    if value is None:
        return "null"
    return orjson.dumps(value).decode() if not isinstance(value, float) else f"{value:g}"


class RequestRefused(Exception):
    """A request that is refused: an HTTP code and the Status that explains it."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: Json | None = None,
        *,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.headers = headers or {}

    def status(self) -> Json:
        body: Json = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
        }
        if self.details is not None:
            body["details"] = self.details
        body["code"] = self.code
        return body


def success(name: str, group: str, plural: str, uid: str) -> Json:
    details = {"name": name, "kind": plural, "uid": uid}
    if group:
        details["group"] = group
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def qualified(plural: str, group: str) -> str:
    return f"{plural}.{group}" if group else plural


def _details(name: str, group: str, plural: str) -> Json:
    return {key: value for key, value in (("name", name), ("group", group), ("kind", plural)) if value}


def not_found(plural: str, group: str, name: str) -> RequestRefused:
    return RequestRefused(
        404, "NotFound", f'{qualified(plural, group)} "{name}" not found', _details(name, group, plural)
    )


def already_exists(plural: str, group: str, name: str) -> RequestRefused:
    return RequestRefused(
        409, "AlreadyExists", f'{qualified(plural, group)} "{name}" already exists', _details(name, group, plural)
    )


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def conflict(plural: str, group: str, name: str, why: str = MODIFIED) -> RequestRefused:
    return RequestRefused(
        409,
        "Conflict",
        f'Operation cannot be fulfilled on {qualified(plural, group)} "{name}": {why}',
        _details(name, group, plural),
    )


def invalid(kind: str, group: str, name: str, causes: Sequence[Cause]) -> RequestRefused:
    causes = causes[:MOST_TOLD]
    listed = str(causes[0]) if len(causes) == 1 else "[" + ", ".join(dict.fromkeys(map(str, causes))) + "]"
    details = _details(name, group, kind)
    details["causes"] = [{"reason": c.reason, "message": c.message, "field": c.field} for c in causes]
    return RequestRefused(422, "Invalid", f'{qualified(kind, group)} "{name}" is invalid: {listed}', details)


def bad_request(message: str) -> RequestRefused:
    return RequestRefused(400, "BadRequest", message)


def forbidden(plural: str, group: str, name: str, why: str) -> RequestRefused:
    what = qualified(plural, group) + (f' "{name}"' if name else "")
    return RequestRefused(403, "Forbidden", f"{what} is forbidden: {why}", _details(name, group, plural))


def unauthorized() -> RequestRefused:
    return RequestRefused(401, "Unauthorized", "Unauthorized")


def method_not_allowed() -> RequestRefused:
    return RequestRefused(
        405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {}
    )


def no_such_resource() -> RequestRefused:
    return RequestRefused(404, "NotFound", "the server could not find the requested resource", {})


def not_acceptable(offered: Sequence[str]) -> RequestRefused:
    return RequestRefused(406, "NotAcceptable", f"only the following media types are accepted: {', '.join(offered)}")


def unsupported_media_type(offered: Sequence[str]) -> RequestRefused:
    return RequestRefused(
        415,
        "UnsupportedMediaType",
        f"the body of the request was in an unknown format - accepted media types include: {', '.join(offered)}",
    )


def too_large(limit: int) -> RequestRefused:
    return RequestRefused(413, "RequestEntityTooLarge", f"Request entity too large: limit is {limit}")


def expired(asked: int, oldest: int) -> RequestRefused:
    return RequestRefused(410, "Expired", f"too old resource version: {asked} ({oldest})")


def too_new(asked: int, current: int) -> RequestRefused:
    return RequestRefused(
        504,
        "Timeout",
        f"Too large resource version: {asked}, current: {current}",
        {"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
         "retryAfterSeconds": 1},
        headers={"Retry-After": "1"},
    )  # fmt: skip


def unavailable(why: str) -> RequestRefused:
    return RequestRefused(503, "ServiceUnavailable", why, {"retryAfterSeconds": 1}, headers={"Retry-After": "1"})


def too_many(why: str = "too many requests, please try again later") -> RequestRefused:
    return RequestRefused(429, "TooManyRequests", why, {"retryAfterSeconds": 1}, headers={"Retry-After": "1"})


def internal_error() -> RequestRefused:
    """Our own mistake. What it was is for the log, not for whoever asked."""
    return RequestRefused(
        500, "InternalError", "Internal error occurred: the server made a mistake with this request; its log says which",
        {"causes": [{"message": "the server made a mistake with this request; its log says which"}]},
    )  # fmt: skip
