"""Two Ignition configs made one, as Ignition itself does it: the child's entries replace the parent's of the same name. Pure."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

_KEYS = {
    # list: what two entries of it are the same by
    ("storage", "files"): "path",
    ("storage", "directories"): "path",
    ("storage", "links"): "path",
    ("storage", "disks"): "device",
    ("storage", "filesystems"): "device",
    ("storage", "luks"): "name",
    ("storage", "raid"): "name",
    ("systemd", "units"): "name",
    ("systemd", "units", "dropins"): "name",
    ("passwd", "users"): "name",
    ("passwd", "groups"): "name",
}
_WHOLE = {("storage", "files"), ("storage", "directories"), ("storage", "links")}
"""Of these a child's entry replaces the parent's; of the others it is laid over it."""


def merge(parent: Json, child: Json) -> Json:
    return _merge(parent, child, ())


def _merge(parent: Json, child: Json, at: tuple[str, ...]) -> Json:
    made = dict(parent)
    for name, value in child.items():
        here, old = (*at, name), parent.get(name)
        if value is None:
            continue
        if isinstance(value, dict) and isinstance(old, dict):
            made[name] = _merge(old, value, here)
        elif isinstance(value, list) and isinstance(old, list):
            made[name] = _merge_lists(old, value, here)
        else:
            made[name] = value
    return made


def _merge_lists(parent: list[Any], child: list[Any], at: tuple[str, ...]) -> list[Any]:
    key = _KEYS.get(at)
    if key is None:
        return [*parent, *(one for one in child if one not in parent)]
    made = {one[key]: one for one in parent}
    for one in child:
        old = made.get(one[key])
        made[one[key]] = one if old is None or at in _WHOLE else _merge(old, one, at)
    return list(made.values())
