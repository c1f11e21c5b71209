"""The page in a real browser, before fake labs and a real one: every view, every action, and everybody who should not be there."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web
from playwright.async_api import Browser, ViewportSize, expect

from rackless.diagnosis.estimates import Estimates, save
from rackless.lab.capture import HEADER
from rackless.protocol import messages as say
from rackless.protocol.event_log import EventLog
from tests.real.conftest import PretendHost, kill
from tests.real.test_lab_life import describe
from tests.real.test_lab_use import begin
from tests.web.browser import AXE, CHROMIUM, Person, chromium, sit_down
from tests.web.demo import dress, dress_ipi, write_ipi_story, write_story
from tests.web.demo import host as record
from tests.web.fake_labd import FakeLabd, make_labd, make_roots, running
from tests.web.stage import Screens, Stage, fake_drivers, stage

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not Path(CHROMIUM).exists(), reason="chromium is not installed here"),
]
VIEWS = {
    "lab/rack": ".server .led.on",
    "lab/server/ctrl-0": "td >> text=5200 rpm",
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
WIDER = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
LANES = "[...document.querySelectorAll('.chart .lane')].map(one => one.lastChild.data)"
LAPTOP, TELEPHONE = ViewportSize(width=1280, height=800), ViewportSize(width=390, height=844)
GATEWAY = "192.168.111.1"
HOSTILE = "<img src=x onerror=\"alert('owned')\"><script>alert('owned')</script>"


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
    save(labd.paths.roots.durations, Estimates({"host: inspecting": [5000.0]}))
    await person.go("lab/install", ".finding")
    await expect(person.tab.locator(".finding").first).to_contain_text("worker-2")
    await expect(person.tab.locator(".bar-estimate").first).to_be_attached()
    assert person.wrong == []


async def test_the_rack_shows_what_servers_boot_from_their_media_machines_and_networks(
    page: Stage, labd: FakeLabd, browser: Browser
) -> None:
    person = await sit_down(browser)
    await person.open(page.place.url)
    card = person.tab.locator(".server", has_text="worker-1")
    await expect(card).to_contain_text("boots cdrom once")
    await expect(card).to_contain_text("CD boot-6f7a.iso")
    await expect(person.tab.locator(".server", has_text="ctrl-0")).to_contain_text("Machine Running")
    cluster = person.tab.locator(".network", has_text="cluster")
    await expect(cluster.locator(".plug")).to_have_count(8)
    await expect(cluster).to_contain_text("at ctrl-0")
    await expect(cluster.locator(".chip", has_text="DHCP")).to_be_visible()
    assert labd.status.vip is not None
    labd.status = replace(labd.status, vip=replace(labd.status.vip, holders=("ctrl-2",), holder="ctrl-2"))
    labd.set_server("worker-1", boot="disk", boot_once=False, media=None, power="off")
    labd.bus.info("the VIP moved")
    await expect(cluster).to_contain_text("at ctrl-2")
    await expect(person.tab.locator(".server", has_text="ctrl-2").locator(".vip")).to_be_visible()
    await expect(card).to_contain_text("boots disk")
    await expect(card).not_to_contain_text("CD")
    await expect(cluster.locator(".plug", has_text="worker-1").locator(".tap")).to_have_class("tap off")
    assert person.wrong == []


async def test_metal_stands_in_the_rack_and_leads_to_its_record(page: Stage, labd: FakeLabd, browser: Browser) -> None:
    person = await sit_down(browser)
    await person.open(page.place.url)
    tab = person.tab
    await expect(tab.locator(".strip")).to_contain_text("1 of 2 taken")
    ours, theirs = (tab.locator(".metal", has_text=name) for name in ("rack1-u7", "rack1-u8"))
    await expect(ours.locator(".led")).to_have_class("led off")
    await expect(ours).to_contain_text("available")
    await expect(theirs.locator(".led")).to_have_class("led unknown")
    await expect(theirs).to_contain_text("rackless host take rack1-u8")
    failed = replace(labd.status.metal[0], power="on", host="inspecting", error="its BMC does not answer")
    labd.status = replace(labd.status, metal=(failed, labd.status.metal[1]))
    labd.bus.info("something happened")
    await expect(ours.locator(".led")).to_have_class("led on")
    await expect(ours.locator(".error")).to_have_text("its BMC does not answer")
    await expect(tab.locator(".notes")).to_contain_text("rack1-u7: its BMC does not answer")
    await theirs.locator("a").click()
    await expect(tab.locator("pre.log")).to_contain_text("name: rack1-u8")
    assert person.wrong == []


async def test_screens_are_taken_again(labd: FakeLabd, browser: Browser) -> None:
    screens = Screens()
    async with stage(labd.paths.roots, fake_drivers(screens)) as page:
        person = await sit_down(browser)
        await person.open(page.place.url)
        first = person.tab.locator(".server", has_text="ctrl-0").locator("img.screen")
        await expect(first).to_be_visible()
        before = await first.get_attribute("src")
        await expect(first).not_to_have_attribute("src", before or "")
        assert screens.taken.count("ctrl-0") > 1 and "worker-2" not in screens.taken, "that one is off"


async def test_the_install_has_logs_beside_its_chart_and_says_when_it_ends(
    page: Stage, labd: FakeLabd, browser: Browser
) -> None:
    save(labd.paths.roots.durations, Estimates({"host: inspecting": [5000.0]}))
    person = await sit_down(browser, viewport={"width": 1900, "height": 1000})
    await person.open(page.place.url)
    tab = person.tab
    await person.go("lab/install", ".bar-estimate")
    await expect(tab.locator(".left").first).to_contain_text("ends in about")
    boxes = [await tab.get_by_role("region", name=name, exact=True).bounding_box() for name in ("Steps", "Logs")]
    chart, logs = boxes
    assert chart and logs and logs["x"] > chart["x"] + chart["width"] and abs(logs["y"] - chart["y"]) < 5
    (labd.paths.logs / "labd.log").write_text("of worker-0\nof worker-1\n")
    await expect(tab.locator("pre.log")).to_contain_text("of worker-1")
    await tab.locator(".chart .lane", has_text="worker-0").click()
    await expect(tab.locator("pre.log")).to_have_text("of worker-0")
    await tab.get_by_text("As a table").click()
    await expect(tab.get_by_role("row", name="worker-0 inspecting")).to_contain_text("83m 20s")
    assert person.wrong == []


async def test_an_install_by_a_bootstrap_has_a_lane_for_each_server_estimates_and_what_is_wrong_on_top(
    tmp_path: Path, browser: Browser
) -> None:
    labd = make_labd(make_roots(tmp_path), "site", workers=2, more="\ncluster: {method: ipi}")
    dress_ipi(labd)
    usual = ("host: inspecting by_bootstrap=1", "host: provisioning by_bootstrap=1", "control plane servers=5")
    save(labd.paths.roots.durations, Estimates({step: [5000.0] for step in usual}))
    write_ipi_story(EventLog(labd.paths.events))
    async with running(labd), stage(labd.paths.roots) as page:
        person = await sit_down(browser)
        await person.open(page.place.url)
        tab = person.tab
        await expect(tab.locator(".strip")).to_contain_text("bootstrap")
        await expect(tab.locator(".stepper li")).to_have_text(["lab reached", "bmc reached"])
        await person.go("site/install", ".chart .lane")
        await expect(tab.locator(".finding").first).to_contain_text("ctrl-2")
        panels = [tab.get_by_role("region", name=name, exact=True) for name in ("Why", "Steps")]
        first, second = [await panel.bounding_box() for panel in panels]
        assert first and second and first["y"] < second["y"]
        assert await tab.evaluate(LANES) == ["the lab", "bootstrap", "ctrl-0", "ctrl-1", "ctrl-2"]
        await expect(tab.locator(".left")).to_contain_text("ends in about")
        await expect(tab.locator(".bar-estimate")).to_have_count(3)
        words = " ".join(await tab.locator(".chart g text").all_text_contents())
        assert "provisioning" in words and "registering failed" in words and "…" not in words, "none is cut off"
        bar = await tab.locator(".chart .bar-failed").bounding_box()
        assert bar
        await tab.mouse.move(bar["x"] + 4, bar["y"] + 4)
        await expect(tab.locator(".told")).to_have_text(
            re.compile("ctrl-2: registering, failed, 31.0 s.*login refused")
        )
        assert person.wrong == []


async def test_objects_have_conditions_and_kubernetes_events(page: Stage, labd: FakeLabd, browser: Browser) -> None:
    person = await sit_down(browser)
    await person.open(page.place.url)
    tab = person.tab
    await person.go("lab/objects/nodes/ctrl-0", "text=NodeReady")
    await expect(tab.get_by_role("region", name="Conditions").get_by_text("it is ready")).to_be_visible()
    await expect(tab.get_by_role("region", name="Events", exact=True)).to_contain_text("status is now: NodeReady")
    await tab.locator("[data-object='machines/lab-master-0']").click()
    await expect(tab.get_by_role("region", name="Events", exact=True)).to_contain_text("Claimed")
    await expect(tab.get_by_role("link", name="Object as JSON")).to_have_attribute(
        "href", "/api/labs/lab/objects/machines/lab-master-0"
    )
    await expect(tab.get_by_role("region", name="Events of all objects").last).to_contain_text("RegistrationError")
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
    await expect(tab.get_by_text("The server is off; this is what it showed.")).to_be_visible()
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
    await expect(tab.locator(".toast", has_text="ctrl-0: inspecting")).to_be_visible()
    await tab.get_by_label("next start from").select_option("network")
    await tab.get_by_role("button", name="Boot once").click()
    await expect(tab.locator(".title")).to_contain_text("boots network once")
    await tab.get_by_label("image for its drive").fill("http://192.0.2.1/live.iso")
    await tab.get_by_role("button", name="Insert").click()
    await expect(tab.locator("dd", has_text="http://192.0.2.1/live.iso")).to_be_visible()
    await tab.get_by_role("button", name="Eject").click()
    await tab.locator("dialog").get_by_role("button", name="Eject").click()
    await expect(tab.locator("dd", has_text="empty")).to_be_visible()
    await tab.get_by_label("Seconds of a recording").fill("2")
    async with tab.expect_download() as download:
        await tab.get_by_role("button", name="Capture packets in cluster").click()
    packets = await download.value
    assert packets.suggested_filename == "ctrl-0-cluster.pcap"
    assert Path(await packets.path()).read_bytes().startswith(HEADER)
    assert labd.asked == [
        say.PressPower("ctrl-0", "off"),
        say.FaultWish("delay", "ctrl-0"),
        say.ClearFaults((2,)),
        say.HostWish("retry", "ctrl-0", wait=False),
        say.SetBoot("ctrl-0", "network"),
        say.InsertMedia("ctrl-0", "http://192.0.2.1/live.iso"),
        say.EjectMedia("ctrl-0"),
    ]
    assert labd.typed["ctrl-0"] == b"root\r\x03"
    assert person.wrong == []


async def test_every_button_asks_what_its_command_asks(page: Stage, labd: FakeLabd, browser: Browser) -> None:
    """Those that `test_every_action_is_done` leaves out: with it, every button of a server's page was pressed."""
    person = await sit_down(browser)
    await person.open(page.place.url)
    tab = person.tab
    await person.go("lab/server/ctrl-0", "td >> text=5200 rpm")

    async def press(title: str, *, asks: bool, said: str) -> None:
        await tab.get_by_role("button", name=title, exact=True).click()
        if asks:
            await tab.locator("dialog").get_by_role("button", name=title, exact=True).click()
        await expect(tab.locator(".toast", has_text=said).last).to_be_visible()
        await tab.locator(".toast").get_by_role("button", name="Close").first.click()

    await press("Shut down", asks=True, said="ctrl-0 is on: its system was asked to shut down")
    for title in ("On", "Cycle", "Reset"):
        await press(title, asks=title != "On", said="ctrl-0 is on")
    for title in ("Inspect", "Clean", "Deprovision"):
        await press(title, asks=True, said="ctrl-0: inspecting")
    await press("As it is set", asks=False, said="starts as it is set")
    await tab.get_by_label("image for its drive").fill("http://192.0.2.1/live.iso")
    await tab.get_by_label("Boot it once").check()
    await press("Insert", asks=False, said="in the drive of ctrl-0")
    await tab.get_by_label("Trouble").select_option("refuse")
    await tab.get_by_label("Operation").select_option("boot")
    await tab.get_by_label("How often").fill("2")
    await press("Let it happen", asks=False, said="fault 2: refuse")
    assert labd.asked == [
        *(say.PressPower("ctrl-0", action) for action in ("shutdown", "on", "cycle", "reset")),
        *(say.HostWish(verb, "ctrl-0", wait=False) for verb in ("inspect", "clean", "deprovision")),
        say.SetBoot("ctrl-0", "none"),
        say.InsertMedia("ctrl-0", "http://192.0.2.1/live.iso"),
        say.SetBoot("ctrl-0", "cdrom"),
        say.FaultWish("refuse", "ctrl-0", "boot", count=2),
    ]
    assert person.wrong == []


async def test_everything_that_is_shown_can_be_had_as_json(page: Stage, labd: FakeLabd, browser: Browser) -> None:
    (labd.paths.logs / "labd.log").write_text("a line\n")
    person = await sit_down(browser)
    await person.open(page.place.url)
    answers = {}
    for where, there in VIEWS.items():
        await person.go(where, there)
        panels = person.tab.locator(".panel")
        without = await panels.filter(has_not=person.tab.locator("a.json")).locator("h2").all_text_contents()
        assert without == (["Plan"] if where == "lab/description" else []), "a plan is asked for, and has no address"
        for address in await person.tab.evaluate("[...document.querySelectorAll('a.json')].map(one => one.href)"):
            asked = await person.tab.request.get(address)
            answers[address.removeprefix(page.base)] = (asked.status, asked.headers["content-type"].partition(";")[0])
    pictures = {"/api/labs/lab/servers/ctrl-0/screen"}
    assert {place for place, found in answers.items() if found == (200, "image/png")} == pictures
    assert {found for place, found in answers.items() if place not in pictures} == {(200, "application/json")}
    assert len(answers) > 12 and person.wrong == []


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
    for name in ("On", "Off", "Let it happen", "Retry", "Boot once", "Insert", "Eject", "Capture packets in cluster"):
        await expect(guest.tab.get_by_role("button", name=name, exact=True)).to_be_disabled()
    await expect(guest.tab.get_by_text("You may look.")).to_be_visible()
    answer = await guest.tab.evaluate(POWER_OFF)
    assert answer == 403 and labd.asked == [] and person.wrong == []


async def test_two_labs_are_one_choice_apart(page: Stage, labd: FakeLabd, browser: Browser) -> None:
    async with running(make_labd(labd.paths.roots, "other", workers=5)):
        person = await sit_down(browser)
        await person.open(page.place.url)
        await expect(person.tab.locator(".server:not(.metal)")).to_have_count(6)
        await person.tab.get_by_label("Lab").select_option("other")
        await expect(person.tab.locator(".server")).to_have_count(8)
        await expect(person.tab.locator(".metal")).to_have_count(0)
        await expect(person.tab.locator("#events li")).to_have_count(0)
        assert person.wrong == []


async def test_a_lab_that_is_made_is_shown_and_one_that_is_destroyed_is_told(tmp_path: Path, browser: Browser) -> None:
    roots = make_roots(tmp_path)
    async with stage(roots) as page:
        person = await sit_down(browser)
        await person.tab.goto(page.place.url)
        tab = person.tab
        await expect(tab.get_by_text("No lab is on this computer yet")).to_be_visible()
        await expect(tab.get_by_label("Lab")).to_be_hidden()
        labd = make_labd(roots)
        async with running(labd):
            await expect(tab.locator(".server .led.on").first).to_be_visible()
        await expect(tab.locator("#state")).to_have_text("labd not running")
        labd.paths.ledger.rename(tmp_path / "elsewhere")
        await expect(tab.get_by_text("There is no lab lab")).to_be_visible()
        await expect(tab.locator("#state")).to_have_text("no such lab")
        (tmp_path / "elsewhere").rename(labd.paths.ledger)
        async with running(labd):
            await expect(tab.locator("#state")).to_have_text("live")
            await expect(tab.locator(".server .led.on").first).to_be_visible()


async def test_what_is_not_known_while_labd_is_away_is_not_made_up_and_is_there_again_with_it(
    page: Stage, labd: FakeLabd, browser: Browser
) -> None:
    person = await sit_down(browser)
    await person.open(page.place.url)
    tab = person.tab
    await expect(tab.locator(".strip")).to_contain_text("4 of 6 on")
    await labd.stop()
    await expect(tab.locator(".strip")).to_contain_text("power not known")
    await expect(tab.locator(".server .led.unknown")).to_have_count(6)
    await person.go("lab/objects", "text=Not known now.")
    await labd.start()
    await expect(tab.locator("[data-object='hosts/ctrl-0']")).to_be_visible()
    await person.go("lab/server/nobody", "text=has no server nobody")
    await tab.get_by_role("link", name="What it has").click()
    await expect(tab.locator(".server .led.on").first).to_be_visible()


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
    labd.set_server("ctrl-2", media=f"http://192.0.2.1/{HOSTILE}", machine=HOSTILE)
    asked = say.AuditSeen(1.0, HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE, False, {"Image": HOSTILE})
    log = say.BmcLogSeen(1.0, HOSTILE, True)
    labd.insides["ctrl-1"] = say.BmcInside(
        "ctrl-1", (say.SensorSeen(HOSTILE, 1.0, HOSTILE, None, None),), (asked,), (log,)
    )
    about = {"kind": "BareMetalHost", "name": HOSTILE}
    labd.object_events = (
        {"metadata": {"name": "x"}, "involvedObject": about, "type": HOSTILE, "reason": HOSTILE, "message": HOSTILE},
    )
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
    await expect(person.tab.get_by_role("region", name="Sensors").last).to_contain_text(HOSTILE)
    await expect(person.tab.get_by_role("region", name="Asked of its BMC").last).to_contain_text(
        f"{HOSTILE} from {HOSTILE}"
    )
    await person.go("lab/install", ".chart svg rect")
    await expect(person.tab.locator("pre.log")).to_have_text(HOSTILE)
    await person.go("lab/objects", "[data-object]")
    await person.tab.locator("[data-object]").first.click()
    await expect(person.tab.locator("pre.log")).to_contain_text("onerror")
    await expect(person.tab.get_by_role("region", name="Events of all objects").last).to_contain_text(HOSTILE)
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


async def test_it_is_worked_by_keyboard(page: Stage, labd: FakeLabd, browser: Browser) -> None:
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
    terminal, keys = tab.locator(".terminal"), tab.locator(".terminal textarea")
    await terminal.focus()
    await tab.keyboard.press("Enter")
    await expect(keys).to_be_focused()
    await tab.keyboard.type("ls")
    await tab.keyboard.press("Tab")
    await expect(terminal).to_contain_text("login: ls")
    await expect(keys).to_be_focused()
    await tab.keyboard.press("Control+]")
    await expect(terminal).to_be_focused()
    await tab.keyboard.press("Tab")
    await expect(tab.get_by_role("link", name="Screen as PNG")).to_be_focused()
    assert labd.typed["ctrl-0"] == b"ls\t"
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
        wide = await person.tab.evaluate(WIDER)
        assert wide <= 0, f"{where} is wider than the screen"


async def test_two_hundred_servers_are_no_wider_than_a_telephone(tmp_path: Path, browser: Browser) -> None:
    labd = make_labd(make_roots(tmp_path), "lab", workers=197)
    write_story(EventLog(labd.paths.events), [server.name for server in labd.status.servers])
    async with running(labd), stage(labd.paths.roots) as page:
        person = await sit_down(browser)
        await person.open(page.place.url)
        for width in (390, 600):
            await person.tab.set_viewport_size({"width": width, "height": 800})
            for where, there in {"lab/rack": ".server .led.on", "lab/install": ".chart svg rect"}.items():
                await person.go(where, there)
                wide = await person.tab.evaluate(WIDER)
                assert wide <= 0, f"{where} at {width}"


async def test_on_a_telephone_what_one_presses_and_what_came_of_it_needs_no_scrolling_sideways(
    page: Stage, browser: Browser
) -> None:
    person = await sit_down(browser, viewport=TELEPHONE)
    await person.open(page.place.url)
    tab = person.tab
    await person.go("lab/server/ctrl-0", "td >> text=5200 rpm")
    refused = tab.get_by_role("region", name="Asked of its BMC").get_by_role("cell", name="unauthorized name")
    for there in (tab.get_by_role("button", name="Capture packets in cluster"), refused):
        box = await there.bounding_box()
        assert box and box["x"] + box["width"] <= TELEPHONE["width"]
    await tab.locator(".chart rect").first.click()
    await expect(tab.locator(".told")).to_contain_text("ctrl-0: registering, done, 8.0 s")


@pytest.mark.parametrize("size", [LAPTOP, TELEPHONE])
async def test_of_many_objects_the_one_that_is_chosen_is_in_sight_beside_where_it_was_chosen(
    tmp_path: Path, browser: Browser, size: ViewportSize
) -> None:
    labd = make_labd(make_roots(tmp_path), "lab", workers=197)
    labd.hosts = tuple(record(one.name, "provisioned") for one in labd.status.servers)
    async with running(labd), stage(labd.paths.roots) as page:
        person = await sit_down(browser, viewport=size)
        await person.open(page.place.url)
        tab = person.tab
        await person.go("lab/objects", "[data-object='hosts/worker-150']")
        chosen = tab.locator("[data-object='hosts/worker-150']")
        await chosen.click()
        shown = tab.get_by_role("region", name="Object", exact=True)
        await expect(shown.locator("dd", has_text="worker-150")).to_be_in_viewport()
        labd.hosts = tuple(record(one.name, "cleaning") for one in labd.status.servers)
        labd.bus.info("something happened")
        await expect(chosen).to_contain_text("cleaning")  # the list was drawn again
        assert await tab.evaluate("document.querySelector('.list').scrollTop") > 1000
        if size is LAPTOP:
            await expect(chosen).to_be_in_viewport()
        assert person.wrong == []


async def test_a_real_lab_is_shown_and_worked_as_a_fake_one_is(host: PretendHost, tmp_path: Path) -> None:
    """One server that asks the network for a boot: its console, screen, power, drive, packets and BMC; and labd killed."""
    describe(host, "servers: {box: {role: spare, firmware: bios}}\n")
    host.rackless("up", "--until", "bmc")
    iso = host.folder / "live.iso"
    iso.write_bytes(bytes(0x8001) + b"CD001" + bytes(4096))
    serving = begin(
        host,
        "exec",
        "--",
        sys.executable,
        "-m",
        "http.server",
        "8099",
        "--bind",
        GATEWAY,
        "--directory",
        str(host.folder),
    )
    web_page = begin(host, "web", "--json")
    inside = tmp_path / "chromium"
    inside.write_text(f'#!/bin/sh\nexec nsenter -t {host.pid} -n -- {CHROMIUM} "$@"\n')
    inside.chmod(0o755)
    assert web_page.stdout is not None
    try:
        link = json.loads(web_page.stdout.readline())["url"]
        async with chromium(inside) as browser:
            person = await sit_down(browser)
            await person.open(link)
            await _work_a_real_lab(person, host)
            assert [one for one in person.wrong if "503" not in one and "409" not in one] == []
    finally:
        for process in (web_page, serving):
            process.terminate()
            process.communicate(timeout=60)


async def _work_a_real_lab(person: Person, host: PretendHost) -> None:
    tab = person.tab
    card = tab.locator(".server", has_text="box-0")
    await expect(card.locator(".led")).to_have_class("led off")
    await expect(card).to_contain_text("boots disk")
    await expect(tab.locator(".network", has_text="cluster").locator(".plug", has_text="box-0")).to_be_visible()
    await person.go("lab/server/box-0", "td >> text=Inlet Temp")
    await tab.get_by_label("image for its drive").fill(f"http://{GATEWAY}:8099/live.iso")
    await tab.get_by_role("button", name="Insert").click()
    await expect(tab.locator("dd", has_text="live.iso")).to_be_visible()
    await tab.get_by_label("next start from").select_option("network")
    await tab.get_by_role("button", name="Boot once").click()
    await expect(tab.locator(".title")).to_contain_text("boots network once")
    await tab.get_by_label("Seconds of a recording").fill("40")
    async with tab.expect_download() as download:
        await tab.get_by_role("button", name="Capture packets in cluster").click()
        await tab.get_by_role("button", name="On", exact=True).click()
        await expect(tab.locator(".title .led")).to_have_class("led on")
        await expect(tab.locator("td", has_text="5200 rpm").first).to_be_visible()
        await expect(tab.locator("td", has_text="was switched on")).to_be_visible()
        await expect(tab.locator(".terminal")).to_contain_text(re.compile("SeaBIOS|iPXE"))
        await expect(tab.locator(".panel > img.screen")).to_be_visible()
    packets = Path(await (await download.value).path()).read_bytes()
    assert packets.startswith(HEADER) and b"\x63\x82\x53\x63\x35\x01\x01" in packets, "it asked for an address"
    await expect(tab.locator(".title")).to_contain_text("boots disk")  # the network was for one start
    _reset_by_redfish(host)
    await expect(tab.locator("td", has_text="ComputerSystem.Reset")).to_be_visible()
    await tab.get_by_role("button", name="Eject").click()
    await tab.locator("dialog").get_by_role("button", name="Eject").click()
    await expect(tab.locator("dd", has_text="empty")).to_be_visible()
    if pictures := os.environ.get("RACKLESS_PICTURES"):
        for theme in ("light", "dark"):
            await tab.emulate_media(color_scheme=theme)
            await tab.screenshot(path=Path(pictures, f"real-server-{theme}.png"), full_page=True)
    await person.go("lab/rack", ".server img.screen")
    await expect(card.locator("img.screen")).to_be_visible()
    seen = await tab.locator("#events li").count()
    kill(host.one("rackless.labd.main"))
    # its keeper starts another; the page may be back before anybody sees that it was away
    for _ in range(60):
        if host.rackless("power", "box-0", "off", check=False).returncode == 0:
            break
        await asyncio.sleep(1)
    await expect(tab.locator("#state")).to_have_text("live")
    await expect(card.locator(".led")).to_have_class("led off")
    assert await tab.locator("#events li").count() >= seen
    for where, there in {
        "lab/install": ".chart svg rect",
        "lab/objects": ".panel",
        "lab/description": "textarea.yaml",
    }.items():
        await person.go(where, there)


def _reset_by_redfish(host: PretendHost) -> None:
    bmc = json.loads(host.rackless("bmc", "show", "box-0", "--password", "--json").stdout)
    address = f"{bmc['redfish']}/Actions/ComputerSystem.Reset"
    login = f"{bmc['username']}:{bmc['password']}"
    asked = ["-X", "POST", "-H", "Content-Type: application/json", "-d", '{"ResetType": "ForceRestart"}']
    host.rackless("exec", "--", "curl", "-sf", "--cacert", bmc["ca"], "-u", login, *asked, address)
