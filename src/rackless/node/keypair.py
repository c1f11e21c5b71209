"""A new private key and the request for its certificate, made by `openssl`.

A library that makes them would take the agent a second to load on an emulated server, and more memory than all the rest of it; the
program takes a quarter of that, and ends.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

OPENSSL = "/usr/bin/openssl"
_WORDS = (
    *("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc", "-sha256", "-utf8"),
    *("-config", "/dev/stdin", "-keyout", "-"),
)


def make(subject: str, names: Sequence[str], addresses: Sequence[str], key: Path, request: Path) -> None:
    """Write both, in PEM, the key for its owner only. Raises OSError when that was not possible."""
    found = _run(describe(subject, names, addresses).encode())
    secret, asked = _cut(found, b"PRIVATE KEY"), _cut(found, b"CERTIFICATE REQUEST")
    if not secret or not asked:
        raise OSError(f"no key could be made: {OPENSSL} answered without one")
    write_private(key, secret)
    write_private(request, asked)


def describe(subject: str, names: Sequence[str], addresses: Sequence[str]) -> str:
    """The request as `openssl req` reads it."""
    alternatives = ",".join([*(f"DNS:{name}" for name in names), *(f"IP:{address}" for address in addresses)])
    more = ("req_extensions = more", f"[more]\nsubjectAltName = {alternatives}\n") if alternatives else ("", "")
    return (
        f"[req]\nprompt = no\nutf8 = yes\nstring_mask = utf8only\ndistinguished_name = name\n{more[0]}\n"
        f"[name]\nO = system:nodes\nCN = {subject}\n{more[1]}"
    )


def _run(description: bytes) -> bytes:
    """What `openssl` says, complaints included; it reads less and writes less than a pipe holds."""
    here, theirs = os.pipe()
    answer, told = os.pipe()
    try:
        os.write(theirs, description)
        os.close(theirs)
        actions = [(os.POSIX_SPAWN_DUP2, one, other) for one, other in ((here, 0), (told, 1), (told, 2))]
        child = os.posix_spawn(OPENSSL, [OPENSSL, *_WORDS], os.environ, file_actions=actions)
    except OSError as error:
        os.close(answer)
        raise OSError(f"no key could be made: {error}") from None
    finally:
        os.close(here)
        os.close(told)
    with open(answer, "rb") as file:
        found = file.read()
    _, status = os.waitpid(child, 0)
    if status != 0:
        why = found.decode(errors="replace").strip().rpartition("\n")[2]
        raise OSError(f"no key could be made: {OPENSSL} ended with {status}: {why}")
    return found


def _cut(text: bytes, kind: bytes) -> bytes:
    """The block of this kind out of what stands around it; empty when there is none."""
    begin, end = b"-----BEGIN " + kind + b"-----", b"-----END " + kind + b"-----"
    inner, found, _ = text.partition(begin)[2].partition(end)
    return begin + inner + end + b"\n" if found else b""


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
