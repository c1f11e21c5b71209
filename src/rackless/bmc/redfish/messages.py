"""Error bodies made of the messages of DMTF's Base registry.

A `Refusal` is raised wherever a request turns out to be impossible and becomes an extended error in `server`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rackless.bmc.redfish.texts import BASE, Template

Json = dict[str, Any]


def said(template: Template, arguments: Sequence[object]) -> str:
    text = template.text
    for number, argument in enumerate(arguments, 1):
        text = text.replace(f"%{number}", str(argument))
    return text


def message(key: str, *arguments: object, about: Sequence[str] = (), note: str = "") -> Json:
    """One Message object. `about` are JSON pointers to what it is about; `note` is added to the resolution."""
    template = BASE.messages[key]
    text = said(template, arguments)
    value: Json = {
        "@odata.type": "#Message.v1_1_2.Message",
        "MessageId": BASE.id(key),
        "Message": text,
        "MessageArgs": [str(argument) for argument in arguments],
        "MessageSeverity": template.severity,
        "Severity": template.severity,
        "Resolution": f"{template.resolution}  {note}" if note else template.resolution,
    }
    if about:
        value["RelatedProperties"] = list(about)
    return value


class Refusal(Exception):
    """A request that is not done, as the client will read it."""

    def __init__(self, status: int, *messages: Json, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(messages[0]["Message"])
        self.status = status
        self.messages = messages
        self.headers = dict(headers or {})


def error_body(messages: Sequence[Json]) -> Json:
    first = messages[0] if len(messages) == 1 else message("GeneralError")
    return {"error": {"code": first["MessageId"], "message": first["Message"], "@Message.ExtendedInfo": list(messages)}}


def missing(uri: str) -> Refusal:
    return Refusal(404, message("ResourceMissingAtURI", uri))


def unavailable(seconds: int = 5) -> Refusal:
    return Refusal(503, message("ServiceTemporarilyUnavailable", seconds), headers={"Retry-After": str(seconds)})
