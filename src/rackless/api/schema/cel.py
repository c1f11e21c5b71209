"""Expressions in CEL, where the library for them is installed (`rackless[cel]`): compiled once, evaluated within limits.

The library cannot be interrupted, and no other thread runs meanwhile. So this process evaluates only expressions that are
certainly small; all others go, from a thread and never from the loop, to a process of their own (`cel_child`) that is ended
after a second. Far too large ones are not begun. An expression that is too costly counts as failed, as on the real server.
Knows expressions and values, no schemas.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import re
import threading
import weakref
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from rackless.api.offload import leave_loop
from rackless.api.schema.cel_child import CelChild
from rackless.api.schema.values import PatternUnknown, compile_pattern

MOST_STEPS = 200_000
_MOST_TEXT = 50_000_000
_LONGEST = 10_000
_LOOPS = ("all", "exists", "exists_one", "existsOne", "map", "filter")
_NATIVE = frozenset((
    *_LOOPS, "has", "size", "matches", "contains", "startsWith", "endsWith", "int", "uint", "double", "string", "bytes",
    "bool", "type", "dyn", "duration", "timestamp", "getFullYear", "getMonth", "getDate", "getDayOfMonth",
    "getDayOfWeek", "getDayOfYear", "getHours", "getMinutes", "getSeconds", "getMilliseconds",
))  # fmt: skip
_GROWING = ("join", "replace", "string")
_READING = ("matches", "contains", "indexOf", "lastIndexOf", "replace", "split", "join", "lowerAscii", "upperAscii")
_SMALL_STEPS, _SMALL_VALUE, _SMALL_TEXT, _SMALL_PATTERN = 2000, 1000, 32 * 1024, 500
_MATCHED = re.compile(r"""\bmatches\s*\(\s*[rR]?("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')\s*\)""")
_TEXT = re.compile(r"""[rR]?("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')""")
_CALL = re.compile(r"([A-Za-z_]\w*)\s*\(")


class Unsupported(Exception):
    """An expression of a kind that is not evaluated here; it says why."""


class Broken(Exception):
    """An expression that cannot be compiled, or whose evaluation failed."""


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("no such overload")
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise TypeError("no such overload")
    return list(value)


def _bounded(characters: int) -> bool:
    if characters > _MOST_TEXT:
        raise ValueError("the text becomes too long")
    return True


def _index_of(where: Any, what: Any) -> int:
    if isinstance(where, str):
        return where.find(_text(what))
    return next((index for index, each in enumerate(_list(where)) if each == what), -1)


def _last_index_of(where: Any, what: Any) -> int:
    if isinstance(where, str):
        return where.rfind(_text(what))
    found = _list(where)
    return next((index for index in range(len(found) - 1, -1, -1) if found[index] == what), -1)


_EXTENSIONS: Mapping[str, Callable[..., Any]] = {
    "split": lambda text, by: _text(text).split(_text(by)) if by else list(_text(text)),
    "join": lambda parts, by="": _bounded(len(parts) * len(by)) and _text(by).join(map(_text, _list(parts))),
    "lowerAscii": lambda text: _text(text).lower(),
    "upperAscii": lambda text: _text(text).upper(),
    "trim": lambda text: _text(text).strip(),
    "replace": lambda text, old, new: (
        _bounded((len(text) + 1) * len(new)) and _text(text).replace(_text(old), _text(new))
    ),
    "substring": lambda text, start, end=None: _text(text)[start:end],
    "charAt": lambda text, at: _text(text)[at : at + 1],
    "indexOf": _index_of,
    "lastIndexOf": _last_index_of,
    "isSorted": lambda values: _list(values) == sorted(_list(values)),
    "sum": lambda values: sum(_list(values)),
    "min": lambda values: min(_list(values)),
    "max": lambda values: max(_list(values)),
}
"""What Kubernetes adds to CEL, as far as it is plain: texts and lists."""


@cache
def _library() -> Any:
    """The library's compiled part, or None where it is not installed. Its package would import a command line."""
    package = importlib.util.find_spec("cel")
    if package is None or not package.submodule_search_locations:
        return None
    spec = importlib.machinery.PathFinder.find_spec("cel.cel", package.submodule_search_locations)
    if spec is None or spec.loader is None:
        return None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def available() -> bool:
    return _library() is not None


class Expression:
    def __init__(self, text: str) -> None:
        """Raises Unsupported or Broken."""
        if len(text) > _LONGEST:
            raise Unsupported("it is too long")
        bare = _TEXT.sub("''", text)
        if strange := sorted({name for name in _CALL.findall(bare)} - _NATIVE - _EXTENSIONS.keys() - {"in"}):
            raise Unsupported(f"{strange[0]}() is not known here")
        if ".?" in bare or "[?" in bare:
            raise Unsupported("optional values are not known here")
        library = _library()
        if library is None:
            raise Unsupported("the library for it, rackless[cel], is not installed")
        try:
            self._program = library.compile(text)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a panic of the library is no Exception
            raise Broken(str(error).partition("\n")[0]) from error
        self._context = library.Context
        self._text = text
        self._heavy_pattern = _heavy_pattern(text, bare)
        self.on_change = re.search(r"\boldSelf\b", bare) is not None
        self._depth = _loop_depth(bare)
        self._literals = bare.count(",") + 1
        self._sums = bare.count("+")
        self._calls = _CALL.findall(bare)
        self._splits = "split" in self._calls
        self._grows = any(name in _GROWING for name in self._calls)
        self._reads = sum(name in _READING for name in self._calls)

    def steps(self, elements: int, characters: int) -> int:
        """How many steps it takes at most on a value of so many elements and characters."""
        if self._splits:  # characters become elements, and texts that were made of others first even more of them
            elements += characters * (elements + characters if self._grows else 1)
        each = (elements + self._literals) * (1 + self._sums)
        steps = int(each**self._depth) if self._depth else 1
        texts = steps * (self._sums + self._reads) * characters
        return MOST_STEPS + 1 if texts > _MOST_TEXT else min(steps, MOST_STEPS + 1)

    def small(self, elements: int, characters: int) -> bool:
        """Whether it takes no longer than a turn of the loop may, on a value of this size."""
        if self._heavy_pattern or elements > _SMALL_VALUE or characters > _SMALL_TEXT:
            return False
        copies = "map" in self._calls or "filter" in self._calls
        return self.steps(elements, characters) * (elements if copies else 1) <= _SMALL_STEPS

    def value(self, variables: Mapping[str, Any], *, small: bool = True) -> Any:
        """Raises Broken, TooCostly, and NeedsThread where it is not small and this is the loop."""
        if small:
            return self.value_here(variables)
        value, problem = _child().value(self._text, variables)
        if problem:
            raise Broken(problem)
        return value

    def value_here(self, variables: Mapping[str, Any]) -> Any:
        """Raises Broken."""
        try:
            return self._program.execute(self._context(dict(variables), dict(_EXTENSIONS)))
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            raise Broken(str(error).partition("\n")[0]) from error


_children = threading.local()


def _child() -> CelChild:
    """This thread's."""
    leave_loop()
    found: CelChild | None = getattr(_children, "child", None)
    if found is None:
        found = _children.child = CelChild()
        weakref.finalize(threading.current_thread(), found.close)
    return found


def _heavy_pattern(text: str, bare: str) -> bool:
    """Whether a text is matched with a pattern that takes long to compile, or with one that is not known yet."""
    found = 0
    for quoted in _MATCHED.findall(text):
        found += 1
        try:
            if compile_pattern(quoted[1:-1].replace("\\\\", "\\")).programsize > _SMALL_PATTERN:
                return True
        except PatternUnknown:
            return True
    return found != len(re.findall(r"\bmatches\s*\(", bare))


def _loop_depth(bare: str) -> int:
    """How deeply loops stand inside loops."""
    depth = deepest = 0
    open_loops: list[bool] = []
    word = ""
    for character in bare:
        if character == "(":
            loop = word.strip() in _LOOPS
            open_loops.append(loop)
            depth += loop
            deepest = max(deepest, depth)
            word = ""
        elif character == ")" and open_loops:
            depth -= open_loops.pop()
            word = ""
        elif character.isalnum() or character in "_ ":
            word += character
        else:
            word = ""
    return deepest
