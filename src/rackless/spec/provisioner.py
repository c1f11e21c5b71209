"""An Ironic that runs already, instead of the lab's own."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator

from rackless.spec.change import Change, setting
from rackless.spec.images import NearbyFile
from rackless.spec.value import Value


class Ramdisk(StrEnum):
    LAB = "lab"
    PROVISIONER = "provisioner"


def _check_url(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{value!r} is not the URL of an Ironic, such as https://192.168.111.1:6385")
    if parts.username or parts.password:
        raise ValueError("a password has no place in the URL; name a file with it in credentials.password_file")
    return value.rstrip("/")


class Credentials(Value):
    """The account that we use at that Ironic (HTTP basic authentication)."""

    username: str = setting("The user's name.", Change.RECREATE, min_length=1)
    password_file: NearbyFile = setting(
        "A file with the password, readable by root; a relative path counts from this file.", Change.RECREATE
    )


class ProvisionerSpec(Value):
    """An Ironic of one's own, reachable from inside the lab."""

    url: Annotated[str, AfterValidator(_check_url)] = setting(
        "Where its API is. The lab then starts no Ironic; it, its BMCs and its servers must reach each other.",
        Change.RECREATE,
    )
    credentials: Credentials | None = setting(
        "Who we are to it; without it nobody, for an Ironic that asks nobody.", Change.RECREATE, default=None
    )
    ca: NearbyFile | None = setting(
        "The certificate of the CA that signed its own; without it the system's are trusted.",
        Change.RECREATE,
        default=None,
    )
    ramdisk: Ramdisk = setting(
        "Whose deploy ramdisk servers boot: `lab` names the one built here, on the lab's file server, on every node; "
        "`provisioner` leaves it to how that Ironic is configured.",
        Change.RECREATE,
        default=Ramdisk.LAB,
    )
