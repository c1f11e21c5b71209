"""One connection to the cluster's API, kept open: on a slow node a TLS handshake costs more than everything else."""

from __future__ import annotations

import json
import ssl
from typing import Any, NamedTuple, Protocol

from rackless.node.http import AgentHttp

Json = dict[str, Any]

PATIENCE = 10.0
"""Seconds to wait for an answer. A control plane that dies while it holds the VIP sends no reset: this is how soon the agent
turns to the next holder."""
MOST = 4 << 20
"""The most bytes that an answer may have: a Node has some thousand."""

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
"""Merges conditions by their type, so that others' conditions stay."""


class Away(Exception):
    """The API does not answer; the message says why. Ask again later."""


class Distrusted(Away):
    """The API ended the handshake because of our certificate."""


class Answer(NamedTuple):
    status: int
    body: Json

    @property
    def problem(self) -> str:
        return f"{self.status} {self.body.get('message', '')}".strip()


class Api(Protocol):
    def request(self, method: str, path: str, body: Json | None = None, kind: str = "application/json") -> Answer:
        """Raises Away."""
        ...

    def close(self) -> None: ...


class ApiServerConnection:
    """`Api` over TLS, with a token or a client certificate, or both."""

    def __init__(self, host: str, port: int, tls: ssl.SSLContext, token: str = "") -> None:
        self._http = AgentHttp(host, port, tls, patience=PATIENCE, most=MOST)
        self._headers = {"Accept": "application/json", "User-Agent": "rackless-node"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"

    def request(self, method: str, path: str, body: Json | None = None, kind: str = "application/json") -> Answer:
        used = self._http.open
        try:
            return self._ask(method, path, body, kind)
        except (ConnectionResetError, BrokenPipeError, ssl.SSLEOFError) as error:
            self.close()
            if not used:
                raise _away(error) from None
        except (OSError, ValueError) as error:
            self.close()
            raise _away(error) from None
        # The API closed the idle connection. Every request of the agent may be sent twice.
        try:
            return self._ask(method, path, body, kind)
        except (OSError, ValueError) as error:
            self.close()
            raise _away(error) from None

    def _ask(self, method: str, path: str, body: Json | None, kind: str) -> Answer:
        content = None if body is None else json.dumps(body, separators=(",", ":")).encode()
        headers = self._headers if content is None else {**self._headers, "Content-Type": kind}
        status, raw = self._http.ask(method, path, headers, content)
        found = json.loads(raw) if raw else {}
        return Answer(status, found if isinstance(found, dict) else {})

    def close(self) -> None:
        self._http.close()


def _away(error: Exception) -> Away:
    words = str(error) or type(error).__name__
    if isinstance(error, ssl.SSLCertVerificationError):
        return Away(f"{words} (is this node's clock right?)")
    if isinstance(error, ssl.SSLError) and "ALERT" in (error.reason or ""):
        return Distrusted(words)
    return Away("no answer in time" if isinstance(error, TimeoutError) else words)
