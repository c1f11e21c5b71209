"""A kubeconfig as somebody else wrote it: where the API is, and who we are there."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from rackless.errors import InputError
from rackless.ports.api import Access
from rackless.run.files import write_secret
from rackless.yaml_weight import load_weighed


def read_kubeconfig(path: Path, keep: Path, *, context: str = "") -> tuple[Access, str]:
    """The access of a context, the current one when none is named, and its namespace, empty when it names none.

    Certificates that stand in the file itself are written to `keep`, a folder of the caller's. Raises InputError.
    """
    try:
        config = load_weighed(path.read_text())
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise InputError(f"the kubeconfig {path} cannot be read", why=str(error)) from error
    config = config if isinstance(config, Mapping) else {}
    wanted = context or str(config.get("current-context") or "")
    place = _named(path, config.get("contexts"), wanted, "context")
    cluster = _named(path, config.get("clusters"), str(place.get("cluster") or ""), "cluster")
    user = _named(path, config.get("users"), str(place.get("user") or ""), "user")
    server = str(cluster.get("server") or "")
    if not server.startswith("https://"):
        raise InputError(f"{path}: {server or 'no server'} is not reached by TLS", hint="say https:// in its cluster")
    if cluster.get("insecure-skip-tls-verify"):
        raise InputError(f"{path}: insecure-skip-tls-verify is not taken", hint="name its CA: certificate-authority")
    if user.get("exec") or user.get("auth-provider"):
        raise InputError(f"{path}: a login by another program is not taken", hint="a certificate or a token is")
    ca = _file(path, cluster, "certificate-authority", keep / "ca.crt")
    if ca is None:
        raise InputError(f"{path}: the cluster names no CA", hint="name it: certificate-authority")
    return Access(
        server.rstrip("/"),
        ca,
        _file(path, user, "client-certificate", keep / "client.crt"),
        _file(path, user, "client-key", keep / "client.key"),
        _token(path, user),
    ), str(place.get("namespace") or "")


def _named(path: Path, entries: Any, name: str, kind: str) -> Mapping[str, Any]:
    for entry in entries if isinstance(entries, Sequence) and not isinstance(entries, str) else ():
        if isinstance(entry, Mapping) and entry.get("name") == name and isinstance(entry.get(kind), Mapping):
            found: Mapping[str, Any] = entry[kind]
            return found
    raise InputError(f"{path} has no {kind} {name!r}")


def _file(path: Path, part: Mapping[str, Any], name: str, keep: Path) -> Path | None:
    """A file by its name, or by its content."""
    if inline := part.get(f"{name}-data"):
        try:
            write_secret(keep, base64.b64decode(str(inline), validate=True).decode())
        except (binascii.Error, UnicodeDecodeError) as error:
            raise InputError(f"{path}: {name}-data is not text in base64") from error
        return keep
    return path.parent / str(part[name]) if part.get(name) else None


def _token(path: Path, user: Mapping[str, Any]) -> str:
    if user.get("token"):
        return str(user["token"])
    if not user.get("tokenFile"):
        return ""
    try:
        return (path.parent / str(user["tokenFile"])).read_text().strip()
    except OSError as error:
        raise InputError(f"{path}: its tokenFile cannot be read", why=str(error)) from error
