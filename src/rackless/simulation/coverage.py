"""Which lines of the packages under test a story runs: a simulator that does not come by finds nothing there."""

from __future__ import annotations

import sys
import types
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
PACKAGES = ("run", "operations", "labd", "controllers", "provisioning")
AT_LEAST = 80
"""Per cent, of all of them together."""

Lines = frozenset[tuple[str, int]]


def watched(work: Callable[[], T], known: Collection[tuple[str, int]] = ()) -> tuple[T, Lines]:
    """Do the work, and say which lines of the packages were run meanwhile; functions of which all are known are left alone."""
    roots = tuple(f"{root}/" for root in _roots())
    seen: set[tuple[str, int]] = set()
    wanted: dict[int, bool] = {}
    """By where the code is in memory: none of it goes away meanwhile."""

    def line(frame: types.FrameType, event: str, _: Any) -> Any:
        seen.add((frame.f_code.co_filename, frame.f_lineno))
        return line

    def wants(code: types.CodeType) -> bool:
        file, first = code.co_filename, code.co_firstlineno
        return file.startswith(roots) and any(
            number and number != first and (file, number) not in known for _, _, number in code.co_lines()
        )

    def call(frame: types.FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        if id(code) not in wanted:
            wanted[id(code)] = wants(code)
        return line(frame, event, argument) if wanted[id(code)] else None

    sys.settrace(call)
    try:
        return work(), frozenset(seen)
    finally:
        sys.settrace(None)


def measured(seen: Iterable[tuple[str, int]]) -> dict[str, tuple[int, int]]:
    """Lines run and lines there are, by package; what runs when a module is loaded has been run."""
    run, there = Counter[str](), Counter[str]()
    known = set(seen)
    for root in _roots():
        for file in sorted(root.rglob("*.py")):
            code = compile(file.read_text(), str(file), "exec")
            for number, inside in _lines(code, inside=False):
                there[root.name] += 1
                run[root.name] += not inside or (str(file), number) in known
    return {package: (run[package], there[package]) for package in PACKAGES}


def percent(found: dict[str, tuple[int, int]]) -> float:
    return 100 * sum(run for run, _ in found.values()) / sum(there for _, there in found.values())


def missed(seen: Iterable[tuple[str, int]]) -> Iterator[tuple[str, list[int]]]:
    """By file, the lines that were not run."""
    known = set(seen)
    for root in _roots():
        for file in sorted(root.rglob("*.py")):
            code = compile(file.read_text(), str(file), "exec")
            lines = [n for n, inside in _lines(code, inside=False) if inside and (str(file), n) not in known]
            if lines:
                yield str(file.relative_to(root.parent)), sorted(lines)


def _roots() -> list[Path]:
    spec = find_spec("rackless")
    assert spec is not None and spec.origin is not None
    return [Path(spec.origin).parent / package for package in PACKAGES]


def _lines(code: types.CodeType, *, inside: bool) -> set[tuple[int, bool]]:
    """Line numbers, and whether each is inside a function."""
    first = code.co_firstlineno
    found = {(number, inside) for _, _, number in code.co_lines() if number and not (inside and number == first)}
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= _lines(constant, inside=inside or bool(constant.co_flags & 0x02))  # CO_NEWLOCALS: not a class
    outside = {number for number, within in found if not within}
    return {(number, within) for number, within in found if not within or number not in outside}
