import json
import shutil
from pathlib import Path

import pytest

from rackless.events import Bus, Note, to_json
from rackless.protocol.event_log import EventLog, EventReader, Missed, Numbered, last_number, previous, read_events


def note(text: str, subject: str = "") -> Note:
    return Note(None, text, 0.0, "info", subject)


def texts(path: Path, since: int = 0) -> list[str]:
    return [shown(one) for one in EventReader(path, since).read()]


def shown(one: Numbered | Missed) -> str:
    if isinstance(one, Missed):
        return f"missed {one.after}..{one.before}"
    assert isinstance(one.event, Note)
    return f"{one.seq} {one.event.message}"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "logs" / "events.jsonl"


def test_events_are_numbered_and_the_numbers_go_on_when_the_log_is_opened_again(path: Path) -> None:
    for text in ("a", "b"):
        log = EventLog(path)
        log.append(note(text))
    assert texts(path) == ["1 a", "2 b"] and texts(path, since=1) == ["2 b"]
    assert last_number(path) == 2


def test_who_reads_on_hears_what_was_added_and_nothing_twice(path: Path) -> None:
    log, reader = EventLog(path), EventReader(path)
    assert list(reader.read()) == []
    log.append(note("a"))
    assert [shown(one) for one in reader.read()] == ["1 a"]
    assert list(reader.read()) == []
    log.append(note("b"))
    assert [shown(one) for one in reader.read()] == ["2 b"]


def test_two_files_are_kept_and_a_reader_passes_from_one_to_the_next(path: Path) -> None:
    log = EventLog(path, most_bytes=400)
    reader, heard = EventReader(path), []
    for number in range(1, 41):
        log.append(note(f"n{number}"))
        if number % 3 == 0:
            heard += [shown(one) for one in reader.read()]
    heard += [shown(one) for one in reader.read()]
    assert heard == [f"{number} n{number}" for number in range(1, 41)]
    assert path.stat().st_size <= 400 and previous(path).stat().st_size <= 400
    assert sorted(found.name for found in path.parent.iterdir()) == ["events.1.jsonl", "events.jsonl"]
    again = EventLog(path, most_bytes=400)
    assert again.last == 40


def test_who_was_away_too_long_is_told_what_is_no_longer_kept(path: Path) -> None:
    log = EventLog(path, most_bytes=400)
    for number in range(1, 41):
        log.append(note(f"n{number}"))
    first, *rest = texts(path, since=1)
    assert first.startswith("missed 1..") and rest[-1] == "40 n40"
    kept = int(rest[0].partition(" ")[0])
    assert first == f"missed 1..{kept}" and len(rest) == 41 - kept


def test_a_line_cut_short_has_no_number_and_costs_none(path: Path) -> None:
    log = EventLog(path)
    log.append(note("a"))
    with path.open("a") as file:
        file.write('{"seq": 2, "event": "note", "mess')
    log = EventLog(path)
    log.append(note("b"))
    assert texts(path) == ["1 a", "2 b"]


def test_lines_of_before_that_have_no_numbers_are_counted(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("".join(json.dumps(to_json(note(text))) + "\n" for text in "abc"))
    assert last_number(path) == 3
    log = EventLog(path)
    log.append(note("d"))
    with path.open("a") as file:  # and once more by a version of before
        file.write(json.dumps(to_json(note("e"))) + "\n")
    assert last_number(path) == 5
    assert texts(path) == ["1 a", "2 b", "3 c", "4 d", "5 e"] and texts(path, since=2) == ["3 c", "4 d", "5 e"]


def test_events_of_a_newer_version_are_passed_over_and_not_missed(path: Path) -> None:
    log = EventLog(path)
    log.append(note("a"))
    with path.open("a") as file:
        file.write('{"seq": 2, "event": "eclipse", "at": 0}\n')
    log = EventLog(path)
    log.append(note("b"))
    assert texts(path) == ["1 a", "3 b"]


def test_a_full_disk_loses_events_and_nothing_else(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = EventLog(path)
    log.append(note("a"))
    write, full = log._write, OSError(28, "No space left on device")

    def fill(line: bytes) -> None:
        write(line[:9])
        raise full

    monkeypatch.setattr(log, "_write", fill)
    log.append(note("lost"))
    monkeypatch.undo()
    log.append(note("b"))
    assert texts(path) == ["1 a", "2 b"]


def test_a_file_that_somebody_took_away_is_begun_again_and_the_numbers_go_on(path: Path) -> None:
    log, reader = EventLog(path), EventReader(path)
    log.append(note("a"))
    assert [shown(one) for one in reader.read()] == ["1 a"]
    shutil.rmtree(path.parent)
    assert list(reader.read()) == []
    log.append(note("b"))
    assert [shown(one) for one in reader.read()] == ["2 b"]


def test_what_is_kept_about_a_subject_has_also_what_ended_later(path: Path) -> None:
    log, bus = EventLog(path), Bus()
    bus.subscribe(log.append)
    with bus.step("inspecting", subject="host/ctrl-0"):  # 1
        bus.info("unrelated", subject="server/x")  # 2
        with bus.step("below"):  # 3, 4
            pass
    bus.info("of another", subject="host/ctrl-1")  # 6
    assert [one.seq for one in read_events(path, 0, ["host/ctrl-0"]) if isinstance(one, Numbered)] == [1, 2, 3, 4, 5]
    assert [one.seq for one in read_events(path, 3, ["host/ctrl-0"]) if isinstance(one, Numbered)] == [4, 5]
    assert [one.seq for one in read_events(path, -2, ["*"]) if isinstance(one, Numbered)] == [5, 6]
    assert [one.seq for one in read_events(path, 99, ["host/*"]) if isinstance(one, Numbered)] == [1, 2, 3, 4, 5, 6]
