"""A kind as a value: its names, its versions with their schemas and columns, and the rules that are its own.

Built-in kinds and custom ones are the same type; everything above asks the kind and never its name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

from rackless.api.names import subdomain_problem
from rackless.api.schema.structural import Node, compile_schema
from rackless.api.status import Cause, Json


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def info(self) -> Json:
        found: Json = {"username": self.name, "groups": list(self.groups)}
        if self.uid:
            found["uid"] = self.uid
        if self.extra:
            found["extra"] = {key: list(values) for key, values in self.extra.items()}
        return found


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the Table form; `value` is given the object and the time."""

    name: str
    value: Callable[[Json], Any]
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Scale:
    """Where the scale subresource finds its numbers, as paths of names."""

    spec_path: tuple[str, ...]
    status_path: tuple[str, ...]
    selector_path: tuple[str, ...] | None = None


@dataclass(frozen=True, eq=False)
class Version:
    name: str
    schema: Json
    columns: tuple[Column, ...] = ()
    served: bool = True
    storage: bool = True
    status: bool = False
    scale: Scale | None = None
    warning: str = ""

    @cached_property
    def walk(self) -> Node:
        return compile_schema(self.schema, root=True)

    @cached_property
    def rules(self) -> Callable[[Json, Json | None], list[Cause]] | None:
        """The rules in CEL beside the schema, if there are any."""
        from rackless.api.schema.rules import check_rules, compile_rules

        check = compile_rules(self.schema)
        return partial(check_rules, check) if check else None


@dataclass(frozen=True, slots=True)
class Writing:
    """What a kind's own rules may look at: the object as it will be, as it was, and who writes it."""

    new: Json
    old: Json | None
    caller: Caller
    now: str
    subresource: str = ""
    warnings: list[str] = field(default_factory=list)


Prepare = Callable[[Writing], None]
Problems = Callable[[Writing], list[Cause]]

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, eq=False)
class Kind:
    group: str
    plural: str
    kind: str
    versions: tuple[Version, ...]
    namespaced: bool = True
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    list_kind: str = ""
    verbs: tuple[str, ...] = ALL_VERBS
    custom: bool = False
    name_problem: Callable[[str], str] = subdomain_problem
    unconditional_update: bool = False
    create_on_update: bool = False
    generation: bool = False
    prepare: Prepare | None = None
    problems: Problems | None = None
    field_names: frozenset[str] = frozenset()
    fields: Callable[[Mapping[str, Any]], Mapping[str, str]] | None = None
    extra_subresources: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    stored_as: tuple[str, str] | None = None
    to_stored: Callable[[Json], Json] | None = None
    from_stored: Callable[[Json], Json] | None = None
    immortal: frozenset[str] = frozenset()
    """Names of objects that cannot be deleted."""

    @cached_property
    def bucket(self) -> str:
        group, plural = self.stored_as or (self.group, self.plural)
        return f"{group or 'core'}/{plural}"

    @cached_property
    def list_name(self) -> str:
        return self.list_kind or f"{self.kind}List"

    @cached_property
    def singular_name(self) -> str:
        return self.singular or self.kind.lower()

    @cached_property
    def served(self) -> dict[str, Version]:
        return {version.name: version for version in self.versions if version.served}

    @cached_property
    def storage(self) -> Version:
        return next(version for version in self.versions if version.storage)

    def api_version(self, version: str) -> str:
        return f"{self.group}/{version}" if self.group else version

    def key(self, namespace: str, name: str) -> str:
        return f"{self.bucket}/{namespace if self.namespaced else ''}/{name}"
