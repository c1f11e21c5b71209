"""Programs that a command runs for a person: their end is ours, and no key of theirs is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

KEEPS_A_KEY = """
import signal, sys
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup, under which these tests may run, has it ignored
from pathlib import Path
import click
from rackless.cli.handover import run_here
from rackless.operations.access import _short_lived_folder
try:
    with _short_lived_folder() as folder:
        Path(folder, "key").write_text("secret")
        print(folder, flush=True)
        if sys.argv[1:]:
            run_here(sys.argv[1:])
        sys.stdin.read()
except click.exceptions.Exit as exit:
    sys.exit(exit.exit_code)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("program", [[], ["sh", "-c", "echo runs; exec sleep 600"]], ids=["waiting", "running"])
def test_keys_go_when_the_command_is_ended_or_its_terminal_is_closed(number: int, program: list[str]) -> None:
    command = [sys.executable, "-P", "-c", KEEPS_A_KEY, *program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as runs:
        try:
            assert runs.stdout is not None
            folder = Path(runs.stdout.readline().strip())
            assert (folder / "key").exists()
            if program:
                assert runs.stdout.readline() == "runs\n"
            runs.send_signal(number)
            assert runs.wait(timeout=60) == 128 + number
            assert not folder.exists()
            if program:
                assert runs.stdout.read() == "", "its output is closed: the program has ended, too"
        finally:
            runs.kill()


def test_a_program_that_is_not_there_is_named() -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-c", KEEPS_A_KEY, "no-such-program"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, env={**os.environ, "PATH": "/nowhere"},
    )  # fmt: skip
    assert "there is no no-such-program on this computer" in done.stderr
    assert not Path(done.stdout.strip()).exists()
