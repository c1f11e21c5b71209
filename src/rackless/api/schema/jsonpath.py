"""The JSONPath that printer columns and CRDs use: names, indexes, wildcards and `[?(@.x=="y")]`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

_TOKEN = re.compile(
    r"""\.(?P<name>(?:\\.|[^.\[\\])+)"""
    r"""|\[(?P<index>-?\d+)\]|(?P<all>\[\*\])"""
    r"""|\[(?P<quote>['"])(?P<key>.*?)(?P=quote)\]"""
    r"""|\[\?\(\s*@\.(?P<field>[\w.\-/]+)\s*(?P<op>==|!=)\s*(?P<wanted>"[^"]*"|'[^']*'|[\w.\-]+)\s*\)\]"""
)
Step = Callable[[list[Any]], list[Any]]


def _by_name(name: str) -> Step:
    if name == "*":
        return _everything
    return lambda values: [value[name] for value in values if isinstance(value, dict) and name in value]


def _by_index(index: int) -> Step:
    return lambda values: [
        value[index] for value in values if isinstance(value, list) and -len(value) <= index < len(value)
    ]


def _everything(values: list[Any]) -> list[Any]:
    found: list[Any] = []
    for value in values:
        found.extend(value.values() if isinstance(value, dict) else value if isinstance(value, list) else ())
    return found


def _where(path: str, equal: bool, wanted: str) -> Step:
    names = path.split(".")

    def field(value: Any) -> Any:
        for name in names:
            value = value.get(name) if isinstance(value, dict) else None
        return value

    def same(value: Any) -> bool:
        found = field(value)
        text = str(found).lower() if isinstance(found, bool) else str(found)
        return found is not None and (text == wanted) is equal

    return lambda values: [each for value in values if isinstance(value, list) for each in value if same(each)]


def compile_path(path: str) -> Callable[[Any], list[Any]]:
    """A function from an object to every value at the path. ValueError when the path is not understood."""
    text = path.strip()
    if text.startswith("{") and text.endswith("}"):
        text = text[1:-1]
    if text and text[0] not in ".[":
        text = "." + text
    steps: list[Step] = []
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if not found:
            raise ValueError(f"is an invalid path: {path}")
        at = found.end()
        if found["name"] is not None:
            steps.append(_by_name(re.sub(r"\\(.)", r"\1", found["name"])))
        elif found["index"] is not None:
            steps.append(_by_index(int(found["index"])))
        elif found["all"]:
            steps.append(_everything)
        elif found["key"] is not None:
            steps.append(_by_name(re.sub(r"\\(.)", r"\1", found["key"])))
        else:
            steps.append(_where(found["field"], found["op"] == "==", found["wanted"].strip("\"'")))

    def evaluate(value: Any) -> list[Any]:
        values = [value]
        for step in steps:
            values = step(values)
        return values

    return evaluate
