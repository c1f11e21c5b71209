"""A second network namespace beside the one we are in, kept by a thread that lives there.

The thread opens sockets and sets up links in it for us. It needs no pin: when our process ends, the namespace is gone,
and whoever comes after us makes a new one.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from rackless.drivers import namespaces

T = TypeVar("T")


class Room:
    def __init__(self, name: str) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
        self._native = self._thread.submit(_move).result()

    @property
    def path(self) -> Path:
        """The namespace as a file, for those who enter it or move links into it."""
        return Path(f"/proc/{os.getpid()}/task/{self._native}/ns/net")

    def call(self, work: Callable[[], T]) -> T:
        """Do something in there and wait for it."""
        return self._thread.submit(work).result()

    async def acall(self, work: Callable[[], T]) -> T:
        return await asyncio.wrap_future(self._thread.submit(work))

    def close(self) -> None:
        self._thread.shutdown(wait=True)


def _move() -> int:
    namespaces.unshare(namespaces.CLONE_NEWNET)
    return threading.get_native_id()
