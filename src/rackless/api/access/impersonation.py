"""Impersonation (`kubectl --as`): the caller needs the right to impersonate every part of the user it wants to be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from urllib.parse import unquote

from multidict import CIMultiDictProxy

from rackless.api import status
from rackless.api.access.attributes import Attributes
from rackless.api.access.rbac import Authorizer, refusal
from rackless.api.kinds.kind import Caller

_USER, _UID, _GROUP, _EXTRA = "Impersonate-User", "Impersonate-Uid", "Impersonate-Group", "impersonate-extra-"
_ACCOUNT = "system:serviceaccount:"


def impersonated(caller: Caller, headers: CIMultiDictProxy[str], authorizer: Authorizer) -> Caller:
    """The user that the request acts as: the one of the Impersonate-User header, else the one who sent it."""
    given = [value for name, value in headers.items() if name.lower().startswith("impersonate-")]
    if not given:
        return caller
    if not all(map(_is_text, given)):
        raise status.bad_request("the headers of impersonation are no UTF-8")
    name = headers.get(_USER, "")
    if not name:
        raise status.bad_request("a user must be named to impersonate groups, a uid or extra values")
    wanted = Caller(name, tuple(headers.getall(_GROUP, [])), headers.get(_UID, ""), _extra(headers))
    for asked in _questions(wanted):
        if not authorizer.allows(caller, asked):
            raise status.forbidden(asked.resource, asked.group, asked.name, refusal(caller, asked))
    return Caller(name, _with_usual(wanted), wanted.uid, wanted.extra)


def _is_text(value: str) -> bool:
    """Bytes of a header that are no UTF-8 come as surrogates, which no answer could name."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _extra(headers: CIMultiDictProxy[str]) -> Mapping[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for header, value in headers.items():
        if header.lower().startswith(_EXTRA):
            key = unquote(header[len(_EXTRA) :]).lower()
            found[key] = (*found.get(key, ()), value)
    return found


def _questions(wanted: Caller) -> Iterator[Attributes]:
    """What must be allowed, one by one."""
    parts = wanted.name.removeprefix(_ACCOUNT).split(":")
    if wanted.name.startswith(_ACCOUNT) and len(parts) == 2:
        yield Attributes("impersonate", "", "serviceaccounts", namespace=parts[0], name=parts[1])
    else:
        yield Attributes("impersonate", "", "users", name=wanted.name)
    for group in wanted.groups:
        yield Attributes("impersonate", "", "groups", name=group)
    if wanted.uid:
        yield Attributes("impersonate", "authentication.k8s.io", "uids", name=wanted.uid)
    for key, values in wanted.extra.items():
        for value in values:
            yield Attributes("impersonate", "authentication.k8s.io", "userextras", key, name=value)


def _with_usual(wanted: Caller) -> tuple[str, ...]:
    """The groups that come with a name."""
    if wanted.name == "system:anonymous":
        return tuple(dict.fromkeys((*wanted.groups, "system:unauthenticated")))
    groups = wanted.groups
    if not groups and wanted.name.startswith(_ACCOUNT):
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{wanted.name.split(':')[2]}")
    return tuple(dict.fromkeys((*groups, "system:authenticated")))
