"""One request on a resource, taken apart: what is asked, by whom, and the form of the answer. Knows no verbs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from aiohttp import web

from rackless.api import status
from rackless.api.access.escalation import Guard
from rackless.api.core import Context
from rackless.api.edge import respond
from rackless.api.edge.body import LIMIT, content_type, duplicate_fields, parse
from rackless.api.edge.request import Form, Path, Query
from rackless.api.encoding import decode
from rackless.api.kinds.kind import Caller, Kind, Version
from rackless.api.operations import Target, now
from rackless.api.selectors import parse_fields, parse_labels
from rackless.api.watching import Filter


@dataclass(frozen=True, slots=True)
class Call:
    request: web.BaseRequest
    path: Path
    query: Query
    kind: Kind
    version: Version
    form: Form
    caller: Caller
    guard: Guard

    @property
    def target(self) -> Target:
        path = self.path
        return Target(self.kind, self.version, path.namespace, path.name, path.subresource)

    @property
    def media(self) -> str:
        return content_type(self.request.headers.get("Content-Type", ""))

    def filter(self) -> Filter:
        fields = parse_fields(self.query.text("fieldSelector"), self.kind.field_names, self.kind.fields)
        return Filter(self.path.namespace, parse_labels(self.query.text("labelSelector")), fields)

    async def body(self) -> bytes:
        request = self.request
        if (request.content_length or 0) > LIMIT:
            raise status.too_large(LIMIT)
        raw = await request.content.read(LIMIT + 1) if request.content_length or request.body_exists else b""
        while len(raw) <= LIMIT and not request.content.at_eof():
            more = await request.content.readany()
            if not more:
                break
            raw += more
        if len(raw) > LIMIT:
            raise status.too_large(LIMIT)
        return raw

    async def value(self, when_empty: Any = None) -> Any:
        """The body, decoded; `when_empty` where there is none and none is needed."""
        raw = await self.body()
        if when_empty is not None and not raw.strip():
            return when_empty
        return parse(raw, self.media)

    def context(self, raw: bytes = b"") -> Context:
        """The circumstances of a write. Who writes is, where the request does not say, the program's name."""
        asked = self.query.one_of("fieldValidation", ("Strict", "Warn", "Ignore"))
        context = Context(self.caller, now(), asked or "Warn", guard=self.guard)  # type: ignore[arg-type]
        program = self.request.headers.get("User-Agent", "").partition("/")[0][:128]
        context.manager = self.query.text("fieldManager") or program or "unknown"
        if asked in ("Strict", "Warn") and raw:
            context.duplicates = duplicate_fields(raw)
        return context

    def answer(self, data: bytes, code: int = 200, warnings: list[str] | None = None) -> web.Response:
        """An object in the form the client wants."""
        body = respond.one(self.kind, self.version, data, self.form.shape, self.query.text("includeObject"))
        if self.form.yaml:
            import yaml

            return respond.answer(yaml.safe_dump(decode(body)).encode(), code, warnings or (), "application/yaml")
        return respond.answer(body, code, warnings or ())
