"""The payload of an install, on the machine that needs it: fetched from the release server, and mounted."""

from __future__ import annotations

import json
from pathlib import Path

from rackless.cluster.bootstrap.pulling import pull
from rackless.cluster.bootstrap.telling import Tell
from rackless.drivers.clock import SystemClock
from rackless.drivers.process import LocalProcesses

PAYLOADS = Path("/var/lib/rackless/payload")


async def fetch_payload(release: Path, mount: Path, tell: Tell) -> None:
    """Fetched once, mounted at every start."""
    wanted = json.loads(release.read_text())["payload"]
    image = PAYLOADS / f"{wanted['sha256']}.img"
    tell({"phase": "payload", "url": wanted["url"]})
    fetched = await pull(wanted["url"], wanted["sha256"], image, SystemClock(), tell)
    processes = LocalProcesses()
    mount.mkdir(parents=True, exist_ok=True)
    if not mount.is_mount():
        await processes.run(["modprobe", "loop"], check=False)  # it may be in the kernel
        await processes.run(["mount", "-o", "loop,ro", image, mount])
    tell({"phase": "payload mounted", "fetched": fetched, "bytes": image.stat().st_size})
