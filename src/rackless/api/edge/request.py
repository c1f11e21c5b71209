"""A request's path and query as values; refuses what cannot mean anything. Knows no objects."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote

from rackless.api.selectors import field_requirements
from rackless.api.status import RequestRefused, bad_request

_JSON = "application/json"
_NUMBER = re.compile(r"-?[0-9]{1,15}")


@dataclass(frozen=True, slots=True)
class Path:
    """`/api/v1/…` or `/apis/GROUP/VERSION/…` taken apart."""

    group: str
    version: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def parse_path(raw: str) -> Path | None:
    """None when the path is not one of a resource."""
    parts = [unquote(part) for part in raw.strip("/").split("/")]
    if parts[0] == "api" and len(parts) >= 3:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) >= 4:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) >= 3 and not (len(rest) == 3 and rest[2] in ("status", "finalize")):
        namespace, rest = rest[1], rest[2:]
    if len(rest) > 3 or not all(rest) or "/" in "".join(rest) or "/" in namespace:
        return None
    name = rest[1] if len(rest) > 1 else ""
    return Path(group, version, rest[0], namespace, name, rest[2] if len(rest) > 2 else "")


def selected_name(selector: str) -> str:
    """The one name that a field selector leaves: then a list is asked for as an object of that name is."""
    try:
        requirements = field_requirements(selector)
    except RequestRefused:  # told to who may ask at all
        return ""
    return next((value for field, equal, value in requirements if field == "metadata.name" and equal), "")


class Query:
    """The query's last values; booleans and numbers are checked where they are read."""

    __slots__ = ("_values",)

    def __init__(self, text: str) -> None:
        try:
            self._values = dict(parse_qsl(text, keep_blank_values=True, max_num_fields=100)) if text else {}
        except ValueError as error:
            raise bad_request(f"the query cannot be read: {error}") from error

    def text(self, name: str) -> str:
        return self._values.get(name, "")

    def flag(self, name: str) -> bool:
        value = self._values.get(name, "")
        return value not in ("", "0", "false", "False")

    def number(self, name: str) -> int | None:
        value = self._values.get(name, "")
        if not value:
            return None
        if not _NUMBER.fullmatch(value):
            raise bad_request(f'strconv.ParseInt: parsing "{value}": invalid syntax')
        return int(value)

    def one_of(self, name: str, allowed: tuple[str, ...]) -> str:
        value = self._values.get(name, "")
        if value and value not in allowed:
            raise bad_request(f'{name}: Unsupported value: "{value}": supported values: {", ".join(allowed)}')
        return value

    @property
    def dry(self) -> bool:
        return self.one_of("dryRun", ("All",)) == "All"


@dataclass(frozen=True, slots=True)
class Form:
    """How the client wants objects: as they are, as a Table, or as metadata only."""

    shape: str = "object"
    yaml: bool = False


def parse_accept(header: str) -> Form | None:
    """The first form of the Accept header that we have; None when we have none of them."""
    if not header:
        return Form()
    for part in header.split(","):
        media, *parameters = (piece.strip() for piece in part.split(";"))
        values = dict(piece.partition("=")[::2] for piece in parameters)
        if media not in (_JSON, "*/*", "application/*", "application/yaml"):
            continue
        shape = values.get("as", "")
        if shape in ("Table", "PartialObjectMetadata", "PartialObjectMetadataList"):
            if values.get("g") == "meta.k8s.io" and values.get("v") in ("v1", "v1beta1"):
                return Form("Table" if shape == "Table" else "metadata")
            continue
        if shape:
            continue
        return Form("object", media == "application/yaml")
    return None


def discovery_form(header: str) -> str:
    """The version of aggregated discovery asked for first, or nothing."""
    for part in header.split(","):
        if "as=APIGroupDiscoveryList" in part and "g=apidiscovery.k8s.io" in part:
            for version in ("v2beta1", "v2"):
                if f"v={version}" in part.replace(" ", "").split(";"):
                    return version
        elif part.strip().startswith((_JSON, "*/*")):
            return ""
    return ""
