"""A test that is killed leaves no lab behind: as workers are, seconds after Ctrl-C."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path

import pytest

from tests.real.conftest import ROOT, PretendHost

pytestmark = pytest.mark.real

_TEST = """\
import signal, sys
from pathlib import Path
from tests.real.conftest import pretend_host
with pretend_host(Path(sys.argv[1])) as host:
    host.rackless("up", "--until", "lab")
    print(host.pid, flush=True)
    signal.pause()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root")
def test_the_lab_of_a_test_that_was_killed_is_taken_down(tmp_path: Path) -> None:
    test = subprocess.Popen([sys.executable, "-c", _TEST, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert test.stdout is not None
    host = PretendHost(int(test.stdout.readline()), tmp_path)
    inside = [os.pidfd_open(pid) for pid, _ in host.inhabitants()]
    holder = os.pidfd_open(host.pid)
    assert inside
    test.kill()
    test.communicate()
    assert select.select([holder], [], [], 300)[0], "its namespaces are let go"
    assert len(select.select(inside, [], [], 0)[0]) == len(inside), "and nothing of the lab lives"
    assert list((tmp_path / "state").glob("*")) == []
    for descriptor in (holder, *inside):
        os.close(descriptor)
