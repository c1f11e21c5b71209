"""The graph as people look at it: an indented text, DOT for Graphviz, Mermaid for pages. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rackless.installer.assets.asset import Asset
from rackless.installer.assets.graph import Graph

FORMS = ("text", "dot", "mermaid")


def draw(graph: Graph, form: str) -> str:
    lines = {"text": _text, "dot": _dot, "mermaid": _mermaid}[form](graph)
    return "\n".join(lines) + "\n"


def _text(graph: Graph) -> Iterator[str]:
    """Each target, its assets and, indented, what they are made of; what was shown before is not taken apart again."""
    shown: set[str] = set()

    def walk(asset: Asset[Any], depth: int) -> Iterator[str]:
        again = asset.name in shown and bool(asset.needs)
        files = f"  → {' '.join(asset.files)}" if asset.files else ""
        yield f"{'  ' * depth}{asset.name}{'  (made once)' if asset.chance else ''}{files}{'  …' if again else ''}"
        if not again:
            shown.add(asset.name)
            for need in asset.needs:
                yield from walk(need, depth + 1)

    for target in graph.targets:
        yield f"create {target.name}"
        for asset in target.assets:
            yield from walk(asset, 1)


def _dot(graph: Graph) -> Iterator[str]:
    yield "digraph installer {"
    yield "  rankdir=LR;"
    for asset in graph.assets:
        shape = "box" if asset.files else "ellipse"
        yield f'  "{asset.name}" [label="{asset.title}", shape={shape}{", style=dashed" if asset.chance else ""}];'
    for target in graph.targets:
        yield f'  "create {target.name}" [shape=doubleoctagon];'
    for made, of in _edges(graph):
        yield f'  "{of}" -> "{made}";'
    yield "}"


def _mermaid(graph: Graph) -> Iterator[str]:
    """Boxes are files, rounded ones are not, hexagons are made once, double circles are what can be asked for.

    For pages, so what others imply is left out: who is made of a manifest is made of what that is made of.
    """
    yield "flowchart LR"
    for asset in graph.assets:
        left, right = ("{{", "}}") if asset.chance else ("[", "]") if asset.files else ("(", ")")
        yield f'  {_id(asset.name)}{left}"{asset.title}"{right}'
    for target in graph.targets:
        yield f'  {_id(f"create {target.name}")}((("{target.name}")))'
    for made, of in _needed(graph):
        yield f"  {_id(of)} --> {_id(made)}"


def _edges(graph: Graph) -> Iterator[tuple[str, str]]:
    for asset in graph.assets:
        for need in asset.needs:
            yield asset.name, need.name
    for target in graph.targets:
        for asset in target.assets:
            yield f"create {target.name}", asset.name


def _needed(graph: Graph) -> Iterator[tuple[str, str]]:
    """The edges without those that lead where others lead, too."""
    below: dict[str, set[str]] = {}
    direct: dict[str, list[str]] = {}
    for made, of in _edges(graph):
        direct.setdefault(made, []).append(of)
        below.setdefault(made, set()).update(below.get(of, set()))
    for made, needs in direct.items():
        yield from ((made, of) for of in needs if of not in below[made])
        below[made] |= set(needs)


_FENCE = "```mermaid\n"


def redraw(page: str, graph: Graph) -> str:
    """A page of the documentation with the graph in it as it is now."""
    before, fence, rest = page.partition(_FENCE)
    assert fence, "the page has no place for the graph"
    return f"{before}{_FENCE}{draw(graph, 'mermaid')}```{rest.partition('```')[2]}"


def _id(name: str) -> str:
    return name.replace("-", "_").replace(" ", "_")
