"""What a YAML document stands for: weighed before any value is made of it.

A document of a few hundred bytes may mean gigabytes when its aliases are written out, and merge keys write them out while it is
read. So the nodes are weighed, each with all that it stands for. Before that they are made, by libyaml's binding, which calls
itself once for each level without looking at its stack: 60 KB of `- - - -` end the process. So the depth is looked at first.
Knows YAML and nothing of what is described in it.
"""

from __future__ import annotations

from typing import Any

import yaml

MOST_BYTES = 3 * 1024 * 1024
MOST_NODES = 500_000
MOST_DEPTH = 500
_LONGEST_NUMBER = 100
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")


LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class TooHeavy(ValueError):
    """The document stands for too much, is too deep, or contains itself."""


def check_depth(text: str | bytes) -> None:
    """To be called before nodes are made of a text. Raises TooHeavy, yaml.YAMLError."""
    if _deepest(text) <= MOST_DEPTH:
        return
    depth = 0
    for event in yaml.parse(text, Loader=LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MOST_DEPTH:
                raise TooHeavy(f"it is nested more than {MOST_DEPTH} levels deep")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _deepest(text: str | bytes) -> int:
    """At most so deep, at a glance: a level of a block takes a column, or half of one, and any other level a bracket."""
    if isinstance(text, bytes):
        longest, brackets = max(map(len, text.splitlines()), default=0), text.count(b"[") + text.count(b"{")
    else:
        longest, brackets = max(map(len, text.splitlines()), default=0), text.count("[") + text.count("{")
    return 2 * longest + brackets


def weigh(node: yaml.Node, *, most_nodes: int = MOST_NODES, most_bytes: int = MOST_BYTES) -> None:
    """Raises TooHeavy."""
    _Weight(most_nodes, most_bytes).of(node)


def load_weighed(text: str, *, most_nodes: int = MOST_NODES, most_bytes: int = MOST_BYTES) -> Any:
    """The document, read by libyaml where it is there. Raises yaml.YAMLError, ValueError, RecursionError."""
    if len(text) > most_bytes:
        raise TooHeavy(f"it has more than {most_bytes} characters")
    check_depth(text)
    loader = LOADER(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        weigh(node, most_nodes=most_nodes, most_bytes=most_bytes)
        return loader.construct_document(node)
    finally:
        loader.dispose()


class _Weight:
    """How many nodes and characters a node stands for; refuses what is too many, and what contains itself."""

    def __init__(self, most_nodes: int, most_bytes: int) -> None:
        self._most = most_nodes, most_bytes
        self._known: dict[int, tuple[int, int]] = {}
        self._open: set[int] = set()

    def of(self, node: Any) -> tuple[int, int]:
        mark = id(node)
        if mark in self._open:
            raise TooHeavy("an anchor contains itself")
        found = self._known.get(mark)
        if found is not None:
            return found
        self._open.add(mark)
        nodes, size = 1, 0
        if isinstance(node, yaml.ScalarNode):
            size = len(node.value)
            if size > _LONGEST_NUMBER and node.tag in _NUMBERS:
                raise TooHeavy(f"a number of {size} digits")
        else:
            inner = (
                node.value if isinstance(node, yaml.SequenceNode) else (part for pair in node.value for part in pair)
            )
            for each in inner:
                more, longer = self.of(each)
                nodes, size = nodes + more, size + longer
                if nodes > self._most[0] or size > self._most[1]:
                    raise TooHeavy("document contains excessive aliasing")
        self._open.discard(mark)
        self._known[mark] = nodes, size
        return nodes, size
