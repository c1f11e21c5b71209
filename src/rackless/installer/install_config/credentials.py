"""The pull secret and the SSH key: found where people keep them, checked, never shown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rackless.errors import InputError
from rackless.installer.install_config import pull_secret as pulling
from rackless.installer.install_config import ssh_keys

PULL_SECRETS = ("pull-secret.json", "pull-secret.txt", "pull-secret", ".pull-secret.json", ".openshift/pull-secret",
                ".docker/config.json")  # fmt: skip
SSH_KEYS = (".ssh/id_ed25519.pub", ".ssh/id_ecdsa.pub", ".ssh/id_rsa.pub")


def find_pull_secret(given: Path | None, home: Path, now: float | None = None) -> str:
    path = given or _first(home, PULL_SECRETS)
    if path is None:
        raise InputError(
            "no pull secret was found",
            why="looked in the home directory for " + ", ".join(PULL_SECRETS),
            hint="save it as ~/pull-secret.json, or name it with --pull-secret FILE",
        )
    text = _read(path, "the pull secret").strip()
    secret = pulling.read(text, now)
    wrong = secret.problem
    if not wrong and secret.undecodable + secret.nameless:
        wrong = f"the auth for {', '.join(secret.undecodable + secret.nameless)} is not base64 of user:password"
    if not wrong and secret.expired:
        wrong = f"the token for {', '.join(secret.expired)} has expired"
    if wrong:
        raise InputError(f"the pull secret {path} cannot be used", why=wrong, hint="download it again")
    return text


def find_ssh_key(given: Path | None, home: Path) -> str:
    path = given or _first(home, SSH_KEYS)
    if path is None:
        raise InputError(
            "no public SSH key was found",
            why="looked in the home directory for " + ", ".join(SSH_KEYS),
            hint="make one with ssh-keygen, or name it with --ssh-key FILE",
        )
    text = _read(path, "the SSH key").strip()
    if "PRIVATE KEY" in text:
        raise InputError(f"{path} is a private key", hint="name the .pub file beside it")
    if not text or not all(ssh_keys.key_type(line) for line in text.splitlines() if line.strip()):
        raise InputError(f"{path} is not a public SSH key", hint="name the .pub file of a key")
    return text


def _first(home: Path, names: Sequence[str]) -> Path | None:
    return next((home / name for name in names if (home / name).is_file()), None)


def _read(path: Path, what: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{what} {path} cannot be read", why=str(error)) from error
