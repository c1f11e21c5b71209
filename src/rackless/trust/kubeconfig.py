"""What kubectl needs to find an API and to be let in."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any


def render_kubeconfig(name: str, server: str, pki: Path, namespace: str = "default") -> str:
    """The administrator's way to an API, from the folder with its CA. JSON, which is YAML."""

    def inline(name: str) -> str:
        return base64.b64encode((pki / name).read_bytes()).decode()

    user = {"client-certificate-data": inline("admin.crt"), "client-key-data": inline("admin.key")}
    cluster = {"server": server, "certificate-authority-data": inline("ca.crt")}
    config: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": namespace}}],
        "current-context": name,
    }
    return json.dumps(config, indent=2) + "\n"
