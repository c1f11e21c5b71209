"""Whether labd carries out remedies by itself."""

from __future__ import annotations

from enum import StrEnum


class Remediation(StrEnum):
    AUTO = "auto"
    """The lab does what is safe by itself, once."""
    ASK = "ask"
    """Only when a person says so: `rackless why --fix`."""
    OFF = "off"
    """Never."""
