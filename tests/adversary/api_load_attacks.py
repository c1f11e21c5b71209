"""Requests that used to stop the API for everybody, as values: what is sent, after what, and how it should be answered.

Used by the tests, which watch the loop, and by `scripts/bench adversary`, which watches a second client.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GADGETS = "/apis/example.org/v1/namespaces/default/gadgets"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
_APPLY = "application/apply-patch+yaml"
Json = dict[str, Any]


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    body: bytes = b""
    media: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    stranger: bool = False


@dataclass(frozen=True)
class Attack:
    requests: Sequence[Request]
    codes: tuple[int, ...]
    """One of these is every answer."""
    first: Sequence[Request] = ()
    """What must be there for it."""


def _raw(value: Any) -> bytes:
    return json.dumps(value).encode()


def definition(plural: str, spec: Json) -> Json:
    kind = plural[:-1].capitalize()
    schema = {"type": "object", "properties": {"spec": spec}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.example.org"},
        "spec": {"group": "example.org", "scope": "Namespaced", "names": {"plural": plural, "kind": kind},
                 "versions": [version]},
    }  # fmt: skip


def _define(plural: str, spec: Json) -> Request:
    return Request("POST", DEFINITIONS, _raw(definition(plural, spec)))


def _gadget(name: str, spec: Any, kind: str = "Gadget") -> Json:
    return {"apiVersion": "example.org/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


_OPEN = _define("gadgets", {"type": "object", "x-kubernetes-preserve-unknown-fields": True})
_CLOSED = _define("closeds", {"type": "object", "properties": {"size": {"type": "integer"}}})
_PATTERNED = _define("patterneds", {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}})
_LISTED = _define(
    "listeds",
    {
        "type": "object",
        "properties": {
            "parts": {
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "required": ["name"],
                          "properties": {"name": {"type": "string"}, "a": {"type": "string"}}},
            }
        },
    },
)  # fmt: skip


def _ruled(rule: str) -> Request:
    return _define(
        "ruleds",
        {
            "type": "object",
            "properties": {
                "text": {"type": "string"},
                "pattern": {"type": "string"},
                "list": {"type": "array", "items": {"type": "integer"}},
            },
            "x-kubernetes-validations": [{"rule": rule}],
        },
    )


def _ruled_attack(rule: str, spec: Json) -> Attack:
    path = "/apis/example.org/v1/namespaces/default/ruleds"
    return Attack([Request("POST", path, _raw(_gadget("ruled", spec, "Ruled")))], (422,), [_ruled(rule)])


@cache
def _bomb() -> bytes:
    return gzip.compress(bytes(256 << 20), 1)


def _aliases() -> bytes:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 8)]
    return ("\n".join(lines) + "\n").encode()


def _merges() -> bytes:
    lines = ["a0: &a0 {b: 1, c: 2}"] + [f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 8)}]}}" for n in range(1, 9)]
    return ("\n".join(lines) + "\n").encode()


def _large(fields: int) -> Json:
    return {f"field{n}": {"name": f"n{n}", "value": "x" * 8} for n in range(fields)}


def _yaml(fields: int) -> bytes:
    head = "apiVersion: example.org/v1\nkind: Gadget\nmetadata:\n  name: yaml\nspec:\n"
    return (head + "".join(f"  field{n}:\n    name: n{n}\n    value: xxxxxxxx\n" for n in range(fields))).encode()


def _copies() -> bytes:
    operations: list[Json] = [{"op": "add", "path": "/spec/a0", "value": ["x" * 50]}]
    operations += [{"op": "copy", "from": "/spec/a0", "path": "/spec/a0/-"}] * 25
    return _raw(operations)


def _copies_of_all() -> bytes:
    return _raw([{"op": "copy", "from": "/spec", "path": f"/spec/a{n}"} for n in range(20)])


def _moves() -> bytes:
    there = [{"op": "move", "from": "/spec", "path": "/other"}, {"op": "move", "from": "/other", "path": "/spec"}]
    return _raw(there * 5000)


def _deep(levels: int) -> bytes:
    value = b'{"a":' * levels + b"1" + b"}" * levels
    return b'{"apiVersion":"example.org/v1","kind":"Gadget","metadata":{"name":"deep"},"spec":' + value + b"}"


def _parts(count: int, letter: str) -> Json:
    return {"parts": [{"name": f"part-{n}", "a": letter} for n in range(count)]}


def _apply(path: str, name: str, spec: Any, kind: str, manager: str) -> Request:
    query = f"?fieldManager={manager}&force=true"
    return Request("PATCH", f"{path}/{name}{query}", _raw(_gadget(name, spec, kind)), _APPLY)


def _create(spec: Any, name: str = "large") -> Request:
    return Request("POST", GADGETS, _raw(_gadget(name, spec)))


_SCALEDS = "/apis/example.org/v1/namespaces/default/scaleds"


def _scaled() -> Request:
    found = definition("scaleds", {"type": "object", "properties": {"replicas": {"type": "integer"}}})
    paths = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    found["spec"]["versions"][0]["subresources"] = {"scale": paths}
    return Request("POST", DEFINITIONS, _raw(found))


_LISTEDS = "/apis/example.org/v1/namespaces/default/listeds"
_TABLE = {"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}
_GZIP = {"Content-Encoding": "gzip"}

ATTACKS: dict[str, Callable[[], Attack]] = {
    "gzip bombs of a stranger": lambda: Attack(
        [Request("POST", CONFIG_MAPS, _bomb(), headers=_GZIP, stranger=True)] * 3, (401, 403)),
    "gzip bombs of a caller": lambda: Attack([Request("POST", CONFIG_MAPS, _bomb(), headers=_GZIP)] * 3, (413,)),
    "YAML aliases": lambda: Attack([Request("POST", CONFIG_MAPS, _aliases(), "application/yaml")], (400,)),
    "YAML levels": lambda: Attack([Request("POST", CONFIG_MAPS, text * 200_000, "application/yaml")
                                   for text in (b"- ", b"[", b"{a: ", b"? ")], (400,)),
    "YAML merge keys": lambda: Attack([Request("POST", CONFIG_MAPS, _merges(), "application/yaml")], (400,)),
    "YAML numbers to the base of 60": lambda: Attack(
        [Request("POST", CONFIG_MAPS, b"a: 1" + b":1" * 300_000, "application/yaml")], (400,)),
    "JSON applied": lambda: Attack([_apply(GADGETS, "applied", _large(8000), "Gadget", "me")], (201,), [_OPEN]),
    "YAML created": lambda: Attack([Request("POST", GADGETS, _yaml(6000), "application/yaml")], (201,), [_OPEN]),
    "60,000 unknown fields": lambda: Attack([Request("POST", "/apis/example.org/v1/namespaces/default/closeds",
                            _raw(_gadget("unknown", {f"u{n}": 1 for n in range(60_000)}, "Closed")))], (201,), [_CLOSED]),
    "JSON patch, copies of copies": lambda: Attack(
        [Request("PATCH", f"{GADGETS}/large", _copies(), "application/json-patch+json")], (413,),
                   [_OPEN, _create({"a": 1})]),
    "JSON patch, copies of all": lambda: Attack(
        [Request("PATCH", f"{GADGETS}/large", _copies_of_all(), "application/json-patch+json")], (413,),
                   [_OPEN, _create({"a": "x" * 1000})]),
    "JSON patch, 10,000 moves of a large part": lambda: Attack(
        [Request("PATCH", f"{GADGETS}/large", _moves(), "application/json-patch+json")], (200, 422),
                   [_OPEN, _create(_large(5000))]),
    "a pattern that backtracks": lambda: Attack([Request("POST", "/apis/example.org/v1/namespaces/default/patterneds",
                            _raw(_gadget("patterned", {"a": "a" * 40 + "!"}, "Patterned")))], (422,), [_PATTERNED]),
    "CEL, letters in letters": lambda: _ruled_attack("self.text.split('').all(x, self.text.split('').all(y, x == y)) && false",
                          {"text": "a" * 1500}),
    "CEL, joined and split again": lambda: _ruled_attack(
        "self.text.split('').join(self.text).split('').all(x, x.size() == 2)", {"text": "a" * 1500}),
    "CEL, lists of lists": lambda: _ruled_attack("self.list.map(x, self.list).map(x, self.list).size() < 0",
                          {"list": list(range(400))}),
    "CEL, large patterns": lambda: _ruled_attack("self.list.all(x, 'ab'.matches(self.pattern)) && false",
                          {"list": list(range(40)), "pattern": r"(\w{30}){30}", "text": ""}),
    "apply, a list of 4000 parts": lambda: Attack([_apply(_LISTEDS, "l", _parts(4000, "b"), "Listed", "you"),
                                                   _apply(_LISTEDS, "l", _parts(10, "b"), "Listed", "you")], (200,),
                   [_LISTED, _apply(_LISTEDS, "l", _parts(4000, "a"), "Listed", "me")]),
    "a large object as YAML": lambda: Attack([Request("GET", f"{GADGETS}/large", headers={"Accept": "application/yaml"})],
                   (200,), [_OPEN, _create(_large(12_000))]),
    "large objects as a Table": lambda: Attack([Request("GET", GADGETS, headers=_TABLE)], (200,),
                   [_OPEN, *(_create(_large(8000), f"large-{n}") for n in range(30))]),
    "large objects, none selected": lambda: Attack([Request("GET", f"{GADGETS}?labelSelector=a%3Db")], (200,),
                   [_OPEN, *(_create(_large(8000), f"large-{n}") for n in range(30))]),
    "1000 levels": lambda: Attack([Request("POST", GADGETS, _deep(1000)), Request("POST", GADGETS, _deep(240)),
                                   Request("POST", GADGETS, _deep(300))], (201, 400), [_OPEN]),
    "a strategic merge of 20,000 items": lambda: Attack(
        [Request("PATCH", "/api/v1/nodes/n1/status", _raw({"status": {"conditions": [
                       {"type": f"c{n}", "status": "True"} for n in range(20_000)]}}),
                       "application/strategic-merge-patch+json")], (200, 422),
                   [Request("POST", "/api/v1/nodes", _raw({"metadata": {"name": "n1"}}))]),
    "a scale of a megabyte": lambda: Attack(
        [Request("PUT", f"{_SCALEDS}/s/scale", b"a:\n" + b"- x\n" * 250_000, "application/yaml"),
         Request("PUT", f"{_SCALEDS}/s/scale", _raw({"spec": {"replicas": 1}, "a": [{}] * 400_000})),
         Request("PATCH", f"{_SCALEDS}/s/scale", _raw([{"op": "add", "path": "/spec/a", "value": [{}] * 400_000}]),
                 "application/json-patch+json")],
                   (200, 400, 422), [_scaled(), Request("POST", _SCALEDS, _raw(_gadget("s", {"replicas": 1}, "Scaled")))]),
    "an object that grows by patches": lambda: Attack(
        [Request("PATCH", f"{GADGETS}/large", _raw({"spec": {f"p{n}": "x" * 2_000_000}}),
                            "application/merge-patch+json") for n in range(3)], (413,), [_OPEN, _create({"a": 1})]),
}  # fmt: skip
