"""Which hosts the reference cluster writes down, and what it leaves alone."""

from pathlib import Path

from rackless.cluster.reference.keys import Keys
from rackless.cluster.reference.recipe import Cluster
from rackless.drivers.fake.clock import VirtualClock
from rackless.drivers.fake.nodes import FakeNodes
from rackless.drivers.fake.resources import MemoryResources
from rackless.events import Bus, StepFinished
from rackless.plan.addressing import plan_lab
from rackless.ports.provisioner import Image
from rackless.ports.resources import Record
from rackless.provisioning.baremetalhost import BY_HAND, KIND, System, image_record, secret_text
from rackless.spec.load import parse

LAB = """\
servers:
  ctrl: {role: control-plane, count: 1}
  own: {role: worker, count: 1, image: {url: /srv/mine.raw}}
  spare: {role: spare, count: 1}
"""
NODE = Image("http://192.0.2.1/node.qcow2", "ab" * 32)
MINE = Image("http://192.0.2.1/mine.raw", "cd" * 32, format="raw")


def make(folder: Path) -> tuple[Cluster, MemoryResources, Bus]:
    resources, bus = MemoryResources(), Bus()
    plan = plan_lab(parse(LAB, "lab.yaml"))
    return Cluster(plan, Keys(folder), resources, VirtualClock(), bus, FakeNodes()), resources, bus


async def spec(resources: MemoryResources, name: str) -> Record:
    record = await resources.get(KIND, name)
    assert record
    found: Record = record["spec"]
    return found


async def test_nodes_get_the_node_image_others_their_own_and_spares_none(tmp_path: Path) -> None:
    cluster, resources, _ = make(tmp_path)
    await cluster.ensure_hosts("admin", "secret", NODE, {"own-0": System(MINE, "#cloud-config")})
    assert (await spec(resources, "ctrl-0"))["image"] == image_record(NODE)
    own = await spec(resources, "own-0")
    assert own["image"] == image_record(MINE) and own["online"]
    told = await resources.get("Secret", own["userData"]["name"])
    assert told and secret_text(told, "userData") == "#cloud-config"
    assert "image" not in await spec(resources, "spare-0")


async def test_what_a_person_has_said_of_a_host_is_left_alone_and_not_waited_for(tmp_path: Path) -> None:
    cluster, resources, _ = make(tmp_path)
    await cluster.ensure_hosts("admin", "secret", NODE, {"own-0": System(MINE)})
    for name in ("ctrl-0", "own-0", "spare-0"):
        record = await resources.get(KIND, name)
        assert record
        record["metadata"]["annotations"] = {BY_HAND: "provision"}
        record["spec"]["image"] = {"url": "http://192.0.2.1/by-hand.raw"}
        await resources.apply(record)
    await cluster.ensure_hosts("admin", "secret", NODE, {"own-0": System(MINE)})
    for name in ("ctrl-0", "own-0", "spare-0"):
        assert (await spec(resources, name))["image"]["url"] == "http://192.0.2.1/by-hand.raw"
    await cluster.await_hosts()  # nothing is left to wait for


def test_a_control_plane_with_another_image_is_no_member() -> None:
    plan = plan_lab(parse("image: {url: /srv/mine.raw}\n" + LAB, "lab.yaml"))
    assert plan.control_planes == ()


async def test_a_system_that_is_not_ours_is_only_looked_at(tmp_path: Path) -> None:
    resources, bus = MemoryResources(), Bus()
    seen: list[str] = []
    bus.subscribe(lambda event: seen.append(event.detail) if isinstance(event, StepFinished) else None)
    lab = parse("networks: {cluster: {cidr: 127.9.9.0/24}}\nservers: {own: {image: {url: /srv/mine.raw}}}", "lab.yaml")
    await Cluster(plan_lab(lab), Keys(tmp_path), resources, VirtualClock(), bus, FakeNodes()).await_nodes()
    assert seen == ["provisioned; what it does from here is its own affair"]


async def test_a_node_of_an_earlier_versions_lab_is_neither_told_to_join_nor_waited_for(tmp_path: Path) -> None:
    cluster, resources, _ = make(tmp_path)
    await cluster.ensure_hosts("admin", "secret", NODE)
    provisioned = {"provisioning": {"state": "provisioned"}}
    await resources.patch_status(KIND, "ctrl-0", provisioned)
    cluster.keys.forget("ctrl-0")
    await cluster.ensure_hosts("admin", "secret", NODE)
    told = await resources.get("Secret", "ctrl-0-user-data")
    assert told and "rackless-node" not in (secret_text(told, "userData") or "rackless-node")
    assert cluster.keys.token("ctrl-0") is None and await cluster.lacking_objects() == ""
    await cluster.await_joined()


async def test_a_node_is_waited_for_until_it_says_that_it_is_ready(tmp_path: Path) -> None:
    cluster, _, _ = make(tmp_path)
    nodes = cluster.nodes
    assert isinstance(nodes, FakeNodes)
    nodes.answers = lambda name: name == "ctrl-0" and cluster.clock.now() > 60
    await cluster.ensure_hosts("admin", "secret", NODE)
    assert await cluster.lacking_objects() == "ctrl-0 has not joined"
    assert isinstance(cluster.clock, VirtualClock)
    await cluster.clock.run(cluster.await_joined())
    assert cluster.clock.now() > 60 and nodes.joined == {"ctrl-0"} and await cluster.lacking_objects() == ""
    assert "spare-0" in nodes.admitted, "a Machine may claim it"


async def test_a_server_that_goes_is_taken_out_of_the_clusters_api(tmp_path: Path) -> None:
    cluster, _, _ = make(tmp_path)
    nodes = cluster.nodes
    assert isinstance(nodes, FakeNodes)
    nodes.answers = lambda _: True
    await cluster.ensure_hosts("admin", "secret", NODE)
    await cluster.await_joined()
    await cluster.forget("ctrl-0")
    assert "ctrl-0" not in nodes.admitted | nodes.joined and cluster.keys.token("ctrl-0") is None
