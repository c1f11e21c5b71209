"""YAML in and out, by libyaml, within bounds: what aliases stand for counts, and numbers are as long as numbers are.

A document of a few hundred bytes may mean gigabytes when its aliases are written out, and merge keys write them out
while it is read. So the nodes are weighed, each with all that it stands for, before any value is made of them.
"""

from __future__ import annotations

import json
from typing import Any

import yaml

from rackless.api.encoding import decode
from rackless.api.status import bad_request

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_Dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

MOST_BYTES = 3 * 1024 * 1024
_MOST_NODES = 500_000
_LONGEST_NUMBER = 100
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")


def load(raw: bytes) -> Any:
    """The document as JSON values. Raises Refused."""
    loader = _Loader(raw)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _Weight().of(node)
        # Through JSON: YAML's dates and its own types are no JSON values.
        return decode(json.dumps(loader.construct_document(node), default=str).encode())
    except (yaml.YAMLError, ValueError, RecursionError, TypeError) as error:
        raise bad_request(f"error converting YAML to JSON: {error}") from error
    finally:
        loader.dispose()


def dump(value: Any) -> bytes:
    written: str = yaml.dump(value, Dumper=_Dumper)
    return written.encode()


class _Weight:
    """How many nodes and characters a node stands for; refuses what is too many, and what contains itself."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[int, int]] = {}
        self._open: set[int] = set()

    def of(self, node: Any) -> tuple[int, int]:
        mark = id(node)
        if mark in self._open:
            raise ValueError("an anchor contains itself")
        found = self._known.get(mark)
        if found is not None:
            return found
        self._open.add(mark)
        nodes, size = 1, 0
        if isinstance(node, yaml.ScalarNode):
            size = len(node.value)
            if size > _LONGEST_NUMBER and node.tag in _NUMBERS:
                raise ValueError(f"a number of {size} digits")
        else:
            inner = (
                node.value if isinstance(node, yaml.SequenceNode) else (part for pair in node.value for part in pair)
            )
            for each in inner:
                more, longer = self.of(each)
                nodes, size = nodes + more, size + longer
                if nodes > _MOST_NODES or size > MOST_BYTES:
                    raise ValueError("document contains excessive aliasing")
        self._open.discard(mark)
        self._known[mark] = nodes, size
        return nodes, size
