"""Nodes → plain values by the field table, with the complaints the installer's JSON decoder would have.

Keys match whatever their case; numbers and booleans become texts where a text is wanted; `null` is as if the key were
absent. What does not fit is left out of the values, and remembered, so that later rules do not complain of it again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from rackless.installer.install_config.document import Node
from rackless.installer.install_config.findings import Finding, InstallerPhase, Severity
from rackless.installer.install_config.release import STRICT_KEYS, Release
from rackless.installer.install_config.schema import ROOT
from rackless.installer.install_config.schema_fields import (
    ANY,
    BOOL,
    CIDR,
    DURATION,
    INT32,
    INT64,
    STRING,
    UINT32,
    ConfigField,
    FieldType,
    Items,
    Struct,
)
from rackless.installer.install_config.values import parse_cidr

Value = str | bool | int | float | None | list["Value"] | dict[str, "Value"]

_RANGES = {INT32: (-(2**31), 2**31 - 1), INT64: (-(2**63), 2**63 - 1), UINT32: (0, 2**32 - 1)}
_DURATION = re.compile(r"[-+]?(0|(\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))+\Z")
_KINDS = {"map": "a map", "list": "a list"}
_MISSING = object()


@dataclass(slots=True)
class Decoded:
    values: dict[str, Value]
    positions: dict[str, tuple[int, int]] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    dropped: set[str] = field(default_factory=set)


class _Unfit(Exception):
    pass


def decode(root: Node, release: Release) -> Decoded:
    return _Decoder(release).run(root)


class _Decoder:
    def __init__(self, release: Release) -> None:
        self.release = release
        self.out = Decoded({})

    def run(self, root: Node) -> Decoded:
        if root.kind == "scalar" and root.scalar is None:
            return self.out
        if root.kind != "map":
            self._complain("", root, f"the file must be a map of fields, not {_KINDS.get(root.kind, 'a text')}", "")
            return self.out
        self.out.values = self._struct(ROOT, root, "")
        return self.out

    def _complain(
        self, path: str, node: Node, message: str, fix: str, phase: InstallerPhase = InstallerPhase.UNMARSHAL
    ) -> None:
        self.out.dropped.add(path)
        rule = "empty-entry" if phase is InstallerPhase.PANIC else "type"
        self._add(Finding(Severity.ERROR, path, node.line, node.column, message, fix, rule, phase))

    def _add(self, finding: Finding) -> None:
        self.out.findings.append(finding)

    def _struct(self, struct: Struct, node: Node, path: str) -> dict[str, Value]:
        values: dict[str, Value] = {}
        # keys are sorted on their way through JSON, so of two spellings of one key the last in that order wins
        for key, child in sorted(node.entries, key=lambda entry: entry[0].text):
            known = struct.by_key.get(key.text.lower())
            here = f"{path}.{known.name if known else key.text}" if path else (known.name if known else key.text)
            if known is None or self._unborn(known):
                if not struct.open:
                    self._unknown(struct, known, key.text, here, Node("scalar", key.line, key.column))
                continue
            if key.text != known.name:
                self._add(Finding(
                    Severity.WARNING, here, key.line, key.column,
                    f"the field is called {known.name}; the installer takes {key.text} for it, other tools do not",
                    f"write {known.name}", "key-case"))  # fmt: skip
            self._deprecated(known, here, key.line, key.column)
            self.out.positions[here] = (child.line, child.column)
            value = self._value(known.type, child, here)
            if value is not _MISSING:
                values[known.name] = cast(Value, value)
        return values

    def _unborn(self, known: ConfigField) -> bool:
        return known.since > self.release or (known.until is not None and known.until < self.release)

    def _unknown(self, struct: Struct, known: ConfigField | None, text: str, path: str, at: Node) -> None:
        if known is not None:
            message = f"{known.name} exists only from {known.since} on; {self.release} does not know it"
            fix = f"remove it, or install {known.since} or newer"
        else:
            near = _nearest(text, struct)
            message = f"there is no field {text} here"
            fix = f"did you mean {near}?" if near else "remove it"
        if self.release >= STRICT_KEYS:
            self.out.dropped.add(path)
            self._add(
                Finding(Severity.ERROR, path, at.line, at.column, message, fix, "unknown-key", InstallerPhase.UNMARSHAL)
            )
            return
        vital = known is not None and known.vital
        self._add(Finding(
            Severity.FATAL_LATER if vital else Severity.WARNING, path, at.line, at.column,
            f"{message}; the installer ignores it with a warning (from {STRICT_KEYS} on it rejects it)",
            fix, "unknown-key"))  # fmt: skip

    def _deprecated(self, known: ConfigField, path: str, line: int, column: int) -> None:
        if known.deprecated and known.deprecated <= self.release:
            self._add(Finding(
                Severity.WARNING, path, line, column, f"{known.name} is deprecated since {known.deprecated}",
                f"use {known.instead}" if known.instead else "remove it", "deprecated"))  # fmt: skip

    def _value(self, kind: FieldType, node: Node, path: str) -> Value | object:
        if node.kind == "scalar" and node.scalar is None:
            return _MISSING
        try:
            if isinstance(kind, Struct):
                if node.kind != "map":
                    raise _Unfit("a map of fields")
                return self._struct(kind, node, path)
            if isinstance(kind, Items):
                if node.kind != "list":
                    raise _Unfit("a list")
                return self._items(kind, node, path)
            return plain(node) if kind == ANY else self._scalar(kind, node)
        except _Unfit as wanted:
            got = _KINDS.get(node.kind) or f"{'the text ' if isinstance(node.scalar, str) else ''}{_shown(node.scalar)}"
            self._complain(path, node, f"this must be {wanted}, not {got}", f"write {wanted}")
            return _MISSING

    def _items(self, kind: Items, node: Node, path: str) -> list[Value]:
        values: list[Value] = []
        for index, item in enumerate(node.items):
            here = f"{path}[{index}]"
            self.out.positions[here] = (item.line, item.column)
            blank: Value = {} if isinstance(kind.of, Struct) else ""
            if item.kind == "scalar" and item.scalar is None:
                if kind.null_panics:
                    self._complain(
                        here, item, "an empty entry makes the installer panic", "remove it", InstallerPhase.PANIC
                    )
                values.append(blank)
                continue
            value = self._value(kind.of, item, here)
            # an entry that did not fit keeps its place, so that the entries after it keep their index
            values.append(blank if value is _MISSING else cast(Value, value))
        return values

    def _scalar(self, kind: str, node: Node) -> Value:
        value = node.scalar
        if node.kind != "scalar":
            raise _Unfit(
                {STRING: "a text", BOOL: "true or false"}.get(kind, "a number" if kind in _RANGES else "a text")
            )
        if kind == STRING:
            return value if isinstance(value, str) else _shown(value)
        if kind == BOOL:
            if not isinstance(value, bool):
                raise _Unfit("true or false, without quotes")
            return value
        if kind in _RANGES:
            return _number(kind, value)
        if kind == CIDR and (not isinstance(value, str) or parse_cidr(value) is None):
            raise _Unfit("a network such as 192.168.111.0/24")
        if kind == DURATION and (not isinstance(value, str) or not _DURATION.match(value)):
            raise _Unfit("a duration such as 90s")
        return value


def _number(kind: str, value: object) -> int:
    low, high = _RANGES[kind]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _Unfit("a number, without quotes")
    if isinstance(value, float) and (value != value or abs(value) == float("inf") or value != int(value)):
        raise _Unfit("a whole number")
    if not low <= int(value) <= high:
        raise _Unfit(f"a number from {low} to {high}")
    return int(value)


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else str(value)


def plain(node: Node, done: dict[int, Value] | None = None) -> Value:
    """A free-form value (NMState, other platforms) as plain data; what is aliased is made once and shared."""
    done = {} if done is None else done
    if id(node) not in done:
        if node.kind == "map":
            done[id(node)] = {key.text: plain(child, done) for key, child in node.entries}
        elif node.kind == "list":
            done[id(node)] = [plain(item, done) for item in node.items]
        else:
            done[id(node)] = node.scalar
    return done[id(node)]


def _nearest(text: str, struct: Struct) -> str:
    from difflib import get_close_matches

    names: Mapping[str, ConfigField] = struct.by_key
    found = get_close_matches(text.lower(), list(names), n=1, cutoff=0.75)
    return names[found[0]].name if found else ""
