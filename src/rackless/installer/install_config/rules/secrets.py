"""Keys, certificates and the pull secret. Their values are never put into a message."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator

from rackless.installer.install_config import pull_secret as pulling
from rackless.installer.install_config import ssh_keys
from rackless.installer.install_config.config import Config
from rackless.installer.install_config.findings import RuleProblem
from rackless.installer.install_config.release import Release
from rackless.installer.install_config.rule import load_rule

_PEM = re.compile(r"-----BEGIN ([^-\n]+)-----\s*\n(.*?)-----END \1-----[ \t]*(?:\r?\n|\Z)", re.DOTALL)


def ssh_key(config: Config) -> Iterator[RuleProblem]:
    fips = config.values.get("fips") is True
    for number, line in enumerate(config.text("sshKey").splitlines(), 1):
        if not line.strip():
            continue
        kind = ssh_keys.key_type(line)
        if not kind:
            yield RuleProblem("sshKey", f"line {number} is not a public key", "paste the content of an id_….pub file")
        elif fips and not re.fullmatch(r"ssh-rsa|ecdsa-sha2-nistp\d{3}", kind):
            yield RuleProblem("sshKey", f"a key of type {kind} cannot be used with FIPS", "use an RSA or ECDSA key")


def fips_host(config: Config) -> Iterator[RuleProblem]:
    if config.values.get("fips") is True and not config.site.fips:
        yield RuleProblem(
            "fips",
            "FIPS needs an installer built for it, on a host that runs in FIPS mode, which this one does not",
            "use openshift-install-fips on a FIPS host, or remove it",
        )


def trust_bundle(config: Config) -> Iterator[RuleProblem]:
    text = config.text("additionalTrustBundle")
    if text:
        reason = bundle_problem(text)
        if reason:
            yield RuleProblem("additionalTrustBundle", reason, "put only PEM certificates there")
    policy = config.text("additionalTrustBundlePolicy")
    if policy not in ("", "Proxyonly", "Always"):
        yield RuleProblem(
            "additionalTrustBundlePolicy", f"{policy!r} is not Proxyonly or Always", "write Proxyonly or Always"
        )


def bundle_problem(text: str) -> str:
    """Why the text is not a list of certificates; '' where it is one."""
    blocks = list(_PEM.finditer(text))
    if not blocks or text[blocks[-1].end() :].strip():
        return "it is not, or not only, PEM blocks"
    for number, block in enumerate(blocks, 1):
        try:
            der = base64.b64decode("".join(block[2].split()), validate=True)
        except (binascii.Error, ValueError):
            return f"block {number} is not PEM"
        if not _is_certificate(der):
            return f"block {number} ({block[1]}) is not a certificate"
    return ""


def _is_certificate(der: bytes) -> bool:
    import ssl  # costs start-up time, and few files have a bundle

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=der)
    except (ssl.SSLError, ValueError):
        return False
    return True


def pull_secret(config: Config) -> Iterator[RuleProblem]:
    reason = pulling.read(config.text("pullSecret")).problem if config.text("pullSecret") else "it is missing"
    if reason:
        yield RuleProblem(
            "pullSecret",
            f"the pull secret cannot be used: {reason}",
            "paste the JSON text from the download page, in single quotes",
        )


RULES = (
    load_rule("ssh-key", ssh_key),
    load_rule("fips-host", fips_host, since=Release(4, 16)),
    load_rule("trust-bundle", trust_bundle),
    load_rule("pull-secret", pull_secret),
)
