"""What differs between two descriptions, field by field, and whether each change is live, needs a restart, a new lab, or is
refused. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from rackless.spec.change import Change
from rackless.spec.explain import change_of
from rackless.spec.lab import MIB, LabSpec
from rackless.spec.units import render_size


@dataclass(frozen=True, slots=True)
class FieldChange:
    path: str
    change: Change
    old: str
    new: str

    def __str__(self) -> str:
        if not self.old:
            return f"{self.path} is new"
        if not self.new:
            return f"{self.path} is gone"
        return f"{self.path} changed from {self.old} to {self.new}"


def find_changes(old: LabSpec, new: LabSpec) -> list[FieldChange]:
    return list(_models(old, new, ""))


def _models(old: BaseModel, new: BaseModel, prefix: str) -> Iterator[FieldChange]:
    for name, info in type(new).model_fields.items():
        before, after = getattr(old, name), getattr(new, name)
        if before != after:
            yield from _values(before, after, f"{prefix}{name}", change_of(info))


def _values(old: Any, new: Any, path: str, change: Change) -> Iterator[FieldChange]:
    if isinstance(old, BaseModel) and isinstance(new, BaseModel):
        yield from _models(old, new, f"{path}.")
    elif isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            here = f"{path}.{key}"
            if key not in old:
                yield FieldChange(here, change, "", _words(new[key]))
            elif key not in new:
                yield FieldChange(here, change, _words(old[key]), "")
            elif old[key] != new[key]:
                yield from _values(old[key], new[key], here, change)
    else:
        yield FieldChange(path, change, _words(old), _words(new))


def _words(value: Any) -> str:
    if value is None:
        return "(default)"
    if isinstance(value, BaseModel):
        return "(given)"
    if isinstance(value, tuple):
        return ", ".join(_words(part) for part in value) or "(none)"
    if isinstance(value, int) and value >= MIB:  # nothing else in a spec is that large
        return render_size(value)
    return str(value)
