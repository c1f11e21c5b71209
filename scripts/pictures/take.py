"""Pictures of the page: scripts/screenshots [--lab NAME] [FOLDER]. Without a name, of two fake labs in the middle of an install."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import yarl
from playwright.async_api import Page, ViewportSize, async_playwright
from tests.web.browser import CHROMIUM, OPTIONS
from tests.web.demo import dress, dress_ipi, write_ipi_story, write_story
from tests.web.fake_labd import make_labd, make_roots, running
from tests.web.stage import fake_drivers, stage

from rackless.protocol.event_log import EventLog

LAPTOP, PHONE = ViewportSize(width=1280, height=800), ViewportSize(width=390, height=844)
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
Views = dict[str, tuple[str, str, ViewportSize]]
"""By name: where, what must be there, on what."""
FAKE: Views = {
    "rack": ("rack", ".server .led.on", LAPTOP),
    "server": ("server/ctrl-0", ".terminal >> text=ctrl-0 login:", LAPTOP),
    "bmc": ("server/ctrl-0", "td >> text=5200 rpm", LAPTOP),
    "objects": ("objects/hosts/worker-2", "text=errorMessage", LAPTOP),
    "description": ("description", "textarea.yaml", LAPTOP),
    "phone": ("rack", ".server .led.on", PHONE),
}
BOOTSTRAP: Views = {
    "install": ("install", ".finding", LAPTOP),
    "phone-install": ("install", ".finding", PHONE),
}
"""Of a lab that a bootstrap installs."""
REAL: Views = {
    "rack": ("rack", ".server .led.on", LAPTOP),
    "server": ("server/ctrl-0", "text=Network cards", LAPTOP),
    "install": ("install", ".chart svg rect", LAPTOP),
    "objects": ("objects/hosts/ctrl-0", "pre.log", LAPTOP),
    "phone": ("rack", ".server .led.on", PHONE),
}


@dataclass(frozen=True, slots=True)
class Sitter:
    """Whose pictures are taken."""

    lab: str
    views: Views
    link: Callable[[], Awaitable[str]]
    """For one more browser."""
    at: datetime | None = None
    """The time that the browser takes it to be; None for its own."""


@asynccontextmanager
async def fake_labs() -> AsyncIterator[Sequence[Sitter]]:
    with tempfile.TemporaryDirectory() as scratch:
        roots = make_roots(Path(scratch))
        labd = make_labd(roots, "lab", workers=3)
        dress(labd)
        write_story(EventLog(labd.paths.events), [server.name for server in labd.status.servers])
        other = make_labd(roots, "site", workers=2, more="\ncluster: {method: ipi}")
        dress_ipi(other)
        write_ipi_story(EventLog(other.paths.events))
        told_at = datetime.now(UTC)  # steps go on from then, however long the pictures take
        async with running(labd), running(other), stage(roots, fake_drivers()) as page:
            await page.enter()

            async def link() -> str:
                return str((await page.post("/api/links", {"read_only": False}))[1]["url"])

            yield Sitter("lab", FAKE, link, told_at), Sitter("site", BOOTSTRAP, link, told_at)


@asynccontextmanager
async def real_lab(name: str) -> AsyncIterator[Sequence[Sitter]]:
    """One that is on this computer, through `rackless web` for each browser."""
    servers: list[asyncio.subprocess.Process] = []

    async def link() -> str:
        command = (sys.executable, "-m", "rackless", "web", name, "--json")
        server = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        servers.append(server)
        assert server.stdout is not None
        return str(json.loads(await server.stdout.readline())["url"])

    try:
        yield (Sitter(name, REAL, link),)
    finally:
        for server in servers:
            server.terminate()
            await server.wait()


async def main(folder: Path, lab: str | None) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    async with real_lab(lab) if lab else fake_labs() as sitters, async_playwright() as tool:
        browser = await tool.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        for sitter, theme in ((sitter, theme) for sitter in sitters for theme in THEMES):
            context = await browser.new_context(color_scheme=theme)
            if sitter.at is not None:
                await context.clock.set_fixed_time(sitter.at)
            tab = await context.new_page()
            link = await sitter.link()
            await tab.goto(link)
            await tab.wait_for_selector("#state.live")
            for name, (where, there, size) in sitter.views.items():
                await tab.set_viewport_size(size)
                await _show(tab, f"{yarl.URL(link).origin()}/#/{sitter.lab}/{where}", there)
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
    parser = argparse.ArgumentParser(prog="scripts/screenshots", description=__doc__)
    parser.add_argument("--lab", metavar="NAME", help="of this lab, which runs")
    parser.add_argument("folder", nargs="?", type=Path, default=Path("docs/pictures"))
    asked = parser.parse_args()
    asyncio.run(main(asked.folder, asked.lab))
