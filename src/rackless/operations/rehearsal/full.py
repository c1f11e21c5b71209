"""What the live ISO does in a full rehearsal: asks the BMCs, writes the bootstrap's system to the disk, and makes its config of the
installer's. The init of the ISO then goes on with both. No pydantic here.
"""

from __future__ import annotations

import asyncio
import hashlib
import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable, Mapping
from ipaddress import IPv4Interface
from pathlib import Path
from typing import Any

from rackless.cluster.openshift import translation
from rackless.cluster.openshift.faults import InstallFault
from rackless.cluster.openshift.site import ClusterMetal, ClusterSite
from rackless.errors import LabError
from rackless.installer.assets.release import ReleaseFile
from rackless.run.files import write_secret

ROOT = "root"
"""In the release's list: the file system of a node, as it is written to a disk without partitions."""
TRIES = 3
PAUSE_SECONDS = 2.0
_PIECE = 1 << 20
_SILENCE_SECONDS = 60.0
_LARGEST_LIST = 1 << 20
Ask = Callable[[ClusterMetal], Awaitable[tuple[bool, str]]]
Tell = Callable[[Mapping[str, Any]], None]


async def prepare(
    known: ClusterSite, own: IPv4Interface, mac: str, release: str, ask: Ask, tell: Tell, disk: Path, config: Path,
    fault: InstallFault | None = None,
) -> None:  # fmt: skip
    """`release` is the URL of the release's list. Raises LabError, InputError and NoIgnition."""
    translation.refuse(known)
    for host in known.hosts:
        good, said = await ask(host)
        tell({"bmc": host.name, "good": good, "saw": said})
    found = translation.read_release((await asyncio.to_thread(_read, release)).decode())
    if ROOT not in found:
        raise LabError(f"the list at {release} has no system for the bootstrap")
    written = await _write(found[ROOT], disk)
    tell({"phase": "system written", "bytes": written})
    text = translation.translate(known, translation.BootstrapNic(own, mac), found, fault)
    config.parent.mkdir(parents=True, exist_ok=True)
    write_secret(config, text)
    tell({"phase": "config translated", "bytes": len(text), "hosts": len(known.hosts)})


def _opener() -> urllib.request.OpenerDirector:
    return urllib.request.build_opener(urllib.request.ProxyHandler({}))


def _read(url: str) -> bytes:
    try:
        with _opener().open(url, timeout=_SILENCE_SECONDS) as answer:
            return bytes(answer.read(_LARGEST_LIST))
    except (OSError, http.client.HTTPException) as error:
        raise LabError(f"the release server does not give {url}", why=str(error)) from error


async def _write(wanted: ReleaseFile, disk: Path) -> int:
    why = ""
    for _ in range(TRIES):
        try:
            return await asyncio.to_thread(_copy, wanted, disk)
        except (OSError, http.client.HTTPException, ValueError) as error:
            why = f"{type(error).__name__}: {error}"
            await asyncio.sleep(PAUSE_SECONDS)
    raise LabError(f"the bootstrap's system could not be written to {disk}", why=why)


def _copy(wanted: ReleaseFile, disk: Path) -> int:
    digest, room, total = hashlib.sha256(), bytearray(_PIECE), 0
    with _opener().open(wanted.url, timeout=_SILENCE_SECONDS) as answer, disk.open("r+b", buffering=0) as target:
        while taken := answer.readinto(room):
            piece = memoryview(room)[:taken]
            digest.update(piece)
            target.write(piece)
            total += taken
        os.fsync(target.fileno())
    if digest.hexdigest() != wanted.sha256:
        raise ValueError(f"its checksum is {digest.hexdigest()}, not {wanted.sha256}")
    return total
