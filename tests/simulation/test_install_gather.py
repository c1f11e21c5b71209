"""What is gathered of a bootstrap machine that did not come to its end, in a lab on fakes."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from rackless.cluster.bootstrap.vm import name_of
from rackless.drivers.fake.processes import FakeProcess
from rackless.events import Bus
from rackless.operations.install import assets
from rackless.operations.install.cluster import load_folder
from rackless.operations.install.gather import QUESTIONS, gather_bootstrap
from rackless.operations.install.lab import begin_folder
from rackless.plan.addressing import plan_lab
from rackless.spec.load import parse
from tests.simulation.person import Person

LAB = "name: lab\nservers: {ctrl: {role: control-plane, count: 1}}\ncluster: {method: ipi}"


async def _answers(process: FakeProcess) -> int:
    process.say(f"asked {' '.join(process.argv)}")
    return 0


async def _silent(process: FakeProcess) -> int:
    process.say("ssh: connect to host: No route to host")
    return 255


def _read(target: Path) -> dict[str, bytes]:
    with tarfile.open(target) as archive:
        members = [(name.partition("/")[2], archive.extractfile(name)) for name in archive.getnames()]
        return {name: file.read() for name, file in members if file is not None}


@pytest.mark.parametrize("reachable", [True, False])
def test_what_answers_is_gathered_what_does_not_is_named_and_no_password_is_in_it(
    person: Person, *, reachable: bool
) -> None:
    person.spec = parse(LAB, "lab.yaml")
    person.world.processes.programs["ssh"] = _answers if reachable else _silent

    async def story() -> None:
        await person.up("bmc")
        folder, paths = person.paths.install, person.paths
        begin_folder(folder, plan_lab(person.spec), paths)
        assets.create(folder, "ignition-configs", Bus())
        (password,) = {host.bmc_password for host in assets.load_install_config(folder).hosts}
        console = paths.console(name_of(load_folder(folder).infrastructure))
        console.parent.mkdir(parents=True, exist_ok=True)
        console.write_text(f"BOOTSTRAP tells; somebody printed {password}\n")
        target = person.folder / "bundle.tar.gz"
        gathering = gather_bootstrap(folder, None, target, None, person.roots, person.world.drivers())
        found = await person.run("gather bootstrap", gathering)

        texts = _read(target)
        assert target.stat().st_mode & 0o777 == 0o600 and found["files"] == len(texts)
        assert texts[f"console/{console.name}"] == b"BOOTSTRAP tells; somebody printed (secret)\n"
        asked = {name for name in texts if name.startswith("machine/")}
        assert asked == ({f"machine/{name}" for name in QUESTIONS} if reachable else set())
        assert not any(password.encode() in text for text in texts.values())
        absent = json.loads(texts["absent.json"])
        assert found["absent"] == absent and ("machine" in absent) is not reachable
        assert absent["objects/BareMetalHost"]  # nobody has the VIP

    person.live(story)
