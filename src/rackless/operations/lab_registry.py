"""The labs on this computer: finding one, its recorded description, and the lock that lets only one command change it at a time."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from difflib import get_close_matches

from rackless.drivers import open_drivers
from rackless.errors import HypervisorError, LabError
from rackless.operations import teardown
from rackless.plan.addressing import plan_lab
from rackless.plan.model import LabPlan
from rackless.ports.computer import Computer
from rackless.ports.process import Held, ProcessTable
from rackless.run.ledger import Ledger
from rackless.run.paths import LabPaths, Roots
from rackless.spec.lab import LabSpec

_MEANT = ("RACKLESS_LAB", "RACKLESS_STATE", "RACKLESS_RUN", "RACKLESS_CACHE")
"""Variables that say which lab a command is about."""


def recorded_spec(paths: LabPaths) -> LabSpec | None:
    """The description (lab.yaml) that the lab was made from."""
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


def spec_of_other(paths: LabPaths) -> LabSpec | None:
    """The description of a lab that is only looked at beside another one; None also where another version wrote it."""
    with suppress(LabError):
        return recorded_spec(paths)
    return None


def current_plan(paths: LabPaths) -> LabPlan:
    """The plan of the lab's recorded description, with the servers that were made on demand."""
    spec = recorded_spec(paths)
    if spec is None:
        raise LabError(
            f"the lab {paths.name} has no description yet",
            why="its first `up` was cut off",
            hint="`rackless up` goes on where that was",
        )
    return plan_lab(spec).grown([entry.id for entry in Ledger(paths.grown).entries()])


@contextmanager
def locked(paths: LabPaths, processes: ProcessTable | None = None) -> Iterator[None]:
    """Hold the lab's lock: a second command that changes the same lab is refused."""
    paths.lock.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as held:
        try:
            held.enter_context((processes or open_drivers().processes).hold(paths.lock))
        except Held as error:
            raise LabError(
                f"another rackless is working on the lab {paths.name}",
                why=f"process {error or 'unknown'} holds {paths.lock}",
                hint="wait until it is done, or stop it",
            ) from error
        try:
            yield
        finally:
            if not Ledger(paths.ledger).exists:
                paths.lock.unlink(missing_ok=True)
                teardown.remove_empty(paths.roots)


def require_lab(name: str, roots: Roots) -> LabPaths:
    paths = LabPaths(roots, name)
    if not Ledger(paths.ledger).exists:
        others = roots.labs()
        near = (get_close_matches(name, others, n=1) or others)[:1]
        raise LabError(
            f"there is no lab named {name}",
            why=f"on this computer: {', '.join(others)}" if others else "no lab is on this computer",
            hint=f"say which is meant: --name {near[0]}; `rackless up` makes a new one"
            if near
            else "`rackless up` makes one",
        )
    return paths


MAKING = "namespaces, bridges and mounts need it; nothing outside the lab is changed"
SHARING = "it is kept where only root writes"
READING = "the lab keeps that in files which nobody else may read"


def require_root(purpose: str, computer: Computer | None = None, *, why: str = MAKING) -> None:
    if not (computer or open_drivers().computer).root():
        raise HypervisorError(f"only root can {purpose}", why=why, hint=as_root())


def as_root() -> str:
    """This command, for root: sudo does not pass on which lab is meant, nor where labs are kept."""
    meant = [f"{name}={os.environ[name]}" for name in _MEANT if os.environ.get(name)]
    here = os.environ.get("RACKLESS_COMMAND", "rackless")
    return shlex.join(["sudo", *(["env", *meant] if meant else []), here, *sys.argv[1:]])
