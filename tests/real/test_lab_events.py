"""The stream of a real lab's events: followed over a killed daemon, a lab that is stopped and one that comes back."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest

from tests.real.conftest import PretendHost, kill
from tests.real.test_lab_life import describe, wait_for
from tests.real.test_lab_use import ME

pytestmark = pytest.mark.real


def numbers(lines: str) -> list[int]:
    return [json.loads(line)["seq"] for line in lines.splitlines() if line.endswith("}")]


def test_who_follows_the_events_hears_each_once_whatever_happens_to_the_daemon(
    host: PretendHost, tmp_path: Path
) -> None:
    describe(host, "servers: {box: {role: spare}}\n")
    host.rackless("up", "--until", "lab")
    heard = tmp_path / "heard"
    with heard.open("w") as file:
        following = subprocess.Popen(
            host.enter(*ME, "events", "--follow", "--json", "--since", "0"), env=host.environment, stdout=file
        )
    try:
        wait_for(lambda: heard.read_text() != "")
        kill(host.one("rackless.labd.main"))
        host.rackless("up", "--until", "bmc")
        host.rackless("down")
        host.rackless("up", "--until", "bmc")
        kept = numbers(host.rackless("events", "--json", "--since", "0").stdout)
        wait_for(lambda: len(numbers(heard.read_text())) >= len(kept))
    finally:
        following.send_signal(signal.SIGINT)
        following.wait(60)
    assert numbers(heard.read_text()) == kept == list(range(1, len(kept) + 1))
    about = host.rackless("events", "--hear", "host/*", "--json").stdout
    assert about == "", "no host was touched"
