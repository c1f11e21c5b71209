"""What every firewall does, be it a kernel's or a fake's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from rackless.drivers import namespaces as ns
from rackless.drivers.fake.firewall import FakeFirewall
from rackless.drivers.fake.script import Script
from rackless.drivers.nftables import NftFirewall
from rackless.errors import CommandFailed
from rackless.ports.firewall import Firewall
from tests.own_network import own_network

Story = Callable[[Firewall, Path], Coroutine[Any, Any, None]]
Told = Callable[[Story], None]


def table(name: str, *elements: str) -> str:
    listed = [f"    elements = {{ {', '.join(elements)} }}"] if elements else []
    lines = [f"table ip {name} {{", "  set opened {", "    type ifname", *listed, "  }", "}"]
    return "\n".join([f"table ip {name}", f"delete table ip {name}", *lines, ""])


@pytest.fixture(params=[pytest.param("nft", marks=pytest.mark.real), "fake"])
def told(request: pytest.FixtureRequest) -> Told:
    """A story is given the firewall of a network namespace, and the way to another one."""

    def tell(story: Story) -> None:
        if request.param == "fake":
            asyncio.run(story(FakeFirewall(Script(), lambda: "here"), Path("/fake/there")))
            return
        there = ns.ThreadRoom("there")
        try:
            with own_network() as live:
                live(lambda: story(NftFirewall(), there.path))
        finally:
            there.close()

    return tell


def test_a_table_is_replaced_as_a_whole_and_removed(told: Told) -> None:
    async def story(firewall: Firewall, _: Path) -> None:
        assert await firewall.sets("opened") == {}
        await firewall.replace(table("rl_one", '"eth0"', '"eth1"'))
        await firewall.replace(table("rl_two"))
        assert await firewall.sets("opened") == {"rl_one": frozenset({"eth0", "eth1"}), "rl_two": frozenset()}
        await firewall.replace(table("rl_one", '"wlan0"'))
        assert (await firewall.sets("opened"))["rl_one"] == {"wlan0"}
        await firewall.remove("rl_one")
        await firewall.remove("rl_one")
        assert set(await firewall.sets("opened")) == {"rl_two"}
        assert await firewall.sets("closed") == {}

    told(story)


def test_rules_of_another_namespace_are_not_ours(told: Told) -> None:
    async def story(firewall: Firewall, there: Path) -> None:
        await firewall.replace(table("rl_one", '"eth0"'), namespace=there)
        assert await firewall.sets("opened") == {}

    told(story)


def test_what_is_refused_changes_nothing(told: Told) -> None:
    async def story(firewall: Firewall, _: Path) -> None:
        await firewall.replace(table("rl_one", '"eth0"'))
        with pytest.raises(CommandFailed):
            await firewall.replace("nonsense\n")
        assert await firewall.sets("opened") == {"rl_one": frozenset({"eth0"})}

    told(story)
