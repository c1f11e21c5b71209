"""The table of a host's states as a picture for a page of the documentation, in Mermaid. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from rackless.provisioning.baremetalhost import State
from rackless.provisioning.states import ESCAPES, MOVES, WHEN_DELETED

_FENCE = "```mermaid\n"


def draw() -> str:
    return "\n".join(_lines()) + "\n"


def redraw(page: str) -> str:
    """A page with the picture in it as the table is now."""
    before, fence, rest = page.partition(_FENCE)
    assert fence, "the page has no place for the states"
    return f"{before}{_FENCE}{draw()}```{rest.partition('```')[2]}"


def _lines() -> Iterator[str]:
    yield "stateDiagram-v2"
    for state in State:
        if state is not State.NONE:
            yield f'    state "{state.value}" as {_id(state)}'
    for state, ways in MOVES.items():
        for to in ways:
            yield f"    {_id(state)} --> {_id(to)}"
    for state, to in WHEN_DELETED.items():
        if state is not State.NONE and to not in MOVES[state]:
            yield f"    {_id(state)} --> {_id(to)}: deleted"
    for state, to in ESCAPES.items():
        if to not in MOVES[state]:
            yield f"    {_id(state)} --> {_id(to)}: fails too often"
    yield f"    {_id(State.DELETING)} --> [*]"


def _id(state: State) -> str:
    return state.value.replace(" ", "_") or "[*]"
