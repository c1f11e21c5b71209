"""Images of a person's own on real servers: written to the disk, booted as a live ISO, and refused by name."""

from __future__ import annotations

import hashlib
import json
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.real import bootable
from tests.real.conftest import PretendHost, leaked_secrets

pytestmark = [pytest.mark.real, pytest.mark.long]

LAB = """\
servers:
  box: {role: worker, count: 1, disk: 5GiB, image: {url: mine.raw, user_data: mine.ign}}
  odd: {role: spare, count: 1, disk: 5GiB}
"""
SECRET = "the password of the launch codes"
FILES = "http://192.168.111.1:6180"


def host_record(host: PretendHost, name: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(host.rackless("host", "show", name, "--json").stdout)
    return found


def await_console(host: PretendHost, name: str, word: str, within: float = 120) -> None:
    console = host.folder / f"state/lab/logs/console/{name}.log"
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        if word.encode() in console.read_bytes():
            return
        time.sleep(0.5)
    pytest.fail(f"{name} never said {word}")


def await_available(host: PretendHost, name: str, within: float = 600) -> None:
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        if '"state": "available"' in json.dumps(host_record(host, name)["status"]):
            return
        time.sleep(1)
    pytest.fail(f"{name} was never available")


def test_an_image_is_written_a_live_iso_is_booted_and_a_wrong_checksum_is_named(host: PretendHost) -> None:
    image = bootable.partitioned_disk(host.folder, "MYDISK")
    image.rename(host.folder / "mine.raw")
    live = bootable.iso(host.folder, "MYLIVE", uefi=True)
    (host.folder / "mine.ign").write_text(json.dumps({"ignition": {"version": "3.3.0"}, "secret": SECRET}))
    (host.folder / "mine.ign").chmod(0o600)
    (host.folder / "lab.yaml").write_text(LAB)

    done = host.rackless("up")
    assert "what it does from here is its own affair" in done.stdout
    await_console(host, "box-0", "MYDISK")
    checksum = hashlib.sha256((host.folder / "mine.raw").read_bytes()).hexdigest()
    assert checksum in json.dumps(host_record(host, "box-0")["status"])

    # a live ISO on the one; on the other what is not what its checksum says
    await_available(host, "odd-0")
    wrong = ("--image", f"{FILES}/image-{checksum[:16]}.raw", "--checksum", "ab" * 32)
    with ThreadPoolExecutor(2) as both:
        booted = both.submit(host.rackless, "host", "provision", "box-0", "--replace", "--image", str(live))
        refused = both.submit(host.rackless, "host", "provision", "odd-0", *wrong, check=False)
        assert refused.result().returncode == 6
        assert "provisioning error: the image is not the one its checksum says" in refused.result().stderr
        booted.result()
    await_console(host, "box-0", "MYLIVE")

    # `up` leaves alone what was said by hand, and nothing of it is for everybody's eyes
    host.rackless("up")
    assert host_record(host, "box-0")["spec"]["image"]["format"] == "live-iso"  # type: ignore[index]
    assert leaked_secrets(host.folder / "state" / "lab", SECRET) == []
