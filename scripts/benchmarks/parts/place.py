"""A throw-away place for a measurement that makes labs: what it needs is installed, and what it made is ended.

Also when it fails, is interrupted or is told to end. A lab that could not be destroyed keeps its folder, because without
the folder nobody could destroy it later.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).parents[3]
RACKLESS = [sys.executable, "-P", "-m", "rackless"]


@contextmanager
def place() -> Iterator[Path]:
    """We are in the folder afterwards, and labs are made in it."""
    if os.geteuid() != 0:
        sys.exit("labs need root: sudo scripts/bench …")
    subprocess.run([ROOT / "scripts/tools"], check=True)
    with ExitStack() as stack:
        for number in (signal.SIGTERM, signal.SIGHUP):
            stack.callback(signal.signal, number, signal.signal(number, _end))
        folder = Path(tempfile.mkdtemp(prefix="rackless-bench-"))
        stack.callback(_remove, folder)
        os.environ |= {"RACKLESS_STATE": f"{folder}/state", "RACKLESS_RUN": f"{folder}/run"}
        stack.callback(os.chdir, Path.cwd())
        os.chdir(folder)
        yield folder


def _end(number: int, _: FrameType | None) -> None:
    sys.exit(128 + number)


def _remove(folder: Path) -> None:
    left = [name for name in _labs() if not _destroyed(name)]
    if left:
        print(
            f"still there: {', '.join(left)}; RACKLESS_STATE={folder}/state RACKLESS_RUN={folder}/run", file=sys.stderr
        )
        return
    shutil.rmtree(folder, ignore_errors=True)


def _labs() -> list[str]:
    told = subprocess.run([*RACKLESS, "list", "--json"], stdout=subprocess.PIPE, text=True, check=False)
    return [lab["lab"] for lab in json.loads(told.stdout or "[]")]


def _destroyed(name: str) -> bool:
    print(f"destroying the lab {name}, which the measurement left", file=sys.stderr)
    return subprocess.run([*RACKLESS, "destroy", "--yes", "--name", name], check=False).returncode == 0
