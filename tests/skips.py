"""A test that is skipped tests nothing: with `--no-new-skips` only the skips listed in skips.toml, with their reason, pass.

`scripts/test` brings what the tests need and asks for this; on a machine of one's own a skip is just told.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

LIST = Path(__file__).with_name("skips.toml")


class Skips:
    """A pytest plugin; with workers, they tell what they skipped while collecting, and the first process decides."""

    def __init__(self, config: pytest.Config, allowed: Path = LIST) -> None:
        self._config = config
        self._allowed = [entry["says"] for entry in tomllib.loads(allowed.read_text())["skip"]]
        self._new: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._note(report)

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            if not any(words in reason for words in self._allowed):
                self._new.append(f"{report.nodeid}: {reason.removeprefix('Skipped: ')}")

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(self._config, "workeroutput"):
            self._config.workeroutput["skips"] = self._new
        elif self._new and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        told = getattr(node, "workeroutput", {}).get("skips", [])
        self._new += [skip for skip in told if skip not in self._new]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._new:
            terminalreporter.section("skipped, and not listed in tests/skips.toml", red=True)
            for line in self._new:
                terminalreporter.line(line)
