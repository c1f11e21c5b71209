"""An install that is given up: its machine, its servers' power and its keys go, and the lab stays, on fakes."""

from __future__ import annotations

import json

from rackless.cluster.reference.keys import Keys
from rackless.drivers.fake.processes import FakeProcess
from rackless.events import Bus
from rackless.operations.install import assets
from rackless.operations.install import cluster as install_cluster
from rackless.operations.install.destroy import destroy_bootstrap, destroy_cluster
from rackless.operations.install.lab import begin_folder
from rackless.plan.addressing import plan_lab
from rackless.spec.load import parse
from tests.simulation.person import Person

LAB = "name: lab\nservers: {worker: {role: worker, count: 1}, ctrl: {role: control-plane, count: 1}}\ncluster: {method: ipi}"


def test_the_lab_is_what_it_was_before_and_the_next_install_begins_anew(person: Person) -> None:
    person.spec = parse(LAB, "lab.yaml")
    asked: list[str] = []

    async def vm(process: FakeProcess) -> int:
        asked.append(process.argv[-1])
        process.say(json.dumps({"changed": len(asked) == 1}))
        return 0

    person.world.processes.programs["rackless.operations.bootstrap.vm"] = vm

    async def story() -> None:
        await person.up("bmc")
        folder, paths = person.paths.install, person.paths
        begin_folder(folder, plan_lab(person.spec), paths)
        assets.create(folder, "ignition-configs", Bus())
        first = install_cluster.load_folder(folder).infrastructure
        install_cluster._lay_keys(folder, paths)
        paths.release.mkdir()
        for server in ("ctrl-0", "worker-0"):
            await person.power("on", server)
        given = (folder, None, person.roots, Bus(), person.world.drivers())
        await person.run("destroy bootstrap", destroy_bootstrap(*given))
        assert Keys(paths.cluster_keys).made and paths.release.exists()

        await person.run("destroy cluster", destroy_cluster(*given))
        assert len(asked) == 2  # one that is gone already is no trouble
        assert not Keys(paths.cluster_keys).made and not paths.release.exists()
        assert sorted(path.name for path in folder.iterdir()) == [assets.LOG]
        status = await person.status()
        assert {each["name"]: each["power"] for each in status["servers"]} == {"ctrl-0": "off", "worker-0": "off"}

        begin_folder(folder, plan_lab(person.spec), paths)
        assets.create(folder, "ignition-configs", Bus())
        assert install_cluster.load_folder(folder).infrastructure != first

    person.live(story)
