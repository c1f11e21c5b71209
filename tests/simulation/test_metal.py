"""Servers that a lab did not make: it knows them, and leaves them alone until it is told to have them."""

from __future__ import annotations

import os
from typing import Any

import pytest

from rackless.errors import LabError
from rackless.operations import hosts
from rackless.protocol.messages import HostVerb, HostWish
from rackless.spec.load import parse
from tests.simulation.person import Person

BMC = "redfish-virtualmedia://192.0.2.{}/redfish/v1/Systems/1"


def described(person: Person, bmc: int = 7) -> Any:
    (person.folder / "password").write_text("calvin\n")
    host = f"{{bmc: '{BMC.format(bmc)}', mac: '02:00:00:00:07:07', password_file: {person.folder}/password, insecure: true}}"
    return parse(f"name: lab\nservers: {{node: {{count: 1}}}}\nhosts: {{rack1-u7: {host}}}\n", "lab.yaml")


@pytest.fixture(autouse=True)
def as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)


def test_nothing_is_asked_of_metal_before_somebody_says_so(person: Person) -> None:
    person.spec = described(person)

    async def wish(verb: HostVerb, *, wait: bool = True) -> tuple[bool, str]:
        asked = HostWish(verb, "rack1-u7", wait=wait)
        done = await person.run(verb, hosts.wish("lab", asked, person.roots, person.bus))
        return done.changed, done.state

    async def record() -> Any:
        found = await person.run("list", hosts.hosts("lab", person.roots))
        return next(one for one in found if one["metadata"]["name"] == "rack1-u7")  # type: ignore[index]

    async def story() -> None:
        await person.up("hosts")
        untouched = await record()
        assert "status" not in untouched or not untouched["status"].get("provisioning", {}).get("state")
        assert untouched["spec"]["bmc"]["disableCertificateVerification"] is True
        for verb in ("inspect", "clean", "deprovision", "retry"):
            with pytest.raises(LabError, match="nobody has said that the lab may have rack1-u7"):
                await wish(verb, wait=False)
        await person.up("hosts")
        assert (await record())["metadata"]["annotations"] == untouched["metadata"]["annotations"]

        assert await wish("take") == (True, "available")
        assert await wish("take") == (False, "available"), "once is enough"
        assert await wish("inspect") == (True, "available")
        await person.up("hosts")
        taken = await record()
        assert taken["status"]["provisioning"]["state"] == "available", "up leaves it as it is"

        person.spec = described(person, bmc=8)
        await person.up("hosts")
        with pytest.raises(LabError, match="nobody has said"):
            await wish("inspect", wait=False)

    person.live(story)


def test_metal_that_runs_something_is_adopted_as_it_is(person: Person) -> None:
    person.spec = described(person)

    async def story() -> None:
        await person.up("hosts")
        asked = hosts.adopt("lab", ["rack1-u7"], None, person.roots, person.bus, wait=True)
        (done,) = await person.run("adopt", asked)
        assert (done.changed, done.state) == (True, "externally provisioned")

    person.live(story)
