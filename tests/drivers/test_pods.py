"""Evictions as a Kubernetes API takes and refuses them. No API server with pods is here: a stand-in answers as one does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
from aiohttp import web

from rackless.drivers.kubernetes.pods import KubernetesPods
from rackless.ports.resources import Record
from tests.drivers.test_kubernetes import Quick

BUDGET = "Cannot evict pod as it would violate the pod's disruption budget."


@dataclass
class Cluster:
    answers: list[int]
    asked: list[Record] = field(default_factory=list)
    selectors: list[str] = field(default_factory=list)

    async def pods(self, request: web.Request) -> web.Response:
        self.selectors.append(request.query["fieldSelector"])
        return web.json_response({"kind": "PodList", "items": [pod()]})

    async def evict(self, request: web.Request) -> web.Response:
        self.asked.append({"path": request.path, **(await request.json())})
        code = self.answers.pop(0)
        said = BUDGET if code == 429 else f"said {code}"
        return web.json_response({"kind": "Status", "code": code, "message": said}, status=code)


def pod() -> Record:
    return {"metadata": {"name": "web-1", "namespace": "shop", "uid": "u-1"}}


@pytest.fixture
async def cluster() -> AsyncIterator[tuple[Cluster, KubernetesPods]]:
    found = Cluster([])
    app = web.Application()
    app.add_routes(
        [
            web.get("/api/v1/pods", found.pods),
            web.post("/api/v1/namespaces/shop/pods/web-1/eviction", found.evict),
        ]
    )
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    [(host, port)] = [address[:2] for address in runner.addresses]
    pods = KubernetesPods(_Plain(f"http://{host}:{port}"), clock=Quick())  # type: ignore[arg-type]
    yield found, pods
    await pods.close()
    await runner.cleanup()


@dataclass(frozen=True)
class _Plain:
    """Without TLS: what is spoken of here is what is said, not to whom."""

    url: str
    token: str = ""

    def tls(self) -> bool:
        return False


async def test_the_pods_of_one_node_are_asked_for(cluster: tuple[Cluster, KubernetesPods]) -> None:
    api, pods = cluster
    assert await pods.on("worker-0") == [pod()] and api.selectors == ["spec.nodeName=worker-0"]


async def test_this_very_pod_is_evicted_with_its_grace(cluster: tuple[Cluster, KubernetesPods]) -> None:
    api, pods = cluster
    api.answers = [201, 201]
    assert await pods.evict(pod()) == "" and await pods.evict(pod(), grace=1) == ""
    first, second = api.asked
    assert (first["apiVersion"], first["kind"]) == ("policy/v1", "Eviction")
    assert first["metadata"] == {"name": "web-1", "namespace": "shop"}
    assert first["deleteOptions"] == {"preconditions": {"uid": "u-1"}}
    assert second["deleteOptions"]["gracePeriodSeconds"] == 1


async def test_a_budget_is_a_reason_and_a_pod_that_is_gone_is_none(cluster: tuple[Cluster, KubernetesPods]) -> None:
    api, pods = cluster
    api.answers = [429, 404, 409, 403]
    assert [await pods.evict(pod()) for _ in range(4)] == [BUDGET, "", "", "said 403"]
    assert len(api.asked) == 4, "a budget is not asked again and again: others come first"


async def test_an_api_that_has_too_much_to_do_is_asked_again(cluster: tuple[Cluster, KubernetesPods]) -> None:
    api, pods = cluster
    api.answers = [503, 201]
    assert await pods.evict(pod()) == "" and len(api.asked) == 2
