"""What is known of a folder from earlier commands: every asset's value and key, and the files that were handed out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rackless.errors import InputError
from rackless.installer.assets.asset import Parts

VERSION = 1


@dataclass(frozen=True, slots=True)
class AssetEntry:
    key: str
    parts: Parts = field(repr=False)
    edited: bool = False
    """Whether a person gave it: a file of theirs stands in place of ours."""


@dataclass(frozen=True, slots=True)
class FolderState:
    entries: Mapping[str, AssetEntry] = field(default_factory=dict)
    handed: Mapping[str, str] = field(default_factory=dict)
    """The files that lie in the folder because we wrote them, and the hash of what we wrote."""

    def render(self) -> str:
        tree = {
            "version": VERSION,
            "assets": {
                name: {"key": entry.key, "edited": entry.edited, "parts": dict(entry.parts)}
                for name, entry in sorted(self.entries.items())
            },
            "handed": dict(sorted(self.handed.items())),
        }
        return json.dumps(tree, indent=1) + "\n"


def load(text: str, source: str) -> FolderState:
    """The state in a file's text; `source` is its name, for the error."""
    try:
        tree = json.loads(text)
        version = tree["version"]
        if isinstance(version, int) and version > VERSION:
            raise InputError(
                f"{source} was written by a newer rackless",
                why=f"its format is {version}; this one knows formats up to {VERSION}",
                hint="go on with the newer one, or begin again in an empty folder",
            )
        entries = {name: _entry(entry) for name, entry in tree["assets"].items()}
        handed = {str(path): str(found) for path, found in tree["handed"].items()}
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise InputError(
            f"{source} is damaged",
            why=f"{type(error).__name__}: {error}",
            hint="restore it, or begin again in an empty folder: keys that were made are lost with it",
        ) from error
    return FolderState(entries, handed)


def _entry(tree: dict[str, Any]) -> AssetEntry:
    parts = {str(name): text for name, text in tree["parts"].items()}
    if not all(isinstance(text, str) for text in parts.values()):
        raise TypeError("a part is not a text")
    return AssetEntry(str(tree["key"]), parts, bool(tree["edited"]))
