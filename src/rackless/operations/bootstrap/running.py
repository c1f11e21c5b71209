"""Runs the program of a bootstrap machine's systemd unit until it ends or SIGTERM, and prints its progress for the console.
Imports little: each unit pays for that at its start."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Coroutine, Mapping
from typing import Any

from rackless.cluster.bootstrap.telling import Tell, render_line
from rackless.errors import RacklessError

SYSTEMCTL = ("env", "SYSTEMCTL_SKIP_SYSV=1", "systemctl")
"""Packages bring scripts for another init along, which systemctl would keep in step by a program that is in Perl, and not here."""


def run(work: Coroutine[Any, Any, None], tell: Tell) -> None:
    """Run `work` until it is done, or until SIGTERM or SIGINT cancels it."""

    async def whole() -> None:
        task = asyncio.ensure_future(work)
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        try:
            await task
        except asyncio.CancelledError:
            return
        except (RacklessError, OSError) as error:  # a disk that is full is no mistake of ours
            tell({"failed": str(error)})
            raise

    asyncio.run(whole())


def teller(plain: bool = False) -> Tell:
    """Prints to the standard output, which the unit connects to the console."""

    def tell(what: Mapping[str, Any]) -> None:
        sys.stdout.write((json.dumps(dict(what)) if plain else render_line(what)) + "\n")
        sys.stdout.flush()

    return tell
