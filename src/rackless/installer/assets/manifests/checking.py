"""A manifest that a person wrote: is it YAML, is it an object, does it fit the definition of its kind? Pure.

Kinds that the embedded API defines are held against that definition; of others only what every object has is asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import yaml

from rackless.api.definitions.hosts import HOSTS
from rackless.api.definitions.machines import MACHINES
from rackless.api.schema.structural import Node as SchemaNode
from rackless.api.schema.structural import WalkReport, compile_schema
from rackless.installer.assets.asset import Mistake
from rackless.installer.assets.manifests.definitions import DEFINITIONS
from rackless.yaml_weight import TooHeavy, weigh

_DEEP = 100


class _TooDeep(Exception):
    pass


def mistakes(path: str, text: str) -> Iterator[Mistake]:
    try:
        _measure_text(text)
        for root in yaml.compose_all(text, Loader=_loader()):
            if root is not None:
                yield from _object(path, root)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        said = " ".join(part for part in (error.problem, error.context) if part)
        yield Mistake(path, mark.line + 1 if mark else 1, f"not readable as YAML: {said}")
    except TooHeavy as error:
        yield Mistake(path, 1, f"it stands for too much: {error}", "write it without aliases and merge keys")
    except (yaml.YAMLError, ValueError) as error:
        yield Mistake(path, 1, f"not readable as YAML: {str(error).splitlines()[0]}")
    except (_TooDeep, RecursionError):
        yield Mistake(path, 1, "nested too deeply")


def objects(text: str) -> list[dict[str, Any]]:
    """The objects in a manifest that was checked."""
    return [one for one in yaml.load_all(text, Loader=_loader()) if one is not None]


def line_in(text: str, number: int, field: str) -> int:
    """Of a field of the object with this number in a manifest that was checked."""
    roots = [root for root in yaml.compose_all(text, Loader=_loader()) if root is not None]
    return _line(roots[number], field)


def _loader() -> type[yaml.SafeLoader]:
    fast: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return fast


def _object(path: str, root: yaml.Node) -> Iterator[Mistake]:
    if not isinstance(root, yaml.MappingNode):
        yield Mistake(path, root.start_mark.line + 1, "this is no object", "write apiVersion, kind and metadata.name")
        return
    weigh(root)  # before values are made of it: merge keys are written out then
    for wanted in ("apiVersion", "kind", "metadata.name"):
        found = _find(root, wanted.split("."))
        if not isinstance(found, yaml.ScalarNode) or not found.value:
            yield Mistake(path, _line(root, wanted), f"{wanted} is missing", f"write {wanted}")
    loader = _loader()("")
    try:
        value = loader.construct_document(root)
    except (yaml.YAMLError, ValueError, TypeError) as error:
        yield Mistake(path, root.start_mark.line + 1, f"not readable as YAML: {str(error).splitlines()[0]}")
        return
    finally:
        loader.dispose()
    schema = _schemas().get((str(value.get("apiVersion")), str(value.get("kind"))))
    if schema is None:
        return
    report = WalkReport()
    schema(value, report)
    for cause in report.causes:
        yield Mistake(path, _line(root, cause.field), f"{cause.field}: {cause.message}")
    for unknown in report.unknown:
        yield Mistake(
            path, _line(root, unknown), f"{unknown}: there is no such field", "remove it, or look at its name"
        )


def _measure_text(text: str) -> None:
    """Before anything is built of it: building goes as deep as the text does, and there is an end to the stack."""
    depth = 0
    for event in yaml.parse(text, Loader=_loader()):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > _DEEP:
            raise _TooDeep


def _find(root: yaml.Node, steps: list[str]) -> yaml.Node | None:
    node: yaml.Node | None = root
    for step in steps:
        if isinstance(node, yaml.MappingNode):
            node = next((child for key, child in node.value if key.value == step), None)
        elif isinstance(node, yaml.SequenceNode) and step.isdigit() and int(step) < len(node.value):
            node = node.value[int(step)]
        else:
            return None
    return node


def _line(root: yaml.Node, field: str) -> int:
    """Of a field, or of the nearest thing around it that is there."""
    steps = field.replace("[", ".").replace("]", "").strip(".").split(".")
    while steps:
        found = _find(root, steps)
        if found is not None:
            return int(found.start_mark.line) + 1
        steps.pop()
    return int(root.start_mark.line) + 1


@cache
def _schemas() -> Mapping[tuple[str, str], SchemaNode]:
    made = {}
    for definition in (*HOSTS, *MACHINES, *DEFINITIONS):
        spec = definition["spec"]
        for version in spec["versions"]:
            key = (f"{spec['group']}/{version['name']}", spec["names"]["kind"])
            made[key] = compile_schema(version["schema"]["openAPIV3Schema"], root=True)
    return made
