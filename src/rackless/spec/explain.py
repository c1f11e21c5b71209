"""The fields of lab.yaml told to people: the reference page is made of this. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from rackless.spec.change import Change
from rackless.spec.lab import LabSpec
from rackless.spec.units import render_size

CLASSES = {
    Change.LIVE: "takes effect at the next `up`; running servers do not notice",
    Change.RESTART: "counts from the next start of the servers it concerns",
    Change.RECREATE: "what it concerns is made anew, with empty disks; `up` does that only with `--replace`",
    Change.REFUSED: "not possible; it would be another lab",
}


@dataclass(frozen=True, slots=True)
class Field:
    path: str
    default: str
    meaning: str
    change: Change


def fields(model: type[BaseModel] = LabSpec, prefix: str = "") -> Iterator[Field]:
    """Every field by its path; `NAME` stands for a name of one's own choice, `[]` for each of a list."""
    for name, info in model.model_fields.items():
        path = f"{prefix}{name}"
        inner = inner_model(info)
        yield Field(path, "" if inner else _default(info), info.description or "", change_of(info))
        if inner:
            origin = get_origin(info.annotation)
            joint = ".NAME." if origin is dict else "[]." if origin is tuple else "."
            yield from fields(inner, f"{path}{joint}")


def plain(path: str) -> str:
    """A path as people say it: without the parts `NAME` and `[]`."""
    return path.replace(".NAME", "").replace("[]", "")


def change_of(info: FieldInfo) -> Change:
    extra = info.json_schema_extra
    return Change(str(extra["change"])) if isinstance(extra, dict) else Change.REFUSED


def inner_model(info: FieldInfo) -> type[BaseModel] | None:
    candidates: list[Any] = [info.annotation, *get_args(info.annotation)]
    return next((c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel)), None)


def _default(info: FieldInfo) -> str:
    if info.is_required() or info.default in (None, (), {}):
        return ""
    value = info.default
    is_size = any("parse_size" in repr(extra) for extra in info.metadata)
    return render_size(value) if is_size else str(value).lower() if isinstance(value, bool) else str(value)


def reference() -> str:
    """The reference page of lab.yaml."""
    rows = "".join(
        f"| `{f.path}` | {f'`{f.default}`' if f.default else ''} | {f.change} | {f.meaning} |\n" for f in fields()
    )
    classes = "".join(f"| {name} | {meaning} |\n" for name, meaning in CLASSES.items())
    return (
        "# lab.yaml\n\n"
        "Generated from the field descriptions in `src/rackless/spec` by `scripts/docs`.\n\n"
        "| field | default | change | meaning |\n|---|---|---|---|\n" + rows + "\n"
        "What a change means for a lab that exists:\n\n"
        "| class | meaning |\n|---|---|\n" + classes
    )
