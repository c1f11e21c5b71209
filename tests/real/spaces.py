"""Namespaces that are held by a process which only sleeps."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path


def hold(*kinds: str, seconds: int = 3600) -> subprocess.Popen[bytes]:
    """In place when this returns: until then, what is done there would be done outside."""
    holder = subprocess.Popen(["unshare", *kinds, "--", "sleep", str(seconds)], stdin=subprocess.DEVNULL)
    while Path(f"/proc/{holder.pid}/comm").read_text() != "sleep\n":
        assert holder.poll() is None, "there are no namespaces to be had"
        time.sleep(0.01)
    return holder
