"""Server-side apply of a configuration, and the owners of fields after other writes.

Owners are kept from the first apply on. The fields of an object that nobody applied belong to a manager named
before-first-apply, as they did in the real server before it began to record all writes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rackless.api.objects.applying.fields import (
    Fields,
    Path,
    View,
    child,
    fields_of,
    from_stored,
    is_map,
    list_steps,
    removed,
    same_at,
    shown,
    to_stored,
)  # fmt: skip
from rackless.api.status import MOST_TOLD, Json, RequestRefused, bad_request

_BEFORE = "before-first-apply"


@dataclass(frozen=True, slots=True)
class FieldOwner:
    manager: str
    operation: str
    version: str
    subresource: str
    time: str
    fields: Fields

    def stored(self) -> Json:
        found: Json = {
            "manager": self.manager, "operation": self.operation, "apiVersion": self.version, "time": self.time,
            "fieldsType": "FieldsV1", "fieldsV1": to_stored(self.fields),
        }  # fmt: skip
        if self.subresource:
            found["subresource"] = self.subresource
        return found


def _owners(metadata: Json) -> list[FieldOwner]:
    return [
        FieldOwner(
            each.get("manager", ""), each.get("operation", "Update"), each.get("apiVersion", ""),
            each.get("subresource", ""),
            each.get("time") or "", from_stored(each.get("fieldsV1")),
        )
        for each in metadata.get("managedFields") or ()
    ]  # fmt: skip


def _merge(schema: Json, old: Any, new: Any) -> Any:
    if is_map(schema, new) and isinstance(old, dict):
        merged = dict(old)
        for name, value in new.items():
            merged[name] = _merge(child(schema, name), old[name], value) if name in old else value
        return merged
    new_steps, old_steps = list_steps(schema, new), list_steps(schema, old)
    if new_steps is None or old_steps is None:
        return new
    wanted, there = dict(new_steps), {step for step, _ in old_steps}
    kept = [
        _merge(schema.get("items") or {}, each, wanted[step]) if step in wanted else each for step, each in old_steps
    ]
    return kept + [each for step, each in new_steps if step not in there]


def _conflicts(
    schema: Json, live: Json, config: Json, mine: Fields, others: list[FieldOwner]
) -> list[tuple[FieldOwner, list[Path]]]:
    found = []
    there, wanted = View(schema, live), View(schema, config)
    for owner in others:
        paths = [path for path in sorted(mine & owner.fields) if not same_at(there, wanted, path)]
        if paths:
            found.append((owner, paths))
    return found


def _refusal(conflicts: list[tuple[FieldOwner, list[Path]]]) -> RequestRefused:
    count = sum(len(paths) for _, paths in conflicts)
    parts: list[str] = []
    causes: list[Json] = []
    for owner, paths in conflicts:
        with_whom = f'"{owner.manager}"'
        if owner.subresource:
            with_whom += f' with subresource "{owner.subresource}"'
        with_whom += f" using {owner.version}"
        names = [shown(path) for path in paths[: MOST_TOLD - len(causes)]]
        if not names:
            break  # enough of them to know what to do
        listed = names[0] if len(names) == 1 else "\n" + "\n".join(f"- {name}" for name in names)
        parts.append(
            f"conflict{'s' if len(names) > 1 else ''} with {with_whom}:{'' if len(names) > 1 else ' '}{listed}"
        )
        causes += [
            {"reason": "FieldManagerConflict", "message": f"conflict with {with_whom}", "field": name} for name in names
        ]
    message = f"Apply failed with {count} conflict{'s' if count > 1 else ''}: " + "\n".join(parts)
    return RequestRefused(409, "Conflict", message, {"causes": causes})


@dataclass(frozen=True, slots=True)
class Application:
    """One apply: whose, of which version, on which part."""

    schema: Json
    version: str
    manager: str
    subresource: str
    without: tuple[str, ...]
    now: str
    force: bool = False


def owned_from_the_start(apply: Application, config: Json) -> list[Json]:
    """The owners of an object that an apply creates."""
    fields = fields_of(apply.schema, config, apply.without)
    return [FieldOwner(apply.manager, "Apply", apply.version, apply.subresource, apply.now, fields).stored()]


def applied(apply: Application, live: Json, config: Json) -> Json:
    """The live object with the configuration applied, and its owners. Raises Conflict unless forced."""
    if (config.get("metadata") or {}).get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")
    schema = apply.schema
    owners = _owners(live["metadata"])
    if not owners:
        owners = [FieldOwner(_BEFORE, "Update", apply.version, "", apply.now, fields_of(schema, live))]
    identity = (apply.manager, "Apply", apply.subresource)
    mine = fields_of(schema, config, apply.without)
    before = next((o for o in owners if (o.manager, o.operation, o.subresource) == identity), None)
    others = [owner for owner in owners if owner is not before]
    conflicts = _conflicts(schema, live, config, mine, others)
    if conflicts and not apply.force:
        raise _refusal(conflicts)
    lost = {id(owner): frozenset(paths) for owner, paths in conflicts}
    others = [replace(o, fields=o.fields - lost[id(o)]) if id(o) in lost else o for o in others]

    config = {name: value for name, value in config.items() if name not in apply.without}
    merged: Json = _merge(schema, live, config)
    if before is not None:
        held: Fields = frozenset().union(*(owner.fields for owner in others))
        gone = before.fields - mine - held
        kept = {path[:length] for path in (*mine, *held) for length in range(1, len(path))}
        merged = removed(schema, merged, frozenset(path for path in gone if path not in kept))
    time = before.time if before is not None and before.fields == mine else apply.now
    owner = FieldOwner(apply.manager, "Apply", apply.version, apply.subresource, time, mine)
    stored = [each.stored() for each in (*others, owner) if each.fields]
    return {**merged, "metadata": {**merged["metadata"], "managedFields": stored}}


def tracked(
    schema: Json, version: str, old: Json, new: Json, manager: str, subresource: str, now: str
) -> list[Json] | None:
    """The owners after a write that was no apply; None where owners are not kept, or the writer wrote them."""
    given, recorded = new["metadata"].get("managedFields"), old["metadata"].get("managedFields")
    if not recorded or given != recorded:
        return None
    before, after = fields_of(schema, old), fields_of(schema, new)
    one, other = View(schema, old), View(schema, new)
    changed = frozenset(p for p in after if p not in before or not same_at(one, other, p))
    gone = before - after
    if not changed and not gone:
        return None
    owners = [replace(o, fields=o.fields - changed - gone) for o in _owners(old["metadata"])]
    identity = (manager, "Update", subresource)
    mine = next((o for o in owners if (o.manager, o.operation, o.subresource) == identity), None)
    if mine is not None:
        owners[owners.index(mine)] = replace(mine, fields=mine.fields | changed, time=now, version=version)
    elif changed:
        owners.append(FieldOwner(manager, "Update", version, subresource, now, changed))
    return [owner.stored() for owner in owners if owner.fields]
