from pathlib import Path

import pytest

from rackless.lab.mark import read_mark, render_mark
from rackless.ports.namespaces import Home
from rackless.run.paths import LabPaths, Roots


def test_a_mark_tells_what_was_written() -> None:
    paths = LabPaths(Roots(Path("/a b/state"), Path("/run/x"), Path("/cache")), "lab-2")
    text = render_mark(paths, Home(7, 8), 9)
    assert text is not None
    found = read_mark(text + "\n")
    assert found is not None and found.paths(Path("/cache")) == paths
    assert (found.host, found.mnt) == (Home(7, 8), 9)


def test_a_mark_that_the_kernel_would_cut_is_not_written() -> None:
    long = Roots(Path("/" + "s" * 120), Path("/" + "r" * 120), Path("/cache"))
    assert render_mark(LabPaths(long, "lab"), Home(7, 8), 9) is None


@pytest.mark.parametrize(
    "alias",
    [
        "", "eth0", "{}", "[]", "3", '["rackless"]', '["docker","lab","/s","/r",1,2,3]', '["rackless","../x","/s","/r",1,2,3]',
        '["rackless","lab","s","/r",1,2,3]', '["rackless","lab","/s",null,1,2,3]', '["rackless","lab","/s","/r","1",2,3]',
        '["rackless","lab","/s","/r",1,2,3,4]', '["rackless",{},"/s","/r",1,2,3]',
    ],
)  # fmt: skip
def test_what_somebody_else_wrote_is_no_mark(alias: str) -> None:
    assert read_mark(alias) is None
