"""JSON merge patch (RFC 7386): null removes, objects merge, everything else replaces."""

from __future__ import annotations

from typing import Any


def merge(target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            result[key] = merge(result.get(key), value)
        else:
            result[key] = value
    return result
