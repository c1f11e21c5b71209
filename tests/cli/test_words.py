import ast
import string
from functools import cache
from pathlib import Path

import pytest

import rackless
from rackless.cli.words import NOTES, message, title, to_json
from rackless.events import Bus, Event, Note, StepStarted, from_json
from rackless.events import to_json as kept


@pytest.mark.parametrize(
    ("subject", "phase", "numbers", "words"),
    [
        ("host/ctrl-0", "inspecting", {}, "ctrl-0: inspecting"),
        ("", "networks", {}, "networks"),
        ("", "servers", {"servers": 4}, "4 servers"),
        ("", "servers", {"servers": 1}, "1 server"),
        ("", "BMCs", {"BMCs": 4}, "4 BMCs"),
        ("", "images", {"bytes": 7}, "images"),
    ],
)
def test_a_title_is_made_of_subject_phase_and_numbers(
    subject: str, phase: str, numbers: dict[str, float], words: str
) -> None:
    event = StepStarted("s1", None, subject, phase, 0.0, numbers)
    assert title(event) == words
    assert to_json(event)["title"] == words and to_json(event)["phase"] == phase


@cache
def calls() -> list[tuple[str, ast.Call]]:
    """Every call of a bus in the package, with its file: parsing all of it takes a second."""
    root = Path(rackless.__file__).parent
    return [
        (path.relative_to(root).as_posix(), node)
        for path in root.rglob("*.py")
        if "bus." in (text := path.read_text())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[0].endswith("bus")
    ]


def told() -> dict[str, set[str]]:
    """Every note with a code that is told anywhere, with what it carries."""
    found: dict[str, set[str]] = {}
    for _, call in calls():
        if ast.unparse(call.func).endswith("bus.tell"):
            assert isinstance(call.args[0], ast.Constant), "a code is written where it is told"
            names = {keyword.arg for keyword in call.keywords if keyword.arg}
            found.setdefault(str(call.args[0].value), set()).update(names - {"level", "subject"})
    return found


def test_every_note_that_is_told_has_words_and_carries_what_they_need() -> None:
    codes = told()
    assert codes.keys() == NOTES.keys() and len(codes) > 10
    for code, names in codes.items():
        needed = {field for _, field, _, _ in string.Formatter().parse(NOTES[code]) if field}
        assert needed <= names, code


def test_notes_without_a_code_are_those_of_install_configs_only() -> None:
    """Whose texts are the installer's; programs act on what it exits with."""
    prose = {path for path, call in calls() if ast.unparse(call.func).endswith(("bus.warn", "bus.info"))}
    assert prose == {"operations/install/assets.py"}


def test_a_note_is_told_in_words_and_one_of_a_newer_version_with_what_it_carries() -> None:
    bus, seen = Bus(), list[Event]()
    bus.subscribe(seen.append)
    bus.tell("part-ended", name="libvirtd", status=-9, pause_seconds=0.5, log="/a/log")
    bus.tell("eclipse", subject="host/moon", minutes=7)
    bus.info("plain words")
    words = "libvirtd ended with -9; starting it again in 0.5 s (log: /a/log)"
    assert [message(note) for note in seen if isinstance(note, Note)] == [words, "eclipse minutes=7", "plain words"]
    assert [from_json(kept(event)) for event in seen] == seen, "kept as it is, without words"
    assert to_json(seen[0])["message"] == words and to_json(seen[0])["code"] == "part-ended"
