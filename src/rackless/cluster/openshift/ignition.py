"""The bootstrap Ignition config as the installer writes it: read from its text, or from the ISO it was embedded in. Pure."""

from __future__ import annotations

import base64
import gzip
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote_to_bytes

_LARGEST_BYTES = 64 << 20
"""Of a config, unpacked: one of 200 hosts has three."""
_HEAD = 110
_MAGIC = b"070701"


class NoIgnition(ValueError):
    """There is no Ignition config, or none that can be read."""


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """The files of a bootstrap machine, by path."""

    files: Mapping[str, bytes] = field(repr=False)

    def text(self, path: str) -> str:
        try:
            return self.files[path].decode()
        except KeyError:
            raise NoIgnition(f"the installer's config has no {path}") from None
        except UnicodeDecodeError as error:
            raise NoIgnition(f"{path} in the installer's config is no text: {error}") from None


def read(text: bytes) -> Bootstrap:
    """Raises NoIgnition."""
    try:
        config = json.loads(text)
        files = config["storage"]["files"]
        return Bootstrap({str(file["path"]): _content(file.get("contents") or {}) for file in files})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise NoIgnition(f"not a bootstrap Ignition config: {type(error).__name__}: {error}") from error


def read_from_iso(iso: Path, offset: int, length: int) -> bytes:
    """The config.ign that the installer has written into its copy of the ISO. Raises NoIgnition while there is none."""
    with iso.open("rb") as file:
        file.seek(offset)
        area = file.read(length)
    if not area.startswith(b"\x1f\x8b"):
        raise NoIgnition("the installer has not written its config yet")
    unpacking = zlib.decompressobj(31)
    try:
        archive = unpacking.decompress(area, _LARGEST_BYTES)
    except zlib.error as error:
        raise NoIgnition(f"the ISO's Ignition area is damaged: {error}") from error
    if not unpacking.eof:
        raise NoIgnition("the ISO's Ignition area is cut off or too large")
    return _member(archive, "config.ign")


def _member(archive: bytes, wanted: str) -> bytes:
    """A file of a cpio archive in the kernel's format."""
    at = 0
    while archive[at : at + 6] == _MAGIC:
        fields = [int(archive[at + 6 + 8 * n : at + 14 + 8 * n], 16) for n in range(13)]
        size, length = fields[6], fields[11]
        name = archive[at + _HEAD : at + _HEAD + length - 1].decode(errors="replace")
        begin = (at + _HEAD + length + 3) & ~3
        if name == wanted:
            return archive[begin : begin + size]
        if name == "TRAILER!!!":
            break
        at = (begin + size + 3) & ~3
    raise NoIgnition(f"the ISO's Ignition area has no {wanted}")


def _content(contents: Mapping[str, str]) -> bytes:
    """Of a `data:` URL; what is elsewhere is not fetched."""
    source = contents.get("source") or ""
    head, comma, body = source.partition(",")
    if not comma or not head.startswith("data:"):
        return b""
    data = base64.b64decode(body) if head.endswith(";base64") else unquote_to_bytes(body)
    return gzip.decompress(data) if contents.get("compression") == "gzip" else data
