"""Pictures of the page: scripts/screenshots [FOLDER]."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from playwright.async_api import Page, ViewportSize, async_playwright
from tests.web.browser import CHROMIUM, OPTIONS
from tests.web.demo import dress, write_story
from tests.web.fake_labd import make_labd, make_roots, running
from tests.web.stage import fake_drivers, stage

from rackless.protocol.event_log import EventLog

LAPTOP, PHONE = ViewportSize(width=1280, height=800), ViewportSize(width=390, height=844)
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
VIEWS = {
    # name: (where, what must be there, how it is done)
    "rack": ("rack", ".server .led.on", LAPTOP),
    "server": ("server/ctrl-0", ".terminal >> text=ctrl-0 login:", LAPTOP),
    "bmc": ("server/ctrl-0", "td >> text=5200 rpm", LAPTOP),
    "install": ("install", ".chart svg", LAPTOP),
    "objects": ("objects/hosts/worker-2", "text=errorMessage", LAPTOP),
    "description": ("description", "textarea.yaml", LAPTOP),
    "phone": ("rack", ".server .led.on", PHONE),
}


async def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        labd = make_labd(make_roots(Path(scratch)), "lab", workers=3)
        dress(labd)
        write_story(EventLog(labd.paths.events), [server.name for server in labd.status.servers])
        told_at = datetime.now(UTC)
        async with running(labd), stage(labd.paths.roots, fake_drivers()) as page, async_playwright() as tool:
            browser = await tool.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
            for theme in THEMES:
                context = await browser.new_context(color_scheme=theme)
                await context.clock.set_fixed_time(told_at)  # steps go on from then, however long the pictures take
                tab = await context.new_page()
                link = await _link(page)
                await tab.goto(link)
                await tab.wait_for_selector("#state.live")
                for name, (where, there, size) in VIEWS.items():
                    await tab.set_viewport_size(size)
                    await _show(tab, f"{page.base}/#/lab/{where}", there)
                    if name == "description":
                        await _plan(tab)
                    if name == "bmc":
                        await tab.locator("#s-bmc").evaluate(
                            "head => scrollTo(0, head.getBoundingClientRect().top + scrollY - 70)"
                        )
                    target = folder / f"web-{name}-{theme}.png"
                    await tab.screenshot(path=target)
                    print(f"{target}  {target.stat().st_size >> 10} KiB")
                await context.close()
            await browser.close()


async def _link(page: object) -> str:
    from tests.web.stage import Stage

    assert isinstance(page, Stage)
    if not page.http.cookie_jar:
        await page.enter()
    return str((await page.post("/api/links", {"read_only": False}))[1]["url"])


async def _plan(tab: Page) -> None:
    """Of a lab with one worker more."""
    text = tab.locator("textarea.yaml")
    await text.fill((await text.input_value()).replace("worker:\n    count: 3", "worker:\n    count: 4"))
    await tab.get_by_role("button", name="What would").click()
    await tab.wait_for_selector(".verb")


async def _show(tab: Page, address: str, there: str) -> None:
    await tab.goto(address)
    await tab.wait_for_selector(there)
    await tab.wait_for_selector("#state.live")
    await tab.wait_for_timeout(900)  # pictures of screens, the chart's second drawing


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("docs/pictures")))
