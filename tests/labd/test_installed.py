"""A lab whose cluster installs itself asks that cluster for its hosts, and nobody else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from rackless.cluster.bootstrap.following import MACHINE_API
from rackless.cluster.reference.keys import Keys
from rackless.drivers.fake.resources import MemoryResources
from rackless.events import Bus
from rackless.installer.assets.certificates import ETCD_CA
from rackless.installer.assets.signing import KeyPair, make_authority, sign
from rackless.labd.hosts import LabHosts
from rackless.operations.install import assets
from rackless.operations.install.cluster import _lay_keys
from rackless.operations.install.lab import begin_folder
from rackless.plan.addressing import plan_lab
from rackless.ports.api import Access, ApiUnreachable
from rackless.protocol.messages import HostWish
from rackless.provisioning.baremetalhost import INSPECT, KIND
from rackless.run.paths import LabPaths, Roots
from rackless.spec.load import parse
from rackless.trust.authority import Use
from tests.labd.test_hosts import hosts_of
from tests.provisioning.site import Site


class ClusterApi(MemoryResources):
    away = False

    async def list(self, kind: str, **more: Any) -> Any:
        if self.away:
            raise ApiUnreachable("the API does not answer", why="connection refused")
        return await super().list(kind, **more)

    async def get(self, kind: str, name: str, **more: Any) -> Any:
        if self.away:
            raise ApiUnreachable("the API does not answer", why="connection refused")
        return await super().get(kind, name, **more)


def host(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "metal3.io/v1alpha1",
        "kind": KIND,
        "metadata": {"name": name, "namespace": MACHINE_API},
        "spec": {"online": True, "bmc": {"address": "redfish://192.0.2.1/x", "credentialsName": "x"}},
    }


async def installed(tmp_path: Path) -> tuple[LabHosts, ClusterApi, list[Access]]:
    site, cluster, opened = Site(), ClusterApi(MACHINE_API), list[Access]()
    await site.add("node-0")
    hosts = hosts_of(site, tmp_path)
    paths = LabPaths(Roots(tmp_path / "state", tmp_path / "run", tmp_path / "cache"), "lab")

    def open_api(access: Access, *, patience: float, namespace: str | None = None) -> Any:
        assert (patience, namespace) == (0.0, MACHINE_API)
        opened.append(access)
        return cluster

    hosts.installed._drivers = replace(hosts.installed._drivers, open_api=open_api)
    assert [each["metadata"]["name"] for each in await hosts.records()] == ["node-0"]  # before an install has begun
    paths.release.mkdir(parents=True)
    root, api = make_authority("etcd"), make_authority("api")
    admin: KeyPair = sign(api, "system:admin", uses=(Use.CLIENT,))
    Keys(paths.cluster_keys).take(*((each.certificate, each.key) for each in (root, api, admin)))
    stored = await cluster.create(host("ctrl-0"))
    status = {"provisioning": {"state": "provisioned", "ID": "1"}, "operationalStatus": "OK", "poweredOn": True}
    await cluster.patch_status(KIND, "ctrl-0", status, namespace=stored["metadata"]["namespace"])
    return hosts, cluster, opened


async def test_its_hosts_are_those_of_the_clusters_api(tmp_path: Path) -> None:
    hosts, _, opened = await installed(tmp_path)
    assert [each["metadata"]["name"] for each in await hosts.known()] == ["ctrl-0"]
    await hosts.known()
    assert [each.url for each in opened] == ["https://192.168.111.5:6443"]  # once, and kept


async def test_while_that_api_is_away_the_rest_of_a_status_is_told(tmp_path: Path) -> None:
    hosts, cluster, _ = await installed(tmp_path)
    cluster.away = True
    assert await hosts.known() == []
    await hosts.keep_power("ctrl-0", online=True)  # the button works, and the host is not told


async def test_a_wish_is_the_clusters_to_fulfil(tmp_path: Path) -> None:
    hosts, cluster, _ = await installed(tmp_path)
    await cluster.patch_status(KIND, "ctrl-0", {"provisioning": {"state": "available", "ID": "1"}})
    await hosts.wish(HostWish(host="ctrl-0", verb="inspect", wait=False))
    record = await cluster.get(KIND, "ctrl-0")
    assert record is not None and INSPECT in record["metadata"]["annotations"]
    assert hosts._controller is None  # ours keeps out of it
    await cluster.patch_status(KIND, "ctrl-0", {"provisioning": {"state": "provisioned", "ID": "1"}})
    await hosts.keep_power("ctrl-0", online=False)
    record = await cluster.get(KIND, "ctrl-0")
    assert record is not None and record["spec"]["online"] is False


def test_the_keys_of_an_install_are_where_the_lab_looks_for_them(tmp_path: Path) -> None:
    paths = LabPaths(Roots(tmp_path / "state", tmp_path / "run", tmp_path / "cache"), "lab")
    paths.state.mkdir(parents=True)
    plan = plan_lab(parse("{servers: {ctrl: {role: control-plane, count: 3}}, cluster: {method: ipi}}", "x"))
    begin_folder(paths.install, plan, paths)
    assets.create(paths.install, "ignition-configs", Bus())
    keys = Keys(paths.cluster_keys)
    assert not keys.made
    _lay_keys(paths.install, paths)
    assert keys.made
    keys.api_client()
    keys.etcd_client(plan)  # signed by the install's authority, which is not made anew
    assert (keys.etcd / "ca.crt").read_text() == assets.load_pair(paths.install, ETCD_CA).certificate
    assert all(path.stat().st_mode & 0o077 == 0 for path in paths.cluster_keys.rglob("*.key"))
