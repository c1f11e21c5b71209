"""The manifests of an install, brought into the bootstrap's API one after the other.

In the order of their files' names, `manifests` before `openshift`. What is refused is tried again after the others: a kind may be
defined by a manifest that comes later, and an API that has just come up may lose a request. An object that is there already is left
as it is, so this may be cut off and started again, and does not undo what controllers have written since.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import yaml

from rackless.cluster.bootstrap.telling import Tell
from rackless.errors import GaveUp, InputError, RacklessError
from rackless.ports.clock import Clock
from rackless.yaml_weight import LOADER, TooHeavy, check_depth

FOLDERS = ("manifests", "openshift")
ENDINGS = (".yaml", ".yml", ".json")
PAUSE_SECONDS = 2.0
"""Between two rounds over what was refused."""
WITHIN_SECONDS = 1200.0
"""For all of it, from the API's first moment: 20 minutes, as the OpenShift installer waits for an API."""


class NotTaken(RacklessError):
    """The API does not take an object, or does not answer, for now."""


class ObjectStore(Protocol):
    """The API that objects are made in."""

    async def create(self, thing: Mapping[str, Any]) -> bool:
        """False when it is there already. Raises NotTaken."""
        ...


@dataclass(frozen=True, slots=True)
class Manifest:
    file: str
    thing: Mapping[str, Any]

    @property
    def name(self) -> str:
        metadata = self.thing["metadata"]
        place = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
        return f"{self.thing['kind']} {place}{metadata['name']}"


def load_manifests(root: Path) -> list[Manifest]:
    """Raises InputError with the file that cannot be read."""
    found: list[Manifest] = []
    for folder in FOLDERS:
        for path in sorted(each for each in (root / folder).glob("*") if each.suffix in ENDINGS):
            found += _read(path, f"{folder}/{path.name}")
    return found


def _read(path: Path, file: str) -> Iterator[Manifest]:
    try:
        text = path.read_text(encoding="utf-8")
        check_depth(text)
        things = list(yaml.load_all(text, Loader=LOADER))
    except (OSError, UnicodeDecodeError, yaml.YAMLError, TooHeavy) as error:
        raise InputError(f"the manifest {file} cannot be read", why=str(error)) from error
    for thing in things:
        if thing is None:  # nothing but a comment
            continue
        metadata = thing.get("metadata") if isinstance(thing, dict) else None
        if not isinstance(metadata, dict) or not metadata.get("name") or not thing.get("kind"):
            raise InputError(f"the manifest {file} holds something that is no object")
        yield Manifest(file, thing)


async def apply(
    manifests: Sequence[Manifest], store: ObjectStore, clock: Clock, tell: Tell, *, within: float = WITHIN_SECONDS
) -> None:
    """Make all of them; each is told once when it is there, and whenever the reason why it is not changes. Raises GaveUp."""
    deadline = clock.now() + within
    left, done = list(manifests), 0
    refused: dict[str, str] = {}
    while True:
        remaining: list[Manifest] = []
        for each in left:
            try:
                made = await store.create(each.thing)
            except NotTaken as error:
                remaining.append(each)
                if refused.get(each.name) != str(error):
                    refused[each.name] = str(error)
                    tell({"manifest": each.name, "file": each.file, "refused": str(error)})
                continue
            done += 1
            tell({"manifest": each.name, "file": each.file, "made": made, "done": done, "of": len(manifests)})
        left = remaining
        if not left:
            return
        if clock.now() >= deadline:
            last = "; ".join(f"{each.name}: {refused[each.name]}" for each in left[:5])
            raise GaveUp(f"{len(left)} of {len(manifests)} manifests to be taken", within, last)
        await clock.sleep(PAUSE_SECONDS)
