"""The fields of lab.yaml told to people: the reference page is made of this. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from rackless.spec.lab import LabSpec
from rackless.spec.units import render_size


@dataclass(frozen=True, slots=True)
class Field:
    path: str
    default: str
    meaning: str


def fields(model: type[BaseModel] = LabSpec, prefix: str = "") -> Iterator[Field]:
    """Every field by its path; `NAME` stands for a name of one's own choice."""
    for name, info in model.model_fields.items():
        path = f"{prefix}{name}"
        inner = _inner_model(info)
        yield Field(path, "" if inner else _default(info), info.description or "")
        if inner:
            yield from fields(inner, f"{path}.NAME." if get_origin(info.annotation) is dict else f"{path}.")


def _inner_model(info: FieldInfo) -> type[BaseModel] | None:
    candidates: list[Any] = [info.annotation, *get_args(info.annotation)]
    return next((c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel)), None)


def _default(info: FieldInfo) -> str:
    if info.is_required():
        return ""
    value = info.default
    is_size = any("parse_size" in repr(extra) for extra in info.metadata)
    return render_size(value) if is_size else str(value)


def reference() -> str:
    """The reference page of lab.yaml."""
    rows = "".join(f"| `{f.path}` | {f'`{f.default}`' if f.default else ''} | {f.meaning} |\n" for f in fields())
    return (
        "# lab.yaml\n\n"
        "Generated from the field descriptions in `src/rackless/spec/lab.py` by `scripts/docs`.\n\n"
        "| field | default | meaning |\n|---|---|---|\n" + rows
    )
