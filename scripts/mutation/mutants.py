"""Small mutants of a Python file: one place each, as text, so that a survivor can be shown as a diff.

Left alone: annotations, docstrings, assertions, f-strings, what is decorated as frozen or slotted, and strings with a
space in them. The wording of a message is not behaviour, and a test that repeats it is no better for it.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_TURNED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_OPPOSITES = (ast.Eq, ast.NotEq, ast.In, ast.NotIn, ast.Is, ast.IsNot)
"""Turning one of these is the same as negating the condition."""
_SHAPE_ONLY = {"frozen", "slots", "kw_only", "repr"}
"""Keywords that say how a class is made, not what it does."""
_TYPING = {"TypeVar", "NewType", "ParamSpec", "cast"}


@dataclass(frozen=True, slots=True)
class Mutant:
    path: Path
    line: int
    before: str
    """The text that is replaced."""
    after: str
    start: int
    """Where `before` is in the file, in bytes of UTF-8."""
    function: int | None
    """The first line (with its decorators) of the outermost function around it; None when it is run by the import."""

    @property
    def what(self) -> str:
        return f"{_one_line(self.before)} → {_one_line(self.after)}"

    def applied(self, source: bytes) -> bytes:
        return source[: self.start] + self.after.encode() + source[self.start + len(self.before.encode()) :]

    def diff(self, source: bytes) -> str:
        old, new = source.decode().splitlines(), self.applied(source).decode().splitlines()
        lines = list(difflib.unified_diff(old, new, lineterm="", n=0))[3:]
        return "\n".join(f"    {line}" for line in lines)


def find(path: Path, source: bytes) -> list[Mutant]:
    """All mutants of a file, in the order of its lines; the same change is made once."""
    seen: dict[tuple[int, str, str], Mutant] = {}
    for mutant in _Finder(path, source).found():
        if mutant.before != mutant.after:
            seen.setdefault((mutant.start, mutant.before, mutant.after), mutant)
    return sorted(seen.values(), key=lambda mutant: (mutant.line, mutant.start))


class _Finder:
    def __init__(self, path: Path, source: bytes) -> None:
        self._path, self._source = path, source
        self._lines = [0]
        for line in source.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))

    def found(self) -> Iterator[Mutant]:
        yield from self._walk(ast.parse(self._source), None)

    def _walk(self, node: ast.AST, function: int | None) -> Iterator[Mutant]:
        yield from self._of(node, function)
        for name, value in ast.iter_fields(node):
            inside = function
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and name == "body":
                first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
                inside = first if function is None else function
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and not _left_alone(node, name, child):
                    yield from self._walk(child, inside)

    def _of(self, node: ast.AST, function: int | None) -> Iterator[Mutant]:
        match node:
            case ast.Compare():
                for number, operator in enumerate(node.ops):
                    operators = [*node.ops[:number], _TURNED[type(operator)](), *node.ops[number + 1 :]]
                    yield self._replaced(node, ast.Compare(node.left, operators, node.comparators), function)
            case ast.BoolOp():
                other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
                yield self._replaced(node, ast.BoolOp(other, node.values), function)
            case ast.UnaryOp(op=ast.Not()):
                yield self._replaced(node, node.operand, function)
            case ast.Constant(value=bool()):
                yield self._replaced(node, ast.Constant(not node.value), function)
            case ast.Constant(value=int() | float()):
                yield self._replaced(node, ast.Constant(node.value + 1), function)
            case ast.Constant(value=str() | bytes()) if (
                b" " if isinstance(node.value, bytes) else " "
            ) not in node.value:
                more = b"XX" if isinstance(node.value, bytes) else "XX"
                yield self._replaced(node, ast.Constant(node.value + more), function)
            case ast.Raise() | ast.Continue() | ast.Break():
                yield self._replaced(node, ast.Pass(), function)
            case ast.Return():
                if node.value is not None and not (isinstance(node.value, ast.Constant) and node.value.value is None):
                    yield self._replaced(node, ast.Return(ast.Constant(None)), function)
                else:
                    yield self._replaced(node, ast.Pass(), function)
        if isinstance(node, ast.If | ast.While | ast.IfExp):
            yield from self._negated(node.test, function)
        if isinstance(node, ast.comprehension):
            for condition in node.ifs:
                yield from self._negated(condition, function)

    def _negated(self, test: ast.expr, function: int | None) -> Iterator[Mutant]:
        opposite = isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], _OPPOSITES)
        if not (opposite or isinstance(test, ast.UnaryOp | ast.Constant)):
            yield self._replaced(test, ast.UnaryOp(ast.Not(), test), function)

    def _replaced(self, node: ast.stmt | ast.expr, by: ast.AST, function: int | None) -> Mutant:
        start = self._lines[node.lineno - 1] + node.col_offset
        end = self._lines[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
        text = ast.unparse(ast.fix_missing_locations(by))
        if isinstance(by, ast.expr) and not isinstance(by, ast.Constant):
            text = f"({text})"
        return Mutant(self._path, node.lineno, self._source[start:end].decode(), text, start, function)


def _left_alone(parent: ast.AST, name: str, child: ast.AST) -> bool:
    if isinstance(child, ast.JoinedStr | ast.Assert | ast.Import | ast.ImportFrom):
        return True
    if name in ("annotation", "returns", "slice") and not isinstance(parent, ast.Subscript):
        return True
    if isinstance(parent, ast.Expr) and isinstance(child, ast.Constant):  # a docstring, an ellipsis
        return True
    if isinstance(child, ast.keyword) and child.arg in _SHAPE_ONLY:
        return True
    if isinstance(child, ast.If) and ast.unparse(child.test) in ("TYPE_CHECKING", "__name__ == '__main__'"):
        return True
    if isinstance(child, ast.Assign) and ast.unparse(child.targets[0]) in ("__all__", "__slots__"):
        return True
    return isinstance(child, ast.Call) and ast.unparse(child.func) in _TYPING


def _one_line(text: str) -> str:
    return " ".join(text.split())
