"""URLs read by the rules of Go's net/url, as far as an install-config can notice the difference."""

from __future__ import annotations

import re
from dataclasses import dataclass

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):")
_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_BAD_HOST = re.compile(r"[\x00-\x20\"#/<>?@\[\\\]^`{|}\x7f]")


class UrlError(ValueError):
    """What Go would say."""


@dataclass(frozen=True, slots=True)
class Url:
    scheme: str
    host: str
    port: str
    path: str
    query: str
    opaque: str = ""


def parse(raw: str, *, request: bool = False) -> Url:
    """`request` is Go's ParseRequestURI: only an absolute URI or an absolute path will do."""
    if re.search(r"[\x00-\x1f\x7f]", raw):
        raise UrlError("invalid control character in URL")
    if not raw and request:
        raise UrlError("empty url")
    if raw == "*":
        return Url("", "", "", "*", "")
    if raw.startswith(":"):
        raise UrlError("missing protocol scheme")
    found = _SCHEME.match(raw)
    scheme = found[1].lower() if found else ""
    rest = raw[found.end() :] if found else raw
    if not request:
        rest = rest.partition("#")[0]
    rest, _, query = rest.partition("?")
    if not rest.startswith("/"):
        if scheme:
            return Url(scheme, "", "", "", query, opaque=rest)
        if request:
            raise UrlError("invalid URI for request")
        if ":" in rest.partition("/")[0]:
            raise UrlError("first path segment in URL cannot contain colon")
    host = port = ""
    if rest.startswith("//") and (scheme or (not request and not rest.startswith("///"))):
        authority, slash, path = rest[2:].partition("/")
        host, port = _authority(authority)
        rest = slash + path
    if _ESCAPE.search(rest):
        raise UrlError("invalid URL escape")
    return Url(scheme, host, port, rest, query)


def _authority(text: str) -> tuple[str, str]:
    user, at, host = text.rpartition("@")
    if at and re.search(r"[\x00-\x20\"<>\\^`{|}/?#\[\]]", user):
        raise UrlError("net/url: invalid userinfo")
    if host.startswith("["):
        inside, bracket, tail = host[1:].partition("]")
        if not bracket:
            raise UrlError("missing ']' in host")
        if tail and not re.fullmatch(r":\d*", tail):
            raise UrlError(f'invalid port "{tail}" after host')
        return inside, tail[1:]
    name, colon, port = host.partition(":")
    if colon and not re.fullmatch(r"\d*", port):
        raise UrlError(f'invalid port ":{port}" after host')
    if _BAD_HOST.search(name):
        raise UrlError("invalid character in host name")
    if _ESCAPE.search(name):
        raise UrlError("invalid URL escape")
    return name, port
