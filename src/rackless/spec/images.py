"""An image of one's own, instead of the node image that is built here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, PlainSerializer, ValidationInfo

from rackless.errors import Problem
from rackless.spec.change import Change, setting
from rackless.spec.value import Value

CHECKSUMS = {32: "md5", 64: "sha256", 128: "sha512"}
"""Which checksum it is, by the number of its hexadecimal digits."""
_HEX = re.compile(r"[0-9a-fA-F]+")


class ImageFormat(StrEnum):
    QCOW2 = "qcow2"
    RAW = "raw"
    LIVE_ISO = "live-iso"


def nearby(value: str, info: ValidationInfo) -> str:
    """Makes a relative path absolute, starting from the folder of the file that names it."""
    folder = (info.context or {}).get("folder") if isinstance(info.context, dict) else None
    path = Path(value.removeprefix("file://")).expanduser()
    return str(path if path.is_absolute() or folder is None else Path(folder).absolute() / path)


def _source(value: str, info: ValidationInfo) -> str:
    if is_path(value):
        return nearby(value, info)
    if urlsplit(value).scheme not in ("http", "https"):
        raise ValueError(f"{value!r} is neither an http URL nor a file on this computer")
    return value


def is_path(source: str) -> bool:
    return "://" not in source or source.startswith("file://")


Source = Annotated[str, AfterValidator(_source)]
NearbyFile = Annotated[Path, AfterValidator(lambda path, info: Path(nearby(str(path), info))), PlainSerializer(str)]


class ImageSpec(Value):
    """What is put on servers instead of the node image."""

    url: Source = setting(
        "Where the image is: an http URL that the lab can reach (outside ones need an uplink), or a file on this computer, "
        "which the lab's file server then offers; a relative path counts from this file.",
        Change.RECREATE,
    )
    checksum: str = setting(
        "Its md5, sha256 or sha512, or the URL of a file of checksums. A file's own is computed; a live ISO needs none.",
        Change.RECREATE,
        default="",
    )
    format: ImageFormat | None = setting(
        "qcow2, raw, or live-iso, which is booted from the BMC's virtual drive and not written. "
        "Without it a file is looked into, and a URL goes by its ending.",
        Change.RECREATE,
        default=None,
    )
    user_data: NearbyFile | None = setting(
        "A file handed to the image at its first boot on a config drive: an Ignition config, or what its cloud-init reads.",
        Change.RECREATE,
        default=None,
    )

    @property
    def is_path(self) -> bool:
        return is_path(self.url)


def guessed_format(url: str) -> ImageFormat:
    name = urlsplit(url).path.lower()
    if name.endswith(".iso"):
        return ImageFormat.LIVE_ISO
    return ImageFormat.RAW if name.endswith((".raw", ".img")) else ImageFormat.QCOW2


def checksum_type(checksum: str) -> str:
    """The name of the checksum's algorithm; `auto` for the URL of a file of checksums. Raises ValueError."""
    if "://" in checksum:
        return "auto"
    if not _HEX.fullmatch(checksum) or len(checksum) not in CHECKSUMS:
        raise ValueError(f"{checksum!r} is neither an md5, a sha256 or a sha512 in hexadecimal, nor a URL")
    return CHECKSUMS[len(checksum)]


def image_problems(image: ImageSpec, path: str) -> Iterator[Problem]:
    form = image.format or guessed_format(image.url)
    if image.checksum:
        try:
            checksum_type(image.checksum)
        except ValueError as error:
            yield Problem(f"{path}.checksum", str(error))
    elif not image.is_path and form is not ImageFormat.LIVE_ISO:
        yield Problem(f"{path}.checksum", "an image at a URL needs its checksum", hint="sha256sum computes it")
