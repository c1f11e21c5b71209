"""A lab whose hosts are provisioned by an Ironic that is not its own: a second real one, in the lab's own networks."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.drivers.ironic.certificates import write_certificates
from tests.real.conftest import ROOT, PretendHost, leaked_secrets
from tests.real.other_ironic import PASSWORD, USERNAME

pytestmark = pytest.mark.real

GATEWAY, PORT = "192.168.111.1", 6399
LAB = f"""\
servers: {{box: {{role: spare, count: 1}}}}
provisioner:
  url: https://{GATEWAY}:{PORT}
  credentials: {{username: {USERNAME}, password_file: password}}
  ca: theirs/ca.crt
"""


@contextmanager
def their_ironic(host: PretendHost, folder: Path) -> Iterator[None]:
    labd = host.one("rackless.labd.main")
    command = [sys.executable, "-m", "tests.real.other_ironic", str(folder), GATEWAY, str(PORT)]
    process = subprocess.Popen(
        ["nsenter", "-t", str(labd), "-m", "-n", f"--wd={ROOT}", "--", *command],
        env=host.environment, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        yield
    finally:
        process.terminate()
        process.wait(timeout=300)
        if process.stdout:
            process.stdout.close()


def await_host(host: PretendHost, wanted: str, within: float = 300) -> None:
    deadline = time.monotonic() + within
    seen = ""
    while time.monotonic() < deadline:
        (record,) = json.loads(host.rackless("host", "list", "--json").stdout)
        seen = record.get("status", {}).get("provisioning", {}).get("state", "")
        if seen == wanted:
            return
        time.sleep(0.5)
    pytest.fail(f"the host was never {wanted}, but {seen}")


def test_hosts_are_registered_and_switched_by_an_ironic_that_is_not_the_labs(host: PretendHost) -> None:
    theirs = host.folder / "theirs"
    theirs.mkdir()
    write_certificates(theirs, GATEWAY)
    password = host.folder / "password"
    password.write_text("a wrong one\n")
    (host.folder / "lab.yaml").write_text(LAB)
    host.rackless("up", "--until", "bmc")

    # every way to miss it has its name
    done = host.rackless("up", "--until", "engine", check=False)
    assert done.returncode == 4 and "does not answer" in done.stderr
    with their_ironic(host, theirs):
        done = host.rackless("up", "--until", "engine", check=False)
        assert done.returncode == 4 and "does not let us in" in done.stderr
        password.write_text(f"{PASSWORD}\n")

        host.rackless("up", "--until", "hosts")
        assert not [
            command for _, command in host.inhabitants() if "ironic.conf" in command and "theirs" not in command
        ]
        await_host(host, "inspecting")  # so its BMC was reached, with the right password
        await_power(host, "on")  # and it does as it is told
        assert leaked_secrets(host.folder / "state" / "lab") == []

        # what was written there goes with the lab
        (host.folder / "lab.yaml").unlink()
        done = host.rackless("destroy", "--yes", "--json")
        (step,) = [event for event in map(json.loads, done.stdout.splitlines()) if event.get("detail") == "lab~box-0"]
        assert step["outcome"] == "done"


def await_power(host: PretendHost, wanted: str, within: float = 300) -> None:
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        if host.status()["servers"][0]["power"] == wanted:
            return
        time.sleep(0.5)
    pytest.fail(f"the server was never {wanted}")
