"""The real API as a process of its own, with TLS and SQLite, for a benchmark."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path


@asynccontextmanager
async def served_api(folder: Path) -> AsyncIterator[tuple[subprocess.Popen[bytes], str]]:
    """The process and its URL; its keys are in `folder/pki`."""
    words = ("api", "serve", "--store", f"sqlite:{folder}/objects.db", "--port", "0", "--json")
    argv = [sys.executable, "-m", "rackless", *words, "--kubeconfig-out", folder / "kubeconfig"]
    process = await asyncio.to_thread(subprocess.Popen, argv, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        yield process, json.loads(await asyncio.to_thread(process.stdout.readline))["serving"]
    finally:
        process.terminate()
        await asyncio.to_thread(process.wait)
