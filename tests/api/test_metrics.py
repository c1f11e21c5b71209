from __future__ import annotations

import re

from rackless.api.metrics import Metrics, RequestSubject
from tests.api.conftest import WIDGETS, Client, widget

_LINE = re.compile(
    r'[a-z_]+(\{([a-z_]+="([^"\\\n]|\\[\\"n])*"(,[a-z_]+="([^"\\\n]|\\[\\"n])*")*)?\})? (-?\d+(\.\d+)?(e-?\d+)?|\+Inf)'
)


async def _page(client: Client) -> dict[str, float]:
    code, page = await client.get("/metrics")
    assert code == 200 and client.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    lines = [line for line in page.splitlines() if not line.startswith("#")]
    assert all(_LINE.fullmatch(line) for line in lines), [line for line in lines if not _LINE.fullmatch(line)]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


async def test_requests_are_counted_by_what_they_asked_and_how_they_ended(client: Client) -> None:
    await client.create(WIDGETS, widget("a"))
    await client.call("POST", WIDGETS, widget("a"))
    await client.get(f"{WIDGETS}/a")
    await client.get("/apis/example.com/v1/namespaces/default/nothing/like/this")
    page = await _page(client)
    labels = 'group="example.com",version="v1",resource="widgets",subresource=""'
    total = "apiserver_request_total"
    assert page[f'{total}{{verb="create",{labels},code="201"}}'] == 1
    assert page[f'{total}{{verb="create",{labels},code="409"}}'] == 1
    assert page[f'{total}{{verb="get",{labels},code="200"}}'] == 1
    assert page[f'apiserver_request_duration_seconds_count{{verb="create",{labels}}}'] == 2
    assert page[f'apiserver_request_duration_seconds_bucket{{verb="create",{labels},le="+Inf"}}'] == 2
    assert not any("nothing" in name for name in page), "labels come from what is served, never from a client"
    assert page["rackless_store_commit_duration_seconds_count"] >= 2 and page["rackless_store_up"] == 1
    assert page['apiserver_storage_objects{group="example.com",resource="widgets"}'] == 1
    assert page['rackless_task_up{task="keeper"}'] == 1 and page['rackless_queue_length{queue="heavy"}'] == 0


async def test_watches_are_counted_while_they_are_open_and_not_among_requests_under_way(client: Client) -> None:
    name = 'apiserver_longrunning_requests{verb="watch",group="example.com",version="v1",resource="widgets",subresource=""}'
    assert client.session
    async with client.session.get(client.url + WIDGETS, params={"watch": "1", "resourceVersion": "0"}):
        page = await _page(client)
        assert page[name] == 1 and page['apiserver_current_inflight_requests{request_kind="readOnly"}'] == 0
    async with client.session.get(client.url + WIDGETS, params={"watch": "1", "timeoutSeconds": "1"}) as response:
        await response.read()
    assert (await _page(client))[f'{name.replace("longrunning_requests", "request_total")[:-1]},code="200"}}'] >= 1


async def test_metrics_are_not_for_everybody(client: Client) -> None:
    import aiohttp

    connector = aiohttp.TCPConnector(ssl=client.context(certificate=False))
    async with aiohttp.ClientSession(connector=connector) as session:
        async with session.get(client.url + "/metrics") as response:
            assert response.status == 403


def test_labels_are_quoted() -> None:
    metrics = Metrics()
    metrics.count(RequestSubject('a"b\\c\nd'), 200, 0.1)
    assert rb'verb="a\"b\\c\nd"' in metrics.page()
