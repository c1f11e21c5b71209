"""Public SSH keys, read as the installer reads them: authorized_keys lines, the key itself taken apart."""

from __future__ import annotations

import base64
import binascii
import re
import struct

_FIELDS = {
    "ssh-rsa": 2,
    "ssh-dss": 4,
    "ecdsa-sha2-nistp256": 2,
    "ecdsa-sha2-nistp384": 2,
    "ecdsa-sha2-nistp521": 2,
    "ssh-ed25519": 1,
    "sk-ssh-ed25519@openssh.com": 2,
    "sk-ecdsa-sha2-nistp256@openssh.com": 3,
}
_OPTIONS = re.compile(r'(?:[^\s"]|"(?:\\"|[^"])*")+[ \t]+')


def key_type(line: str) -> str:
    """The type of the key on an authorized_keys line; '' where there is none."""
    line = line.strip()
    found = _after_first_word(line)
    if found:
        return found
    options = _OPTIONS.match(line)
    return _after_first_word(line[options.end() :]) if options else ""


def _after_first_word(text: str) -> str:
    words = text.split(None, 2)
    return _blob_type(words[1]) if len(words) >= 2 else ""


def _blob_type(encoded: str) -> str:
    try:
        blob = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return ""
    parts: list[bytes] = []
    while blob:
        if len(blob) < 4:
            return ""
        (size,) = struct.unpack(">I", blob[:4])
        if len(blob) < 4 + size:
            return ""
        parts.append(blob[4 : 4 + size])
        blob = blob[4 + size :]
    name = parts[0].decode("ascii", "replace") if parts else ""
    if _FIELDS.get(name) != len(parts) - 1 or (name == "ssh-ed25519" and len(parts[1]) != 32):
        return ""
    return name
