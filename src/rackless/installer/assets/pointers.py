"""Pointer configs: the little that a host is given with its disk, which sends it to the machine-config server for the rest."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from rackless.installer.assets.asset import Asset, Given, Mistake, Parts
from rackless.installer.assets.certificates import ROOT_CA
from rackless.installer.assets.documents import encoded, render_json
from rackless.installer.assets.install_config import INSTALL_CONFIG
from rackless.installer.assets.names import NAMES

VERSION = "3.2.0"
"""The oldest format that every Ignition of the field reads."""


def _make(given: Given) -> Parts:
    names, root = given.of(NAMES), given.of(ROOT_CA).certificate
    roles = ["master", "worker", *(["arbiter"] if given.of(INSTALL_CONFIG).arbiter else [])]
    return {f"{role}.ign": render_json(pointer(f"{names.machine_config_url}/config/{role}", root)) for role in roles}


def pointer(url: str, root: str) -> dict[str, object]:
    believed = [{"source": f"data:text/plain;charset=utf-8;base64,{encoded(root)}"}]
    return {
        "ignition": {
            "config": {"merge": [{"source": url}]},
            "security": {"tls": {"certificateAuthorities": believed}},
            "version": VERSION,
        }
    }


def ignition_mistakes(path: str, text: str) -> Iterator[Mistake]:
    try:
        tree = json.loads(text)
    except json.JSONDecodeError as error:
        yield Mistake(path, error.lineno, f"not readable as JSON: {error.msg}")
        return
    except RecursionError:
        yield Mistake(path, 1, "nested too deeply")
        return
    version = (
        tree["ignition"].get("version") if isinstance(tree, dict) and isinstance(tree.get("ignition"), dict) else None
    )
    if not isinstance(version, str) or not version.startswith("3."):
        yield Mistake(
            path, 1, "ignition.version is not a version 3", "write an Ignition config of version 3.2.0 or newer"
        )


def _read(parts: Parts) -> Mapping[str, str]:
    return {path.removesuffix(".ign"): text for path, text in parts.items()}


POINTERS = Asset(
    "pointers", "Master, Worker Ignition Configs", _make, _read, (NAMES, ROOT_CA, INSTALL_CONFIG),
    files=("master.ign", "worker.ign", "arbiter.ign"), check=ignition_mistakes,
)  # fmt: skip
