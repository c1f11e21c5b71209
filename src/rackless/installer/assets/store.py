"""Fetching a target: what the folder holds, what is known from before, and what must be made. Pure.

- A file that differs from what we wrote is a person's. It overrides the asset it belongs to, and all that is made of it.
- What a person wrote is dropped, with a warning, when what it was made of has changed meanwhile: it would contradict it.
- A file that was handed out and is gone was removed by a person, and stays away; when all of a target's are gone, they are
  handed out again.
- Files of assets that went into the target are consumed: they leave the folder and live on in the state.
- What is made of the same things is not made again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rackless.errors import InputError
from rackless.installer.assets.asset import Asset, Given, Mistake, Parts, digest
from rackless.installer.assets.graph import AssetTarget, Graph, closure
from rackless.installer.assets.state import AssetEntry, FolderState

Disk = Mapping[str, str]
"""The files of a folder, by their path in it."""


class FilesWrong(InputError):
    """Files that people wrote have mistakes; all of them, so that they are mended once."""

    def __init__(self, mistakes: tuple[Mistake, ...]) -> None:
        count = len(mistakes)
        super().__init__(
            f"{count} mistake{'s' if count != 1 else ''} in {', '.join(dict.fromkeys(one.file for one in mistakes))}",
            why="\n".join(str(one) for one in mistakes),
            hint="mend what is named and run the same command again; nothing was changed",
        )
        self.mistakes = mistakes


@dataclass(frozen=True, slots=True)
class FetchNote:
    """What a command tells about what it did; warnings are for everybody, debug is for the log."""

    level: str
    text: str


@dataclass(frozen=True, slots=True)
class Fetched:
    """What has to become of the folder: first the state, then the files, then what is consumed goes."""

    state: FolderState
    """Without the files of this target: they are not yet there."""
    write: Mapping[str, str] = field(repr=False)
    consume: tuple[str, ...]
    notes: tuple[FetchNote, ...]

    @property
    def handed(self) -> FolderState:
        """The state once the files are there."""
        left = {path: found for path, found in self.state.handed.items() if path not in self.consume}
        return replace(self.state, handed=left | {path: hash_of(text) for path, text in self.write.items()})


def fetch(target: AssetTarget, graph: Graph, state: FolderState, disk: Disk) -> Fetched:
    return _Fetch(target, graph, state, disk).run()


def hash_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


class _Fetch:
    def __init__(self, target: AssetTarget, graph: Graph, state: FolderState, disk: Disk) -> None:
        self.target = target
        self.assets = closure(target.assets)
        self.all_assets = graph.assets
        self.all_targets = graph.targets
        self.state = state
        self.disk = disk
        self.entries: dict[str, AssetEntry] = {}
        self.notes: list[FetchNote] = []

    def run(self) -> Fetched:
        on_disk = self._on_disk()
        mistakes = [
            mistake
            for asset in self.assets
            for path, text in on_disk[asset.name].items()
            if not self._ours(asset, path, text)
            for mistake in asset.check(path, text)
        ]
        if mistakes:
            raise FilesWrong(tuple(mistakes))
        for asset in self.assets:
            self.entries[asset.name] = self._resolve(asset, on_disk[asset.name])
        write = {path: text for asset in self.target.assets for path, text in self.entries[asset.name].parts.items()}
        consume = tuple(path for found in on_disk.values() for path in found if path not in write)
        self._tell_consumed(on_disk, consume)
        known = {**self.state.entries, **self.entries}
        return Fetched(FolderState(known, self.state.handed), write, consume, tuple(self.notes))

    def _on_disk(self) -> dict[str, dict[str, str]]:
        found: dict[str, dict[str, str]] = {asset.name: {} for asset in self.all_assets}
        for path, text in sorted(self.disk.items()):
            owner = self._owner(path)
            if owner is not None:
                found[owner.name][path] = text
        return {asset.name: found[asset.name] for asset in self.assets}

    def _owner(self, path: str) -> Asset[Any] | None:
        return next((asset for asset in self.all_assets if asset.owns(path)), None)

    def _ours(self, asset: Asset[Any], path: str, text: str) -> bool:
        old = self.state.entries.get(asset.name)
        return self.state.handed.get(path) == hash_of(text) or (old is not None and old.parts.get(path) == text)

    def _resolve(self, asset: Asset[Any], found: Parts) -> AssetEntry:
        inputs = {need.name: digest(self.entries[need.name].parts) for need in asset.needs}
        key, old = asset.key(inputs), self.state.entries.get(asset.name)
        theirs = {path: text for path, text in found.items() if not self._ours(asset, path, text)}
        removed = self._removed(asset)
        if old is not None and old.key != key and (old.edited or theirs or removed):
            self._tell(
                "warning",
                f"Discarding the {asset.title} that was provided in the folder: what it is made of has changed",
            )
        elif theirs or removed:
            self._tell("debug", f"Using the {asset.title} found in the folder")
            base = {} if asset.input else old.parts if old is not None else self._make(asset)
            kept = {path: text for path, text in base.items() if path not in removed}
            return AssetEntry(key, kept | theirs, edited=True)
        if old is not None and old.key == key:
            self._tell("debug", f"Reusing the {asset.title}")
            return old
        self._tell("debug", f"Generating the {asset.title}")
        return AssetEntry(key, self._make(asset))

    def _make(self, asset: Asset[Any]) -> Parts:
        values = {need.name: self.entries[need.name].parts for need in asset.needs}
        return dict(asset.make(Given(asset, values)))

    def _removed(self, asset: Asset[Any]) -> set[str]:
        """Files that we handed out and that a person took away, of a target of which others are still there."""
        gone = {path for path in self.state.handed if path not in self.disk and self._owner(path) is asset}
        if not gone:
            return set()
        companions = {each for target in self.all_targets if asset in target.assets for each in target.assets}
        left = any(path in self.disk and self._owner(path) in companions for path in self.state.handed)
        return gone if left else set()

    def _tell_consumed(self, on_disk: dict[str, dict[str, str]], consume: tuple[str, ...]) -> None:
        for asset in self.assets:
            if any(path in consume for path in on_disk[asset.name]):
                self._tell("info", f"Consuming {asset.title} from the folder")

    def _tell(self, level: str, text: str) -> None:
        self.notes.append(FetchNote(level, text))
