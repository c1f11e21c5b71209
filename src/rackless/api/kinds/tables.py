"""Objects as the Table that `kubectl get` prints: the columns are the kind's, the ages are of this moment."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from rackless.api.kinds.kind import Column, Kind, Version
from rackless.api.schema.jsonpath import compile_path
from rackless.api.status import Json

NAME = Column(
    "Name", lambda obj: obj["metadata"]["name"], format="name", description="Name must be unique within a namespace."
)
AGE = Column(
    "Age",
    lambda obj: age(obj["metadata"].get("creationTimestamp")),
    description="CreationTimestamp is a timestamp representing the server time when this object was created.",
)


def age(stamp: Any, now: datetime | None = None) -> str:
    """How long ago, in the words of the field: 12s, 5m3s, 4h, 3d2h, 2y10d."""
    if not isinstance(stamp, str):
        return "<unknown>"
    try:
        then = datetime.fromisoformat(stamp.replace("Z", "+00:00"))
    except ValueError:
        return "<invalid>"
    if then.tzinfo is None:
        return "<invalid>"
    seconds = int(((now or datetime.now(UTC)) - then).total_seconds())
    if seconds < -1:
        return "<invalid>"
    return duration(max(seconds, 0))


def duration(seconds: int) -> str:
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400

    def two(big: int, unit: str, rest: int, small: str) -> str:
        return f"{big}{unit}{rest}{small}" if rest else f"{big}{unit}"

    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return two(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return two(days, "d", hours % 24, "h")
    if days < 365 * 2:
        return f"{days}d"
    if days < 365 * 8:
        return two(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def custom_column(definition: Json) -> Column:
    """A CRD's `additionalPrinterColumns` entry."""
    find = compile_path(definition["jsonPath"])
    kind = definition["type"]

    def value(obj: Json) -> Any:
        found = find(obj)
        if not found or found[0] is None:
            return None
        first = found[0]
        match kind:
            case "date":
                return age(first)
            case "integer":
                return int(first) if isinstance(first, int | float) and not isinstance(first, bool) else None
            case "number":
                return float(first) if isinstance(first, int | float) and not isinstance(first, bool) else None
            case "boolean":
                return first if isinstance(first, bool) else None
        if len(found) > 1:
            return ",".join(_text(each) for each in found)
        return _text(first)

    description = (
        definition.get("description")
        or f"Custom resource definition column (in JSONPath format): {definition['jsonPath']}"
    )
    return Column(
        definition["name"], value, kind, definition.get("format", ""), description, definition.get("priority", 0)
    )


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return value
    if isinstance(value, dict | list):
        from rackless.api.status import shown

        return shown(value)
    return str(value)


def columns_of(version: Version, kind: Kind) -> tuple[Column, ...]:
    return version.columns or (NAME, AGE)


def table(
    kind: Kind, version: Version, objects: Iterable[Json], metadata: Json, include: str, *, headers: bool = True
) -> Json:
    columns = columns_of(version, kind)
    rows = []
    for obj in objects:
        row: Json = {"cells": [column.value(obj) for column in columns]}
        if include == "Object":
            row["object"] = obj
        elif include != "None":
            row["object"] = {
                "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"],
            }  # fmt: skip
        rows.append(row)
    definitions = [
        {"name": c.name, "type": c.type, "format": c.format, "description": c.description, "priority": c.priority}
        for c in columns
    ]
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": definitions if headers else [],
        "rows": rows,
    }
