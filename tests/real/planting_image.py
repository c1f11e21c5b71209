"""Images and disks that ironic-python-agent cannot install, and its words for them: the code that takes images in and writes them.

`python -m tests.real.planting_image FOLDER` records it; `tests/diagnosis/data` is what it wrote. The agent is that of the deploy
ramdisk, by the same list of wheels; it asks a server on loopback of a network namespace of its own, and writes to a memory file
system of one MiB in the place of a disk. Which disks a server has is told to it.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.real import planting_agent

ROOT = Path(__file__).parents[2]
PORT = 18099
_SMALL_BYTES, _DISK_BYTES = 1 << 20, 64 << 10
_STALL_SECONDS = 3
CASES: dict[str, dict[str, object]] = {
    "checksum": {"url": "disk.raw", "checksum": "f" * 64},
    "image-fetch": {"url": "missing.raw"},
    "image-refused": {"port": PORT + 1},
    "image-stalls": {"url": "stalls.raw"},
    "image-format": {"url": "disk.raw", "format": "qcow2", "checksum": hashlib.sha256(bytes(_DISK_BYTES)).hexdigest()},
    "image-memory": {"url": "large.raw", "format": "qcow2"},
    "disk-full": {"url": "large.raw"},
    "no-root-device": {"hints": {"serial": "s== ABC123"}, "disks": [20 << 30]},
    "disk-small": {"disks": [2 << 30]},
}
_TAKE_IN = """
import json, os, sys
from oslo_config import cfg
from ironic_python_agent import config, errors, hardware  # registers the options
from ironic_python_agent.extensions import standby
CONF = cfg.CONF
CONF([], project="ironic-python-agent")
CONF.set_override("image_download_connection_retries", 0)
CONF.set_override("image_download_connection_timeout", int(sys.argv[2]))
case = json.loads(sys.argv[1])
node = {"uuid": "00000000-0000-4000-8000-000000000001", "properties": {"root_device": case["hints"]}, "instance_info": {}}
if not case["hints"]:
    node["properties"] = {}
hardware.cache_node(node)

class Disks(hardware.GenericHardwareManager):
    def list_block_devices(self, *args, **more):
        return [hardware.BlockDevice("/dev/vda", "disk", size, False, serial="XYZ") for size in case["disks"]]
    def get_os_install_device(self, permit_refresh=False):
        return case["device"] or super().get_os_install_device(permit_refresh)

manager = Disks()
hardware.dispatch_to_managers = lambda method, *args, **more: getattr(manager, method)(*args, **more)
image = {
    "id": "image", "urls": [case["url"]], "disk_format": case["format"], "stream_raw_images": True, "image_type": "whole-disk",
    "os_hash_algo": "sha256", "os_hash_value": case["checksum"],
}
try:
    standby.StandbyExtension().prepare_image.__wrapped__(standby.StandbyExtension(), image)
except errors.RESTError as error:
    print(error)
except Exception as error:  # as base.AsyncCommandResult has it
    print(errors.CommandExecutionError(str(error)))
"""
"""As the agent does when Ironic tells it to write an image; once, and not ten times."""


class _Images(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        size = {"/disk.raw": _DISK_BYTES, "/large.raw": 4 * _SMALL_BYTES, "/stalls.raw": _DISK_BYTES}.get(self.path)
        if size is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(size))
        self.end_headers()
        if self.path == "/stalls.raw":
            self.wfile.write(bytes(1000))
            time.sleep(2 * _STALL_SECONDS)
        else:
            self.wfile.write(bytes(size))

    def log_message(self, format: str, *args: object) -> None:
        return


@contextmanager
def _server() -> Iterator[None]:
    with ThreadingHTTPServer(("127.0.0.1", PORT), _Images) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield
        server.shutdown()


def plant(folder: Path) -> None:
    """Call it in a network and a mount namespace of its own, with the agent on the path of Python."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    with tempfile.TemporaryDirectory() as name, _server():
        small = Path(name) / "small"
        small.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={_SMALL_BYTES}", "small", str(small)], check=True)
        udevadm = Path(name) / "udevadm"  # of the ramdisk; nothing of a device is waited for here
        udevadm.write_text("#!/bin/sh\n")
        udevadm.chmod(0o755)
        os.environ["PATH"] = f"{name}:{os.environ['PATH']}"
        try:
            for case, told in CASES.items():
                (folder / f"agent-{case}.txt").write_text(_take_in(small, told))
        finally:
            subprocess.run(["umount", str(small)], check=True)


def _take_in(small: Path, told: dict[str, object]) -> str:
    disks = told.get("disks", [])
    case = {
        "url": f"http://127.0.0.1:{told.get('port', PORT)}/{told.get('url', 'disk.raw')}",
        "format": told.get("format", "raw"), "checksum": told.get("checksum", "0" * 64), "hints": told.get("hints", {}),
        "disks": disks, "device": "" if disks else f"{small}/disk",
    }  # fmt: skip
    argv = [sys.executable, "-c", _TAKE_IN, json.dumps(case), str(_STALL_SECONDS)]
    environment = {**os.environ, "TMPDIR": str(small)}
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=120)
    for file in small.iterdir():
        file.unlink()
    assert done.stdout, done.stderr
    return done.stdout.replace(f"{small}/disk", "/dev/vda").replace(str(small), "/tmp")


def record(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        agent = Path(os.environ.get("PLANTED_AGENT", name))
        if not any(agent.iterdir()):
            planting_agent.install(agent)
        inside = [sys.executable, "-m", "tests.real.planting_image", "--inside", str(folder)]
        environment = {**os.environ, "PYTHONPATH": str(agent)}
        subprocess.run(["unshare", "--net", "--mount", *inside], check=True, cwd=ROOT, env=environment)


if __name__ == "__main__":
    if sys.argv[1] == "--inside":
        plant(Path(sys.argv[2]))
    else:
        record(Path(sys.argv[1]))
