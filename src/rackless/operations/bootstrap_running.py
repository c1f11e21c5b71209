"""How the units of a bootstrap machine run what they run, and where it tells how it goes. Light: each unit pays for its imports."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Coroutine, Mapping
from typing import Any

from rackless.cluster.bootstrap.telling import Tell, render_line
from rackless.errors import RacklessError


def run(work: Coroutine[Any, Any, None], tell: Tell) -> None:
    """Until it is done, or SIGTERM."""

    async def whole() -> None:
        task = asyncio.ensure_future(work)
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        try:
            await task
        except asyncio.CancelledError:
            return
        except RacklessError as error:
            tell({"failed": str(error)})
            raise

    asyncio.run(whole())


def teller(plain: bool = False) -> Tell:
    """Tells on the standard output, which a unit leads to the console."""

    def tell(what: Mapping[str, Any]) -> None:
        sys.stdout.write((json.dumps(dict(what)) if plain else render_line(what)) + "\n")
        sys.stdout.flush()

    return tell
