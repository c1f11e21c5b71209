"""Asking a Redfish service by hand, with the account the tests give it."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from base64 import b64encode
from typing import Any

PASSWORD = "real"
AUTH = "Basic " + b64encode(f"admin:{PASSWORD}".encode()).decode()


def ask(url: str, method: str, body: Any = None) -> tuple[int, Any]:
    """The status and, when it is a good one, what was answered."""
    data = json.dumps(body).encode() if body is not None else None
    headers = {"Authorization": AUTH, "Content-Type": "application/json"}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data, headers, method=method), timeout=30) as answer:
            text = answer.read()
            return answer.status, json.loads(text) if text else None
    except urllib.error.HTTPError as error:
        return error.code, None
