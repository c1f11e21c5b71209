"""Which kinds are served now: the built-in ones, and those of the stored CustomResourceDefinitions.

Follows the store by subscription; schemas are compiled when they are first used. A stored definition that cannot be
served (an earlier program accepted more, or somebody wrote into the store) is left out and told in `unreadable` and the
log: it never stops the others, and its objects stay where they are.
"""

from __future__ import annotations

import copy
import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from rackless.api.encoding import decode, encode
from rackless.api.kinds.custom import CRD, kind_of
from rackless.api.kinds.custom import problems as own_problems
from rackless.api.kinds.kind import Kind, Problems, Version, Writing
from rackless.api.kinds.openapi_model import try_model
from rackless.api.status import Cause, Json, forbidden_field, invalid_value
from rackless.api.stores.port import Store, StoredChange

log = logging.getLogger(__name__)
_VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")


def version_rank(name: str) -> tuple[int, int, int, str]:
    """Smaller is preferred: v2, v1, v1beta2, v1alpha1, anything else by name."""
    found = _VERSION.fullmatch(name)
    if not found:
        return (3, 0, 0, name)
    stage = {None: 0, "beta": 1, "alpha": 2}[found[2]]
    return (stage, -int(found[1]), -int(found[3] or 0), name)


def _resource_names(names: Json) -> Iterator[tuple[str, str]]:
    """(field, name) of what a kind is called in paths and on command lines."""
    yield "plural", names["plural"]
    yield "singular", names["singular"]
    for index, each in enumerate(names.get("shortNames") or ()):
        yield f"shortNames[{index}]", each


class Registry:
    def __init__(self, builtin: Iterable[Kind], rules: Mapping[str, Problems] | None = None) -> None:
        self._builtin = tuple(replace(kind, problems=self._problems) if kind is CRD else kind for kind in builtin)
        self._groups = frozenset(kind.group for kind in self._builtin)
        self._rules = rules or {}
        self._custom: dict[str, Kind] = {}
        self.unreadable: dict[str, str] = {}
        """Stored definitions that are not served, by their name, and why."""
        self._by_path: dict[tuple[str, str, str], tuple[Kind, Version]] = {}
        self._by_kind: dict[tuple[str, str], Kind] = {}
        self.revision = 0
        self._rebuild()

    def follow(self, store: Store) -> None:
        for entry in store.entries(CRD.bucket):
            self._read(entry.key, entry.data)
        self._rebuild()
        store.subscribe(self._changed)

    def _read(self, key: str, data: bytes) -> None:
        """Take a definition up, or tell why not. Never raises: the store calls it with what is already committed."""
        name = key.rpartition("/")[2]
        self._custom.pop(key, None)
        self.unreadable.pop(name, None)
        try:
            kind = kind_of(decode(data), self._rules)
            if kind.group in self._groups:
                raise ValueError(f"the group {kind.group!r} is built in")
            self._custom[key] = kind
        except Exception as error:
            self.unreadable[name] = str(error)
            log.error("the definition %s is not served: %s", name, error)

    def _changed(self, changes: Sequence[StoredChange]) -> None:
        touched = False
        for change in changes:
            if not change.key.startswith(CRD.bucket + "/"):
                continue
            touched = True
            if change.deleted:
                self._custom.pop(change.key, None)
                self.unreadable.pop(change.key.rpartition("/")[2], None)
            else:
                self._read(change.key, change.data)
        if touched:
            self._rebuild()

    def defined(self, definition: Json) -> Kind | None:
        """The kind that a stored definition has added; None when it is not served."""
        return self._custom.get(CRD.key("", definition["metadata"]["name"]))

    def _problems(self, writing: Writing) -> list[Cause]:
        """What is wrong with a definition, in itself and beside the kinds that are there."""
        found = own_problems(writing)
        if found or (writing.old or {}).get("spec") == writing.new["spec"]:
            return found
        found = list(self._taken(writing.new))
        if not found and (problem := self._trial(writing.new)):
            found.append(invalid_value("spec", writing.new["metadata"]["name"], f"cannot be served: {problem}"))
        return found

    def _taken(self, definition: Json) -> Iterator[Cause]:
        """Names belong to one kind of a group. The groups of built-in kinds take no others: they would share their
        objects, and nobody would guard them.
        """
        spec = definition["spec"]
        if spec["group"] in self._groups:
            why = f"the group {spec['group']!r} is built in and takes no definitions"
            yield forbidden_field("spec.group", why)
            return
        own = CRD.key("", definition["metadata"]["name"])
        others = [kind for key, kind in self._custom.items() if key != own and kind.group == spec["group"]]
        resources = {name for each in others for name in (each.plural, each.singular_name, *each.short_names)}
        kinds = {name for each in others for name in (each.kind, each.list_name)}
        for field, name in _resource_names(spec["names"]):
            if name in resources:
                yield invalid_value(f"spec.names.{field}", name, f'"{name}" is already in use')
        for field in ("kind", "listKind"):
            if spec["names"][field] in kinds:
                name = spec["names"][field]
                yield invalid_value(f"spec.names.{field}", name, f'"{name}" is already in use')

    def _trial(self, definition: Json) -> str:
        """Everything that is ever made of a definition, made once before it is accepted: why that fails, or nothing."""
        try:
            kind = kind_of(decode(encode(definition)), self._rules)
            for version in kind.versions:
                try_model(kind, version)
        except Exception as error:
            log.warning("a definition passed every check and cannot be served", exc_info=True)
            return f"{type(error).__name__}: {error}"
        return ""

    def _rebuild(self) -> None:
        by_path: dict[tuple[str, str, str], tuple[Kind, Version]] = {}
        by_kind: dict[tuple[str, str], Kind] = {}
        for kind in (*self._custom.values(), *self._builtin):
            by_kind[kind.group, kind.kind] = kind
            for version in kind.served.values():
                by_path[kind.group, version.name, kind.plural] = (kind, version)
        self._by_path, self._by_kind = by_path, by_kind
        self.revision += 1

    def snapshot(self) -> Registry:
        """The kinds as they are now, for somebody in another thread."""
        found = copy.copy(self)
        found._custom = dict(self._custom)
        return found

    def find(self, group: str, version: str, plural: str) -> tuple[Kind, Version] | None:
        return self._by_path.get((group, version, plural))

    def by_kind(self, group: str, kind: str) -> Kind | None:
        return self._by_kind.get((group, kind))

    def kinds(self) -> list[Kind]:
        return [*self._builtin, *self._custom.values()]

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
