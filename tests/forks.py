"""The unit tests side by side: collected once, and then run by forks of the process that collected them (`pytest --forks 3`).

Each worker of xdist imports and collects everything for itself: with 5,000 tests that is 7 s of processor time a worker, and
every report passes through a codec in pure Python. A fork has it all in memory. The files of the real tier stay with xdist: they
run for minutes and start from a fresh process (`side_by_side`).

The first process keeps the lists of tests, hands them out a few at a time and shows the reports; a fork that has nothing left gets
half of the longest list. So the tests of a file stay together, and with them what they share.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any, NoReturn

import pytest

AT_ONCE = 4
"""Tests that a fork is given at a time: it has to know the next one, to keep the fixtures that both use."""


@dataclass
class Fork:
    pid: int
    line: Connection[Any, Any]
    waiting: deque[int]
    """Tests that it has not been given yet."""
    given: deque[int] = field(default_factory=deque)
    """Those that it has, and has not ended."""


class Forks:
    """A pytest plugin that runs the tests in so many forks."""

    def __init__(self, number: int) -> None:
        self._number = number

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        if session.config.option.collectonly or session.testsfailed or not session.items:
            return None
        share = -(-len(session.items) // self._number)
        places = range(len(session.items))
        forks: list[Fork] = []
        try:
            for first in places[::share]:
                forks.append(_start(session, len(forks), deque(places[first : first + share]), forks))
            self._run(session, forks)
        finally:
            for fork in forks:
                fork.line.close()  # a fork whose line is closed ends with the test that it is at
                os.waitpid(fork.pid, 0)
        return True

    def _run(self, session: pytest.Session, forks: list[Fork]) -> None:
        alive = {fork.line: fork for fork in forks}
        while alive:
            for line in wait(list(alive)):
                fork = alive[line]  # type: ignore[index]
                try:
                    kind, about = fork.line.recv()
                except (EOFError, ConnectionResetError):
                    del alive[fork.line]
                    if self._bury(session, fork) and fork.waiting:  # the others may have ended, with nothing left to do
                        forks.append(another := _start(session, len(forks), fork.waiting, forks))
                        alive[another.line], fork.waiting = another, deque()
                    continue
                if kind == "more":
                    fork.given.extend(more := _take(fork, forks))
                    fork.line.send(more)
                elif kind == "report":
                    _show(session, about)
                else:
                    fork.given.remove(about)
                if session.shouldfail:  # as -x has it
                    raise session.Failed(session.shouldfail)
                if session.shouldstop:
                    raise session.Interrupted(session.shouldstop)
        if left := sum(len(fork.waiting) for fork in forks):
            raise session.Interrupted(f"no process is left for {left} tests")

    def _bury(self, session: pytest.Session, fork: Fork) -> bool:
        """Whether it ended in the middle of a test: that one has failed, and the rest waits for another."""
        if not fork.given:
            return False
        item = session.items[fork.given.popleft()]
        report = pytest.TestReport(
            item.nodeid, item.location, {}, "failed", f"the process that ran {item.nodeid} has ended", "call"
        )
        item.config.hook.pytest_runtest_logreport(report=report)
        fork.waiting.extendleft(reversed(fork.given))
        fork.given.clear()
        return True


def _take(fork: Fork, forks: Sequence[Fork]) -> list[int]:
    if not fork.waiting:
        longest = max(forks, key=lambda other: len(other.waiting)).waiting
        for _ in range((len(longest) + 1) // 2):
            fork.waiting.appendleft(longest.pop())
    return [fork.waiting.popleft() for _ in range(min(AT_ONCE, len(fork.waiting)))]


def _show(session: pytest.Session, about: dict[str, Any]) -> None:
    hook = session.config.hook
    report = hook.pytest_report_from_serializable(config=session.config, data=about)
    if report.when == "setup":
        hook.pytest_runtest_logstart(nodeid=report.nodeid, location=report.location)
    hook.pytest_runtest_logreport(report=report)
    if report.when == "teardown":
        hook.pytest_runtest_logfinish(nodeid=report.nodeid, location=report.location)


def _start(session: pytest.Session, number: int, waiting: deque[int], before: Sequence[Fork]) -> Fork:
    temporary = session.config._tmp_path_factory  # type: ignore[attr-defined]
    temporary.getbasetemp()
    ours, theirs = Pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        theirs.close()
        return Fork(pid, ours, waiting)
    for line in (ours, *(fork.line for fork in before)):
        line.close()
    temporary._basetemp = temporary.getbasetemp() / f"fork-{number}"
    temporary._basetemp.mkdir(mode=0o700)
    _work(session, theirs)


def _work(session: pytest.Session, line: Connection[Any, Any]) -> NoReturn:
    """The whole life of a fork."""
    code = 1
    try:
        plugins = session.config.pluginmanager
        plugins.unregister(name="terminalreporter")
        capture = plugins.getplugin("capturemanager")
        capture.stop_global_capturing()  # the file that output is caught in is the first process's
        capture.start_global_capturing()
        plugins.register(_Reporter(session.config, line))
        waiting: deque[int] = deque()
        while waiting or _ask(line, waiting):
            index = waiting.popleft()
            if not waiting:
                _ask(line, waiting)
            following = session.items[waiting[0]] if waiting else None
            session.config.hook.pytest_runtest_protocol(item=session.items[index], nextitem=following)
            line.send(("ended", index))
        code = 0
    except (EOFError, BrokenPipeError, KeyboardInterrupt):
        session._setupstate.teardown_exact(None)  # the first process has ended, or does not want more
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _ask(line: Connection[Any, Any], waiting: deque[int]) -> bool:
    line.send(("more", None))
    waiting.extend(line.recv())
    return bool(waiting)


@dataclass(frozen=True)
class _Reporter:
    config: pytest.Config
    line: Connection[Any, Any]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        about = self.config.hook.pytest_report_to_serializable(config=self.config, report=report)
        self.line.send(("report", about))
