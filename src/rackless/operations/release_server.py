"""The release server of an install: a process inside the lab that serves a folder until it is told to end, or its parent dies."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

from rackless.lab.files import FileServer


async def serve(root: Path, address: str) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    server = FileServer(root, address)
    await server.start()
    sys.stdout.write(f"serving {server.url}\n")
    sys.stdout.flush()
    await stop.wait()
    await server.stop()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), sys.argv[2]))
