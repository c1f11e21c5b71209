"""One mutant, one forked process: pytest has collected before, so a mutant costs a fork and the tests that call it.

A mutant inside a function is put in place by giving the live function another code object. One that is run by the
import (a table, a default, a class) is imported from memory by a pytest of its own.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
import types
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

import pytest
from mutants import Mutant

Function = tuple[str, int]
"""A file and the first line of a function in it."""
MEMORY_BYTES = 6 << 30
NOT_IN_PLACE = 77
ELSEWHERE = "not in place"
"""Could not be put in place, so it has to be imported."""
OUTCOMES = {0: "survived", NOT_IN_PLACE: ELSEWHERE}
QUIET = ["-q", "-s", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not real"]
QUIET += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # plugins are imported before the fork


@dataclass
class Baseline:
    """How the tests went unmutated."""

    passed: bool = False
    seconds: dict[str, float] = field(default_factory=dict)
    callers: dict[Function, set[str]] = field(default_factory=dict)
    """The tests that call each function."""
    at_import: set[Function] = field(default_factory=set)
    """Functions that collecting calls: their effect is there before one could be put in place."""
    modules: list[str] = field(default_factory=list)


class Recorder:
    """A pytest plugin that writes down which test calls which function of the files in question."""

    def __init__(self, files: Iterable[str]) -> None:
        self._files = frozenset(files)
        self._calls: set[Function] = set()
        self.baseline = Baseline()
        self._shared: set[Function] = set()

    def start(self) -> None:
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)

    def _profile(self, frame: types.FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename in self._files:
            self._calls.add((frame.f_code.co_filename, frame.f_code.co_firstlineno))

    def _taken(self) -> set[Function]:
        taken, self._calls = self._calls, set()
        return taken

    def pytest_collection_finish(self) -> None:
        self.baseline.at_import = self._taken()

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Iterator[None]:
        before = set(self._calls)
        try:
            return (yield)
        finally:
            if fixturedef.scope != "function":  # made for one test, used by all
                self._shared |= self._calls - before

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        started = time.monotonic()
        result = yield
        self.baseline.seconds[item.nodeid] = time.monotonic() - started
        for function in self._taken():
            self.baseline.callers.setdefault(function, set()).add(item.nodeid)
        return result

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        sys.setprofile(None)
        self.baseline.passed = exitstatus == 0
        self.baseline.modules = [name for name, module in sys.modules.items() if _is_library(module)]
        for function in self._shared:
            self.baseline.callers[function] = set(self.baseline.seconds)


def _is_library(module: object) -> bool:
    file = getattr(module, "__file__", None) or ""
    return "site-packages" in file or file.startswith(sys.base_prefix + "/lib")


def record(tests: list[str], files: Iterable[str], rootdir: list[str]) -> Baseline:
    """The tests as they are, in a process of their own."""
    with tempfile.NamedTemporaryFile() as told:
        pid = os.fork()
        if pid == 0:
            recorder = Recorder(files)
            recorder.start()
            status = 1
            with contextlib.suppress(BaseException):
                status = pytest.main([*QUIET, *rootdir, *tests], plugins=[recorder])
                Path(told.name).write_text(_encoded(recorder.baseline))
            sys.stdout.flush()
            os._exit(status)
        os.waitpid(pid, 0)
        return _decoded(Path(told.name).read_text())


def _encoded(baseline: Baseline) -> str:
    callers = [[*function, sorted(tests)] for function, tests in baseline.callers.items()]
    return json.dumps([baseline.passed, baseline.seconds, callers, sorted(baseline.at_import), baseline.modules])


def _decoded(text: str) -> Baseline:
    if not text:
        return Baseline()
    passed, seconds, callers, at_import, modules = json.loads(text)
    return Baseline(
        passed, seconds, {(f, n): set(tests) for f, n, tests in callers}, {(f, n) for f, n in at_import}, modules
    )


@dataclass
class Task:
    mutant: Mutant
    seconds: float
    """What its tests take unmutated."""
    run: Callable[[], int]


def run_all(tasks: list[Task], jobs: int, told: Callable[[Mutant, str], None]) -> None:
    """Fork for each, `jobs` at a time; a mutant that runs much longer than its tests is ended."""
    waiting, running = list(reversed(tasks)), dict[int, tuple[Task, float, str]]()
    while waiting or running:
        while waiting and len(running) < jobs:
            task, folder = waiting.pop(), tempfile.mkdtemp(prefix="mutant-")
            running[_forked(task, folder)] = task, time.monotonic() + 10 + 8 * task.seconds, folder
        for pid, (task, deadline, folder) in list(running.items()):
            done, status = os.waitpid(pid, os.WNOHANG)
            if late := not done and time.monotonic() > deadline:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            if done or late:
                del running[pid]
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)  # what its tests started
                shutil.rmtree(folder, ignore_errors=True)
                told(task.mutant, "timed out" if late else OUTCOMES.get(os.waitstatus_to_exitcode(status), "killed"))
        time.sleep(0.005)


def _end_with_parent() -> None:
    """Whoever ends the tool ends its mutants too."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def _forked(task: Task, folder: str) -> int:
    pid = os.fork()
    if pid:
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)
        return pid
    status = 3
    try:
        _end_with_parent()
        os.setpgid(0, 0)
        os.environ["PYTEST_DEBUG_TEMPROOT"] = os.environ["TMPDIR"] = tempfile.tempdir = folder
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(nothing, number)
        status = task.run()
    finally:
        os._exit(status)


class ShortestFirst:
    """A pytest plugin: what notices a mutant soonest is run first."""

    def __init__(self, baseline: Baseline) -> None:
        self._seconds = baseline.seconds

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items.sort(key=lambda item: self._seconds.get(item.nodeid, 0.0))


class Collected:
    """A pytest plugin: once all is collected, forks a process per mutant instead of running the tests."""

    def __init__(self, mutants: list[Mutant], sources: dict[Path, bytes], baseline: Baseline, jobs: int,
                 told: Callable[[Mutant, str], None]) -> None:  # fmt: skip
        self._mutants, self._sources, self._baseline = mutants, sources, baseline
        self._jobs, self._told = jobs, told
        self._live: dict[Function, list[types.FunctionType]] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        files = {str(path) for path in self._sources}
        gc.unfreeze()  # what the tests' own conftest froze is not among the objects, and no function would be found
        for thing in gc.get_objects():
            if type(thing) is types.FunctionType and thing.__code__.co_filename in files:
                self._live.setdefault((thing.__code__.co_filename, thing.__code__.co_firstlineno), []).append(thing)
        gc.freeze()
        run_all([self._task(session, mutant) for mutant in self._mutants], self._jobs, self._told)
        return True

    def _task(self, session: pytest.Session, mutant: Mutant) -> Task:
        assert mutant.function is not None
        names = self._baseline.callers.get((str(mutant.path), mutant.function), set())
        items = sorted((i for i in session.items if i.nodeid in names), key=lambda i: self._baseline.seconds[i.nodeid])

        def run() -> int:
            if not self._put_in_place(mutant):
                return NOT_IN_PLACE
            for number, item in enumerate(items):
                following = items[number + 1] if number + 1 < len(items) else None
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if session.testsfailed:
                    return 1
            return 0

        return Task(mutant, sum(self._baseline.seconds[item.nodeid] for item in items), run)

    def _put_in_place(self, mutant: Mutant) -> bool:
        done = False
        source = self._sources[mutant.path]
        old, new = (
            _outermost(compile(s, str(mutant.path), "exec", dont_inherit=True))
            for s in (source, mutant.applied(source))
        )
        for before, after in zip(old, new, strict=True):
            if before.co_firstlineno == mutant.function and before != after:
                for function in self._live.get((str(mutant.path), before.co_firstlineno), []):
                    with contextlib.suppress(ValueError):  # a closure over fewer names
                        if function.__code__ == before:
                            function.__code__, done = after, True
        return done


def _outermost(code: types.CodeType) -> list[types.CodeType]:
    """The functions of a module and of its classes, not the functions inside these."""
    found: list[types.CodeType] = []
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            found += [inner] if inner.co_flags & 1 else _outermost(inner)  # 1: CO_OPTIMIZED, which classes have not
    return found


def in_place(mutants: list[Mutant], sources: dict[Path, bytes], baseline: Baseline, jobs: int, arguments: list[str],
             told: Callable[[Mutant, str], None]) -> None:  # fmt: skip
    """Try the mutants inside functions, in a process that has collected once."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        _end_with_parent()
        os.close(reading)
        numbers = {id(mutant): number for number, mutant in enumerate(mutants)}

        def tell(mutant: Mutant, outcome: str) -> None:
            os.write(writing, f"{numbers[id(mutant)]} {outcome}\n".encode())

        try:
            pytest.main([*QUIET, *arguments], plugins=[Collected(mutants, sources, baseline, jobs, tell)])
        except BaseException:
            traceback.print_exc()
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as lines:
        for line in lines:
            number, outcome = line.rstrip("\n").split(" ", 1)
            told(mutants[int(number)], outcome)
    os.waitpid(pid, 0)


def imported(mutants: list[Mutant], sources: dict[Path, bytes], baseline: Baseline, jobs: int, arguments: list[str],
             told: Callable[[Mutant, str], None]) -> None:  # fmt: skip
    """Try the mutants that act while the module is imported: each in a pytest that imports it from memory."""

    def task(mutant: Mutant) -> Task:
        def run() -> int:
            text, usual = mutant.applied(sources[mutant.path]), SourceFileLoader.get_code

            def get_code(loader: SourceFileLoader, name: str) -> types.CodeType | None:
                if loader.path == str(mutant.path):
                    return compile(text, loader.path, "exec", dont_inherit=True)
                return usual(loader, name)

            SourceFileLoader.get_code = get_code  # type: ignore[method-assign]
            return int(pytest.main([*QUIET, *arguments], plugins=[ShortestFirst(baseline)]))

        return Task(mutant, sum(baseline.seconds.values()) + 5, run)

    run_all([task(mutant) for mutant in mutants], jobs, told)
