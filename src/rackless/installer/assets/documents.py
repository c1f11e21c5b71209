"""YAML and JSON as people are given them: keys in order, so that the same value is always the same bytes. Pure."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

import yaml

_TAKEN_FOR_BOOLEANS = frozenset("yYnN")
"""By the installer's reader of YAML, and not by ours."""


class _Dumper(yaml.SafeDumper):
    """Long texts as blocks, nothing folded, nothing shared."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value else "'" if value in _TAKEN_FOR_BOOLEANS else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def render(*trees: Mapping[str, Any]) -> str:
    return "---\n".join(
        yaml.dump(dict(tree), Dumper=_Dumper, sort_keys=True, width=10_000, allow_unicode=True) for tree in trees
    )


def render_json(tree: Mapping[str, Any]) -> str:
    return json.dumps(tree, sort_keys=True, separators=(",", ":")) + "\n"


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
