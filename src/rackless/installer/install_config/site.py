"""What a check assumes of the place where the installer will run.

The installer asks libvirt for bridges and the network for images. A check on another computer cannot, so a person says: the
default bridges, those of this hypervisor and those that were named are taken to be there, nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

DEFAULT_BRIDGES = frozenset({"baremetal", "provisioning"})


def _unknown(url: str) -> bool | None:
    return None


@dataclass(frozen=True, slots=True)
class Site:
    bridges: frozenset[str] = DEFAULT_BRIDGES
    fips: bool = False
    """Whether the installer's host runs in FIPS mode."""
    image_answers: Callable[[str], bool | None] = _unknown
    """Whether HEAD on an image's URL is answered with 200; None: not asked."""
