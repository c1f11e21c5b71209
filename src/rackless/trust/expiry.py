"""Which certificates of a folder are over: a lab that was stopped for long may have some."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from pathlib import Path

from cryptography import x509


def expired(folder: Path, now: datetime) -> list[tuple[str, datetime]]:
    """(file, when it ended); what cannot be read, or is no certificate, is passed over."""
    found = []
    for file in sorted(folder.rglob("*.crt")):
        with suppress(OSError, ValueError):
            ended = x509.load_pem_x509_certificate(file.read_bytes()).not_valid_after_utc
            if ended < now:
                found.append((str(file.relative_to(folder)), ended))
    return found
