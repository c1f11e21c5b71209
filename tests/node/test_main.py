"""The agent as a program: what it does before it knows which node it is."""

from __future__ import annotations

import os

import pytest

from rackless.node.main import NAME_EVERY, await_name


def test_a_system_without_a_name_waits_for_one_and_says_so_once(capsys: pytest.CaptureFixture[str]) -> None:
    names = iter(["(none)", "localhost", "localhost", "worker-0"])
    slept: list[float] = []

    def system() -> os.uname_result:
        return os.uname_result(("Linux", next(names), "6.1", "1", "x86_64"))

    await_name(system, slept.append)

    assert slept == [NAME_EVERY] * 3 and next(names, None) is None
    said = capsys.readouterr()
    assert (said.out + said.err).count("no name yet") == 1
