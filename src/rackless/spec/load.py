"""lab.yaml → LabSpec. Collects every problem with its line and path, and says what would be right."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, get_origin

import yaml
from pydantic import BaseModel, ValidationError

from rackless.errors import InputError, Problem, SpecError
from rackless.spec import check
from rackless.spec.explain import inner_model
from rackless.spec.lab import LabSpec
from rackless.spec.salvage import Salvage, salvage
from rackless.spec.units import render_size
from rackless.yaml_weight import weigh

_MOST_NODES = 100_000
"""With what aliases stand for: a thousand servers, one by one, are 30,000."""
_BOUNDS = {"greater_than_equal": "ge", "less_than_equal": "le"}
Lines = dict[tuple[str, ...], int]
Loc = tuple[int | str, ...]


def load(path: Path | None, *, name: str | None = None) -> LabSpec:
    """The lab described by `path`, or the default lab; `name` replaces the lab's name."""
    if path is None:
        return parse("", "the default lab", name=name)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}", why=str(error), hint="name the lab's file with -f FILE") from error
    return parse(text, str(path), name=name, folder=path.absolute().parent)


def parse(text: str, source: str, *, name: str | None = None, folder: Path | None = None) -> LabSpec:
    """Relative paths in the text start from `folder`, or else from the current directory."""
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        if node is not None:
            weigh(node, most_nodes=_MOST_NODES)
        tree = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        problem = Problem("", f"not YAML: {error.problem or error}", line, "check the indentation and the quotes")
        raise SpecError(source, [problem]) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise SpecError(source, [Problem("", f"not YAML: {str(error).splitlines()[0]}", None)]) from error
    if tree is None:
        tree = {}
    if not isinstance(tree, dict):
        raise SpecError(source, [Problem("", "a lab is a mapping of fields, such as `name: lab`", 1)])
    lines = dict(_lines(node)) if node else {}
    problems = [
        Problem(_dotted(path), "given twice; YAML silently keeps the last", line)
        for path, line in (_duplicates(node) if node else ())
    ]
    if name is not None:
        tree = {**tree, "name": name}
    context = {"folder": folder or Path.cwd()}
    rest: Salvage | None
    try:
        rest = Salvage(LabSpec.model_validate(tree, context=context))
    except ValidationError as error:
        problems += [_problem(detail, lines) for detail in error.errors()]
        rest = salvage(tree, error, context)
        if rest is not None:
            rest.unsure |= set(_meant(error))
    if rest is not None:
        for found in check.find_problems(rest.spec, rest.unsure):
            where = rest.former(found.path)
            problems.append(Problem(where, found.message, _line(lines, tuple(where.split("."))), found.hint))
        if not problems:
            return rest.spec
    raise SpecError(source, sorted(problems, key=lambda p: (p.line or 0, p.path)))


def lines_of(text: str) -> Lines:
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    return dict(_lines(node)) if node is not None else {}


def _lines(node: yaml.Node, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], int]]:
    """The line of every key, by path."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            here = (*path, str(key.value))
            yield here, key.start_mark.line + 1
            yield from _lines(value, here)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            yield (*path, str(index)), value.start_mark.line + 1
            yield from _lines(value, (*path, str(index)))


def _duplicates(node: yaml.Node, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], int]]:
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            here = (*path, str(key.value))
            if str(key.value) in seen:
                yield here, key.start_mark.line + 1
            seen.add(str(key.value))
            yield from _duplicates(value, here)


def _line(lines: Lines, path: Sequence[str]) -> int | None:
    """The line of the path, or of the nearest thing above it that is in the file."""
    for end in range(len(path), 0, -1):
        if (line := lines.get(tuple(path[:end]))) is not None:
            return line
    return None


def _meant(error: ValidationError) -> Iterator[tuple[str, ...]]:
    """The fields whose misspelt names are in the file: the spec has their defaults, and not what the person wrote."""
    for detail in error.errors():
        if detail["type"] == "extra_forbidden":
            *above, word = detail["loc"]
            for close in difflib.get_close_matches(str(word), _fields_at(tuple(above)), n=1):
                yield (*(str(part) for part in above if not isinstance(part, int)), close)


def _problem(detail: Any, lines: Lines) -> Problem:
    loc = tuple(str(part) for part in detail["loc"] if part != "[key]")
    message = str(detail["msg"]).removeprefix("Value error, ")
    hint = ""
    if detail["type"] == "extra_forbidden":
        message = "there is no such field"
        close = difflib.get_close_matches(loc[-1], _fields_at(detail["loc"][:-1]), n=1)
        hint = f"did you mean {close[0]}?" if close else f"known here: {', '.join(_fields_at(detail['loc'][:-1]))}"
    elif detail["type"] in _BOUNDS and (bound := detail["ctx"][_BOUNDS[detail["type"]]]) >= 1 << 20:  # a size
        message = f"{'at least' if detail['type'] == 'greater_than_equal' else 'at most'} {render_size(bound)}"
    elif detail["type"] in {"model_type", "model_attributes_type", "dict_type"}:
        message = "this is a mapping of fields, not a single value"
    return Problem(_dotted(loc), message, _line(lines, loc), hint)


def _fields_at(loc: Loc) -> list[str]:
    """The fields that a model has at this path; in the path, names that people choose and positions in lists are skipped."""
    model: type[BaseModel] = LabSpec
    parts = iter(loc)
    for part in parts:
        info = model.model_fields.get(str(part))
        inner = inner_model(info) if info is not None else None
        if info is None or inner is None:
            return []
        if get_origin(info.annotation) in (dict, tuple):
            next(parts, None)
        model = inner
    return list(model.model_fields)


def _dotted(path: Sequence[str]) -> str:
    return ".".join(path)
