"""Access to a Kubernetes API: its URL, our credentials, and the error when it does not answer."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from rackless.errors import LabError
from rackless.ports.resources import Resources

NAMESPACE = "metal3"
"""Where the records of hosts are."""


@dataclass(frozen=True, slots=True)
class Access:
    """Where the API is and who we are to it: a certificate of its CA, or a token."""

    url: str
    ca: Path
    certificate: Path | None = None
    key: Path | None = None
    token: str = field(default="", repr=False)

    def tls(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.ca)
        if self.certificate is not None:
            context.load_cert_chain(self.certificate, self.key)
        return context


class ApiUnreachable(LabError):
    """The API did not answer within the connection's patience."""


class ApiConnection(Resources, Protocol):
    """The records of one namespace of an API; who opens it closes it."""

    async def ensure_namespace(self) -> None: ...

    async def close(self) -> None: ...
