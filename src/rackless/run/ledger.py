"""The ledger: what a lab owns on the hypervisor (links, namespaces, firewall rules, folders), written down before it is made and
struck when it is gone.

One JSON object a line, appended and synced; `own` before making, `strike` after removing. A half-written last line
(power cut, kill -9) is the entry of something not yet made, and is ignored. `destroy` walks the entries backwards.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rackless.run.files import sync_folder

VERSION = 1


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    kind: str
    id: str
    detail: Mapping[str, str] = field(default_factory=dict)


class Ledger:
    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def exists(self) -> bool:
        return self.path.exists()

    def entries(self) -> list[LedgerEntry]:
        """What the lab owns, oldest first."""
        owned: dict[tuple[str, str], LedgerEntry] = {}
        try:
            lines = self.path.read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return []
        for line in lines:
            try:
                value = json.loads(line)
                key = (str(value["kind"]), str(value["id"]))
            except (ValueError, KeyError, TypeError):
                continue
            if value.get("struck"):
                owned.pop(key, None)
            else:
                owned[key] = LedgerEntry(*key, value.get("detail", {}))
        return list(owned.values())

    def own(self, kind: str, id: Path | str, **detail: str) -> None:
        if LedgerEntry(kind, str(id), detail) not in self.entries():
            self._append({"version": VERSION, "kind": kind, "id": str(id), "detail": detail})

    def strike(self, entry: LedgerEntry) -> None:
        self._append({"version": VERSION, "kind": entry.kind, "id": entry.id, "struck": True})

    def close(self) -> None:
        """Delete the ledger: the lab owns nothing any more."""
        self.path.unlink(missing_ok=True)

    def _append(self, value: Mapping[str, object]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        new = not self.path.exists()
        with self.path.open("ab") as file:
            if file.tell() and not self._ends_with_newline():
                file.write(b"\n")
            file.write(json.dumps(value).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        if new:
            sync_folder(self.path.parent)

    def _ends_with_newline(self) -> bool:
        with self.path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"
