"""A lab whose hosts were moved to another API does not write them a second time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from rackless.controllers.pivot import journal
from rackless.controllers.pivot.journal import MoveJournal, MovePhase
from rackless.drivers.fake.resources import MemoryResources
from rackless.errors import LabError
from rackless.labd.running_lab import RunningLab


@pytest.mark.parametrize("phase", [MovePhase.LEAVING, MovePhase.RESUMING, MovePhase.MOVED])
async def test_hosts_that_are_elsewhere_are_not_written_here(phase: MovePhase) -> None:
    resources = MemoryResources()
    await journal.store(resources, MoveJournal("1", phase, "https://192.0.2.1:6443", ""))
    lab = cast(Any, SimpleNamespace(resources=resources))
    with pytest.raises(LabError, match="moved to https") as refused:
        await RunningLab.write_hosts(lab)
    assert "pivot --from" in refused.value.hint
    assert not await resources.list("BareMetalHost")
