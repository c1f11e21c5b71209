"""Which errors are told to a person in words of ours, and not as a mistake of rackless."""

from __future__ import annotations

import errno

import pytest

from rackless.errors import HypervisorError, known


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS])
def test_a_disk_that_refuses_is_the_computers_lack_also_in_a_group(code: int) -> None:
    told = known(ExceptionGroup("parallel", [OSError(code, "refused", "/somewhere/file")]))
    assert isinstance(told, HypervisorError)
    assert "disk" in told.what and "/somewhere/file" in told.why and "again" in told.hint


def test_other_errors_of_the_system_are_not() -> None:
    assert known(OSError(errno.EBADF, "a mistake of ours")) is None
