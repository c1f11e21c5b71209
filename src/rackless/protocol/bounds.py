"""What a request at the control socket may have: of values, and of names that are compared with each event. Pure.

A lab's owner may ask labd, and must not be able to fill its memory or to keep it busy.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rackless.codec import BadValue

MOST_VALUES = 200_000
"""Commas and opening brackets: an empty list takes labd thirty times the bytes that were sent."""
MOST_HEARD, LONGEST_NAME = 256, 256
"""Subjects that one request hears of, and characters of one, or of a step."""
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)


def check_weight(raw: bytes) -> None:
    """Raises BadValue for JSON with too many values. Commas and brackets in strings, such as a host's user data, do not count;
    strings are taken out only where they could be what is much."""
    quotes = raw.count(b'"') - raw.count(b'\\"')
    if quotes > 2 * MOST_VALUES or (_values(raw) > MOST_VALUES and _values(_STRING.sub(b"", raw)) > MOST_VALUES):
        raise BadValue(f"it has more than {MOST_VALUES} values")


def _values(raw: bytes) -> int:
    return sum(map(raw.count, (b",", b"[", b"{")))


def check_names(names: Sequence[str]) -> None:
    """Raises BadValue."""
    if len(names) > MOST_HEARD or any(len(name) > LONGEST_NAME for name in names):
        raise BadValue(f"a request hears of {MOST_HEARD} subjects at most, with {LONGEST_NAME} characters each")
