"""A command that is told to stop: by Ctrl-C, by a SIGTERM, and by the latter where nobody can press Ctrl-C."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

COMMAND = """
import asyncio, signal, sys
from rackless.cli.progress import interruptible
from rackless.errors import Interrupted

async def work():
    print("working", flush=True)
    try:
        await asyncio.sleep(60)
    finally:
        print("cleaned up", flush=True)

if sys.argv[1:]:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
try:
    with interruptible(lambda: "the lab stays", "lab"):
        asyncio.run(work())
except Interrupted as error:
    print(error.what, error.why, error.hint)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_whoever_stops_it_is_told_what_is_left_and_how_to_go_on(number: signal.Signals) -> None:
    said = _stopped_by(number)
    assert said[:2] == ["working", "cleaned up"]
    assert said[2].startswith("stopped the lab stays `rackless up --name lab` goes on")


def test_a_command_that_cannot_be_interrupted_still_ends_when_it_is_told_to() -> None:
    assert _stopped_by(signal.SIGTERM, "in the background") == ["working"]


def _stopped_by(number: signal.Signals, *words: str) -> list[str]:
    with subprocess.Popen([sys.executable, "-c", COMMAND, *words], stdout=subprocess.PIPE, text=True) as command:
        assert command.stdout is not None
        first = command.stdout.readline()
        command.send_signal(number)
        return (first + command.communicate(timeout=30)[0]).splitlines()
