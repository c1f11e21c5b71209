"""Expressions that may take long, evaluated in a process of its own with a limit of processor time and of memory.

The library cannot be interrupted, and no other thread runs meanwhile; a process can be killed, and kills itself by its
timer. A thread starts it (`cel_worker`) for the first such expression, and again after it has died.
"""

from __future__ import annotations

import json
import pickle
import struct
import subprocess
import sys
import threading
from collections.abc import Mapping
from typing import Any, BinaryIO

SECONDS = 1.0
"""Processor time of one evaluation. The real server's budget, too, is meant to be about a second."""
_HEAD = struct.Struct(">I")


class TooCostly(Exception):
    """The evaluation took more time or memory than it may, and was ended."""


class CelChild:
    """For one thread at a time."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def value(self, text: str, variables: Mapping[str, Any]) -> tuple[Any, str]:
        """(what the expression gives, why it cannot). Only booleans and texts come back. Raises TooCostly."""
        with self._lock:
            process = self._process or self._start()
            assert process.stdin and process.stdout
            try:
                send(process.stdin, pickle.dumps((text, dict(variables))))
                answer = receive(process.stdout)
            except (OSError, EOFError):
                self.close()
                raise TooCostly(text) from None
        found: tuple[Any, str] = tuple(json.loads(answer))
        return found

    def _start(self) -> subprocess.Popen[bytes]:
        words = [sys.executable, "-m", "rackless.api.schema.cel_worker"]
        self._process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        return self._process

    def close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            assert process.stdin and process.stdout
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                try:
                    pipe.close()
                except OSError:
                    pass


def send(pipe: BinaryIO | Any, data: bytes) -> None:
    pipe.write(_HEAD.pack(len(data)) + data)
    pipe.flush()


def receive(pipe: BinaryIO | Any) -> bytes:
    head = pipe.read(_HEAD.size)
    if len(head) < _HEAD.size:
        raise EOFError
    (size,) = _HEAD.unpack(head)
    data: bytes = pipe.read(size)
    if len(data) < size:
        raise EOFError
    return data
