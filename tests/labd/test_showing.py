"""What labd shows an owner who cannot read its folders."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from rackless.labd.showing import LabShowing
from rackless.ports.process import Completed, Processes
from rackless.run.paths import LabPaths, Roots


class Screenshots:
    """virsh, which writes a picture, and takes as long as the others take that began."""

    def __init__(self, together: int) -> None:
        self._missing = together
        self._all = asyncio.Event()
        self.places: list[Path] = []

    async def run(self, argv: Sequence[str | Path], **_: Any) -> Completed:
        place = Path(argv[-1])
        self.places.append(place)
        self._missing -= 1
        if not self._missing:
            self._all.set()
        await self._all.wait()
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(b"\x89PNG" + place.name.encode())
        await asyncio.sleep(0)
        return Completed((), 0, "", "")


async def test_two_who_look_at_one_screen_each_see_a_picture_and_leave_no_file(tmp_path: Path) -> None:
    virsh = Screenshots(2)
    paths = LabPaths(Roots(tmp_path / "state", tmp_path / "run", tmp_path / "cache"), "lab")
    showing = LabShowing(paths, cast(Processes, virsh))
    async with asyncio.timeout(20):
        seen = await asyncio.gather(showing.screen("box-0"), showing.screen("box-0"))
    pictures = [base64.b64decode(one.png) for one in seen]
    assert pictures == [b"\x89PNG" + place.name.encode() for place in virsh.places]
    assert not any(place.exists() for place in virsh.places)
