"""Archives (tar.gz) for bug reports: files under one folder, with secrets blotted out, readable by their owner only."""

from __future__ import annotations

import io
import json
import tarfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rackless.operations.output_files import write_output

LONGEST = 20 << 20
"""Bytes of a log that go in, counted from its end."""


def blot(data: bytes, secrets: Sequence[bytes]) -> bytes:
    """What is JSON stays JSON: there secrets are blotted out of its strings, and not across them."""
    try:
        value = json.loads(data)
    except ValueError:
        return _blotted(data, secrets)
    return as_json(_blotted_strings(value, secrets)) if isinstance(value, dict | list) else _blotted(data, secrets)


def _blotted_strings(value: Any, secrets: Sequence[bytes]) -> Any:
    if isinstance(value, str):
        return _blotted(value.encode(errors="surrogatepass"), secrets).decode(errors="replace")
    if isinstance(value, dict):
        return {_blotted_strings(key, secrets): _blotted_strings(each, secrets) for key, each in value.items()}
    return [_blotted_strings(each, secrets) for each in value] if isinstance(value, list) else value


def _blotted(data: bytes, secrets: Sequence[bytes]) -> bytes:
    for secret in sorted(secrets, key=len, reverse=True):  # one may begin as another does
        if secret in data:
            data = data.replace(secret, b"(secret)")
    return data


def end_of(path: Path) -> bytes:
    with path.open("rb") as file:
        size = path.stat().st_size
        file.seek(max(size - LONGEST, 0))
        return file.read(LONGEST)


def as_json(value: Any) -> bytes:
    return json.dumps(value, indent=1, default=_plain).encode() + b"\n"


def _plain(value: Any) -> Any:
    if isinstance(value, frozenset | set):
        return sorted(value)
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else str(value)


def pack(output: Path, folder: str, files: Mapping[str, bytes]) -> None:
    """Write the archive with mode 0600 from the first byte on."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, data in sorted(files.items()):
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size, member.mtime, member.mode = len(data), int(time.time()), 0o644
            archive.addfile(member, io.BytesIO(data))
    write_output(output, packed.getvalue())
