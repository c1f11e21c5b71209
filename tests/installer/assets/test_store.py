"""Fetching targets of a small graph: what is reused, overridden, dropped, consumed."""

import itertools
import json
from collections.abc import Iterator

import pytest

from rackless.errors import InputError
from rackless.installer.assets import state as states
from rackless.installer.assets.asset import Asset, Given, Mistake, Parts, as_is, only
from rackless.installer.assets.graph import AssetTarget, Graph, closure
from rackless.installer.assets.state import FolderState
from rackless.installer.assets.store import Fetched, FilesWrong, fetch

KEYS = itertools.count()
MADE: list[str] = []


def _input(given: Given) -> Parts:
    raise InputError("there is no in.txt")


def _key(given: Given) -> Parts:
    MADE.append("key")
    return {"key": f"key-{next(KEYS)}"}


def _wrong(path: str, text: str) -> Iterator[Mistake]:
    for number, line in enumerate(text.splitlines(), 1):
        if "wrong" in line:
            yield Mistake(path, number, line)


def _left(given: Given) -> Parts:
    MADE.append("left")
    words = given.of(INPUT).split()
    return {f"out/{word}.yaml": f"{word} {given.of(KEY)}\n" for word in words}


def _end(given: Given) -> Parts:
    MADE.append("end")
    return {"end.ign": "".join(text for _, text in sorted([*given.of(LEFT).items(), *given.of(EXTRA).items()]))}


INPUT = Asset("input", "Input", _input, only, files=("in.txt",), check=_wrong, input=True)
KEY = Asset("key", "Key", _key, only, chance=True)
LEFT = Asset("left", "Left", _left, as_is, (INPUT, KEY), files=("out/a*.yaml", "out/b*.yaml"), check=_wrong)
EXTRA = Asset("extra", "Extra", lambda given: {}, as_is, files=("out/*.yaml",), check=_wrong)
END = Asset("end", "End", _end, as_is, (LEFT, EXTRA), files=("end.ign",))
GRAPH = Graph((AssetTarget("middle", "Middle", (LEFT, EXTRA)), AssetTarget("end", "End", (END,))))


class Folder:
    """A folder as the store sees it."""

    def __init__(self) -> None:
        self.disk = {"in.txt": "a b"}
        self.state = FolderState()

    def create(self, target: str) -> Fetched:
        MADE.clear()
        found = fetch(GRAPH.target(target), GRAPH, self.state, self.disk)
        self.disk |= found.write
        for path in found.consume:
            del self.disk[path]
        self.state = states.load(found.handed.render(), "state")
        return found

    def said(self, found: Fetched, level: str) -> list[str]:
        return [note.text for note in found.notes if note.level == level]


def test_a_target_consumes_what_it_is_made_of_and_keeps_its_own_files() -> None:
    folder = Folder()
    found = folder.create("middle")
    assert set(folder.disk) == {"out/a.yaml", "out/b.yaml"} and found.consume == ("in.txt",)
    assert folder.said(found, "info") == ["Consuming Input from the folder"]
    folder.create("end")
    assert set(folder.disk) == {"end.ign"}


def test_the_same_again_makes_nothing_and_says_the_same() -> None:
    folder = Folder()
    folder.create("middle")
    before = dict(folder.disk)
    folder.create("middle")
    assert MADE == [] and folder.disk == before
    folder.create("end")
    first = folder.disk["end.ign"]
    folder.create("end")
    assert MADE == [] and folder.disk == {"end.ign": first}


def test_any_target_goes_on_from_the_state_alone() -> None:
    folder = Folder()
    folder.create("end")
    key = only(folder.state.entries["key"].parts)
    folder.disk.clear()
    folder.create("middle")
    assert folder.disk["out/a.yaml"] == f"a {key}\n"


def test_an_edited_file_overrides_and_what_is_made_of_it_follows() -> None:
    folder = Folder()
    folder.create("end")
    folder.create("middle")
    folder.disk["out/a.yaml"] = "mine\n"
    folder.create("end")
    assert folder.disk["end.ign"].startswith("mine\n") and "b key" in folder.disk["end.ign"]
    folder.create("middle")
    assert folder.disk["out/a.yaml"] == "mine\n"  # also once it was consumed


def test_a_removed_file_stays_away_and_a_folder_that_is_gone_is_made_again() -> None:
    folder = Folder()
    folder.create("middle")
    del folder.disk["out/a.yaml"]
    folder.create("middle")
    assert set(folder.disk) == {"out/b.yaml"}
    del folder.disk["out/b.yaml"]
    folder.create("middle")
    assert set(folder.disk) == {"out/b.yaml"}


def test_files_that_nobody_made_come_along() -> None:
    folder = Folder()
    folder.create("middle")
    folder.disk["out/zz.yaml"] = "more\n"
    found = folder.create("end")
    assert folder.disk["end.ign"].endswith("more\n") and "out/zz.yaml" in found.consume
    folder.disk["in.txt"] = "b"
    folder.create("middle")
    assert {path for path in folder.disk if path.startswith("out/")} == {"out/b.yaml", "out/zz.yaml"}


def test_a_changed_input_drops_what_was_edited_and_says_so() -> None:
    folder = Folder()
    folder.create("middle")
    folder.disk |= {"out/a.yaml": "mine\n", "in.txt": "a c"}
    found = folder.create("middle")
    assert any("Discarding the Left" in text for text in folder.said(found, "warning"))
    assert "mine" not in "".join(folder.disk.values())
    assert "out/b.yaml" not in folder.disk  # a file of before, which nothing makes any more


def test_what_was_edited_and_consumed_is_dropped_with_a_word_too() -> None:
    folder = Folder()
    folder.create("middle")
    folder.disk["out/a.yaml"] = "mine\n"
    folder.create("end")
    folder.disk["in.txt"] = "a"
    found = folder.create("end")
    assert any("Discarding the Left" in text for text in folder.said(found, "warning"))
    assert "mine" not in folder.disk["end.ign"]


def test_the_same_input_given_again_drops_nothing() -> None:
    folder = Folder()
    folder.create("middle")
    folder.disk |= {"out/a.yaml": "mine\n", "in.txt": "a b"}
    found = folder.create("middle")
    assert folder.said(found, "warning") == [] and folder.disk["out/a.yaml"] == "mine\n"


def test_keys_are_made_once_whatever_else_changes() -> None:
    folder = Folder()
    folder.create("end")
    first = only(folder.state.entries["key"].parts)
    folder.disk["in.txt"] = "a"
    folder.create("end")
    assert "key" not in MADE and only(folder.state.entries["key"].parts) == first


def test_the_mistakes_of_all_files_are_told_at_once_with_their_lines() -> None:
    folder = Folder()
    folder.create("middle")
    folder.disk |= {"in.txt": "a\nwrong", "out/a.yaml": "wrong", "out/own.yaml": "fine\n\nwrong too"}
    before = folder.state
    with pytest.raises(FilesWrong) as wrong:
        folder.create("end")
    assert [str(one) for one in wrong.value.mistakes] == [
        "in.txt:2: wrong",
        "out/a.yaml:1: wrong",
        "out/own.yaml:3: wrong too",
    ]
    assert folder.state is before


def test_files_without_a_state_override_one_by_one() -> None:
    folder = Folder()
    folder.disk["out/a.yaml"] = "mine\n"
    folder.create("middle")
    assert folder.disk["out/a.yaml"] == "mine\n" and folder.disk["out/b.yaml"].startswith("b key")


@pytest.mark.parametrize("killed", range(6))
def test_a_command_killed_between_any_two_writes_is_made_good_by_the_next(killed: int) -> None:
    folder = Folder()
    found = fetch(GRAPH.target("middle"), GRAPH, folder.state, folder.disk)
    steps = [("state", ""), *(("write", path) for path in found.write), *(("consume", path) for path in found.consume)]
    for kind, path in steps[:killed]:
        if kind == "state":
            folder.state = states.load(found.state.render(), "state")
        elif kind == "write":
            folder.disk[path] = found.write[path]
        else:
            del folder.disk[path]
    again = folder.create("middle")
    assert set(folder.disk) == {"out/a.yaml", "out/b.yaml"}
    assert not folder.state.entries["left"].edited and not folder.said(again, "warning")
    if killed:
        assert folder.disk == dict(found.write)


def test_an_asset_may_ask_only_for_what_it_says_it_needs() -> None:
    sly = Asset("sly", "Sly", lambda given: {"x": given.of(KEY)}, only)
    with pytest.raises(AssertionError, match="does not say that it needs key"):
        fetch(AssetTarget("t", "T", (sly,)), Graph((AssetTarget("t", "T", (sly,)),)), FolderState(), {})


def test_two_assets_of_one_name_are_refused() -> None:
    with pytest.raises(AssertionError, match="called key"):
        closure([KEY, Asset("key", "Other", lambda given: {}, as_is)])


def test_an_option_is_part_of_the_key() -> None:
    assert KEY.key({}) != Asset("key", "Key", _key, only, options={"lifetime": "3650d"}).key({})


_NO_TEXT = '{"version": 1, "assets": {"x": {"key": "", "edited": false, "parts": {"a": 1}}}, "handed": {}}'
_NO_KEY = '{"version": 1, "assets": {"x": {}}, "handed": {}}'


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 1}', _NO_KEY, _NO_TEXT])
def test_a_damaged_state_is_told_with_what_to_do(text: str) -> None:
    with pytest.raises(InputError, match="is damaged") as damaged:
        states.load(text, "state.json")
    assert "empty folder" in damaged.value.hint


def test_a_state_of_a_newer_version_is_not_touched() -> None:
    with pytest.raises(InputError, match="newer rackless"):
        states.load(json.dumps({"version": states.VERSION + 1}), "state.json")
