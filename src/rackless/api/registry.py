"""Which kinds are served now: the built-in ones, and those of the stored CustomResourceDefinitions.

Follows the store by subscription; definitions are decoded when they are first needed, schemas compiled when first used.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from rackless.api.encoding import decode
from rackless.api.kinds.custom import CRD, kind_of
from rackless.api.kinds.kind import Kind, Problems, Version
from rackless.api.stores.port import Change, Store

_VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")


def version_rank(name: str) -> tuple[int, int, int, str]:
    """Smaller is preferred: v2, v1, v1beta2, v1alpha1, anything else by name."""
    found = _VERSION.fullmatch(name)
    if not found:
        return (3, 0, 0, name)
    stage = {None: 0, "beta": 1, "alpha": 2}[found[2]]
    return (stage, -int(found[1]), -int(found[3] or 0), name)


class Registry:
    def __init__(self, builtin: Iterable[Kind], rules: Mapping[str, Problems] | None = None) -> None:
        self._builtin = tuple(builtin)
        self._rules = rules or {}
        self._custom: dict[str, tuple[int, Kind]] = {}
        self._by_path: dict[tuple[str, str, str], tuple[Kind, Version]] = {}
        self._by_kind: dict[tuple[str, str], Kind] = {}
        self.revision = 0
        self._rebuild()

    def follow(self, store: Store) -> None:
        for entry in store.entries(CRD.bucket):
            self._custom[entry.key] = (entry.revision, kind_of(decode(entry.data), self._rules))
        self._rebuild()
        store.subscribe(self._changed)

    def _changed(self, changes: Sequence[Change]) -> None:
        touched = False
        for change in changes:
            if not change.key.startswith(CRD.bucket + "/"):
                continue
            touched = True
            if change.deleted:
                self._custom.pop(change.key, None)
            else:
                self._custom[change.key] = (change.revision, kind_of(decode(change.data), self._rules))
        if touched:
            self._rebuild()

    def _rebuild(self) -> None:
        by_path: dict[tuple[str, str, str], tuple[Kind, Version]] = {}
        by_kind: dict[tuple[str, str], Kind] = {}
        for kind in (*(kind for _, kind in self._custom.values()), *self._builtin):
            by_kind[kind.group, kind.kind] = kind
            for version in kind.served.values():
                by_path[kind.group, version.name, kind.plural] = (kind, version)
        self._by_path, self._by_kind = by_path, by_kind
        self.revision += 1

    def find(self, group: str, version: str, plural: str) -> tuple[Kind, Version] | None:
        return self._by_path.get((group, version, plural))

    def by_kind(self, group: str, kind: str) -> Kind | None:
        return self._by_kind.get((group, kind))

    def kinds(self) -> list[Kind]:
        return [*self._builtin, *(kind for _, kind in self._custom.values())]

    def groups(self) -> dict[str, list[str]]:
        """Every group with its served versions, preferred first."""
        found: dict[str, set[str]] = {}
        for group, version, _ in self._by_path:
            found.setdefault(group, set()).add(version)
        return {group: sorted(versions, key=version_rank) for group, versions in found.items()}

    def resources(self, group: str, version: str) -> list[tuple[Kind, Version]]:
        return sorted(
            (pair for (g, v, _), pair in self._by_path.items() if (g, v) == (group, version)),
            key=lambda pair: pair[0].plural,
        )
