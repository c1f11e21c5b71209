"""Cipher suites: which algorithms go together, and the keys and codes they make.

Pure: everything is computed from what is given. Suites 3 and 17 are what a BMC should speak; those that do not
encrypt (0, 1, 2, 15, 16) exist for whoever asks for them by name.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from rackless.bmc.ipmi.wire import Malformed

_BLOCK: Final = 16
_PADDING: Final = bytes(range(1, _BLOCK))
KEY_LENGTH: Final = 20
"""Of a password and of K_g, filled up with zeros."""


@dataclass(frozen=True)
class Suite:
    id: int
    authentication: int
    integrity: int
    confidentiality: int
    hash: str | None
    check_length: int
    """Of RAKP4's check value and of a packet's code."""

    @property
    def algorithms(self) -> tuple[int, int, int]:
        return self.authentication, self.integrity, self.confidentiality

    @cached_property
    def record(self) -> bytes:
        """As Get Channel Cipher Suites lists it."""
        return bytes((0xC0, self.id, self.authentication, 0x40 | self.integrity, 0x80 | self.confidentiality))

    @property
    def signs(self) -> bool:
        return self.integrity != 0

    @property
    def encrypts(self) -> bool:
        return self.confidentiality != 0

    def code(self, key: bytes, *parts: bytes) -> bytes:
        return hmac.digest(key, b"".join(parts), self.hash) if self.hash else b""

    def check(self, key: bytes, *parts: bytes) -> bytes:
        return self.code(key, *parts)[: self.check_length]


SUITES: Final = {
    suite.id: suite
    for suite in (
        Suite(0, 0, 0, 0, None, 0),
        Suite(1, 1, 0, 0, "sha1", 12),
        Suite(2, 1, 1, 0, "sha1", 12),
        Suite(3, 1, 1, 1, "sha1", 12),
        Suite(15, 3, 0, 0, "sha256", 16),
        Suite(16, 3, 4, 0, "sha256", 16),
        Suite(17, 3, 4, 1, "sha256", 16),
    )
}
SAFE: Final = (3, 17)


def choose(wanted: tuple[int | None, int | None, int | None], offered: Iterable[int]) -> Suite | None:
    """The suite with these algorithms; where a client leaves the choice to us, the strongest we offer."""
    for id in sorted(offered, reverse=True):
        suite = SUITES[id]
        if all(wish is None or wish == have for wish, have in zip(wanted, suite.algorithms, strict=True)):
            return suite
    return None


@dataclass(frozen=True, slots=True)
class SessionKeys:
    integrity: bytes
    confidentiality: bytes


def derive(suite: Suite, session_key: bytes) -> SessionKeys:
    """K1 and the AES key of a session integrity key."""
    return SessionKeys(suite.code(session_key, b"\x01" * 20), suite.code(session_key, b"\x02" * 20)[:_BLOCK])


def password_key(password: str) -> bytes | None:
    """The key a password is. None when it is too long to be an IPMI password."""
    raw = password.encode()
    return raw.ljust(KEY_LENGTH, b"\0") if len(raw) <= KEY_LENGTH else None


def encrypt(key: bytes, vector: bytes, plain: bytes) -> bytes:
    length = -(len(plain) + 1) % _BLOCK
    encryptor = Cipher(algorithms.AES(key), modes.CBC(vector)).encryptor()
    padded = plain + _PADDING[:length] + bytes((length,))
    return vector + encryptor.update(padded) + encryptor.finalize()


def decrypt(key: bytes, payload: bytes) -> bytes:
    if len(payload) < 2 * _BLOCK or len(payload) % _BLOCK:
        raise Malformed
    decryptor = Cipher(algorithms.AES(key), modes.CBC(payload[:_BLOCK])).decryptor()
    padded = decryptor.update(payload[_BLOCK:]) + decryptor.finalize()
    length = padded[-1]
    if length >= _BLOCK or padded[-1 - length : -1] != _PADDING[:length]:
        raise Malformed
    return padded[: -1 - length]
