"""Who is let in, and whose requests count: links, sessions, hosts, origins."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

import aiohttp
import pytest

from rackless.errors import InputError, LabError
from rackless.web import access
from rackless.web.access import WebAccess
from rackless.web.server import WebSettings, serve
from tests.web.fake_labd import FakeLabd, make_labd, make_roots
from tests.web.stage import Stage, fake_drivers, stage, token_of


async def test_without_a_link_nothing_is_shown(labd: FakeLabd) -> None:
    async with stage(labd.paths.roots) as page:
        for path in ("/", "/static/app.js", "/api/labs", "/api/labs/lab/rack", "/api/labs/lab/live", "/nothing"):
            status, answer = await page.get(path)
            assert status == 401 and "link" in answer["error"]["hint"], path


async def test_a_person_without_a_link_gets_a_page_that_says_so_and_a_program_gets_json(labd: FakeLabd) -> None:
    async with stage(labd.paths.roots) as page:
        for path in ("/", "/?token=wrong"):
            async with page.http.get(page.base + path, headers={"Accept": "text/html,*/*"}) as answer:
                text, policy = await answer.text(), answer.headers["Content-Security-Policy"]
                assert answer.status in (401, 403) and "<h1>" in text and "<code>rackless web</code>" in text
                style = text.partition("<style>")[2].partition("</style>")[0]
                digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
                assert f"style-src 'sha256-{digest}'" in policy and "default-src 'none'" in policy
        for path in ("/api/labs", "/static/app.js"):
            status, answer_json = await page.get(path, headers={"Accept": "text/html"})
            assert status == 401 and "link" in answer_json["error"]["hint"]


async def test_a_link_that_is_wrong_lets_nobody_in_and_leaves_the_right_one(labd: FakeLabd) -> None:
    async with stage(labd.paths.roots) as page:
        for token in ("", "x", token_of(page.place)[:-1], token_of(page.place) + "x"):
            async with page.http.get(f"{page.base}/", params={"token": token}) as answer:
                assert answer.status == 403 and "Set-Cookie" not in answer.headers
        await page.enter()
        assert (await page.get("/api/labs"))[0] == 200


async def test_a_link_is_used_once_and_becomes_a_cookie_that_scripts_and_other_sites_cannot_use(labd: FakeLabd) -> None:
    async with stage(labd.paths.roots) as page:
        async with page.http.get(page.place.url) as answer:
            cookie = answer.headers["Set-Cookie"]
            assert "HttpOnly" in cookie and "SameSite=Strict" in cookie and "Path=/" in cookie
            assert token_of(page.place) not in cookie + await answer.text()
        async with aiohttp.ClientSession() as other, other.get(page.place.url) as answer:
            assert answer.status == 403 and "Set-Cookie" not in answer.headers
        assert (await page.get("/api/session")) == (200, {"read_only": False})


async def test_a_browser_that_looks_ahead_does_not_use_the_link_up(labd: FakeLabd) -> None:
    async with stage(labd.paths.roots) as page:
        async with page.http.get(page.place.url, headers={"Sec-Purpose": "prefetch"}) as answer:
            assert answer.status == 403
        await page.enter()


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "[::2]:1", "localhost:x"]
)
async def test_a_name_that_was_made_to_lead_here_is_refused_with_and_without_a_link(page: Stage, host: str) -> None:
    for path in ("/", "/api/labs", f"/?token={token_of(page.place)}"):
        assert (await page.get(path, headers={"Host": host}))[0] in (400, 421)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:9000", "[::1]:1", "LOCALHOST:2"])
async def test_a_tunnel_with_another_port_is_let_through(page: Stage, host: str) -> None:
    assert (await page.get("/api/labs", headers={"Host": host}))[0] == 200


async def test_somebody_elses_page_changes_nothing(page: Stage, labd: FakeLabd) -> None:
    place = "/api/labs/lab/servers/ctrl-0/power"
    for headers in (
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},  # another port of this computer
        {"Origin": f"https://127.0.0.1:{page.place.port}"},
        {"Origin": page.base, "Sec-Fetch-Site": "same-site"},
        {"Origin": page.base, "Sec-Fetch-Site": "cross-site"},
    ):
        assert (await page.post(place, {"action": "off"}, **headers))[0] == 403, headers
    async with page.http.post(page.base + place, json={"action": "off"}) as answer:
        assert answer.status == 403, "no origin at all"
    async with page.http.post(page.base + place, data='{"action":"off"}', headers=page.origin) as answer:
        assert answer.status == 415, "what a form can send"
    assert labd.asked == []
    assert (await page.post(place, {"action": "off"}))[0] == 200 and len(labd.asked) == 1


async def test_somebody_elses_page_hears_nothing_over_a_websocket_and_sees_no_picture(page: Stage) -> None:
    for path in ("/api/labs/lab/live", "/api/labs/lab/servers/ctrl-0/console"):
        for headers in ({"Origin": "https://evil.example"}, {}, {"Origin": "http://localhost:1"}):
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await page.http.ws_connect(page.base + path, headers=headers)
            assert refused.value.status == 403
    status, _ = await page.get("/api/labs/lab/servers/ctrl-0/screen", headers={"Sec-Fetch-Site": "same-site"})
    assert status == 403


async def test_every_answer_forbids_what_the_page_does_not_need(page: Stage) -> None:
    for path in ("/", "/static/app.js", "/api/labs", "/api/labs/none/rack", "/nothing"):
        async with page.http.get(page.base + path) as answer:
            policy = answer.headers["Content-Security-Policy"]
            assert "default-src 'none'" in policy and "script-src 'self';" in policy and "unsafe" not in policy
            assert "frame-ancestors 'none'" in policy and "require-trusted-types-for 'script'" in policy
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            assert answer.headers["Cache-Control"] == "no-store" and "Access-Control-Allow-Origin" not in answer.headers


async def test_no_path_of_a_request_reaches_the_disk(page: Stage) -> None:
    for name in ("..%2fapp.py", "%2e%2e/app.py", "....//app.py", "nothing.js", "__init__.py"):
        async with page.http.get(f"{page.base}/static/{name}") as answer:
            assert answer.status == 404


async def test_who_may_only_look_changes_nothing_and_types_nothing(labd: FakeLabd) -> None:
    async with stage(labd.paths.roots, read_only=True) as page:
        await page.enter()
        assert (await page.get("/api/session")) == (200, {"read_only": True})
        for path, value in (
            ("/api/labs/lab/servers/ctrl-0/power", {"action": "off"}),
            ("/api/labs/lab/servers/ctrl-0/host", {"verb": "inspect"}),
            ("/api/labs/lab/faults", {"trouble": "drop"}),
            ("/api/labs/lab/faults/clear", {"ids": []}),
            ("/api/labs/lab/plan", {"text": ""}),
            ("/api/links", {"read_only": False}),
        ):
            status, answer = await page.post(path, value)
            assert status == 403 and "look" in answer["error"]["what"], path
        address = f"{page.base}/api/labs/lab/servers/ctrl-0/console"
        async with page.http.ws_connect(address, headers=page.origin) as console:
            assert (await console.receive_json())["typing"] is False
            await console.send_str("rm -rf /\r")
            labd.say("ctrl-0", b"login: ")
            assert "login:" in await console.receive_str()
        assert labd.asked == [] and labd.typed == {}


async def test_a_link_for_another_browser_may_only_look_when_that_was_asked(page: Stage) -> None:
    for read_only in (True, False):
        status, link = await page.post("/api/links", {"read_only": read_only})
        assert status == 200
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as other:
            async with other.get(link["url"]) as answer:
                assert answer.status == 200
            async with other.get(f"{page.base}/api/session") as answer:
                assert await answer.json() == {"read_only": read_only}


def test_links_and_sessions_are_bounded() -> None:
    door = WebAccess(read_only=False)
    first = door.make_link()
    for _ in range(access.MOST_LINKS):
        last = door.make_link()
    assert door.enter(first) is None, "it made room"
    session = door.enter(last)
    assert door.session(session) is not None
    for _ in range(access.MOST_SESSIONS):
        door.enter(door.make_link())
    assert door.session(session) is None and door.session(None) is None and door.session("x") is None


def test_hosts_are_read_as_browsers_write_them() -> None:
    names = {
        "127.0.0.1:80": "127.0.0.1",
        "[::1]": "::1",
        "[::1]:80": "::1",
        "a:": "",
        "[::1": "",
        "[::1]x": "",
        "a:1:2": "",
    }
    assert {host: access.host_name(host) for host in names} == names


async def test_outside_loopback_a_lab_is_named_and_an_address_is_one(tmp_path: Path) -> None:
    roots = make_roots(tmp_path)
    make_labd(roots)
    for address, only, problem in (
        ("0.0.0.0", "lab", "all of them"),
        ("192.0.2.1", None, "which lab"),
        ("x", None, "no address"),
    ):
        with pytest.raises(InputError, match=problem):
            await serve(WebSettings(roots, address, only=only), fake_drivers(), lambda _: {}, lambda _: None)
    with pytest.raises(LabError):
        await serve(WebSettings(roots, "192.0.2.1", only="other"), fake_drivers(), lambda _: {}, lambda _: None)
