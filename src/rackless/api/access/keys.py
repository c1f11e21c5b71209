"""Keys of an API: its serving certificate, its administrator's client certificate, the key of service account tokens.

All are in the folder of one CA, which also signs client certificates. The API accepts every client certificate of that CA, so the
CA signs for this API's clients and for nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rackless.errors import HypervisorError
from rackless.run.files import write_secret
from rackless.trust.authority import YEAR, Authority, Leaf, Use
from rackless.trust.keys import DAMAGED, PrivateKey, key_pem, load_key, make_key
from rackless.trust.kubeconfig import render_kubeconfig

NAMED, CLIENTS = "named", "clients.crt"
"""Beside the CA's: a folder of certificates that somebody else has signed, each shown to who calls the API by one of its names; and
more CAs whose client certificates are taken. Both are optional."""


def ensure_authority(folder: Path) -> Authority:
    return Authority.ensure(folder, "rackless API")


def ensure_serving(authority: Authority, hosts: Sequence[str]) -> Leaf:
    """What the API serves with."""
    return authority.ensure_leaf("serving", hosts, uses=(Use.SERVER,), user="kube-apiserver", lifetime=YEAR)


def named_certificates(folder: Path) -> list[tuple[Path, Path]]:
    """Certificate and key of each that is there."""
    found = sorted((folder / NAMED).glob("*.crt"))
    return [(path, path.with_suffix(".key")) for path in found if path.with_suffix(".key").exists()]


def client_authorities(folder: Path) -> Path | None:
    return folder / CLIENTS if (folder / CLIENTS).exists() else None


def ensure_admin(authority: Authority) -> Leaf:
    return authority.ensure_leaf(
        "admin", uses=(Use.CLIENT,), user="system:admin", groups=("system:masters",), lifetime=YEAR
    )


def ensure_kubeconfig(authority: Authority, path: Path, server: str) -> None:
    """The administrator's; the address in it is always the present one."""
    ensure_admin(authority)
    write_secret(path, render_kubeconfig("rackless", server, authority.folder))


def has_token_key(folder: Path) -> bool:
    return _token_file(folder).exists()


def ensure_token_key(folder: Path) -> PrivateKey:
    """What service account tokens are signed with."""
    file = _token_file(folder)
    if not file.exists():
        write_secret(file, key_pem(make_key()))
    try:
        return load_key(file)
    except DAMAGED as error:
        raise HypervisorError(
            f"the key of service account tokens, {file}, cannot be used",
            why=str(error),
            hint="restore it, or remove it: then a new one is made, and tokens given out before are refused",
        ) from error


def _token_file(folder: Path) -> Path:
    return folder / "sa.key"
