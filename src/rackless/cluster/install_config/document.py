"""YAML text as nodes that know their line and column, read as the installer's YAML reader does.

That reader (yaml.v2 behind sigs.k8s.io/yaml) takes the first document only, refuses a key that is written twice, takes
`y`, `on` and `no` for booleans, and does not know sexagesimal numbers (so a MAC of digits stays a text).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

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
class Key:
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
    entries: tuple[tuple[Key, Node], ...] = ()


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why the text is no document at all, or which key is written twice."""

    message: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Document:
    root: Node | None
    troubles: tuple[Trouble, ...] = ()
    more_documents: int = 0
    """Line of the second document, which the installer never reads; 0: there is none."""


def load(text: str) -> Document:
    trouble = _too_deep(text)
    if trouble:
        return Document(None, (trouble,))
    try:
        loader = _loader()(text)
        try:
            first = loader.get_node() if loader.check_node() else None
            if first is None:
                return Document(None)
            second = _second_document(loader)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        said = " ".join(part for part in (error.problem, error.context) if part)
        return Document(None, (Trouble(said, mark.line + 1 if mark else 1, mark.column + 1 if mark else 1),))
    except (yaml.YAMLError, ValueError) as error:
        return Document(None, (Trouble(str(error).splitlines()[0], 1, 1),))
    reader = _Reader()
    root = reader.read(first)
    return Document(root, tuple(reader.troubles), second)


def _loader() -> type[yaml.SafeLoader]:
    fast: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return fast


def _second_document(loader: yaml.SafeLoader) -> int:
    try:
        node = loader.get_node() if loader.check_node() else None
    except yaml.YAMLError:
        return 0  # nobody reads it
    return node.start_mark.line + 1 if node else 0


def _too_deep(text: str) -> Trouble | None:
    """Guard the recursive composer: brackets, and block nesting by indentation or by `- - -`."""
    depth = 0
    for number, line in enumerate(text.splitlines(), 1):
        indent = len(line) - len(line.lstrip(" "))
        depth = max(0, depth + line.count("[") + line.count("{") - line.count("]") - line.count("}"))
        if indent > _DEEP * 2 or depth > _DEEP or line.count("- ") > _DEEP or line.count("? ") > _DEEP:
            return Trouble("the document is nested too deeply", number, 1)
    return None


class _Reader:
    """Turns composed nodes into ours; shared nodes (aliases) are read once."""

    def __init__(self) -> None:
        self.troubles: list[Trouble] = []
        self._done: dict[int, Node] = {}
        self._open: set[int] = set()

    def read(self, node: yaml.Node) -> Node:
        known = self._done.get(id(node))
        if known is not None:
            return known
        line, column = node.start_mark.line + 1, node.start_mark.column + 1
        if id(node) in self._open:
            self.troubles.append(Trouble("anchor value contains itself", line, column))
            return Node("scalar", line, column)
        self._open.add(id(node))
        if isinstance(node, yaml.MappingNode):
            made = Node("map", line, column, entries=self._entries(node))
        elif isinstance(node, yaml.SequenceNode):
            made = Node("list", line, column, items=tuple(self.read(item) for item in node.value))
        else:
            made = Node("scalar", line, column, scalar=_scalar(node))
        self._open.discard(id(node))
        self._done[id(node)] = made
        return made

    def _entries(self, node: yaml.MappingNode) -> tuple[tuple[Key, Node], ...]:
        own: dict[str, tuple[Key, Node]] = {}
        merged: dict[str, tuple[Key, Node]] = {}
        for key_node, value_node in node.value:
            line, column = key_node.start_mark.line + 1, key_node.start_mark.column + 1
            if not isinstance(key_node, yaml.ScalarNode):
                self.troubles.append(Trouble("a key must be a text, not a map or a list", line, column))
                continue
            value = self.read(value_node)
            if key_node.tag == "tag:yaml.org,2002:merge":
                for source in value.items or (value,):
                    merged.update({key.text: (key, inner) for key, inner in source.entries if key.text not in merged})
                continue
            text = _key_text(key_node)
            if text in own:
                self.troubles.append(Trouble(f'key "{text}" already set in map', line, column))
            own[text] = (Key(text, line, column), value)
        return tuple({**merged, **own}.values())


def _key_text(node: yaml.ScalarNode) -> str:
    value = _scalar(node)
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(node.value) if value is None or isinstance(value, float) else str(value)


def _scalar(node: yaml.Node) -> Scalar:
    text = str(node.value)
    if getattr(node, "style", None) not in (None, "") or node.tag == "tag:yaml.org,2002:binary":
        return text
    return resolve(text)


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
