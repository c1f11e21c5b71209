"""An image server as they are on a bad day: started by a test, inside the lab's networks, until it is told to end.

`python -m tests.real.odd_images FILE ADDRESS PORT`; says `ready` when it answers. The path says what becomes of FILE:
/right… serves it, /other… serves other bytes, /gone… has none, /broken… fails, and /stalls… stops in the middle.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from aiohttp import web

CHUNK = 1 << 16


async def serve(request: web.Request) -> web.StreamResponse:
    content: bytes = request.app[CONTENT]
    match request.path.partition(".")[0]:
        case "/right":
            pass
        case "/other":
            content = bytes(byte ^ 1 for byte in content)
        case "/stalls":
            pass
        case "/broken" if request.method == "GET":
            raise web.HTTPInternalServerError(text="the disk array is on fire")
        case "/broken":
            pass
        case _:
            raise web.HTTPNotFound
    response = web.StreamResponse(headers={"Content-Length": str(len(content))})
    await response.prepare(request)
    if request.method == "HEAD":
        return response
    for start in range(0, len(content), CHUNK):
        if request.path.startswith("/stalls") and start > len(content) / 2:
            await asyncio.sleep(3600)
        await response.write(content[start : start + CHUNK])
    return response


CONTENT = web.AppKey("content", bytes)


async def main(file: Path, address: str, port: int) -> None:
    app = web.Application()
    app[CONTENT] = file.read_bytes()
    app.router.add_get("/{name}", serve)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, address, port).start()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
