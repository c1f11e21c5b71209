"""One parsed request on a resource: path, query, caller, and the media type of the answer. Knows no verbs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from aiohttp import web

from rackless.api.edge import respond
from rackless.api.edge.body import content_type, duplicate_fields, parse, read, weight
from rackless.api.edge.request import Form, Path, Query
from rackless.api.encoding import decode
from rackless.api.kinds.kind import Caller, Kind, Version, Writing
from rackless.api.objects.operations import ObjectTarget, now
from rackless.api.objects.watching import Filter
from rackless.api.objects.writes import Context
from rackless.api.offload import Offload
from rackless.api.selectors import parse_fields, parse_labels
from rackless.api.status import invalid, invalid_value

T = TypeVar("T")
_LONGEST_MANAGER = 128


def manager_of(name: str) -> str:
    """A field manager as a request names it."""
    if len(name) > _LONGEST_MANAGER or not name.isprintable():
        why = f"should be printable and may not be more than {_LONGEST_MANAGER} bytes"
        raise invalid("PatchOptions", "meta.k8s.io", "", [invalid_value("fieldManager", name[:64], why)])
    return name


@dataclass(frozen=True, slots=True)
class ResourceCall:
    request: web.BaseRequest
    path: Path
    query: Query
    kind: Kind
    version: Version
    form: Form
    caller: Caller
    guard: Callable[[Kind, Writing], None]
    offload: Offload

    @property
    def target(self) -> ObjectTarget:
        path = self.path
        return ObjectTarget(self.kind, self.version, path.namespace, path.name, path.subresource)

    @property
    def media(self) -> str:
        return content_type(self.request.headers.get("Content-Type", ""))

    def filter(self) -> Filter:
        fields = parse_fields(self.query.text("fieldSelector"), self.kind.field_names, self.kind.fields)
        return Filter(self.path.namespace, parse_labels(self.query.text("labelSelector")), fields)

    async def body(self) -> bytes:
        return await read(self.request)

    async def heavy(self, raw: bytes, work: Callable[[], T], media: str = "") -> T:
        """Work on a body: in a thread where it is a large one."""
        return await self.offload.run(self.caller.name, weight(raw, media or self.media), work)

    async def value(self, when_empty: Any = None) -> Any:
        """The body, decoded; `when_empty` where there is none and none is needed."""
        raw = await self.body()
        if when_empty is not None and not raw.strip():
            return when_empty
        return await self.heavy(raw, lambda: parse(raw, self.media))

    def context(self, raw: bytes = b"") -> Context:
        """The circumstances of a write. Who writes is, where the request does not say, the program's name."""
        asked = self.query.one_of("fieldValidation", ("Strict", "Warn", "Ignore"))
        context = Context(self.caller, now(), asked or "Warn", guard=self.guard, weight=len(raw))  # type: ignore[arg-type]
        program = self.request.headers.get("User-Agent", "").partition("/")[0].encode("ascii", "replace").decode()
        context.manager = manager_of(self.query.text("fieldManager")) or program[:128] or "unknown"
        if asked in ("Strict", "Warn") and raw:
            context.duplicates = duplicate_fields(raw)
        return context

    async def answer(self, data: bytes, code: int = 200, warnings: list[str] | None = None) -> web.Response:
        """An object in the form the client wants."""
        media = "application/json"
        if self.form.shape != "object" or self.form.yaml:
            media = "application/yaml" if self.form.yaml else media
            data = await self.heavy(data, lambda raw=data: self._formed(raw), media)  # type: ignore[misc]
        return respond.answer(data, code, warnings or (), media)

    def _formed(self, data: bytes) -> bytes:
        body = respond.one(self.kind, self.version, data, self.form.shape, self.query.text("includeObject"))
        if not self.form.yaml:
            return body
        from rackless.api.edge import yaml_form

        return yaml_form.dump(decode(body))
