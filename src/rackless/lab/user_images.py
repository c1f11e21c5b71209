"""A person's own images (`image:`): a URL is used as it is, a file on this computer is offered on the lab's file server.

`up` offers root's files from outside the lab, where all files are seen; labd, which sees only some, reads what was offered. The
lab's owner reads a file and sends its bytes to labd. A file is put there by its checksum, which is computed once for as long as the
file stays the same. Its format is checked first: a file that is not of the stated format is refused before a server is changed.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rackless.errors import InputError, LabError
from rackless.ports.provisioner import Image
from rackless.run.files import write, write_secret
from rackless.run.paths import LabPaths
from rackless.spec.images import ImageFormat, ImageSpec, checksum_type, guessed_format

_QCOW2 = b"QFI\xfb"
SENT = Path("/sent")
"""Before the names of files whose bytes were sent. None is opened by that name: it is looked up among those that are offered."""
LEFT_FREE = 1 << 30
"""Bytes that stay free of what is sent; the lab's disks grow on the same file system."""
_ISO_AT, _ISO = 0x8001, b"CD001"


@dataclass(frozen=True, slots=True)
class UserImages:
    paths: LabPaths

    # outside the lab

    async def offer(self, wanted: ImageSpec) -> None:
        """Have the lab's file server offer it, and keep its user data for labd. Raises InputError."""
        if wanted.is_path:
            await asyncio.to_thread(self._offer, Path(wanted.url), wanted)
        if wanted.user_data is not None:
            write_secret(self._user_data(wanted.user_data), read_user_data(wanted.user_data))

    def _offer(self, path: Path, wanted: ImageSpec) -> None:
        try:
            form = look_into(path, wanted.format)
            checksum = self._checksum(path)
            _compare(path, checksum, wanted.checksum)
            place = self._place_of(checksum, form)
            _place(path, place)
        except OSError as error:
            raise _unreadable(path, error) from error
        known = self._known()
        known[str(path)] |= {"name": place.name, "format": form.value}
        write(self.paths.offered, json.dumps(known, indent=1) + "\n")

    def _checksum(self, path: Path) -> str:
        found = path.stat()
        identity = [found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns]
        known = self._known()
        if known.get(str(path), {}).get("identity") != identity:
            known[str(path)] = {"identity": identity, "sha256": digest(path)}
            write(self.paths.offered, json.dumps(known, indent=1) + "\n")
        return str(known[str(path)]["sha256"])

    # in labd

    def resolve(self, wanted: ImageSpec, server: str) -> Image:
        """The image as a host's record names it; `server` is the URL of the file server."""
        if not wanted.is_path:
            form = wanted.format or guessed_format(wanted.url)
            kind = checksum_type(wanted.checksum) if wanted.checksum else "auto"
            return Image(wanted.url, wanted.checksum, kind, form.value)
        found = self._known().get(wanted.url, {})
        if "name" not in found:
            raise LabError(f"the image {wanted.url} is not offered to the lab", hint="`rackless up` offers it")
        return Image(f"{server}/{found['name']}", found["sha256"], "sha256", found["format"])

    async def take(self, chunks: AsyncIterator[bytes], said: ImageFormat | None) -> tuple[str, ImageFormat]:
        """Offer a file whose bytes somebody sends: they read it, and no path of theirs is opened here. Returns what it is called
        from now on. Raises InputError, or LabError when there is no room."""
        self.paths.files.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, name = tempfile.mkstemp(prefix="upload-", suffix=".new", dir=self.paths.files)
        scratch, sha256 = Path(name), hashlib.sha256()
        try:
            with os.fdopen(handle, "wb") as file:
                async for chunk in chunks:
                    if shutil.disk_usage(self.paths.files).free < LEFT_FREE + len(chunk):
                        raise LabError("there is no room for the file", why=f"{LEFT_FREE >> 20} MiB are kept free")
                    sha256.update(chunk)
                    await asyncio.to_thread(file.write, chunk)
            form = look_into(scratch, said, "the file")
            place = self._place_of(sha256.hexdigest(), form)
            scratch.chmod(0o644)
            scratch.rename(place)
        finally:
            scratch.unlink(missing_ok=True)
        path = str(SENT / place.name)
        known = {"name": place.name, "format": form.value, "sha256": sha256.hexdigest()}
        write(self.paths.offered, json.dumps({**self._known(), path: known}, indent=1) + "\n")
        return path, form

    def _place_of(self, checksum: str, form: ImageFormat) -> Path:
        return self.paths.files / f"image-{checksum[:16]}.{'iso' if form is ImageFormat.LIVE_ISO else form.value}"

    def user_data(self, wanted: ImageSpec) -> str:
        return self._user_data(wanted.user_data).read_text() if wanted.user_data is not None else ""

    def _user_data(self, path: Path) -> Path:
        return self.paths.secrets / "user-data" / hashlib.sha256(str(path).encode()).hexdigest()[:16]

    def _known(self) -> dict[str, dict[str, Any]]:
        try:
            found: dict[str, dict[str, Any]] = json.loads(self.paths.offered.read_text())
        except (OSError, ValueError):
            return {}
        return found


def check_readable(images: Sequence[ImageSpec]) -> None:
    """Before anything is made: files that are missing or are something else. Raises InputError."""
    for image in images:
        if image.is_path:
            try:
                look_into(Path(image.url), image.format)
            except OSError as error:
                raise _unreadable(Path(image.url), error) from error
        if image.user_data is not None:
            read_user_data(image.user_data)


def _unreadable(path: Path, error: OSError) -> InputError:
    return InputError(f"the image {path} cannot be read", why=error.strerror or str(error), hint="name a file or a URL")


def read_user_data(path: Path) -> str:
    """Raises InputError."""
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"the user data {path} cannot be read", why=str(error)) from error


def _place(path: Path, place: Path) -> None:
    """The same file under another name where that is possible; a lab does not see all folders of the hypervisor."""
    if place.exists() and place.samefile(path):
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    place.unlink(missing_ok=True)
    try:
        os.link(path.resolve(), place)
    except OSError:  # another file system
        scratch = place.with_suffix(".new")
        shutil.copyfile(path, scratch)
        scratch.rename(place)


def look_into(path: Path, said: ImageFormat | None, called: str = "") -> ImageFormat:
    """The format of the file; raises InputError when it is another than said."""
    called = called or str(path)
    with path.open("rb") as file:
        qcow2 = file.read(4) == _QCOW2
        file.seek(_ISO_AT)
        iso = file.read(5) == _ISO
    size = path.stat().st_size
    if size == 0:
        raise InputError(f"{called} is empty", hint="name an image")
    found = ImageFormat.QCOW2 if qcow2 else ImageFormat.LIVE_ISO if iso else ImageFormat.RAW
    if said in (None, found) or (said is ImageFormat.RAW and iso):  # a hybrid ISO may be meant for a disk
        return said or found
    raise InputError(
        f"{called} is not {said}",
        why=f"it looks like {'a raw disk' if found is ImageFormat.RAW else found.value}",
        hint="`qemu-img info` tells what it is; leave `format` out to have it found",
    )


def digest(path: Path, algorithm: str = "sha256") -> str:
    with path.open("rb") as source:
        return hashlib.file_digest(source, algorithm).hexdigest()


def check_checksum(path: Path, given: str) -> None:
    """Raises InputError when the file is another one than its checksum says."""
    if given and "://" not in given:
        _compare(path, digest(path), given)


def _compare(path: Path, sha256: str, given: str) -> None:
    """A checksum that was given besides must be right; one at a URL is for whoever fetches it."""
    if not given or "://" in given:
        return
    kind = checksum_type(given)
    actual = sha256 if kind == "sha256" else digest(path, kind)
    if actual != given.lower():
        raise InputError(
            f"{path} is not the image its checksum says",
            why=f"its {kind} is {actual}, given was {given}",
            hint="fetch it again, or leave the checksum of a local file out: it is computed",
        )
