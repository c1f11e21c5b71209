"""How the page is served: TLS where it is not loopback, as a command, and from what is packed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import ssl
import subprocess
import sys
import zipfile
from pathlib import Path

import aiohttp
import pytest

from rackless.cli.words import to_json
from rackless.drivers.fake.computer import FakeComputer
from rackless.errors import HypervisorError
from rackless.web import app, server
from rackless.web.server import WebPlace, WebSettings, serve
from tests.web.fake_labd import FakeLabd
from tests.web.stage import fake_drivers, stage

ROOT = Path(__file__).parents[2]


async def test_elsewhere_it_speaks_tls_with_a_certificate_of_the_labs_ca(
    labd: FakeLabd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_check", lambda _: False)  # as if this address were not loopback
    ready: asyncio.Future[WebPlace] = asyncio.get_running_loop().create_future()
    settings = WebSettings(labd.paths.roots, only="lab")
    serving = asyncio.ensure_future(serve(settings, fake_drivers(), to_json, ready.set_result))
    try:
        place = await ready
        assert place.url.startswith("https://127.0.0.1:") and place.ca == labd.paths.pki / "ca.crt"
        trust = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=str(place.ca)))
        jar = aiohttp.CookieJar(unsafe=True)
        async with aiohttp.ClientSession(connector=trust, cookie_jar=jar) as http:
            async with http.get(place.url) as answer:
                assert answer.status == 200 and "Secure" in answer.headers["Set-Cookie"]
            base = f"https://127.0.0.1:{place.port}"
            async with http.get(f"{base}/api/labs") as answer:
                assert answer.status == 200
            async with http.get(f"{base}/api/labs", headers={"Host": "localhost"}) as answer:
                assert answer.status == 421, "it is called by its address here"
            asked = {"action": "off"}
            for origin, status in ((f"http://127.0.0.1:{place.port}", 403), (base, 200)):
                where = f"{base}/api/labs/lab/servers/ctrl-0/power"
                async with http.post(where, json=asked, headers={"Origin": origin}) as answer:
                    assert answer.status == status
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
    with pytest.raises(HypervisorError, match="root"):
        await serve(settings, fake_drivers(computer=FakeComputer(is_root=False)), to_json, lambda _: None)


async def test_a_port_that_is_taken_is_said(labd: FakeLabd) -> None:
    async with stage(labd.paths.roots) as page:
        with pytest.raises(HypervisorError, match=str(page.place.port)):
            await serve(WebSettings(labd.paths.roots, port=page.place.port), fake_drivers(), to_json, lambda _: None)


async def test_the_command_prints_a_link_that_works_and_ends_when_it_is_told(labd: FakeLabd) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", "rackless", "web", "--json", "--read-only",
        env={**os.environ, **labd.paths.roots.as_environment()}, stdout=subprocess.PIPE, cwd=labd.paths.state,
    )  # fmt: skip
    assert process.stdout is not None
    told = json.loads(await process.stdout.readline())
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as http:
        async with http.get(told["url"]) as answer:
            assert answer.status == 200
        async with http.get(f"http://127.0.0.1:{told['port']}/api/session") as answer:
            assert await answer.json() == {"read_only": True}
        line = await http.ws_connect(
            f"http://127.0.0.1:{told['port']}/api/labs/lab/live",
            headers={"Origin": f"http://127.0.0.1:{told['port']}"},
        )
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0, "also while somebody looks"
        await line.close()


@pytest.mark.slow
def test_a_wheel_has_the_page(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*command, "--wheel-dir", str(tmp_path), str(ROOT)], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    packed = {Path(name).name for name in zipfile.ZipFile(wheel).namelist() if "/web/static/" in name}
    assert packed == {file.name for file in app.STATIC.iterdir()} == set(app._files())
