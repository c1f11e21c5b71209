"""A hundred thousand requests that were ordinary before they were spoiled: never a 500, never a stall, no growth."""

from __future__ import annotations

import asyncio
import random
import ssl
from pathlib import Path

import orjson
import pytest

from rackless.api.process import ApiServer
from tests.adversary.probe import Turns
from tests.adversary.test_api_load_requests import ordinary
from tests.api.conftest import Client, settings, widget, widget_definition

COUNT = 100_000
CLIENTS = 8
SEED = 20_261_117
_MEDIA = (
    b"application/json", b"application/yaml", b"application/merge-patch+json", b"application/json-patch+json",
    b"application/strategic-merge-patch+json", b"application/apply-patch+yaml", b"application/vnd.kubernetes.protobuf",
    b"text/plain", b"",
)  # fmt: skip
_PATHS = (
    "/api/v1/namespaces", "/api/v1/namespaces/default/configmaps/a", "/api/v1/nodes/n1/status",
    "/apis/example.com/v1/namespaces/default/widgets", "/apis/example.com/v1/namespaces/default/widgets/w1",
    "/apis/example.com/v1/namespaces/default/widgets/w1/scale", "/apis/example.com/v1beta1/widgets",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles/x", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/certificates.k8s.io/v1/certificatesigningrequests/c/approval", "/openapi/v2", "/metrics", "/readyz?verbose",
    "/api/v1/namespaces/default/serviceaccounts/default/token", "/api/v1/namespaces/default/finalize",
    "/apis/coordination.k8s.io/v1/namespaces/default/leases/l", "/api/v1/namespaces/default/secrets",
    "/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews", "/api/v1/namespaces/default/events",
    "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings/r",
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "/apis/metal3.io/v1alpha1/namespaces/default/baremetalhosts",
)  # fmt: skip
_QUERIES = (
    "", "?fieldManager=f", "?fieldManager=f&force=true", "?dryRun=All", "?fieldValidation=Strict", "?limit=3",
    "?watch=1&timeoutSeconds=1", "?labelSelector=a%3Db", "?fieldSelector=metadata.name%3Dx", "?resourceVersion=1",
    "?continue=eyJydiI6MX0", "?propagationPolicy=Foreground", "?limit=--5", "?limit=%C2%B2", "?fieldSelector=type%21%3Da%5C%2Cb",
    "?resourceVersionMatch=Exact&resourceVersion=%C2%B2", "?resourceVersionMatch=Exact&resourceVersion=3",
    "?labelSelector=a%3E%D9%A3", "?continue=eyJydiI6Mywic3RhcnQiOiJhIn0&limit=1",
    "?watch=1&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=1",
)  # fmt: skip


def _bodies() -> list[bytes]:
    patch = [{"op": op, "path": "/spec/size", "from": "/spec", "value": 3} for op in ("add", "copy", "move", "test")]
    review = {"spec": {"resourceAttributes": {"verb": "get", "resource": "nodes"}}}
    values: list[object] = [
        widget("w1"), widget_definition(), patch, review, {"metadata": {"name": "a"}, "data": {"a": "b"}},
        {"spec": {"size": None, "parts": [{"name": "a", "$patch": "delete"}]}}, {"status": {"conditions": [{}]}},
        {"metadata": {"finalizers": ["a/b"], "ownerReferences": [{"uid": "1"}], "managedFields": [{"fieldsV1": {}}]}},
        {"kind": "DeleteOptions", "preconditions": {"uid": "x"}}, [], None, "text", 1e308,
        {"$retainKeys": ["a"], "metadata": {"$deleteFromPrimitiveList/finalizers": ["a/b"], "$setElementOrder/finalizers": ["a"]}},
        {"metadata": {"name": "r"}, "roleRef": {"kind": "ClusterRole", "name": "view"}, "subjects": [{"kind": "User"}]},
        {"spec": {"replicas": 2, "expirationSeconds": 600, "audiences": ["a"], "leaseDurationSeconds": 1e15}},
    ]  # fmt: skip
    return [*map(orjson.dumps, values), b"", b"a: &a [*a]\n", b"- {<<: *b}\n", b"k8s\x00" + bytes(20), b"\x1f\x8b\x08"]


def _spoiled(chance: random.Random, data: bytes) -> bytes:
    """A few bytes changed, doubled, taken out, or brought from elsewhere."""
    spoiled = bytearray(data)
    for _ in range(chance.choice((0, 0, 1, 1, 2, 5, 20))):
        at = chance.randrange(len(spoiled) + 1)
        match chance.randrange(5):
            case 0:
                spoiled[at:at] = chance.choice(
                    (b"{", b"}", b"[", b'"', b"null", b"-1", b"9" * 40, b"\\ud800", b"\xff", b":")
                )
            case 1:
                del spoiled[at : at + chance.randrange(1, 6)]
            case 2:
                spoiled[at:at] = spoiled[at : at + 40] * chance.choice((1, 2, 30))
            case 3 if at < len(spoiled):
                spoiled[at] = chance.randrange(256)
            case _:
                other = spoiled[chance.randrange(len(spoiled) + 1) :][:20]
                spoiled[at : at + len(other)] = other
    return bytes(spoiled)


def _request(chance: random.Random, bodies: list[bytes]) -> bytes:
    method = chance.choice((b"GET", b"POST", b"PUT", b"PATCH", b"DELETE", b"HEAD", b"OPTIONS"))
    target = (chance.choice(_PATHS) + chance.choice(_QUERIES)).encode()
    if chance.random() < 0.2 and b"watch" not in target:  # a watch without its end would be waited for
        target = b"/" + bytes(b for b in _spoiled(chance, target[1:]) if 32 < b < 127)
    body = _spoiled(chance, chance.choice(bodies))
    head = [method + b" " + target + b" HTTP/1.1", b"Host: x", b"Content-Type: " + chance.choice(_MEDIA)]
    if chance.random() < 0.1:
        head.append(b"Content-Encoding: " + chance.choice((b"gzip", b"deflate", b"br")))
    if chance.random() < 0.2:
        forms = (b"application/yaml", b"application/json;as=Table;g=meta.k8s.io;v=v1", b"*/*")
        head.append(b"Accept: " + chance.choice(forms))
    if chance.random() < 0.1:
        named = (
            b"Impersonate-User: ",
            b"Impersonate-Group: ",
            b"User-Agent: ",
            b"Impersonate-Extra-",
            b"Authorization: Bearer ",
        )
        head.append(chance.choice(named) + chance.choice((b"a", b"\xff", b"a: b", b"a.b.c", b"%zz: \xc3\xa4")))
    head.append(b"Content-Length: %d" % len(body))
    return b"\r\n".join(head) + b"\r\n\r\n" + body


async def _answer(reader: asyncio.StreamReader, head_only: bool) -> int:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    code = int(head[9:12])
    if head_only or code in (204, 304):
        return code
    if b"chunked" in head:
        while size := int(await reader.readline(), 16):
            await reader.readexactly(size + 2)
        await reader.readexactly(2)
    else:
        at = head.index(b"content-length:") + 15
        await reader.readexactly(int(head[at : head.index(b"\r", at)]))
    return code


async def _fuzz(port: int, context: ssl.SSLContext, count: int, seed: int, codes: dict[int, int]) -> None:
    chance, bodies = random.Random(seed), _bodies()
    reader: asyncio.StreamReader | None = None
    writer: asyncio.StreamWriter | None = None
    for _ in range(count):
        request = _request(chance, bodies)
        if reader is None or writer is None:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, limit=1 << 24)
        try:
            writer.write(request)
            async with asyncio.timeout(120):
                code = await _answer(reader, request.startswith(b"HEAD"))
        except (ConnectionError, asyncio.IncompleteReadError):
            code, reader = 0, None
        if code == 500 and b"/readyz" not in request:
            raise AssertionError(request)
        codes[code] = codes.get(code, 0) + 1
        if code in (0, 400) and writer is not None:  # what was no HTTP ends the connection
            writer.close()
            reader = None
    if writer is not None:
        writer.close()


async def _run(tmp_path: Path, count: int) -> dict[int, int]:
    codes: dict[int, int] = {}
    async with ApiServer(settings(tmp_path)) as api, Client(api.url, tmp_path / "pki") as client:
        await client.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", widget_definition())
        usual = await ordinary(client)
        port, context = int(api.url.rpartition(":")[2]), client.context()
        share = count // CLIENTS
        async with Turns() as turns:
            await asyncio.gather(*(_fuzz(port, context, share, SEED + n, codes) for n in range(CLIENTS)))
        assert (await client.get("/livez"))[0] == 200
        assert turns.longest <= 400 * usual, f"{turns.longest:.3f} s against {usual:.3f} s"
        assert turns.grown <= 512 << 20, f"{turns.grown >> 20} MiB"
    return codes


@pytest.mark.slow
async def test_a_thousand_spoiled_requests_are_answered_and_never_with_500(tmp_path: Path) -> None:
    codes = await _run(tmp_path, 1000)
    assert sum(codes.values()) == 1000 and codes.get(200, 0) > 50 and codes.get(400, 0) > 50


@pytest.mark.long
async def test_a_hundred_thousand_spoiled_requests_are_answered_and_never_with_500(tmp_path: Path) -> None:
    codes = await _run(tmp_path, COUNT)
    assert sum(codes.values()) == COUNT
