"""How servers that nobody has described find Ironic.

In a file of its own: bootstrap machines import it, and they do not have pydantic, which the rest of the spec needs.
"""

from __future__ import annotations

from enum import StrEnum


class Discover(StrEnum):
    OFF = "off"
    URL = "url"
    MDNS = "mdns"
