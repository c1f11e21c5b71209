"""What `rackless cp` takes for a node's file and what for one's own."""

from __future__ import annotations

import pytest

from rackless.cli.commands.cp import _is_remote, _node
from rackless.errors import InputError
from rackless.operations.access import WayIn

KNOWN = ["ctrl-0", "worker-0"]


def test_a_node_is_what_stands_before_a_colon() -> None:
    assert [_is_remote(word) for word in ("ctrl-0:/etc", "ctrl-0:", "./a:b", "/tmp/a:b", "notes", ":x")] == [
        True, True, False, False, False, False,
    ]  # fmt: skip
    assert (
        _node("lab", ["a", "b", "ctrl-0:/tmp"], KNOWN)
        == _node("lab", ["ctrl-0:/a", "ctrl-0:/b", "."], KNOWN)
        == "ctrl-0"
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["a"], "where to"),
        (["a", "b"], "either to one node or from one"),
        (["ctrl-0:/a", "worker-0:/b"], "either to one node"),
        (["ctrl-0:/a", "ctrl-0:/b"], "either to one node"),
        (["a", "ctrl-0:/b", "."], "either to one node"),
        (["a", "moon:/b"], "no server moon"),
    ],
)
def test_what_is_no_copy_to_or_from_one_node_is_refused(words: list[str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        _node("lab", words, KNOWN)


def test_no_name_of_a_file_is_taken_for_an_option() -> None:
    way = WayIn((), ("-F", "none"), "core@192.0.2.7")
    assert way.scp(["-r"], ["-oProxyCommand=x"], "core@192.0.2.7:/tmp")[-4:] == [
        "none", "--", "-oProxyCommand=x", "core@192.0.2.7:/tmp",
    ]  # fmt: skip
    assert way.ssh(["ls"])[-3:] == ["core@192.0.2.7", "--", "ls"] and way.ssh([])[-1] == "core@192.0.2.7"
