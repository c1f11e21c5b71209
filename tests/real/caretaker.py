"""Takes down a pretend host whose test ended without doing so, as a worker does that is killed: its labs run on otherwise.

`python -m tests.real.caretaker PID FOLDER` waits for the word `done`. When its input ends without it, it does what the test
would have done. It is no child of anybody's terminal: Ctrl-C does not reach it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).parents[2]
DONE = b"done"


def launch(holder: int, folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-P", "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
         "from tests.real.caretaker import main; main()", str(holder), str(folder)],
        stdin=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip


def dismiss(caretaker: subprocess.Popen[bytes]) -> None:
    caretaker.communicate(DONE)


def main() -> None:
    holder = os.pidfd_open(int(sys.argv[1]))
    if sys.stdin.buffer.read() == DONE:
        return
    from tests.real.conftest import PretendHost, take_down  # rarely needed, and takes a second

    take_down(PretendHost(int(sys.argv[1]), Path(sys.argv[2])))
    with suppress(ProcessLookupError):
        signal.pidfd_send_signal(holder, signal.SIGKILL)
