"""A new private key and the request for its certificate, made by a child that ends.

The library that makes them takes more memory than all the rest of the agent, and is needed for a second a year.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path


def make(subject: str, names: Sequence[str], addresses: Sequence[str], key: Path, request: Path) -> None:
    """Write both, in PEM, the key for its owner only. Raises OSError when the child could not."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            write(subject, names, addresses, key, request)
            status = 0
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    if status != 0:
        raise OSError(f"no key could be made in {key.parent} (the lines before say why)")


def write(subject: str, names: Sequence[str], addresses: Sequence[str], key: Path, request: Path) -> None:
    from rackless.node.request import make_request
    from rackless.trust.keys import key_pem, make_key

    secret = make_key()
    asked = make_request(secret, subject, ["system:nodes"], names, addresses)
    write_private(key, key_pem(secret))
    write_private(request, asked)


def write_private(path: Path, content: bytes) -> None:
    """Whole or not at all, for its owner only, also after a power cut."""
    beside = path.with_name(f".{path.name}.new")
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise
