"""The record in etcd: over its JSON gateway, of the member on this machine."""

from __future__ import annotations

import base64
import json
import ssl
from pathlib import Path
from typing import Any

from rackless.node.http import AgentHttp, BadAnswer
from rackless.node.vip.holding import RecordUnanswered, VipRecord

PORT = 2379
PATIENCE_SECONDS = 4.0
LARGEST_ANSWER = 1 << 20
_HEADERS = {"Content-Type": "application/json"}


class EtcdRecord:
    def __init__(self, host: str, key: str, tls: ssl.SSLContext) -> None:
        self._http = AgentHttp(host, PORT, tls, patience=PATIENCE_SECONDS, most=LARGEST_ANSWER)
        self._key = _encode(key)

    def read(self) -> VipRecord:
        """As this machine's member knows it. The members need not agree on each look, every two seconds on each control plane:
        a member that is behind is found out when the record is written, which compares its revision."""
        return _record(self._ask("range", {"key": self._key, "serializable": True}))

    def swap(self, seen: VipRecord, holder: str) -> tuple[bool, VipRecord]:
        same = {"key": self._key, "target": "MOD", "result": "EQUAL", "mod_revision": str(seen.revision)}
        put = {"request_put": {"key": self._key, "value": _encode(holder)}}
        look = {"request_range": {"key": self._key}}
        found = self._ask("txn", {"compare": [same], "success": [put], "failure": [look]})
        try:
            if found.get("succeeded"):
                return True, VipRecord(holder, int(found["header"]["revision"]))
            return False, _record(found["responses"][0]["response_range"])
        except (KeyError, IndexError) as error:
            raise RecordUnanswered(f"an answer without {error}") from error

    def _ask(self, what: str, body: dict[str, Any]) -> dict[str, Any]:
        try:
            status, text = self._http.ask("POST", f"/v3/kv/{what}", _HEADERS, json.dumps(body).encode())
            found = json.loads(text)
        except (OSError, BadAnswer, ValueError) as error:
            self._http.close()
            raise RecordUnanswered(f"{type(error).__name__}: {error}") from error
        if status != 200 or not isinstance(found, dict):
            raise RecordUnanswered(text.decode(errors="replace")[:200])
        return found


def trust(ca: Path, certificate: Path, key: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(ca)
    context.load_cert_chain(certificate, key)
    return context


def _record(found: dict[str, Any]) -> VipRecord:
    """Numbers are strings in this JSON, and zeros are left out."""
    for each in found.get("kvs", ()):
        return VipRecord(base64.b64decode(each.get("value", "")).decode(), int(each["mod_revision"]))
    return VipRecord("", 0)


def _encode(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
