"""JSON patch (RFC 6902), with the limits and the sentences of the real server."""

from __future__ import annotations

import copy
from typing import Any

from rackless.api.encoding import decode, encode
from rackless.api.offload import SMALL, leave_loop
from rackless.api.status import RequestRefused, bad_request

_MOST_OPERATIONS = 10_000
_MOST_COPIED = 3 * 1024 * 1024


class _Missing(Exception):
    pass


def _unprocessable(why: str) -> RequestRefused:
    return RequestRefused(422, "Invalid", f"the server rejected our request due to an error in our request: {why}", {})


def _tokens(pointer: Any) -> list[str]:
    if not isinstance(pointer, str) or (pointer and not pointer.startswith("/")):
        raise bad_request(f"invalid JSON pointer: {pointer!r}")
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


def _index(token: str, length: int) -> int:
    if not (token == "0" or (token.isascii() and token.isdigit() and token[0] != "0")) or len(token) > 9:
        raise _Missing
    if int(token) >= length:
        raise _Missing
    return int(token)


def _step(value: Any, token: str) -> Any:
    if isinstance(value, dict):
        if token not in value:
            raise _Missing
        return value[token]
    if isinstance(value, list):
        return value[_index(token, len(value))]
    raise _Missing


def _find(document: Any, tokens: list[str]) -> Any:
    for token in tokens:
        document = _step(document, token)
    return document


def _add(document: Any, tokens: list[str], value: Any) -> Any:
    if not tokens:
        return value
    parent = _find(document, tokens[:-1])
    last = tokens[-1]
    if isinstance(parent, dict):
        parent[last] = value
    elif isinstance(parent, list):
        parent.insert(len(parent) if last == "-" else _index(last, len(parent) + 1), value)
    else:
        raise _Missing
    return document


def _remove(document: Any, tokens: list[str]) -> Any:
    if not tokens:
        raise _Missing
    parent = _find(document, tokens[:-1])
    _step(parent, tokens[-1])
    del parent[tokens[-1] if isinstance(parent, dict) else int(tokens[-1])]
    return document


def _same(a: Any, b: Any) -> bool:
    """JSON equality: true is not 1."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_same, a, b))
    return bool(a == b)


def apply(document: Any, operations: Any) -> Any:
    if not isinstance(operations, list) or not all(isinstance(each, dict) for each in operations):
        raise bad_request("error decoding patch: a JSON patch is a list of operations")
    if len(operations) > _MOST_OPERATIONS:
        raise RequestRefused(
            413, "RequestEntityTooLarge", f"The allowed maximum operations in a JSON patch is {_MOST_OPERATIONS}"
        )
    document = copy.deepcopy(document)
    copied = _Copied()
    for operation in operations:
        document = _apply_one(document, operation, copied)
    return document


class _Copied:
    """How many bytes the copies of one patch have added: a few that copy what was copied would fill any memory."""

    def __init__(self) -> None:
        self._size = 0

    def one_more(self, value: Any) -> Any:
        """A copy of a value, while there may be one."""
        data = encode(value)
        self._size += len(data)
        if self._size > SMALL:
            leave_loop()
        if self._size > _MOST_COPIED:
            raise RequestRefused(
                413, "RequestEntityTooLarge",
                f"unable to complete the copy, the accumulated size increase of the copy is {self._size}, "
                f"exceeding the limit {_MOST_COPIED}",
            )  # fmt: skip
        return decode(data)


def _apply_one(document: Any, operation: dict[str, Any], copied: _Copied) -> Any:
    name, tokens = operation.get("op"), _tokens(operation.get("path"))
    if name in ("add", "replace", "test") and "value" not in operation:
        raise bad_request(f"{name} operation is missing its value")
    try:
        match name:
            case "add":
                return _add(document, tokens, copy.deepcopy(operation["value"]))
            case "remove":
                return _remove(document, tokens)
            case "replace":
                _find(document, tokens)
                if not tokens:
                    return copy.deepcopy(operation["value"])
                parent = _find(document, tokens[:-1])
                parent[tokens[-1] if isinstance(parent, dict) else int(tokens[-1])] = copy.deepcopy(operation["value"])
                return document
            case "move" | "copy":
                source = _tokens(operation.get("from"))
                value = _find(document, source)
                if name == "copy":
                    return _add(document, tokens, copied.one_more(value))
                if tokens[: len(source)] == source and tokens != source:
                    raise _unprocessable("cannot move a value into itself")
                return _add(_remove(document, source), tokens, value)
            case "test":
                if not _same(_find(document, tokens), operation["value"]):
                    raise _unprocessable(f"testing value {operation['path']} failed: test failed")
                return document
    except _Missing:
        raise _unprocessable(
            f"{name} operation does not apply: doc is missing path: {operation.get('path')!r}"
        ) from None
    raise bad_request(f"Unexpected kind: {name}")
