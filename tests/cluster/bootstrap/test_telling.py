"""What a bootstrap machine tells on a console that others write to as well."""

from __future__ import annotations

from rackless.cluster.bootstrap.telling import ConsoleReader, read_line, render_line


def test_a_line_reads_back_whatever_systemd_puts_before_it() -> None:
    line = render_line({"phase": "manifests", "count": 3})
    assert read_line(f"[   61.2] rackless[412]: {line}\r\n") == {"phase": "manifests", "count": 3}


def test_lines_of_others_and_damaged_ones_are_not_ours() -> None:
    for line in (
        "Welcome to Debian!",
        'BOOTSTRAP {"a": [  12.1] eth0: link up',
        "BOOTSTRAP 3",
        "BOOTSTRAP " + "x" * 9999,
    ):
        assert read_line(line) is None


def test_a_log_that_grows_in_pieces_gives_each_line_once() -> None:
    reader, text = ConsoleReader(), (render_line({"n": 1}) + "\n" + render_line({"n": 2}) + "\n").encode()
    found = [each for at in range(0, len(text), 5) for each in reader.feed(text[at : at + 5])]
    assert found == [{"n": 1}, {"n": 2}]
