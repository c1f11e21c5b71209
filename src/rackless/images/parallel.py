"""Several pieces of work at once, failing as one: the first failure stops the rest and is what the caller sees."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any


async def together(work: Iterable[Coroutine[Any, Any, None]]) -> None:
    try:
        async with asyncio.TaskGroup() as group:
            for one in work:
                group.create_task(one)
    except ExceptionGroup as several:
        raise several.exceptions[0] from several
