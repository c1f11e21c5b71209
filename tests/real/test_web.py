"""The page in a real browser, before labs that are fakes: every view, every action, and everybody who should not be there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web
from playwright.async_api import Browser, expect

from rackless.operations import hosts
from rackless.protocol import messages as say
from rackless.protocol.event_log import EventLog
from tests.web.browser import AXE, CHROMIUM, chromium, sit_down
from tests.web.demo import dress, write_story
from tests.web.demo import host as record
from tests.web.fake_labd import FakeLabd, make_labd, make_roots, running
from tests.web.stage import Stage, stage

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not Path(CHROMIUM).exists(), reason="chromium is not installed here"),
]
VIEWS = {
    "lab/rack": ".server .led.on",
    "lab/server/ctrl-0": ".terminal >> text=ctrl-0 login:",
    "lab/install": ".chart svg rect",
    "lab/objects/hosts/worker-2": "pre.log >> text=errorMessage",
    "lab/description": "textarea.yaml",
}
POWER_OFF = """fetch('/api/labs/lab/servers/ctrl-0/power', {
    method: 'POST', headers: {'Content-Type': 'application/json'}, body: '{"action": "off"}',
}).then(answer => answer.status)"""
ENEMY = """async base => {
    const socket = path => new Promise(done => {
        const line = new WebSocket(base.replace('http', 'ws') + path);
        line.onmessage = () => done('heard'); line.onerror = () => done('refused');
    });
    const post = type => fetch(base + '/api/labs/lab/servers/ctrl-0/power', {
        method: 'POST', mode: 'no-cors', credentials: 'include', headers: {'Content-Type': type},
        body: '{"action": "off"}',
    }).then(() => 'sent', () => 'refused');
    const image = new Promise(done => {
        const picture = new Image();
        picture.onload = () => done('seen'); picture.onerror = () => done('refused');
        picture.src = base + '/api/labs/lab/servers/ctrl-0/screen';
    });
    const read = fetch(base + '/api/labs/lab/rack', {credentials: 'include'}).then(() => 'read', () => 'refused');
    await post('text/plain'); await post('application/json');
    const console = socket('/api/labs/lab/servers/ctrl-0/console');
    return [await socket('/api/labs/lab/live'), await console, await image, await read];
}"""
HOSTILE = "<img src=x onerror=\"alert('owned')\"><script>alert('owned')</script>"


@pytest.fixture(autouse=True)
def root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "require_root", lambda _: None)


@pytest.fixture
async def labd(tmp_path: Path) -> AsyncIterator[FakeLabd]:
    made = make_labd(make_roots(tmp_path), "lab", workers=3)
    dress(made)
    write_story(EventLog(made.paths.events), [server.name for server in made.status.servers])
    async with running(made):
        yield made


@pytest.fixture
async def page(labd: FakeLabd) -> AsyncIterator[Stage]:
    async with stage(labd.paths.roots) as found:
        yield found


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as found:
        yield found


async def test_every_view_shows_the_lab_without_an_error_and_live(
    page: Stage, labd: FakeLabd, browser: Browser
) -> None:
    person = await sit_down(browser)
    await person.open(page.place.url)
    assert "token" not in person.tab.url
    for where, there in VIEWS.items():
        await person.go(where, there)
    await person.go("lab/rack", ".server .led.on")
    card = person.tab.locator(".server", has_text="ctrl-1")
    await expect(card.locator(".led")).to_have_class("led on")
    await expect(person.tab.locator(".server", has_text="ctrl-0").locator(".vip")).to_be_visible()
    labd.set_server("ctrl-1", power="off", host="cleaning")
    labd.bus.info("somebody pulled the plug", subject="server/ctrl-1")
    await expect(card.locator(".led")).to_have_class("led off")
    await expect(card).to_contain_text("cleaning")
    await expect(person.tab.locator("#events li").first).to_contain_text("somebody pulled the plug")
    await person.go("lab/install", ".finding")
    await expect(person.tab.locator(".finding").first).to_contain_text("worker-2")
    await expect(person.tab.locator(".bar-estimate").first).to_be_attached()
    assert person.wrong == []


async def test_every_action_is_done(page: Stage, labd: FakeLabd, browser: Browser) -> None:
    person = await sit_down(browser)
    await person.open(page.place.url)
    tab = person.tab
    await person.go("lab/server/ctrl-0", ".terminal >> text=ctrl-0 login:")
    await tab.get_by_role("button", name="Off", exact=True).click()
    await tab.locator("dialog").get_by_role("button", name="Cancel").click()
    await tab.get_by_role("button", name="Off", exact=True).click()
    await tab.locator("dialog").get_by_role("button", name="Off").click()
    await expect(tab.locator(".title .led")).to_have_class("led off")
    await tab.locator(".terminal").click()
    await tab.keyboard.type("root")
    await tab.keyboard.press("Enter")
    await tab.keyboard.press("Control+c")
    await expect(tab.locator(".terminal")).to_contain_text("login: root")
    await tab.get_by_role("button", name="Let it happen").click()
    await expect(tab.get_by_text("fault 2: delay").first).to_be_visible()
    await tab.get_by_role("button", name="Take away").first.click()
    await expect(tab.get_by_text("None was asked for.")).to_be_visible()
    await tab.get_by_role("button", name="Retry").click()
    await expect(tab.get_by_text("ctrl-0: inspecting").first).to_be_visible()
    assert labd.asked == [
        say.PressPower("ctrl-0", "off"),
        say.FaultWish("delay", "ctrl-0"),
        say.ClearFaults((2,)),
        say.HostWish("retry", "ctrl-0", wait=False),
    ]
    assert labd.typed["ctrl-0"] == b"root\r\x03"
    assert person.wrong == []


async def test_an_edit_is_planned_and_a_link_is_for_who_may_only_look(
    page: Stage, labd: FakeLabd, browser: Browser
) -> None:
    person = await sit_down(browser)
    await person.open(page.place.url)
    tab = person.tab
    await person.go("lab/description", "textarea.yaml")
    text = tab.locator("textarea.yaml")
    await expect(text).to_have_value(
        "name: lab\nservers:\n  ctrl:\n    role: control-plane\n    count: 3\n  worker:\n    count: 3\n"
    )
    await text.fill((await text.input_value()).replace("worker:\n    count: 3", "worker:\n    count: 9"))
    await tab.get_by_role("button", name="What would").click()
    await expect(tab.get_by_role("row", name="create server/worker-8")).to_be_visible()
    await tab.get_by_role("button", name="Share").click()
    link = await tab.locator("code.link").inner_text()
    guest = await sit_down(browser)
    await guest.open(link)
    await guest.go("lab/server/ctrl-0", ".terminal >> text=ctrl-0 login:")
    for name in ("On", "Off", "Let it happen", "Retry"):
        await expect(guest.tab.get_by_role("button", name=name, exact=True)).to_be_disabled()
    await expect(guest.tab.get_by_text("You may look.")).to_be_visible()
    answer = await guest.tab.evaluate(POWER_OFF)
    assert answer == 403 and labd.asked == [] and person.wrong == []


async def test_two_labs_are_one_choice_apart(page: Stage, labd: FakeLabd, browser: Browser) -> None:
    async with running(make_labd(labd.paths.roots, "other", workers=5)):
        person = await sit_down(browser)
        await person.open(page.place.url)
        await expect(person.tab.locator(".server")).to_have_count(6)
        await person.tab.get_by_label("Lab").select_option("other")
        await expect(person.tab.locator(".server")).to_have_count(8)
        await expect(person.tab.locator("#events li")).to_have_count(0)
        assert person.wrong == []


async def test_a_daemon_that_is_killed_and_comes_back_costs_no_event(
    page: Stage, labd: FakeLabd, browser: Browser
) -> None:
    person = await sit_down(browser)
    await person.open(page.place.url)
    for number in range(3):
        labd.bus.info(f"before-{number}")
    await labd.stop()
    await expect(person.tab.locator("#state")).to_have_text("labd not running")
    await labd.start()
    for number in range(3):
        labd.bus.info(f"after-{number}")
    await expect(person.tab.locator("#state")).to_have_text("live")
    await expect(person.tab.locator("#events li").first).to_contain_text("after-2")
    said = await person.tab.locator("#events li .text").all_inner_texts()
    assert [text for text in said if text.startswith(("before", "after"))] == [
        "after-2", "after-1", "after-0", "before-2", "before-1", "before-0",
    ]  # fmt: skip


async def test_who_lost_the_page_is_told_the_rest_and_who_is_forgotten_is_told_that(
    labd: FakeLabd, browser: Browser
) -> None:
    person = await sit_down(browser)
    async with stage(labd.paths.roots) as page:
        await person.open(page.place.url)
        await person.tab.context.set_offline(True)
        await person.tab.evaluate("fetch('/api/session').catch(() => 0)")
    await expect(person.tab.locator("#state")).to_have_text("reconnecting")
    async with stage(labd.paths.roots, port=page.place.port):
        await person.tab.context.set_offline(False)
        await expect(person.tab.locator("#state")).to_have_text("ended: open a new link")


async def test_nothing_that_a_lab_says_becomes_part_of_the_page(page: Stage, labd: FakeLabd, browser: Browser) -> None:
    labd.set_server("ctrl-1", error=HOSTILE, host=HOSTILE)
    first = replace(labd.status.servers[0], name=HOSTILE)
    labd.status = replace(labd.status, warnings=(HOSTILE,), servers=(first, *labd.status.servers[1:]))
    labd.hosts = (record(HOSTILE, HOSTILE, HOSTILE), *labd.hosts)
    labd.said["ctrl-1"] = b"\x1b]0;" + HOSTILE.encode() + b"\x07" + HOSTILE.encode() + b"\r\nend"
    (labd.paths.logs / "labd.log").write_text(HOSTILE)
    labd.bus.info(HOSTILE, subject=f"host/{HOSTILE}")
    with labd.bus.step(HOSTILE, subject=f"host/{HOSTILE}") as step:
        step.detail = HOSTILE
    person = await sit_down(browser)
    await person.open(page.place.url)
    await person.go("lab/rack", ".notes li")
    await expect(person.tab.locator(".notes")).to_contain_text(HOSTILE)
    await expect(person.tab.locator(".server .name").first).to_have_text(HOSTILE)
    await expect(person.tab.locator("#events li .text").first).to_contain_text("alert('owned')")
    await person.go("lab/server/ctrl-1", ".terminal >> text=end")
    await expect(person.tab.locator(".terminal pre").first).to_have_text(HOSTILE)
    await person.go("lab/install", ".chart svg rect")
    await expect(person.tab.locator("pre.log")).to_have_text(HOSTILE)
    await person.go("lab/objects", "[data-object]")
    await person.tab.locator("[data-object]").first.click()
    await expect(person.tab.locator("pre.log")).to_contain_text("onerror")
    assert await person.tab.evaluate("document.querySelectorAll('img[src=x], script:not([type=module])').length") == 0
    assert [one for one in person.wrong if "dialog" in one or "Content Security" in one] == []
    refused = await person.tab.evaluate(
        "(() => { try { document.body.innerHTML = '<b>x</b>'; } catch { return true; } })()"
    )
    assert refused, "the browser itself refuses to parse text as HTML here"


async def test_a_page_of_somebody_else_can_neither_do_nor_hear_anything(
    page: Stage, labd: FakeLabd, browser: Browser
) -> None:
    """From another port of this computer: the nearest that an enemy can be. The cookie is sent, and does not count."""
    looks = []

    async def enemy(_: web.Request) -> web.Response:
        return web.Response(text="<!doctype html><title>enemy</title>", content_type="text/html")

    app = web.Application()
    app.router.add_get("/", enemy)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        person = await sit_down(browser)
        await person.open(page.place.url)
        own = await person.tab.evaluate("fetch('/api/labs').then(a => a.status)")
        assert own == 200
        looks = labd.asked[:]
        await person.tab.goto(f"http://127.0.0.1:{runner.addresses[0][1]}/")
        told = await person.tab.evaluate(
            ENEMY,
            page.base,
        )
        assert told == ["refused"] * 4 and labd.asked == looks == [] and labd.typed == {}
    finally:
        await runner.cleanup()


async def test_without_a_link_or_with_a_used_one_there_is_a_word_and_no_lab(page: Stage, browser: Browser) -> None:
    person = await sit_down(browser)
    await person.open(page.place.url)
    stranger = await sit_down(browser)
    for address in (page.base, page.place.url, f"{page.base}/?token=wrong"):
        await stranger.tab.goto(address)
        text = await stranger.tab.locator("body").inner_text()
        assert "link" in text.lower() and "ctrl-0" not in text


async def test_it_is_worked_by_keyboard(page: Stage, browser: Browser) -> None:
    person = await sit_down(browser)
    await person.open(page.place.url)
    tab = person.tab
    await tab.wait_for_selector(".server .led.on")
    await tab.keyboard.press("Tab")
    await expect(tab.locator(".skip")).to_be_focused()
    await tab.keyboard.press("2")
    await tab.wait_for_selector(".chart svg")
    await tab.keyboard.press("1")
    unit = tab.locator(".server .unit").first
    await unit.focus()
    await tab.keyboard.press("Enter")
    await tab.wait_for_selector(".terminal")
    await tab.locator(".terminal textarea").focus()
    await tab.keyboard.press("Control+]")
    await expect(tab.locator(".terminal")).to_be_focused()
    await tab.get_by_role("button", name="Off", exact=True).press("Enter")
    await expect(tab.locator("dialog").get_by_role("button", name="Cancel")).to_be_focused()
    await tab.keyboard.press("Escape")
    await expect(tab.locator("dialog")).to_be_hidden()


@pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed here")
@pytest.mark.parametrize(("theme", "width"), [("light", 390), ("dark", 1280)])
async def test_axe_finds_nothing_serious(page: Stage, browser: Browser, theme: str, width: int) -> None:
    person = await sit_down(browser, bypass_csp=True, color_scheme=theme, viewport={"width": width, "height": 800})
    await person.open(page.place.url)
    for where, there in VIEWS.items():
        await person.go(where, there)
        assert await person.serious() == [], where
        wide = await person.tab.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, f"{where} is wider than the screen"
