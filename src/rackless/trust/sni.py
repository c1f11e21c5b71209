"""Several certificates of one server: each is shown to clients that ask for one of its names (SNI)."""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from pathlib import Path


def show_by_name(main: ssl.SSLContext, others: Iterable[tuple[ssl.SSLContext, Path]]) -> None:
    """`main` is for whoever asks for no name that one of the `others` has; each comes with its certificate's file."""
    by_name = {name: context for context, certificate in others for name in _names(certificate)}

    def choose(connection: ssl.SSLObject | ssl.SSLSocket, name: str | None, _: ssl.SSLContext) -> None:
        if name and (found := by_name.get(name.lower())) is not None:
            connection.context = found

    if by_name:
        main.sni_callback = choose


def _names(certificate: Path) -> list[str]:
    from cryptography import x509

    found = x509.load_pem_x509_certificate(certificate.read_bytes())
    try:
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return [name.lower() for name in names.get_values_for_type(x509.DNSName)]
