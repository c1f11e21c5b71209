"""What an install takes from its release server: the system for hosts, and the bootstrap machine's payload, each by checksum.

`release.json` in the folder says where; `create cluster` writes it for its lab. Without it hosts get what the install-config names,
and the bootstrap machine provisions nobody.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rackless.installer.assets.asset import Asset, Mistake, Parts

FILE = "release.json"
NODE, PAYLOAD = "node", "payload"
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class ReleaseFile:
    url: str
    sha256: str


Release = Mapping[str, ReleaseFile]
"""By name: `node`, `payload`; either may be missing."""


def render_release(files: Release) -> str:
    found = {name: {"url": each.url, "sha256": each.sha256} for name, each in sorted(files.items())}
    return json.dumps(found, indent=2) + "\n"


def _read(parts: Parts) -> Release:
    found = json.loads(parts.get(FILE, "{}"))
    return {name: ReleaseFile(each["url"], each["sha256"]) for name, each in found.items()}


def _mistakes(path: str, text: str) -> Iterator[Mistake]:
    try:
        found: Any = json.loads(text)
    except ValueError as error:
        yield Mistake(path, 1, f"not readable as JSON: {error}")
        return
    if not isinstance(found, dict) or set(found) - {NODE, PAYLOAD}:
        yield Mistake(path, 1, f"it names something else than {NODE} and {PAYLOAD}")
        return
    for name, each in found.items():
        url, checksum = (each.get("url"), each.get("sha256")) if isinstance(each, dict) else (None, None)
        if not isinstance(url, str) or not url.startswith(("http://", "https://")):
            yield Mistake(path, 1, f"{name}.url is no http:// address")
        if not isinstance(checksum, str) or not _SHA256.fullmatch(checksum):
            yield Mistake(path, 1, f"{name}.sha256 is no SHA-256 in hexadecimal")


RELEASE = Asset("release", "Release", lambda given: {}, _read, files=(FILE,), check=_mistakes)
