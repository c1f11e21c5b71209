"""How many workers a running cluster has."""

from __future__ import annotations

from rackless.events import Bus
from rackless.operations.lab_registry import require_lab
from rackless.protocol.client import ControlClient
from rackless.protocol.messages import SCALE, Scaled, ScaleWorkers
from rackless.run.paths import Roots


async def scale_workers(lab: str, wanted: int, roots: Roots) -> Scaled:
    paths = require_lab(lab, roots)
    return await ControlClient(paths.socket).work(SCALE, ScaleWorkers(wanted), Bus())
