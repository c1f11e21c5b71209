"""Archives (tar.gz) for bug reports: files under one folder, with secrets blotted out, readable by their owner only.

Read again, an archive is somebody else's: nothing of it is written to a disk, links in it are not followed, and what would fill the
memory is refused.
"""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from rackless.errors import InputError
from rackless.operations.output_files import write_output

LONGEST = 20 << 20
"""Bytes of a log that go in, counted from its end."""
_LARGEST_MEMBER = 64 << 20
_MOST_BYTES = 16 << 30
"""Unpacked, of a whole archive: a lab of 500 servers with full logs has 10 GiB."""


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
        for name, data in sorted(files.items(), key=_place):
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size, member.mtime, member.mode = len(data), int(time.time()), 0o644
            archive.addfile(member, io.BytesIO(data))
    write_output(output, packed.getvalue())


def _place(file: tuple[str, bytes]) -> tuple[bool, str]:
    """What `rackless why` reads stands before the logs, which are most of an archive."""
    return "/" in file[0], file[0]


def unpack(archive: Path, wanted: Callable[[str], bool], enough: Sequence[str] = ()) -> dict[str, bytes]:
    """Files of an archive by their names in it, the first folder included. All that are wanted, or, as soon as those of `enough`
    were met (by their names below the first folder), what was wanted until then: logs behind them need not be unpacked."""
    files: dict[str, bytes] = {}
    lacking = set(enough)
    try:
        with archive.open("rb") as raw, tarfile.open(fileobj=_Bounded(_opened(raw)), mode="r:") as packed:  # type: ignore[call-overload]
            for member in packed:
                if member.isfile() and wanted(member.name):
                    if member.size > _LARGEST_MEMBER:
                        raise InputError(f"{member.name} in {archive} is larger than an archive of ours has it")
                    if (file := packed.extractfile(member)) is not None:
                        files[member.name] = file.read()
                        lacking.discard(member.name.partition("/")[2])
                        if enough and not lacking:
                            break
    except (OSError, EOFError, tarfile.TarError, zlib.error, RecursionError, ValueError) as error:
        raise InputError(f"{archive} cannot be read as an archive of `rackless gather`", why=str(error)) from error
    return files


def is_archive(path: Path) -> bool:
    with path.open("rb") as raw:
        return raw.read(2) == _GZIP or tarfile.is_tarfile(path)


_GZIP = b"\x1f\x8b"


def _opened(raw: IO[bytes]) -> IO[bytes] | gzip.GzipFile:
    packed = raw.read(2) == _GZIP
    raw.seek(0)
    return gzip.open(raw) if packed else raw


class _Bounded:
    """As much of a file as `tarfile` uses: a header that claims gigabytes is not read into the memory, nor unpacked for hours."""

    def __init__(self, file: IO[bytes] | gzip.GzipFile) -> None:
        self._file = file

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= _LARGEST_MEMBER:
            raise tarfile.ReadError("a part of it claims to be larger than an archive of ours has it")
        return self._file.read(size)

    def seek(self, place: int) -> int:
        if not 0 <= place <= _MOST_BYTES:
            raise tarfile.ReadError("unpacked it would be larger than an archive of ours")
        return self._file.seek(place)

    def tell(self) -> int:
        return self._file.tell()
