"""Files and units as Ignition wants them described. Pure."""

from __future__ import annotations

import base64
from typing import Any

SPEC = "3.3.0"
"""The version of Ignition's config format that nodes are told in."""


def file(path: str, content: str, *, mode: int = 0o644, user: str | None = None) -> dict[str, Any]:
    encoded = base64.b64encode(content.encode()).decode()
    return {
        "path": path,
        "overwrite": True,
        "mode": mode,
        "contents": {"source": f"data:;base64,{encoded}"},
        **({"user": {"name": user}} if user else {}),
    }


def user(keys: str) -> dict[str, Any]:
    """`core`, who may become root, with the public keys of these lines."""
    return {**ssh_user(keys), "groups": ["sudo"], "shell": "/bin/bash"}


def ssh_user(keys: str) -> dict[str, Any]:
    lines = [line.strip() for line in keys.splitlines() if line.strip()]
    return {"name": "core", "sshAuthorizedKeys": lines}


def folder(path: str, *, mode: int = 0o755, user: str) -> dict[str, Any]:
    return {"path": path, "mode": mode, "user": {"name": user}}


def unit(name: str, content: str = "", *, dropin: str = "") -> dict[str, Any]:
    """A unit that is started at boot: our own, or the image's with something added."""
    return {
        "name": name,
        "enabled": True,
        **({"contents": content} if content else {}),
        **({"dropins": [{"name": "10-rackless.conf", "contents": dropin}]} if dropin else {}),
    }
