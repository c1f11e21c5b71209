"""What is left of a lab's description when the parts that could not be read are taken out. Pure.

The rules between fields are checked against the rest, so that a person hears of everything that is wrong in one go.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from rackless.spec.lab import LabSpec

Loc = tuple[int | str, ...]
Path = tuple[str, ...]
_ROUNDS = 5
"""Taking a part out may leave another without a field that it needs; that part is taken out in the next round."""


@dataclass(slots=True)
class Salvage:
    spec: LabSpec
    unsure: set[Path] = field(default_factory=set)
    """What was taken out."""
    kept: dict[Path, list[int]] = field(default_factory=dict)
    """For lists that became shorter: the former position of every item."""

    def former(self, path: str) -> str:
        """The path as it is in the file."""
        parts = path.split(".")
        for place, numbers in self.kept.items():
            end = len(place)
            if tuple(parts[:end]) == place and len(parts) > end:
                parts[end] = str(numbers[int(parts[end])])
        return ".".join(parts)


def salvage(tree: dict[str, Any], error: ValidationError, context: dict[str, Any] | None = None) -> Salvage | None:
    """None when the rest is no lab either."""
    unsure: set[Path] = set()
    kept: dict[Path, list[int]] = {}
    for _ in range(_ROUNDS):
        bad = {_culprit(detail) for detail in error.errors()}
        if () in bad:
            return None
        unsure |= {tuple(str(part) for part in loc if not isinstance(part, int)) for loc in bad}
        tree = _without(tree, bad, (), kept)
        try:
            spec = LabSpec.model_validate(tree, context=context)
        except ValidationError as again:
            error = again
            continue
        if ("profile",) in unsure and "servers" not in tree:
            unsure.add(("servers",))
        return Salvage(spec, unsure, kept)
    return None


def _culprit(detail: Any) -> Loc:
    """The path to take out: the wrong value, or, where a field is missing, the mapping that lacks it."""
    loc = tuple(part for part in detail["loc"] if part != "[key]")
    return loc[:-1] if detail["type"] == "missing" else loc


def _without(value: Any, bad: Iterable[Loc], place: Path, kept: dict[Path, list[int]]) -> Any:
    heads = {loc[0] for loc in bad if len(loc) == 1}
    deeper = {loc[0] for loc in bad if len(loc) > 1} - heads

    def inner(key: int | str, item: Any) -> Any:
        if key not in deeper:
            return item
        below = {loc[1:] for loc in bad if loc[0] == key and len(loc) > 1}
        return _without(item, below, (*place, str(key)), kept)

    if isinstance(value, dict):
        return {key: inner(key, item) for key, item in value.items() if key not in heads}
    if isinstance(value, list):
        before = kept.get(place, list(range(len(value))))
        kept[place] = [before[number] for number in range(len(value)) if number not in heads]
        return [inner(number, item) for number, item in enumerate(value) if number not in heads]
    return value
