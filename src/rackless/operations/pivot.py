"""Hosts and Machines from one Kubernetes API to another: `rackless pivot`. One of the two may be a lab's own."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from rackless.controllers.pivot.journal import MovePhase
from rackless.controllers.pivot.moving import DETACH_WITHIN, Moved, Pivot
from rackless.drivers.kubernetes.resources import KubernetesResources
from rackless.ports.api import NAMESPACE
from rackless.ports.clock import Clock
from rackless.run.files import write_secret
from rackless.trust.kubeconfig_reading import read_kubeconfig

PATIENCE = 60.0
"""Seconds for which one request is tried again while an API does not answer."""


@dataclass(frozen=True, slots=True)
class Ends:
    """From where to where, as kubeconfigs; objects keep their namespace, which is the source's when none is named."""

    source: Path
    target: Path
    namespace: str = ""


async def pivot(
    ends: Ends,
    clock: Clock,
    tell: Callable[[MovePhase], None],
    *,
    undo: bool = False,
    detach_within: float = DETACH_WITHIN,
) -> Moved | None:
    """Move everything, or end what was begun; with `undo`, take back what was begun. Raises InputError, LabError."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rackless-pivot-")))

        def open_end(path: Path, name: str, namespace: str) -> tuple[KubernetesResources, str]:
            keep = folder / name
            keep.mkdir(mode=0o700)
            access, own = read_kubeconfig(path, keep)
            wanted = namespace or own or NAMESPACE
            found = KubernetesResources(access, namespace=wanted, patience=PATIENCE, clock=clock)
            stack.push_async_callback(found.close)
            return found, access.url

        source, _ = open_end(ends.source, "source", ends.namespace)
        # objects keep their namespace: they name each other by it
        target, url = open_end(ends.target, "target", source.namespace)
        work = Pivot(source, target, clock, url, tell, detach_within)
        if undo:
            await work.undo()
            return None
        await target.ensure_namespace()
        return await work.go()


def keep_kubeconfig(text: str, folder: Path) -> Path:
    """A kubeconfig that was made just now, as a file that is ours."""
    path = folder / "kubeconfig"
    write_secret(path, text)
    return path
