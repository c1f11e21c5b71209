"""The page before a lab of 200 servers: first paint, an event on the screen, and what three viewers cost.

labd is a fake in this process, `rackless web` is a process of its own, and the viewers are tabs of Debian's Chromium on the
same computer, which share its processors with both. Told are medians; a tab is opened five times. Where other work disturbs: an
event's worst case is told with how long one thread on its way was ready and had no core around that time (the kernel's
schedstat, which counts a wait when it ends), and the costs are processor time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from playwright.async_api import Page

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.web.browser import chromium, sit_down
from tests.web.fake_labd import FakeLabd, make_labd, make_roots, running

from rackless.run.paths import Roots

SERVERS, VIEWERS, EVENTS = 200, 3, 40
TARGETS = {"first paint, ms": 1000.0, "an event on the screen, ms (median)": 200.0, "three viewers, % of a core": 3.0}
SEEN = """text => new Promise(done => {
    const list = document.getElementById("events");
    const look = () => list.firstElementChild?.textContent.includes(text) && done(performance.timeOrigin + performance.now());
    new MutationObserver(look).observe(list, {childList: true}); look();
})"""
PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"
WHOLE = """wanted => new Promise(done => {
    const there = () => document.querySelectorAll(".server .led.on").length === wanted;
    const look = () => there() ? done(performance.now()) : requestAnimationFrame(look);
    look();
})"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench web")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seconds", type=float, default=30.0, help="how long the viewers look")
    asked = parser.parse_args()
    figures = asyncio.run(measure(asked.seconds))
    figures["load per CPU"] = round(os.getloadavg()[0] / (os.cpu_count() or 1), 1)
    figures["targets"] = {
        name: {"measured": figures[name], "at most": most, "ok": figures[name] <= most}
        for name, most in TARGETS.items()
    }
    if asked.json:
        print(json.dumps(figures))
        return 0
    for name, value in figures.items():
        if name != "targets":
            print(f"{name:<46} {value}")
    missed = [name for name, target in figures["targets"].items() if not target["ok"]]
    print("all targets met" if not missed else f"missed: {'; '.join(missed)}")
    return 0


async def measure(seconds: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as scratch:
        labd = make_labd(make_roots(Path(scratch)), "lab", workers=SERVERS - 3)
        async with running(labd), chromium() as browser:
            process, first = await _start(labd.paths.roots)
            try:
                one = (await sit_down(browser)).tab
                await one.goto(first)
                await one.wait_for_selector("#state.live")
                await one.evaluate(WHOLE, SERVERS)
                tabs = [one, *[await one.context.new_page() for _ in range(VIEWERS - 1)]]
                paints, wholes = await _open(tabs[1], one.url)
                empty, _ = await _open(tabs[2], one.url.partition("/#")[0] + "/api/session", rounds=5, servers=0)
                for tab in tabs[2:]:
                    await _open(tab, one.url, rounds=1)
                waits = await _events(labd, one)
                quiet = await _cost(process.pid, seconds, labd, busy=False)
                busy = await _cost(process.pid, seconds, labd, busy=True)
            finally:
                process.terminate()
                await process.wait()
    return {
        "servers": SERVERS,
        "first paint of one line of JSON, ms": round(statistics.median(empty)),
        "first paint, ms": round(statistics.median(paints)),
        "all servers on the screen, ms": round(statistics.median(wholes)),
        "an event on the screen, ms (median)": round(statistics.median(wait for wait, _ in waits)),
        "an event on the screen, ms (worst of 40)": round(max(waits)[0]),
        "around the worst, one thread waited for a core, ms": round(max(waits)[1]),
        "events later than 200 ms": sum(wait > 200 for wait, _ in waits),
        "of those, with less than half of it for want of a core": sum(
            wait > 200 and core < wait / 2 for wait, core in waits
        ),
        "three viewers of a lab at rest, % of a core": quiet,
        "three viewers, % of a core": busy,
    }


async def _start(roots: Roots) -> tuple[asyncio.subprocess.Process, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", "rackless", "web", "--json", env={**os.environ, **roots.as_environment()},
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    return process, json.loads(await process.stdout.readline())["url"]


async def _open(tab: Page, address: str, rounds: int = 5, servers: int = SERVERS) -> tuple[list[float], list[float]]:
    paints, wholes = [], []
    for _ in range(rounds):
        await tab.goto("about:blank")
        await tab.goto(address)
        wholes.append(await tab.evaluate(WHOLE, servers))
        paints.append(await tab.evaluate(PAINT))
    return paints, wholes


async def _events(labd: FakeLabd, tab: Page) -> list[tuple[float, float]]:
    """From the moment it happened to the row in the page, and how long one thread of those on its way had no core; both clocks
    are this computer's."""
    waits = []
    way = [os.getpid(), *_descendants(os.getpid())]
    for number in range(EVENTS):
        seen = asyncio.ensure_future(tab.evaluate(SEEN, f"event-{number}."))
        await tab.evaluate("1")  # the page listens
        ready, at = _ready(way), time.time()
        labd.bus.info(f"event-{number}.", subject="host/ctrl-0")
        wait = await seen - at * 1000
        after = _ready(way)
        waits.append((wait, max(after[thread] - ready.get(thread, 0) for thread in after) / 1e6))
    return waits


def _ready(pids: list[int]) -> dict[str, int]:
    """By thread: nanoseconds that it was ready to run and had no core."""
    found = {}
    for pid in pids:
        for folder in Path(f"/proc/{pid}/task").glob("*"):
            with suppress(OSError):  # it ended
                found[folder.name] = int((folder / "schedstat").read_text().split()[1])
    return found


def _descendants(pid: int) -> list[int]:
    above: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                above.setdefault(parent, []).append(int(folder.name))
    found, next_ones = [], above.get(pid, [])
    while next_ones:
        found += next_ones
        next_ones = [child for one in next_ones for child in above.get(one, [])]
    return found


async def _cost(pid: int, seconds: float, labd: FakeLabd, *, busy: bool) -> float:
    """Busy is an install: two events and a server that changes every second."""
    before, began = _used(pid), time.monotonic()
    number = 0
    while time.monotonic() - began < seconds:
        await asyncio.sleep(0.5)
        number += 1
        if busy:
            labd.bus.info(f"step {number}", subject=f"host/worker-{number % 100}")
        if busy and number % 2:
            labd.set_server(f"worker-{number % 100}", host="cleaning" if number % 4 == 1 else "provisioned")
    return round(100 * (_used(pid) - before) / (time.monotonic() - began), 1)


def _used(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    sys.exit(main())
