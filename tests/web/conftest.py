from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.web.fake_labd import FakeLabd, make_labd, make_roots, running
from tests.web.stage import Stage, stage


@pytest.fixture
async def labd(tmp_path: Path) -> AsyncIterator[FakeLabd]:
    async with running(make_labd(make_roots(tmp_path))) as found:
        yield found


@pytest.fixture
async def page(labd: FakeLabd) -> AsyncIterator[Stage]:
    """Somebody who was let in."""
    async with stage(labd.paths.roots) as found:
        await found.enter()
        yield found
