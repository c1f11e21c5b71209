"""What a person can look at in a lab on fakes: an archive for a bug report, a console of a lab that is stopped, the doctor."""

from __future__ import annotations

import json
import tarfile

from rackless.drivers.fake.processes import FakeProcess
from rackless.operations.doctor import examine
from rackless.operations.gather import QUESTIONS, gather
from rackless.operations.servers import console
from rackless.spec.load import parse
from tests.simulation.person import Person

SMALL = "name: lab\nnetworks: {uplink: {mode: nat}}\nservers: {worker: {count: 1}}"


async def _answers(process: FakeProcess) -> int:
    process.say(f"asked {' '.join(process.argv)}")
    return 0


def test_an_archive_has_what_was_asked_inside_and_no_secret(person: Person) -> None:
    person.spec = parse(SMALL, "lab.yaml")
    person.world.processes.programs |= dict.fromkeys({question[0] for question in QUESTIONS.values()}, _answers)

    async def story() -> None:
        await person.up("bmc")
        target = person.folder / "lab.tar.gz"
        found = await person.run("gather", gather("lab", target, person.roots, person.world.drivers()))
        assert target.stat().st_mode & 0o777 == 0o600
        with tarfile.open(target) as archive:
            members = [(name.partition("/")[2], archive.extractfile(name)) for name in archive.getnames()]
            texts = {name: file.read() for name, file in members if file is not None}
        assert found["files"] == len(texts)
        assert {f"inside/{name}" for name in QUESTIONS} <= set(texts)
        assert b"nft list ruleset" in texts["inside/rules.txt"]
        assert json.loads(texts["status.json"])["reached"] == "bmc"
        assert any(check["about"] == "packages" for check in json.loads(texts["doctor.json"]))
        secrets = [path.read_bytes().strip() for path in person.paths.secrets.glob("*.password")]
        assert secrets and not any(secret in text for secret in secrets for text in texts.values())

    person.live(story)


def test_a_console_of_a_lab_that_is_stopped_shows_what_was_said(person: Person) -> None:
    person.spec = parse(SMALL, "lab.yaml")

    async def look() -> bytes:
        async with console("lab", "worker-0", 1, person.roots, person.world.drivers()) as seat:
            assert not seat.on and seat.write is None
            async for said in seat.heard:
                return said
        return b""

    async def story() -> None:
        await person.up("lab")
        await person.down()
        person.paths.console("worker-0").parent.mkdir(parents=True, exist_ok=True)
        person.paths.console("worker-0").write_bytes(b"first\nlast words\n")
        assert await person.run("console", look()) == b"last words\n"

    person.live(story)


def test_the_doctor_tells_of_orphans_and_of_a_computer_that_moved(person: Person) -> None:
    person.spec = parse(SMALL, "lab.yaml")

    async def warnings() -> dict[str, str]:
        checks = await person.run("doctor", examine(person.roots, person.world.drivers()))
        return {check.about: check.fix for check in checks if check.verdict == "warning"}

    async def story() -> None:
        await person.up("lab")
        assert set(await warnings()) == {"acceleration"}
        person.world.network.forwarding["eth0"] = False
        assert (await warnings())["uplink"] == "rackless up --name lab"
        person.paths.ledger.unlink()
        assert (await warnings())["orphan"] == "rackless destroy --orphans"

    person.live(story)
