"""The node's certificates: ordered from the cluster, kept in one folder, ordered again before they end.

A certificate and its key lie in one file, replaced as a whole, so that there is never half of a pair. An order that was
begun, its key and its request, is kept too: an agent that is started again goes on with it instead of asking anew.
"""

from __future__ import annotations

import base64
import hashlib
import ssl
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from rackless.node import der, keypair
from rackless.node.api import Answer, Api, Away

REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
CLIENT, SERVING = "client", "serving"
_SIGNERS = {
    CLIENT: ("kubernetes.io/kube-apiserver-client-kubelet", "client auth"),
    SERVING: ("kubernetes.io/kubelet-serving", "server auth"),
}
RENEW_AT = 0.7
"""The part of a certificate's life after which it is renewed. Up to a fifth more is added, which differs between nodes: their
certificates were made on the same day, and they should not all order new ones at once."""

MakeKey = Callable[[str, Sequence[str], Sequence[str], Path, Path], None]


class Declined(Exception):
    """Somebody refused an order; the message says why. The next order is made with another key."""


class Pair(NamedTuple):
    """A certificate and its key, which fit each other."""

    path: Path
    since: int
    until: int

    def due(self, name: str) -> float:
        """When it should be renewed, in seconds since 1970."""
        spread = int.from_bytes(hashlib.sha256(name.encode()).digest()[:2], "big") / 65536
        return self.since + (self.until - self.since) * (RENEW_AT + spread / 5)


def load(path: Path) -> Pair | None:
    """None when there is no usable pair: the file is missing or cut off, or the key is another certificate's."""
    try:
        since, until = der.validity(path.read_text())
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(path)
    except (OSError, ValueError):  # an SSLError is an OSError
        return None
    return Pair(path, since, until)


class Order:
    """One certificate, from the request to the file."""

    def __init__(self, folder: Path, purpose: str, name: str, make_key: MakeKey = keypair.make) -> None:
        self.path = folder / f"{purpose}.pem"
        self.subject = f"system:node:{name}"
        self._key, self._request = folder / f"{purpose}-pending.key", folder / f"{purpose}-pending.csr"
        self._names = folder / f"{purpose}-pending.names"
        self._kept_names = folder / f"{purpose}.names"
        self._signer, self._usage = _SIGNERS[purpose]
        self._make_key = make_key

    def load(self) -> Pair | None:
        return load(self.path)

    def good_for(self, names: Sequence[str], addresses: Sequence[str]) -> bool:
        """Whether the certificate in place was ordered for exactly these names and addresses."""
        try:
            return self._kept_names.read_text() == _worded(names, addresses)
        except (OSError, ValueError):
            return False

    @property
    def begun(self) -> bool:
        return self._key.exists() and self._request.exists()

    def advance(self, api: Api, names: Sequence[str] = (), addresses: Sequence[str] = ()) -> str:
        """The next step of the order; '' when the certificate is there, otherwise what is waited for.

        Raises Away, Declined, and OSError when the disk cannot be written.
        """
        request, fresh = self._ensure_request(names, addresses)
        title = f"node-csr-{hashlib.sha256(request).hexdigest()[:32]}"
        found = None if fresh else api.request("GET", f"{REQUESTS}/{title}")  # a new key has no request yet
        if found is None or found.status == 404:
            found = api.request("POST", REQUESTS, self._describe(title, request))
            if found.status == 409:  # an earlier try, which we took for lost, had reached the API
                return f"{title} to be read"
        if found.status not in (200, 201):
            raise refused(found)
        return self._take(found, title)

    def _ensure_request(self, names: Sequence[str], addresses: Sequence[str]) -> tuple[bytes, bool]:
        """The request, and whether it was made just now."""
        wanted = _worded(names, addresses)
        try:
            if self._key.exists() and self._names.read_text() == wanted:
                return self._request.read_bytes(), False
        except (OSError, ValueError):
            pass
        self._path_ready()
        self._make_key(self.subject, names, addresses, self._key, self._request)
        keypair.write_private(self._names, wanted.encode())
        return self._request.read_bytes(), True

    def _path_ready(self) -> None:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._names.unlink(missing_ok=True)

    def _describe(self, title: str, request: bytes) -> dict[str, object]:
        return {
            "apiVersion": "certificates.k8s.io/v1",
            "kind": "CertificateSigningRequest",
            "metadata": {"name": title},
            "spec": {
                "request": base64.b64encode(request).decode(),
                "signerName": self._signer,
                "usages": ["digital signature", self._usage],
            },
        }

    def _take(self, found: Answer, title: str) -> str:
        status = found.body.get("status") or {}
        decided = {condition.get("type"): condition for condition in status.get("conditions") or ()}
        for word in ("Denied", "Failed"):
            if word in decided:
                self._forget()
                raise Declined(f"{title} was {word.lower()}: {decided[word].get('message') or 'no reason given'}")
        if not status.get("certificate"):
            return f"{title} to be {'signed' if 'Approved' in decided else 'approved'}"
        self._keep(base64.b64decode(status["certificate"]), title)
        return ""

    def _keep(self, certificate: bytes, title: str) -> None:
        """Puts the certificate in place if it fits its key; one that does not counts as refused."""
        beside = self.path.with_suffix(".issued")
        keypair.write_private(beside, certificate.rstrip() + b"\n" + self._key.read_bytes())
        if load(beside) is None:
            beside.unlink()
            self._forget()
            raise Declined(f"{title} was answered with a certificate that does not fit the key")
        self._names.replace(self._kept_names)
        beside.replace(self.path)
        self._forget()

    def _forget(self) -> None:
        for path in (self._names, self._request, self._key):
            path.unlink(missing_ok=True)


def _worded(names: Sequence[str], addresses: Sequence[str]) -> str:
    return "\n".join([*names, *addresses])


def refused(answer: Answer) -> Away:
    return Unauthorized(answer.problem) if answer.status == 401 else Away(answer.problem)


class Unauthorized(Away):
    """The API answered 401: it does not know our certificate or token."""
