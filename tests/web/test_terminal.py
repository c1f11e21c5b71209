"""A console as a terminal: what servers send becomes text with looks, whatever they send."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from rackless.web.terminal import COLUMNS, MOST_SCROLLED, ROWS, Terminal
from tests.web.fake_labd import FakeLabd
from tests.web.stage import Stage


def shown(terminal: Terminal) -> dict[int, str]:
    changes = terminal.changes()
    assert changes is not None
    return {row: "".join(text for text, _ in runs) for row, runs in changes["rows"].items() if runs}


def test_text_moves_and_colours_are_what_a_terminal_shows() -> None:
    terminal = Terminal()
    terminal.feed(b"login: \x1b[1;31mred\x1b[0m plain\r\n\x1b[5;10Hhere\x1b[2;1Hsecond")
    changes = terminal.changes()
    assert changes is not None and changes["rows"][0] == [("login: ", ""), ("red", "red bold"), (" plain", "")]
    assert changes["rows"][4] == [(" " * 9 + "here", "")] and changes["rows"][1] == [("second", "")]
    assert changes["cursor"] == (6, 1, True)
    assert terminal.changes() is None, "nothing is told twice"
    terminal.feed(b"!")
    assert shown(terminal) == {1: "second!"}


def test_what_scrolls_out_is_told_once_and_bounded() -> None:
    terminal = Terminal()
    terminal.feed(b"".join(b"line %d\r\n" % number for number in range(ROWS + 9)))
    changes = terminal.changes()
    assert changes is not None and [runs[0][0] for runs in changes["scrolled"]] == [f"line {n}" for n in range(10)]
    terminal.feed(b"x\r\n" * 5000)
    changes = terminal.changes()
    assert changes is not None and len(changes["scrolled"]) == MOST_SCROLLED


def test_a_title_that_never_ends_does_not_make_it_deaf() -> None:
    terminal = Terminal()
    for piece in (b"\x1b", b"]0;tit", b"le" * 99, b"\r\na\x1b]2;x\x07b\x1bPq\x1b\\c\xc2\x9dno\x1b[1md"):
        terminal.feed(piece)
    assert shown(terminal) == {1: "abcd"}


def test_letters_that_come_in_two_pieces_are_one() -> None:
    terminal = Terminal()
    for byte in "grün – ✓".encode():
        terminal.feed(bytes([byte]))
    assert shown(terminal) == {0: "grün – ✓"}


@given(
    st.lists(
        st.binary(max_size=60) | st.from_regex(rb"\x1b[\[\]()#?A-Za-z0-9;:!$ ]{1,20}", fullmatch=True), max_size=20
    )
)
def test_no_bytes_make_it_fail_or_grow(pieces: list[bytes]) -> None:
    terminal = Terminal()
    for piece in pieces:
        terminal.feed(piece)
    changes = terminal.changes()
    assert changes is None or all(0 <= row < ROWS for row in changes["rows"])
    for runs in (changes or {"rows": {}})["rows"].values():
        assert sum(len(text) for text, _ in runs) <= COLUMNS * 8
        assert all(look.replace(" ", "").replace("-", "").isalpha() or not look for _, look in runs)
    terminal.feed(b"\x1bc\x1b[!p\x1b[2J\x1b[Halive")
    assert "alive" in json.dumps(list(shown(terminal).values()))


async def test_a_console_shows_what_was_said_and_takes_keys(page: Stage, labd: FakeLabd) -> None:
    labd.say("ctrl-0", b"\x1b]0;<script>alert(1)</script>\x07<b>bold</b>\r\nlogin: ")
    address = f"{page.base}/api/labs/lab/servers/ctrl-0/console"
    async with page.http.ws_connect(address, headers=page.origin) as console:
        assert await console.receive_json() == {"on": True, "typing": True}
        rows = (await console.receive_json())["rows"]
        assert rows["0"] == [["<b>bold</b>", ""]] and rows["1"] == [["login:", ""]]
        await console.send_str("root\r")
        while labd.typed.get("ctrl-0") != b"root\r":
            await console.receive_json()
        await console.send_bytes(b"\x00")
        assert (await console.receive()).type.name in ("CLOSE", "CLOSED", "CLOSING", "TEXT")


async def test_a_server_that_is_not_there_has_no_console(page: Stage) -> None:
    address = f"{page.base}/api/labs/lab/servers/nobody/console"
    async with page.http.ws_connect(address, headers=page.origin) as console:
        assert "nobody" in (await console.receive_json())["error"]["what"]
