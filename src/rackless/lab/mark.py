"""The mark in a lab's network namespace: the lab's name, its folders, and the computer it was made on.

The mark is the alias of the loopback link. It lives as long as the namespace does, whatever happens to files, pins and processes,
and only root in that namespace can write it. So a lab is found by what runs, also when nothing else tells of it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from rackless.ports.namespaces import Home
from rackless.run.paths import LabPaths, Roots

_WORD = "rackless"
_LONGEST = 255
_NAME = re.compile(r"[a-z][a-z0-9-]{0,31}")


@dataclass(frozen=True, slots=True)
class Mark:
    name: str
    state: Path
    run: Path
    host: Home
    """Where it was made: the same computer only when both namespaces are the same."""
    mnt: int
    """The mount namespace that was last made for the lab."""

    def paths(self, cache: Path) -> LabPaths:
        return LabPaths(Roots(self.state, self.run, cache), self.name)


def render_mark(paths: LabPaths, host: Home, mnt: int) -> str | None:
    """None when it is longer than the kernel takes: an orphan of such a lab is not found."""
    mark = [_WORD, paths.name, str(paths.roots.state), str(paths.roots.run), host.net, host.mnt, mnt]
    text = json.dumps(mark, separators=(",", ":"))
    return text if len(text.encode()) <= _LONGEST else None


def read_mark(alias: str) -> Mark | None:
    """None for an alias that is not a mark of ours."""
    try:
        word, name, state, run, net, mnt, inner = json.loads(alias)
    except (ValueError, TypeError):
        return None
    if word != _WORD or not isinstance(name, str) or not _NAME.fullmatch(name):
        return None
    if not all(isinstance(number, int) for number in (net, mnt, inner)):
        return None
    if not all(isinstance(folder, str) and folder.startswith("/") for folder in (state, run)):
        return None
    return Mark(name, Path(state), Path(run), Home(net, mnt), inner)
