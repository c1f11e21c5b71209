"""The lab's API as labd keeps it running."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from rackless.events import Bus
from rackless.labd.api import LabApi
from rackless.run.paths import LabPaths, Roots
from rackless.simulation.world import make_world


class Unstoppable:
    async def stop(self) -> None:
        raise OSError("the disk is read-only")


async def test_an_api_that_could_not_be_stopped_in_good_order_is_started_again(tmp_path: Path) -> None:
    paths = LabPaths(Roots(tmp_path / "state", tmp_path / "run", tmp_path / "cache"), "lab")
    api = LabApi(paths, "192.168.111.1", Bus(), make_world().drivers())
    api._kept = cast(Any, Unstoppable())
    with pytest.raises(OSError, match="read-only"):
        await api.stop()
    assert not api.started, "or the next `up` would wait for an API that nobody starts"
