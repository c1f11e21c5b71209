"""One request to several servers or hosts in parallel: the others go on when one refuses."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

from rackless.errors import LabError, RacklessError

T = TypeVar("T")


async def side_by_side(work: Mapping[str, Coroutine[Any, Any, T]]) -> list[tuple[str, T]]:
    """What came of each, by name. When some failed, all have ended, and one error tells of every failure."""
    done = await asyncio.gather(*work.values(), return_exceptions=True)
    told: list[tuple[str, T]] = []
    failed: dict[str, RacklessError] = {}
    for name, one in zip(work, done, strict=True):
        if isinstance(one, RacklessError):
            failed[name] = one
        elif isinstance(one, BaseException):
            raise one
        else:
            told.append((name, one))
    if len(work) == 1 and failed:
        raise next(iter(failed.values()))
    if failed:
        raise LabError(
            f"{len(failed)} of {len(work)} failed: {', '.join(failed)}",
            why="\n".join(f"{name}: {error.what}" for name, error in failed.items()),
            hint=next((error.hint for error in failed.values() if error.hint), ""),
        )
    return told
