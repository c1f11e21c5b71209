"""A shim in Ironic's process: caches a costly key derivation (PBKDF2), and shortens a polling interval that Ironic's
configuration cannot.

Python loads this file because its folder is on PYTHONPATH; `IronicService(shim=False)` leaves it out, and Ironic runs
exactly as published.
"""

import hashlib
import os
import sys
from pathlib import Path
from typing import Any

# Ironic derives a key with 600,000 rounds of PBKDF2 whenever it looks up its session with a BMC (about 0.4 s of processor
# time, dozens of times per host) only to compare it with the one it already has. This remembers the results, by a keyed
# digest, so that no password is kept that was not kept before.
_plain = hashlib.pbkdf2_hmac
_key = os.urandom(32)
_known: dict[bytes, bytes] = {}
_LIMIT = 4096


def _remembering(hash_name: str, password: Any, salt: Any, iterations: int, dklen: int | None = None) -> bytes:
    parts = (hash_name.encode(), bytes(password), bytes(salt), str(iterations).encode(), str(dklen).encode())
    digest = hashlib.blake2b(b"".join(len(part).to_bytes(8, "big") + part for part in parts), key=_key).digest()
    if digest not in _known:
        if len(_known) >= _LIMIT:
            _known.clear()
        _known[digest] = _plain(hash_name, password, salt, iterations, dklen)
    return _known[digest]


hashlib.pbkdf2_hmac = _remembering


def _look_every_second() -> None:
    """Ironic reads this setting while it is imported, before it reads its configuration: six seconds, whatever is written
    there, between two looks at a boot loader that is installed in three."""
    from ironic.conf import CONF  # type: ignore[import-not-found]

    CONF.set_default("command_wait_interval", 1, group="agent")


if any(Path(word).name == "ironic" for word in sys.orig_argv[1:2]):
    _look_every_second()
