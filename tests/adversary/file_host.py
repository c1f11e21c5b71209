"""The lab's file server in a process of its own, which tells how much it holds: nothing of clients and of other tests is in it."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class FileHost:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.port = self._read()

    def held(self) -> int:
        """Bytes that Python holds in that process."""
        assert self._process.stdin is not None
        self._process.stdin.write("tell\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self) -> int:
        assert self._process.stdout is not None
        return int(self._process.stdout.readline())


@contextmanager
def file_host(root: Path) -> Iterator[FileHost]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.adversary.file_host", str(root)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    try:
        yield FileHost(process)
    finally:
        process.terminate()
        process.wait(20)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


# in the other process


async def _main(root: Path) -> None:
    from rackless.lab.files import FileServer
    from tests.bmc.conftest import free_port

    server = FileServer(root, "127.0.0.1", port=free_port())
    await server.start()
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    tracemalloc.start()
    _say(server.port)
    while await reader.readline():
        gc.collect()
        _say(tracemalloc.get_traced_memory()[0])


def _say(number: int) -> None:
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(_main(Path(sys.argv[1])))
