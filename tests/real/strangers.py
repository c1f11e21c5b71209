"""Clients written by others, each in an environment of its own that is made once and kept: they bring a lot with them."""

from __future__ import annotations

import http.server
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests import kept

ANSIBLE = ("ansible==12.3.0", "kubernetes>=31")
UTILITIES = ("redfish_utilities==3.5.2",)


def environment(name: str, packages: tuple[str, ...]) -> Path:
    """The folder of its programs."""
    folder = kept.CACHE / name
    done = folder / f"made-{'_'.join(packages).replace('=', '').replace('>', '')}"
    with kept.alone(name):
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)
            subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
            subprocess.run([str(folder / "bin/pip"), "install", "-q", *packages], check=True)
            done.touch()
    return folder / "bin"


@contextmanager
def file_server(files: dict[str, bytes]) -> Iterator[str]:
    class Quiet(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = files.get(self.path.strip("/"))
            self.send_response(200 if content is not None else 404)
            self.send_header("Content-Length", str(len(content or b"")))
            self.end_headers()
            self.wfile.write(content or b"")

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
