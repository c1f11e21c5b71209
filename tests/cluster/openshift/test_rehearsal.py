"""A rehearsal without the installer: our bootstrap and our cluster, and a stand-in that asks what the installer asks."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rackless.cluster.openshift import ignition, rehearsal, site
from rackless.cluster.openshift.faults import InstallFault
from rackless.cluster.openshift.serving import ClusterApi
from rackless.cluster.openshift.site import ClusterMetal, ClusterSite
from tests.cluster.openshift.bootstrap_config import DOMAIN, Made
from tests.cluster.openshift.stand_in import StandIn


async def _reachable(host: ClusterMetal) -> tuple[bool, str]:
    return True, "account accepted"


def _site(made: Made) -> ClusterSite:
    return site.read(ignition.read(made.text()))


def _port(api: ClusterApi) -> int:
    return int(api.url.rpartition(":")[2])


async def test_a_stand_in_for_the_installer_comes_to_its_end(tmp_path: Path) -> None:
    made = Made(hosts=4)
    known, said = _site(made), list[Mapping[str, Any]]()
    installer = StandIn(made, tmp_path)
    async with asyncio.timeout(60), ClusterApi(known, tmp_path / "bootstrap", "127.0.0.1", 0) as api:
        playing = asyncio.create_task(rehearsal.play_bootstrap(known, api, _reachable, said.append, None, 0.0))
        await installer.bootstrap(_port(api))
        assert await playing
    async with asyncio.timeout(60), ClusterApi(known, tmp_path / "cluster", "127.0.0.1", 0) as api:
        playing_on = asyncio.create_task(rehearsal.play_cluster(known, api, said.append, None))
        await installer.cluster(_port(api))
        await playing_on
    assert installer.steps == [
        "version", "hosts provisioned", "bootstrap complete", "etcd member removed", "version available", "20 operators",
        "console",
    ]  # fmt: skip
    assert [one["bmc"] for one in said if "bmc" in one] == ["m-0", "m-1", "m-2", "m-3"]


@pytest.mark.parametrize(
    ("fault", "reached"),
    [
        (InstallFault.HOST_ERROR, ["version"]),
        (InstallFault.CONFIG_MAP_MISSING, ["version", "hosts provisioned"]),
        (InstallFault.ETCD_STAYS, ["version", "hosts provisioned", "bootstrap complete"]),
    ],
)
async def test_what_is_to_fail_leaves_the_installer_waiting_where_it_does_at_a_site(
    tmp_path: Path, fault: InstallFault, reached: list[str]
) -> None:
    made = Made()
    known, said = _site(made), list[Mapping[str, Any]]()
    installer = StandIn(made, tmp_path)
    async with asyncio.timeout(60), ClusterApi(known, tmp_path / "bootstrap", "127.0.0.1", 0) as api:
        waiting = asyncio.create_task(installer.bootstrap(_port(api)))
        assert not await rehearsal.play_bootstrap(known, api, _reachable, said.append, fault, 0.0)
        while installer.steps != reached:
            assert not waiting.done()
            await asyncio.sleep(0.01)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    assert any(one.get("in_vain") for one in said)


async def test_a_bmc_that_does_not_answer_is_the_hosts_error(tmp_path: Path) -> None:
    known, said = _site(Made()), list[Mapping[str, Any]]()

    async def ask(host: ClusterMetal) -> tuple[bool, str]:
        return host.name != "m-1", "it refuses the account admin (401)"

    async with ClusterApi(known, tmp_path / "api", "127.0.0.1", 0) as api:
        assert not await rehearsal.play_bootstrap(known, api, ask, said.append, None, 0.0)
        kind = api.objects.registry.by_kind("metal3.io", "BareMetalHost")
        assert kind is not None
        stored = {entry.key.rpartition("/")[2]: entry.data.decode() for entry in api.objects.store.entries(kind.bucket)}
    assert '"state":"provisioned"' in stored["m-0"] and '"state":"registering"' in stored["m-1"]
    assert "it refuses the account" in stored["m-1"] and "very-secret" not in "".join(stored.values())
    assert any(one.get("in_vain") and "m-1" in one["waits"] for one in said)


def test_a_site_is_read_from_the_installers_config() -> None:
    known = _site(Made(bmc="ipmi://10.0.0.{n}"))
    assert (known.api, known.api_internal, known.apps) == (f"api.{DOMAIN}", f"api-int.{DOMAIN}", f"apps.{DOMAIN}")
    assert str(known.api_vip) == "10.20.30.5" and known.infrastructure == "site-abcde" and known.static is None
    assert [(host.name, host.bmc, host.username, host.control_plane) for host in known.hosts] == [
        (f"m-{n}", f"ipmi://10.0.0.{n}", "admin", True) for n in range(3)
    ]
    assert "very-secret" not in repr(known)


@pytest.mark.parametrize(
    "addresses", ["address1=10.20.30.9/24", "address1=10.20.30.9/24,10.20.30.1", "addresses=10.20.30.9/24"]
)
def test_a_fixed_address_of_the_bootstrap_is_read_from_its_connection_in_either_spelling(addresses: str) -> None:
    """The installer writes `addresses`."""
    made = Made()
    made.files["/etc/NetworkManager/system-connections/nmconnection"] = (
        "[connection]\ntype=ethernet\n[ethernet]\nmac-address=52:54:00:AA:00:09\n\n"
        f"[ipv4]\n\nmethod=manual\n{addresses}\ngateway=10.20.30.1\ndns=10.20.30.2\n\n"
    )
    static = _site(made).static
    assert static is not None and str(static.address) == "10.20.30.9/24" and static.mac == "52:54:00:aa:00:09"
    assert str(static.gateway) == "10.20.30.1" and static.dns == ("10.20.30.2",)


def test_the_config_is_found_in_an_iso_where_the_installer_writes_it(tmp_path: Path) -> None:
    made, iso = Made(), tmp_path / "iso"
    iso.write_bytes(bytes(4096) + made.embedded().ljust(1 << 20, b"\0") + b"more")
    assert ignition.read_from_iso(iso, 4096, 1 << 20) == made.text()
    with pytest.raises(ignition.NoIgnition, match="not written"):
        ignition.read_from_iso(iso, 0, 4096)
    iso.write_bytes(made.embedded()[:200])
    with pytest.raises(ignition.NoIgnition):
        ignition.read_from_iso(iso, 0, 1 << 20)


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"storage": {"files": [{}]}}', b"\xff"])
def test_what_is_no_config_is_said_to_be_none(text: bytes) -> None:
    with pytest.raises(ignition.NoIgnition):
        site.read(ignition.read(text))
