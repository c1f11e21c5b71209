"""An asset: a value with a name, the assets it is made of, and the function that makes it. Pure.

What an asset is worth is a few named texts (`Parts`): PEMs, an id, files with their paths. `read` turns them into what other
assets work with. An asset that people may see, and change, says which files are its own.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Generic, TypeVar

Parts = Mapping[str, str]
T = TypeVar("T")
_ASKED = TypeVar("_ASKED")


@dataclass(frozen=True, slots=True)
class Mistake:
    """What is wrong with a file that a person wrote, and where."""

    file: str
    line: int
    message: str
    fix: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.message}" + (f" ({self.fix})" if self.fix else "")


Check = Callable[[str, str], Iterator[Mistake]]
"""The mistakes in one file of a person's, given its path and its text."""


def _nothing(path: str, text: str) -> Iterator[Mistake]:
    yield from ()


@dataclass(frozen=True, slots=True, eq=False)
class Asset(Generic[T]):
    name: str
    title: str
    """What people are told it is called."""
    make: Callable[[Given], Parts]
    read: Callable[[Parts], T]
    needs: tuple[Asset[Any], ...] = ()
    files: tuple[str, ...] = ()
    """Patterns of the files in the folder that are taken for it. Where two assets' patterns fit, the earlier one's counts."""
    check: Check = _nothing
    options: Mapping[str, str] = field(default_factory=dict)
    """What else goes into it: a change makes it anew."""
    input: bool = False
    """Only people give it; `make` says what is missing."""
    chance: bool = False
    """Keys and invented names: different each time it is made, so it is made once and kept."""

    def owns(self, path: str) -> bool:
        return any(fnmatchcase(path, pattern) and path.count("/") == pattern.count("/") for pattern in self.files)

    def key(self, inputs: Mapping[str, str]) -> str:
        """What it is made of, as one hash: its name, its options, and the contents of what it needs."""
        made_of = [self.name, dict(sorted(self.options.items())), {need.name: inputs[need.name] for need in self.needs}]
        return hashlib.sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()


class Given:
    """The values that an asset is made of; it may ask for no others."""

    def __init__(self, asset: Asset[Any], values: Mapping[str, Parts]) -> None:
        self._asset = asset
        self._values = values

    def of(self, need: Asset[_ASKED]) -> _ASKED:
        return need.read(self.parts(need))

    def parts(self, need: Asset[Any]) -> Parts:
        assert need in self._asset.needs, f"{self._asset.name} does not say that it needs {need.name}"
        return self._values[need.name]


def digest(parts: Parts) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def as_is(parts: Parts) -> Parts:
    return parts


def only(parts: Parts) -> str:
    """The text of an asset that has one."""
    (text,) = parts.values()
    return text
