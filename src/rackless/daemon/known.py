"""The labs this machine knows: finding one, its description, and that only one command changes it at a time."""

from __future__ import annotations

import fcntl
import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rackless.daemon import teardown
from rackless.errors import LabError, MachineError
from rackless.run.ledger import Ledger
from rackless.run.paths import LabPaths, Roots
from rackless.spec.lab import LabSpec


def recorded_spec(paths: LabPaths) -> LabSpec | None:
    """What the lab was made from."""
    try:
        return LabSpec.model_validate_json(paths.spec.read_text())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise LabError(
            f"the lab {paths.name} was made by another version of rackless, and this one cannot read its description",
            why=str(error).splitlines()[0],
            hint="`rackless destroy` still removes it",
        ) from error


@contextmanager
def locked(paths: LabPaths) -> Iterator[None]:
    """One at a time: two commands that change the same lab do not meet."""
    paths.lock.parent.mkdir(parents=True, exist_ok=True)
    with paths.lock.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.seek(0)
            raise LabError(
                f"another rackless is working on the lab {paths.name}",
                why=f"process {file.read().strip() or 'unknown'} holds {paths.lock}",
                hint="wait until it is done, or stop it",
            ) from error
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        try:
            yield
        finally:
            if not Ledger(paths.ledger).exists:
                paths.lock.unlink(missing_ok=True)
                teardown.remove_empty(paths.roots)


def require_lab(name: str, roots: Roots) -> LabPaths:
    paths = LabPaths(roots, name)
    if not Ledger(paths.ledger).exists:
        others = ", ".join(roots.labs())
        raise LabError(
            f"there is no lab named {name}",
            why=f"on this machine: {others}" if others else "no lab is on this machine",
            hint="`rackless up` makes one",
        )
    return paths


def require_root(purpose: str) -> None:
    if os.geteuid() != 0:
        raise MachineError(
            f"only root can {purpose}",
            why="namespaces, bridges and mounts need it; nothing outside the lab is changed",
            hint=shlex.join(["sudo", os.environ.get("RACKLESS_COMMAND", "rackless"), *sys.argv[1:]]),
        )
