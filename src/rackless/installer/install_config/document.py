"""YAML text as nodes that know their line and column, read as the installer's YAML reader does.

That reader (yaml.v2 behind sigs.k8s.io/yaml) takes the first document only, refuses a key that is written twice, takes
`y`, `on` and `no` for booleans, and does not know sexagesimal numbers (so a MAC of digits stays a text).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import yaml

Scalar = str | bool | int | float | None

_TRUE = frozenset("y Y yes Yes YES true True TRUE on On ON".split())
_FALSE = frozenset("n N no No NO false False FALSE off Off OFF".split())
_NULL = frozenset(("", "~", "null", "Null", "NULL"))
_INT = re.compile(r"[-+]?(0x[0-9a-fA-F]+|0b[01]+|0o?[0-7]+|0|[1-9][0-9]*)\Z")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
_DEEP = 400
"""Nesting beyond this is nobody's install-config, and would cost the reader its stack."""


@dataclass(frozen=True, slots=True)
class KeyNode:
    text: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Node:
    """A mapping has `entries`, a list `items`, anything else a `scalar`."""

    kind: str
    line: int
    column: int
    scalar: Scalar = None
    items: tuple[Node, ...] = ()
    entries: tuple[tuple[KeyNode, Node], ...] = ()


@dataclass(frozen=True, slots=True)
class YamlTrouble:
    """Why the text is no document at all, or which key is written twice."""

    message: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Document:
    root: Node | None
    troubles: tuple[YamlTrouble, ...] = ()
    more_documents: int = 0
    """Line of the second document, which the installer never reads; 0: there is none."""


def load(text: str) -> Document:
    """`text` may hold surrogates for bytes that were no UTF-8; they are a trouble, not an accident."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        before = text[: error.start]
        line, column = before.count("\n") + 1, error.start - (before.rfind("\n") + 1) + 1
        return Document(None, (YamlTrouble("invalid UTF-8", line, column),))
    parser = _parser()(text)
    try:
        return _Reader(parser).document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        said = " ".join(part for part in (error.problem, error.context) if part)
        return Document(None, (YamlTrouble(said, mark.line + 1 if mark else 1, mark.column + 1 if mark else 1),))
    except (yaml.YAMLError, ValueError) as error:
        return Document(None, (YamlTrouble(str(error).splitlines()[0], 1, 1),))
    except _TooDeep as deep:
        return Document(None, (YamlTrouble("the document is nested too deeply", deep.line, deep.column),))
    finally:
        parser.dispose()


def _parser() -> type[yaml.SafeLoader]:
    fast: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return fast


class _TooDeep(Exception):
    def __init__(self, line: int, column: int) -> None:
        super().__init__()
        self.line = line
        self.column = column


class _Reader:
    """Builds nodes from the parser's events: PyYAML's own composer has no guard against deep nesting."""

    def __init__(self, parser: yaml.SafeLoader) -> None:
        self.troubles: list[YamlTrouble] = []
        self._next: Callable[[], Any] = parser.get_event
        self._anchors: dict[str, Node | None] = {}
        self._depth = 0

    def document(self) -> Document:
        self._next()  # stream start
        if isinstance(self._next(), yaml.StreamEndEvent):
            return Document(None)
        root = self._read(self._next())
        self._next()  # document end
        try:
            more = self._next()
        except yaml.YAMLError:
            more = None  # nobody reads what follows
        is_document = isinstance(more, yaml.DocumentStartEvent) and more.start_mark is not None
        second = more.start_mark.line + 1 if is_document else 0
        return Document(root, tuple(self.troubles), second)

    def _read(self, event: Any) -> Node:
        line, column = event.start_mark.line + 1, event.start_mark.column + 1
        if isinstance(event, yaml.AliasEvent):
            return self._alias(str(event.anchor), line, column)
        if event.anchor:
            self._anchors[event.anchor] = None
        if isinstance(event, yaml.ScalarEvent):
            made = Node("scalar", line, column, scalar=_scalar(event))
        else:
            self._depth += 1
            if self._depth > _DEEP:
                raise _TooDeep(line, column)
            if isinstance(event, yaml.MappingStartEvent):
                made = Node("map", line, column, entries=self._entries())
            else:
                made = Node("list", line, column, items=self._items())
            self._depth -= 1
        if event.anchor:
            self._anchors[event.anchor] = made
        return made

    def _alias(self, anchor: str, line: int, column: int) -> Node:
        known = self._anchors.get(anchor)
        if known is None:
            reason = "value contains itself" if anchor in self._anchors else "is unknown"
            self.troubles.append(YamlTrouble(f"anchor {anchor!r} {reason}", line, column))
            return Node("scalar", line, column)
        return known

    def _items(self) -> tuple[Node, ...]:
        items = []
        while not isinstance(event := self._next(), yaml.SequenceEndEvent):
            items.append(self._read(event))
        return tuple(items)

    def _entries(self) -> tuple[tuple[KeyNode, Node], ...]:
        own: dict[str, tuple[KeyNode, Node]] = {}
        merged: dict[str, tuple[KeyNode, Node]] = {}
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            key_node = self._read(event)
            value = self._read(self._next())
            line, column = key_node.line, key_node.column
            if key_node.kind != "scalar":
                self.troubles.append(YamlTrouble("a key must be a text, not a map or a list", line, column))
                continue
            if isinstance(event, yaml.ScalarEvent) and event.value == "<<" and not event.style:
                for source in value.items or (value,):
                    merged.update({key.text: (key, inner) for key, inner in source.entries if key.text not in merged})
                continue
            text = (
                event.value if isinstance(event, yaml.ScalarEvent) and key_node.scalar is None else _key_text(key_node)
            )
            if text in own:
                self.troubles.append(YamlTrouble(f'key "{text}" already set in map', line, column))
            own[text] = (KeyNode(text, line, column), value)
        return tuple({**merged, **own}.values())


def _key_text(node: Node) -> str:
    if isinstance(node.scalar, bool):
        return "true" if node.scalar else "false"
    return str(node.scalar)


def _scalar(event: Any) -> Scalar:
    text = str(event.value)
    plain = not event.style and event.tag is None
    return resolve(text) if plain else text


def resolve(text: str) -> Scalar:
    """What a plain scalar means to yaml.v2."""
    if text in _NULL:
        return None
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    first = text[0]
    if first not in "+-.0123456789":
        return text
    plain = text.replace("_", "")
    if _INT.match(plain) and len(plain) < 40:
        return _integer(plain)
    if _FLOAT.match(plain) and len(plain) < 400:
        return float(plain)
    if plain.lower() in (".inf", "+.inf", "-.inf", ".nan"):
        return float(plain.lower().replace(".", ""))
    return text


def _integer(text: str) -> int:
    sign = -1 if text.startswith("-") else 1
    digits = text.lstrip("+-")
    for prefix, base in (("0x", 16), ("0b", 2), ("0o", 8)):
        if digits.startswith(prefix):
            return sign * int(digits[2:], base)
    if len(digits) > 1 and digits.startswith("0"):
        return sign * int(digits, 8)
    return sign * int(digits)
