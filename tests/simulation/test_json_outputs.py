"""What `--json` prints of a lab, whole: programs read it, so its names and its shape stay."""

from __future__ import annotations

import json
import re
from pathlib import Path

from rackless.codec import encode
from rackless.operations import hosts, servers
from rackless.protocol.messages import FaultWish
from rackless.simulation.person import Person

GOLDEN = Path(__file__).parent / "golden"


def compare(name: str, found: object, person: Person) -> None:
    text = json.dumps(found, indent=1).replace(str(person.folder), "FOLDER") + "\n"
    text = re.sub(r'"pid": \d+', '"pid": 7', re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:PORT", text))
    text = re.sub(r'"up_seconds": [\d.]+', '"up_seconds": 7', text)
    assert text == (GOLDEN / name).read_text()


def test_status_power_and_faults_are_printed_as_ever(person: Person) -> None:
    async def story() -> None:
        await person.up()
        refuse = FaultWish("refuse", "ctrl-0", count=3)
        added = await person.run("add", hosts.add_fault(person.paths.socket, refuse))
        compare("fault.json", encode(added), person)
        compare("status.json", await person.status(), person)
        pressed = await person.run("power", servers.power("lab", "ctrl-0", "status", person.roots))
        assert encode(pressed) == {"server": "ctrl-0", "power": "on"}
        records = await person.run("hosts", hosts.hosts("lab", person.roots))
        assert [record["kind"] for record in records] == ["BareMetalHost"] * 4
        assert await person.run("clear", hosts.clear_faults(person.paths.socket, [])) == 1
        await person.down()
        assert await person.status() == {"lab": "lab", "daemon": "stopped"}

    person.live(story)
