"""Bodies, headers and paths that mean nothing: refused with 4xx, never 5xx, and nothing is written."""

from __future__ import annotations

import asyncio
import io
import random
from typing import Any

import orjson
import pytest

from rackless.api.process import ApiServer

from .conftest import BOTH, WIDGETS, Client, Json, widget

SEEDS = 150
MEDIA = (
    "application/json", "application/yaml", "application/merge-patch+json", "application/json-patch+json",
    "application/strategic-merge-patch+json", "application/apply-patch+yaml", "application/vnd.kubernetes.protobuf",
    "text/plain", "", "application/json; charset=utf-8", ";;;",
)  # fmt: skip
CRUMBS: list[Any] = [
    None,
    True,
    0,
    -1,
    1.5,
    2**70,
    "",
    "a",
    "\0",
    "x" * 300,
    [],
    {},
    [[]],
    {"a": {}},
    ["a", 1],
    {"$patch": "delete"},
]
PATHS = (
    WIDGETS, f"{WIDGETS}/a", f"{WIDGETS}/a/status", f"{WIDGETS}/a/scale", "/api/v1/namespaces", "/api/v1/nodes/n",
    "/api/v1/namespaces/default/secrets", "/api/v1/namespaces/default/events",
    "/api/v1/namespaces/default/configmaps/c",
    "/apis/certificates.k8s.io/v1/certificatesigningrequests",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", "/apis/coordination.k8s.io/v1/namespaces/default/leases",
    "/apis/metal3.io/v1alpha1/namespaces/default/baremetalhosts", "/apis/events.k8s.io/v1/namespaces/default/events",
    "/api/v1/namespaces/default/serviceaccounts/a/token", "/apis/x/y/z", "/apis//v1//a",
    "/api/v1/namespaces/default/%2e%2e",
)  # fmt: skip


def _spoil(value: Any, rng: random.Random) -> Any:
    """The value with one place replaced by something else."""
    if isinstance(value, dict) and value and rng.random() < 0.8:
        key = rng.choice(list(value))
        return (
            {**value, key: _spoil(value[key], rng)} if rng.random() < 0.9 else {**value, rng.choice(["", "$x", "a"]): 1}
        )
    if isinstance(value, list) and value and rng.random() < 0.8:
        return [_spoil(value[0], rng), *value[1:]]
    return rng.choice(CRUMBS)


def _body(rng: random.Random) -> bytes:
    base: dict[str, Any] = rng.choice([
        widget("never"), {"metadata": {"name": "never"}}, {"kind": "Scale", "spec": {"replicas": 1}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "never"}, "data": {"a": "YQ=="},
        "stringData": {"b": "c"}},
        {"metadata": {"name": "never", "labels": {"a": "b"}, "ownerReferences": [{"uid": "1"}], "finalizers": ["a/b"]}},
        {"metadata": {"name": "nevers.example.org"}, "spec": {"group": "example.org", "scope": "Cluster",
         "names": {"plural": "nevers", "kind": "Never"}, "versions": [{"name": "v1", "served": True, "storage": True,
         "schema": {"openAPIV3Schema": {"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}}}}]}},
        {"spec": {"resourceAttributes": {"verb": "get"}}}, {"metadata": {"name": "never"},
        "rules": [{"verbs": ["get"]}]},
        {"metadata": {"name": "never"}, "roleRef": {"kind": "ClusterRole", "name": "x"},
        "subjects": [{"kind": "User"}]},
        {"metadata": {"name": "never"}, "spec": {"request": "AAAA", "signerName": "a/b", "usages": ["x"]}},
    ])  # fmt: skip
    spoiled = base
    for _ in range(rng.randint(1, 3)):
        spoiled = _spoil(spoiled, rng)
    try:
        raw = orjson.dumps(spoiled)
    except TypeError:
        raw = str(spoiled).encode()
    if rng.random() < 0.2:
        raw = raw[: rng.randint(0, len(raw))]
    if rng.random() < 0.1:
        raw = bytes(rng.randrange(256) for _ in range(40))
    if rng.random() < 0.1:
        raw = b"k8s\0" + raw
    return raw


async def _quiet(api: ApiServer, seconds: float = 0.1) -> None:
    """Until the server has done what it does itself after a write."""
    assert api.objects
    seen = -1
    while seen != api.objects.store.revision:
        seen = api.objects.store.revision
        await asyncio.sleep(seconds)


@pytest.mark.parametrize("api", BOTH, indirect=True)
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_nonsense_is_refused_and_never_breaks_the_server(client: Client, api: ApiServer, method: str) -> None:
    rng = random.Random(method)
    assert api.objects
    await _quiet(api)
    for _ in range(SEEDS):
        path, media, raw = rng.choice(PATHS), rng.choice(MEDIA), _body(rng)
        query = rng.choice(
            [{}, {"dryRun": "x"}, {"fieldValidation": "Strict"}, {"limit": "x"}, {"watch": "1", "limit": "-1"}]
        )
        if method == "DELETE":
            query = {**query, "dryRun": rng.choice(["All", "x"])}
        for again in (True, False):
            before = api.objects.store.revision
            code, answer = await client.call(method, path, raw, media=media, **query)
            assert code < 500, (method, path, media, raw, query, answer)
            if code < 400:
                await _quiet(api)
            elif api.objects.store.revision != before:
                assert again, (method, path, media, raw, query, answer)
                await _quiet(api, 1.0)  # the server may have been slow with its own work: who is refused may ask again
                continue
            break
        if code >= 400 and isinstance(answer, dict):
            assert answer["kind"] == "Status" and answer["status"] == "Failure" and answer["message"]


@pytest.mark.parametrize("api", BOTH, indirect=True)
async def test_what_is_refused_is_not_written(client: Client, api: ApiServer) -> None:
    assert api.objects
    before = api.objects.store.revision
    for raw in (b"", b"{", b"[]", b"null", b'"x"', b'{"metadata":1}', b"\xff\xfe", b"[" * 5000, b'{"a":' * 2000):
        code, _ = await client.call("POST", WIDGETS, raw)
        assert 400 <= code < 500, raw[:20]
    deep: Any = {}
    for _ in range(400):
        deep = {"a": deep}
    raw = orjson.dumps({**widget("deep"), "spec": {"size": 1}})[:-2] + b',"free":' + b'{"a":' * 400 + b"1" + b"}" * 402
    code, _ = await client.call("POST", WIDGETS, raw)
    assert 400 <= code < 500
    code, answer = await client.call("POST", WIDGETS, io.BytesIO(b" " * (3 * 1024 * 1024 + 10)))
    assert (code, answer["reason"]) == (413, "RequestEntityTooLarge")
    assert api.objects.store.revision == before


@pytest.mark.parametrize(
    "query",
    [
        {"labelSelector": "a=("}, {"labelSelector": "=b"}, {"labelSelector": "a in (b"}, {"fieldSelector": "x"},
        {"limit": "x"}, {"continue": "!!"}, {"continue": "e30"}, {"resourceVersion": "x"}, {"resourceVersion": "-1"},
        {"resourceVersionMatch": "Exact"}, {"resourceVersionMatch": "Maybe", "resourceVersion": "1"}, {"limit": "-5"},
        {"watch": "1", "resourceVersion": "abc"}, {"watch": "1", "timeoutSeconds": "x"}, {"limit": "--5"}, {"limit": "5-"},
        {"limit": "\u00b2"}, {"limit": "1" * 16}, {"watch": "1", "timeoutSeconds": "--1"},
        *({"resourceVersionMatch": "Exact", "resourceVersion": version}
          for version in ("\u00b2", "\u0663", "-1", "9" * 20, "9" * 5000, "1e3", " 1")),
    ],
)  # fmt: skip
async def test_queries_that_mean_nothing_are_refused(client: Client, query: dict[str, str]) -> None:
    code, answer = await client.get(WIDGETS, **query)
    assert 400 <= code < 500 and answer["kind"] == "Status", answer


async def ask_raw(client: Client, request: bytes) -> bytes:
    """The first bytes that come back."""
    port = int(client.url.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client.context())
    writer.write(request)
    async with asyncio.timeout(20):
        answer = await reader.read(4096)
    writer.close()
    return answer


@pytest.mark.parametrize("header", [b"Impersonate-User: \xff", b"Impersonate-User: a\r\nImpersonate-Group: x\xffy"])
async def test_headers_that_are_no_text_are_refused_in_words(client: Client, header: bytes) -> None:
    answer = await ask_raw(client, b"GET %s HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n" % (WIDGETS.encode(), header))
    assert answer.startswith(b"HTTP/1.1 400 ") and b'"kind":"Status"' in answer
    ours = b"User-Agent: \xff\xfe/1\r\nContent-Type: application/merge-patch+json\r\nContent-Length: 21"
    await client.call("PATCH", f"{WIDGETS}/w?fieldManager=m", widget("w"), media="application/apply-patch+yaml")
    request = b"PATCH %s/w HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n%s" % (WIDGETS.encode(), ours, b'{"spec": {"size": 7}}')
    assert (await ask_raw(client, request)).startswith(b"HTTP/1.1 200 "), "a program is called what it may be called"


async def test_what_is_no_http_fills_no_log(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    for request in (b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", b"GET / HTTP/9\r\n\r\n",
                    b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", b"\x16\x03\x01\r\n\r\n"):  # fmt: skip
        assert b" 400 " in (await ask_raw(client, request))[:20]
    assert not caplog.text


SCALES: list[Any] = [
    {"spec": 5}, {"metadata": 5}, {"metadata": {"name": "other"}}, {"spec": {"replicas": 1e30}},
    {"spec": {"replicas": -1}}, [], "x",
]  # fmt: skip
TOKENS: list[Any] = [5, [], {"spec": 5}, {"spec": {"audiences": [{}]}}, {"spec": {"expirationSeconds": 1e3}}]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        *((f"{WIDGETS}/w/scale", body) for body in SCALES),
        *(("/api/v1/namespaces/default/serviceaccounts/default/token", body) for body in TOKENS),
        ("/apis/coordination.k8s.io/v1/namespaces/default/leases/l", {"spec": {"leaseDurationSeconds": 1e15}}),
        ("/apis/coordination.k8s.io/v1/namespaces/default/leases/l", {"spec": {"leaseTransitions": 2**31}}),
        *(("/apis/coordination.k8s.io/v1/namespaces/default/leases/l?fieldManager=" + name, {})
          for name in ("x" * 129, "%0a", "%07")),
    ],
)  # fmt: skip
async def test_values_of_another_shape_are_refused_and_not_read_as_something_else(
    client: Client, path: str, body: Any
) -> None:
    await client.create(WIDGETS, widget("w", replicas=3))
    method = "POST" if "token" in path else "PUT"
    code, answer = await client.call(method, path, body)
    assert code in (400, 422) and answer["kind"] == "Status", answer
    assert (await client.get(f"{WIDGETS}/w"))[1]["spec"]["replicas"] == 3


@pytest.mark.parametrize(
    "patch",
    [
        {"$retainKeys": 5}, {"$retainKeys": "data"}, {"$retainKeys": [{}]}, {"metadata": {"$retainKeys": True}},
        {"$deleteFromPrimitiveList/data": 5}, {"metadata": {"$deleteFromPrimitiveList/name": ["a"]}},
        {"metadata": {"$deleteFromPrimitiveList/labels": ["a"]}}, {"metadata": {"$setElementOrder/finalizers": 5}},
        {"metadata": {"$patch": "nonsense"}}, {"metadata": {"$patch": {}}}, {"$patch": ["replace"]},
        {"metadata": {"ownerReferences": [{"$patch": "delete"}]}}, {"metadata": {"ownerReferences": [5]}},
    ],
)  # fmt: skip
async def test_directives_of_a_strategic_merge_that_mean_nothing_are_refused(client: Client, patch: Json) -> None:
    maps = "/api/v1/namespaces/default/configmaps"
    made = {"metadata": {"name": "a", "labels": {"a": "b"}, "finalizers": ["a/b"]}, "data": {"a": "b"}}
    await client.create(maps, made)
    code, answer = await client.call("PATCH", f"{maps}/a", patch, media="application/strategic-merge-patch+json")
    assert 400 <= code < 500 and answer["kind"] == "Status", answer
    assert (await client.get(f"{maps}/a"))[1]["data"] == {"a": "b"}


async def test_our_own_mistake_is_a_status_and_its_reason_only_in_the_log(
    client: Client, api: ApiServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert api.objects

    def broken(*_: object) -> None:
        raise RuntimeError("the secret reason")

    monkeypatch.setattr(api.objects, "shown", broken)
    code, answer = await client.get("/api/v1/namespaces/default")
    assert (code, answer["kind"], answer["reason"], answer["code"]) == (500, "Status", "InternalError", 500)
    assert "secret reason" not in str(answer)
    assert "the secret reason" in caplog.text and "/api/v1/namespaces/default" in caplog.text
    monkeypatch.undo()
    assert (await client.get("/api/v1/namespaces/default"))[0] == 200


@pytest.mark.parametrize(
    "accept", ["application/vnd.kubernetes.protobuf", "text/html", ";", "application/json;as=X;g=y;v=z"]
)
async def test_forms_we_do_not_have_are_not_acceptable(client: Client, accept: str) -> None:
    code, answer = await client.call("GET", WIDGETS, accept=accept)
    assert (code, answer["reason"]) == (406, "NotAcceptable")


async def test_protobuf_is_read_where_it_is_defined_and_refused_elsewhere(client: Client) -> None:
    media = "application/vnd.kubernetes.protobuf"
    for raw in (b"", b"k8s\0", b"k8s\0\x0a\x04\x0a\x02v1"):
        code, answer = await client.call("POST", WIDGETS, raw, media=media)
        assert 400 <= code < 500 and answer["kind"] == "Status"
    code, answer = await client.call("POST", WIDGETS, _protobuf("example.com/v1", "Widget"), media=media)
    assert (code, answer["reason"]) == (415, "UnsupportedMediaType")
    code, answer = await client.call("PATCH", f"{WIDGETS}/a", b"{}", media=media)
    assert (code, answer["reason"]) == (415, "UnsupportedMediaType")


def _protobuf(api_version: str, kind: str) -> bytes:
    """An empty object in Kubernetes' envelope."""

    def text(number: int, value: bytes) -> bytes:
        return bytes([number << 3 | 2, len(value)]) + value

    return b"k8s\0" + text(1, text(1, api_version.encode()) + text(2, kind.encode())) + text(2, b"")
