"""Debian's Chromium, as Playwright starts it here, and a person in front of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, Page, async_playwright, expect

CHROMIUM = "/usr/bin/chromium"
OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"]
"""No sandbox: tests run as root. Nothing is asked outside."""
PATIENCE_MS = 60_000
"""Of a browser on a computer that is busy; nothing waits so long on one that is not."""
AXE = Path.home() / ".cache/rackless-tests/axe/node_modules/axe-core/axe.min.js"


@asynccontextmanager
async def chromium(program: str | Path = CHROMIUM) -> AsyncIterator[Browser]:
    async with async_playwright() as tool:
        browser = await tool.chromium.launch(executable_path=program, args=OPTIONS)
        try:
            yield browser
        finally:
            await browser.close()


@dataclass
class Person:
    """Whoever looks at a page; what went wrong in it is remembered."""

    tab: Page
    wrong: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tab.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        self.tab.on("dialog", lambda dialog: self.wrong.append(f"dialog: {dialog.message}"))
        self.tab.on("console", lambda said: self.wrong.append(said.text) if said.type == "error" else None)

    async def open(self, link: str) -> None:
        await self.tab.goto(link)
        await self.tab.wait_for_selector("#state.live")

    async def go(self, where: str, there: str) -> None:
        """To a view, until something is there."""
        await self.tab.evaluate("where => { location.hash = where; }", f"#/{where}")
        await self.tab.wait_for_selector(there)

    async def serious(self) -> list[str]:
        """What axe finds that keeps people out."""
        await self.tab.add_script_tag(path=AXE)
        found: dict[str, Any] = await self.tab.evaluate("axe.run(document, {resultTypes: ['violations']})")
        return [
            f"{one['id']}: {one['help']}: {node['html'][:120]}: {node['failureSummary']}"
            for one in found["violations"]
            if one["impact"] in ("serious", "critical")
            for node in one["nodes"][:3]
        ]


async def sit_down(browser: Browser, **more: Any) -> Person:
    context = await browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **more})
    context.set_default_timeout(PATIENCE_MS)
    expect.set_options(timeout=PATIENCE_MS)
    return Person(await context.new_page())
