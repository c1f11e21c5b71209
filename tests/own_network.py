"""A network namespace of a test's own, which nobody sees, and in which nobody is to be reached; it needs root."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest

from rackless.drivers import namespaces as ns

T = TypeVar("T")
Tell = Callable[[Callable[[], Coroutine[Any, Any, T]]], T]
"""Live through a story that runs in the namespace; threads that it starts are in there, too."""


@contextmanager
def own_network(*, mounts: bool = False) -> Iterator[Tell[Any]]:
    """With `mounts`, in a mount namespace of its own, too."""
    if os.geteuid() != 0:
        pytest.skip("namespaces need root")
    room = ns.ThreadRoom("story")
    try:
        if mounts:
            room.call(lambda: ns.unshare(ns.CLONE_NEWNS))
            room.call(lambda: ns.mount("none", "/", flags=ns.MS_REC | ns.MS_PRIVATE))
        yield lambda story: room.call(lambda: asyncio.run(story()))
    finally:
        room.close()
