"""A lab whose cluster installs itself: its install-config, and how far `up` goes by itself."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
import yaml

from rackless.errors import InputError
from rackless.events import Bus, Event, Note
from rackless.operations.access import cluster_kubeconfig, find_address
from rackless.operations.install import assets
from rackless.operations.install.lab import begin_folder
from rackless.operations.lab import own_goal
from rackless.plan.addressing import plan_lab
from rackless.provisioning.nmstate import to_network_data
from rackless.run.paths import LabPaths, Roots
from rackless.spec.check import find_problems
from rackless.spec.lab import LabSpec

SERVERS = {"ctrl": {"role": "control-plane", "count": 3}, "worker": {"role": "worker", "count": 1}}


def described(method: str = "ipi", **more: object) -> LabSpec:
    return LabSpec.model_validate({"servers": SERVERS, "cluster": {"method": method}, **more})


@pytest.fixture
def paths(tmp_path: Path) -> LabPaths:
    paths = LabPaths(Roots(tmp_path / "state", tmp_path / "run", tmp_path / "cache"), "lab")
    paths.state.mkdir(parents=True)
    return paths


@pytest.mark.parametrize(("method", "goal", "own"), [
    ("direct", "cluster", "cluster"), ("ipi", "cluster", "bmc"), ("none", "cluster", "bmc"), ("ipi", "lab", "lab"),
])  # fmt: skip
def test_the_lab_itself_goes_no_further_than_its_bmcs_where_somebody_else_installs(
    paths: LabPaths, method: str, goal: str, own: str
) -> None:
    assert own_goal(goal, described(method), paths) == own


def test_a_lab_that_an_install_has_begun_in_stays_the_installs(paths: LabPaths) -> None:
    paths.release.mkdir()
    assert own_goal("cluster", described("direct"), paths) == "bmc"


def test_its_install_config_is_one_that_manifests_can_be_made_of_and_is_written_once(paths: LabPaths) -> None:
    plan = plan_lab(described())
    begin_folder(paths.install, plan, paths)
    first = (paths.install / "install-config.yaml").read_text()
    assert (paths.install / "install-config.yaml").stat().st_mode & 0o777 == 0o600
    begin_folder(paths.install, plan, paths)
    assert (paths.install / "install-config.yaml").read_text() == first

    bus, told = Bus(), list[Event]()
    bus.subscribe(told.append)
    assets.create(paths.install, "ignition-configs", bus)
    assert not [event for event in told if isinstance(event, Note) and event.level == "warning"]
    begin_folder(paths.install, plan, paths)  # consumed, and not written again
    assert not (paths.install / "install-config.yaml").exists()
    assert assets.find_cluster_name(paths.install) == "lab"
    assert [host.name for host in assets.load_install_config(paths.install).hosts] == [
        "ctrl-0", "ctrl-1", "ctrl-2", "worker-0",
    ]  # fmt: skip


def test_its_kubeconfig_is_the_installs_by_way_of_the_hypervisor(
    paths: LabPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin_folder(paths.install, plan_lab(described()), paths)
    assets.create(paths.install, "ignition-configs", Bus())
    monkeypatch.setattr("rackless.operations.access.require_lab", lambda lab, roots: paths)
    monkeypatch.setattr("rackless.operations.access.require_root", lambda what, why: None)
    monkeypatch.setattr("rackless.cluster.reference.kubeconfigs.host_url", lambda port: "https://127.0.0.1:4711")
    found = json.loads(cluster_kubeconfig("lab", paths.roots))
    assert found["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:4711"
    assert "client-key-data" in found["users"][0]["user"]


@pytest.mark.parametrize(("change", "path"), [
    ({"servers": {"worker": {"role": "worker", "count": 1}}}, "servers"),
    ({"networks": {"provisioning": {"mode": "unmanaged", "gateway": "172.22.0.3"}}}, "networks.provisioning.gateway"),
    ({"provisioner": {"url": "https://192.168.111.9:6385"}}, "provisioner"),
    ({"networks": {"cluster": {"dhcp": "none"}}, "servers": {**SERVERS, "worker": {"boot": "network"}}}, "servers.worker.boot"),
])  # fmt: skip
def test_what_a_bootstrap_of_ours_cannot_do_is_refused(change: dict[str, object], path: str) -> None:
    assert path in [problem.path for problem in find_problems(described("ipi", **change))]
    assert path not in [problem.path for problem in find_problems(described("direct", **change))]


def test_servers_that_boot_over_the_network_are_installed_over_one_that_is_the_installs_own(paths: LabPaths) -> None:
    spec = described(servers={name: {**group, "bmc": "redfish"} for name, group in SERVERS.items()})
    assert list(find_problems(spec)) == []
    begin_folder(paths.install, plan_lab(spec), paths)
    assets.create(paths.install, "manifests", Bus())
    metal = assets.load_install_config(paths.install).metal
    assert metal is not None and metal.provisioning == "Managed"
    assert (metal.bootstrap_ip, metal.cluster_ip) == ("172.22.0.2", "172.22.0.3")


def test_servers_with_ipmi_alone_are_installed_also_where_somebody_else_answers_dhcp(paths: LabPaths) -> None:
    servers = {name: {**group, "bmc": "ipmi"} for name, group in SERVERS.items()}
    spec = described(servers=servers, networks={"provisioning": {"mode": "unmanaged"}})
    assert list(find_problems(spec)) == []
    plan = plan_lab(spec)
    begin_folder(paths.install, plan, paths)
    assets.create(paths.install, "ignition-configs", Bus())
    metal = assets.load_install_config(paths.install).metal
    assert metal is not None and (metal.provisioning, metal.dhcp_range) == ("Unmanaged", "")
    assert {host.bmc_address for host in metal.hosts or ()} == {server.bmc_url for server in plan.servers}
    assert {host.boot_mac for host in metal.hosts or ()} == {server.boot_nic.mac for server in plan.servers}


def test_where_nobody_answers_dhcp_the_bootstrap_and_every_host_are_told_their_addresses(paths: LabPaths) -> None:
    spec = described(networks={"cluster": {"dhcp": "none", "mtu": 1400}})
    assert list(find_problems(spec)) == []
    plan = plan_lab(spec)
    assert not plan.cluster.dhcp and plan.cluster.reservations == () and plan.cluster.pools == ()
    begin_folder(paths.install, plan, paths)
    bus, told = Bus(), list[Event]()
    bus.subscribe(told.append)
    assets.create(paths.install, "manifests", bus)
    assert not [event for event in told if isinstance(event, Note) and event.level == "warning"]
    metal = assets.load_install_config(paths.install).metal
    assert metal is not None and metal.static_ip == str(plan.bootstrap_address)
    assert (metal.static_gateway, metal.static_dns) == (str(plan.gateway.ip), str(plan.gateway.ip))
    secrets = [yaml.safe_load(path.read_text()) for path in paths.install.glob("openshift/*network-config-secret*")]
    found = {each["metadata"]["name"]: base64.b64decode(each["data"]["nmstate"]) for each in secrets}
    for server in plan.servers:
        data = to_network_data(yaml.safe_load(found[f"{server.name}-network-config-secret"]), server.mac)
        assert data is not None and data["networks"][0]["ip_address"] == str(server.address)
        assert (data["links"][0]["ethernet_mac_address"], data["links"][0]["mtu"]) == (server.mac, 1400)


def test_a_bootstrap_machine_is_reached_by_its_name_once_there_is_an_install(paths: LabPaths) -> None:
    spec = described()
    paths.spec.write_text(spec.model_dump_json())
    with pytest.raises(InputError, match="no server bootstrap"):
        find_address("lab", "bootstrap", paths)
    begin_folder(paths.install, plan_lab(spec), paths)
    assets.create(paths.install, "ignition-configs", Bus())
    assert find_address("lab", "bootstrap", paths) == str(plan_lab(spec).bootstrap_address)
    assert find_address("lab", "ctrl-1", paths) == str(plan_lab(spec).servers[1].address)


def test_a_bootstrap_on_a_server_is_known_by_its_name_at_that_servers_address() -> None:
    """Control planes join the bootstrap's etcd by that name."""
    servers = {**SERVERS, "worker": {"role": "worker", "count": 1, "memory": "3GiB"}}
    spec = described(servers=servers, cluster={"method": "ipi", "bootstrap": {"on": "worker-0"}})
    assert list(find_problems(spec)) == []
    plan = plan_lab(spec)
    worker = plan.server("worker-0")
    assert worker is not None and plan.bootstrap_on == "worker-0" and plan.bootstrap_address == worker.address
    (record,) = [each for each in plan.cluster.records if f"bootstrap.{plan.domain}" in each.names]
    assert record.address == worker.address
    alone = plan_lab(described())
    assert alone.bootstrap_on == "" and str(alone.bootstrap_address).endswith(".9")
