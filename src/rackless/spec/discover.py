"""How servers that nobody has described find Ironic. In a file of its own: a bootstrap has no library to read the rest with."""

from __future__ import annotations

from enum import StrEnum


class Discover(StrEnum):
    OFF = "off"
    URL = "url"
    MDNS = "mdns"
