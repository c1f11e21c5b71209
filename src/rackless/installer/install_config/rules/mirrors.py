"""Proxies and mirrors: how images come in."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rackless.installer.install_config import go_url, pull_secret
from rackless.installer.install_config.building import struct, structs, text, texts
from rackless.installer.install_config.config import Config
from rackless.installer.install_config.findings import RuleProblem
from rackless.installer.install_config.rule import doubt_rule, load_rule
from rackless.installer.install_config.values import is_subdomain, parse_cidr, parse_ip

_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_LABEL = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_HOST = rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[a-fA-F0-9:]+\])"
_REFERENCE = re.compile(
    rf"(?P<host>{_HOST}(?::[0-9]+)?)/(?P<path>{_COMPONENT}(?:/{_COMPONENT})*)(?P<tag>:[\w][\w.-]{{0,127}})?(?P<digest>@[A-Za-z][\w+.-]*:[0-9a-fA-F]{{32,}})?\Z"
)


def proxy(config: Config) -> Iterator[RuleProblem]:
    if "proxy" not in config.values:
        return
    values = struct(config.values, "proxy")
    if not text(values, "httpProxy") and not text(values, "httpsProxy"):
        yield RuleProblem("proxy", "it has neither httpProxy nor httpsProxy", "give one, or remove proxy")
    for name, schemes in (("httpProxy", ("http",)), ("httpsProxy", ("http", "https"))):
        if text(values, name):
            yield from _proxy_url(config, f"proxy.{name}", text(values, name), schemes)
    no_proxy = text(values, "noProxy")
    if no_proxy and no_proxy != "*":
        yield from _no_proxy(no_proxy)


def _proxy_url(config: Config, path: str, value: str, schemes: tuple[str, ...]) -> Iterator[RuleProblem]:
    try:
        url = go_url.parse(value, request=True)
    except go_url.UrlError as error:
        yield RuleProblem(path, f"it is not a URL ({error})", "write it as http://HOST:PORT")
        return
    if url.scheme not in schemes:
        yield RuleProblem(
            path, f"the scheme must be {' or '.join(schemes)}, not {url.scheme!r}", "write it as http://HOST:PORT"
        )
    address = parse_ip(url.host)
    networking = config.networking
    inside = [*networking.cluster_cidrs, *networking.service_cidrs, *([networking.join] if networking.join else [])]
    for cidr in inside:
        if address and address in cidr:
            yield RuleProblem(
                path, f"the proxy is inside {cidr}, which belongs to the cluster's own networks", "use a proxy outside"
            )


def _no_proxy(value: str) -> Iterator[RuleProblem]:
    if " " in value:
        yield RuleProblem("proxy.noProxy", "it must not have spaces", "separate by commas only")
    for one in value.split(","):
        one = one.strip()
        domain = one.removeprefix(".").removesuffix(".")
        if not is_subdomain(domain) and parse_cidr(one) is None and parse_ip(one) is None:
            yield RuleProblem(
                "proxy.noProxy",
                f"{one!r} is not an address, a network or a domain (wildcards are not possible)",
                "write .example.com for a whole domain",
            )


def mirrors(config: Config) -> Iterator[RuleProblem]:
    for field in ("imageContentSources", "imageDigestSources"):
        for index, entry in enumerate(structs(config.values, field)):
            path = f"{field}[{index}]"
            source = text(entry, "source")
            reason = repository_problem(source)
            if reason:
                yield RuleProblem(
                    f"{path}.source", f"{source!r} {reason}", "write HOST/REPOSITORY without tag or digest", at=path
                )
            for number, mirror in enumerate(texts(entry, "mirrors")):
                reason = repository_problem(mirror)
                if reason:
                    yield RuleProblem(
                        f"{path}.mirrors[{number}]",
                        f"{mirror!r} {reason}",
                        "write HOST/REPOSITORY without tag or digest",
                    )
            policy = text(entry, "sourcePolicy")
            if policy not in ("", "NeverContactSource", "AllowContactingSource"):
                yield RuleProblem(
                    f"{path}.sourcePolicy",
                    f"{policy!r} is not NeverContactSource or AllowContactingSource",
                    "write one of the two",
                )
            if policy and not texts(entry, "mirrors"):
                yield RuleProblem(f"{path}.sourcePolicy", "it goes only with mirrors", "add mirrors or remove it")
    if structs(config.values, "imageContentSources") and structs(config.values, "imageDigestSources"):
        yield RuleProblem(
            "imageContentSources", "it cannot be used together with imageDigestSources", "keep imageDigestSources"
        )


def repository_problem(name: str) -> str:
    """Why this names no repository (or registry host); '' where it does."""
    first, slash, _ = name.partition("/")
    canonical = slash and ("." in first or ":" in first or first == "localhost" or first != first.lower())
    if not canonical:
        # the installer takes a bare host, with or without a port, for a whole registry
        host = name.partition(":")[0] if name.count(":") == 1 else name.strip("[]")
        if parse_ip(host) is None and not is_subdomain(host):
            return "is not a repository"
        return ""
    found = _REFERENCE.match(name) if len(name) <= 512 else None
    if not found:
        return "is not a repository"
    return "has a tag or digest" if found["tag"] or found["digest"] else ""


def mirrors_without_account(config: Config) -> Iterator[RuleProblem]:
    known = set(pull_secret.read(config.text("pullSecret")).registries)
    for field in ("imageContentSources", "imageDigestSources"):
        for index, entry in enumerate(structs(config.values, field)):
            for number, mirror in enumerate(texts(entry, "mirrors")):
                host = mirror.partition("/")[0]
                if not any(one == host or one.startswith(host + "/") for one in known):
                    yield RuleProblem(
                        f"{field}[{index}].mirrors[{number}]",
                        f"the pull secret has no entry for {host}",
                        "add one, unless the mirror needs no login",
                    )


RULES = (
    load_rule("proxy", proxy),
    load_rule("mirrors", mirrors),
    doubt_rule("mirror-account", mirrors_without_account),
)
