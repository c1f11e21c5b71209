"""The node agent against a cluster of values, in virtual time."""

from __future__ import annotations

import base64
import os
import stat
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rackless.node.api import Answer, Api, Away
from rackless.node.facts import DiskRoom
from rackless.node.main import age, metrics
from tests.node.cluster import DAY, LEASES, NODES, World, facts


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "pki")


def test_a_node_with_nothing_but_a_token_is_ready_within_seconds(world: World) -> None:
    world.run(3)
    assert world.cluster.ready("worker-0") == "True"
    assert f"{LEASES}/worker-0" in world.cluster.objects


def test_how_long_it_took_until_a_node_was_ready_is_an_event_once_for_each_start(world: World) -> None:
    def told() -> list[str]:
        path = "/api/v1/namespaces/default/events/"
        return [each["message"] for name, each in world.cluster.objects.items() if name.startswith(path)]

    world.cluster.away = "it starts"
    world.run(4)
    world.cluster.away = ""
    world.run(90)
    assert world.agent.ready_after is not None and 4 <= world.agent.ready_after < 10
    waited = "; for the first 3.0 s the API did not answer, or did not know it yet"
    assert told() == [f"ready {world.agent.ready_after:.1f} s after its agent was started{waited}"]
    assert "rackless_node_ready_after_seconds" in metrics(world.agent)
    world.pass_time(1)
    world.start()
    assert world.agent.ready_after is None and "ready_after" not in metrics(world.agent)
    world.run(30)
    assert len(told()) == 2 and told()[1] == "ready 0.0 s after its agent was started"


def test_the_api_of_a_cluster_that_is_being_made_is_tried_every_two_seconds_in_the_first_minute(world: World) -> None:
    world.cluster.away = "it starts"
    world.run(60)
    assert 29 <= len(world.cluster.asked) <= 32


def test_a_node_is_ready_also_when_nobody_takes_its_event(world: World) -> None:
    opened = world.cluster.open

    class Deaf:
        def __init__(self, inner: Api) -> None:
            self.inner = inner

        def request(self, method: str, path: str, *rest: Any) -> Answer:
            if path.endswith("/events"):
                raise Away("cut off")
            return self.inner.request(method, path, *rest)

        def close(self) -> None: ...

    world.agent.open = lambda settings, pair: Deaf(opened(settings, pair))
    world.run(30)
    assert world.cluster.ready("worker-0") == "True" and world.agent.ready


def test_a_process_knows_how_old_it_is(tmp_path: Path) -> None:
    began = int((time.clock_gettime(time.CLOCK_BOOTTIME) - 50) * os.sysconf("SC_CLK_TCK"))
    (tmp_path / "stat").write_text(f"7 (a (name)) S {' '.join(['0'] * 18)} {began} 0 0")
    assert 49 < age(tmp_path / "stat") < 500
    assert age() > 0


def test_ready_is_written_with_the_nodes_own_certificate_and_the_token_only_asks_for_one(world: World) -> None:
    world.run(30)
    by_token = {(verb, path.partition("/node-csr")[0]) for who, verb, path in world.cluster.asked if who == "token"}
    assert {path.rpartition("/")[2] for _, path in by_token} == {"certificatesigningrequests"}
    assert ("node", "PATCH", f"{NODES}/worker-0/status") in world.cluster.asked


def test_requests_are_what_the_cluster_approves_by_identity(world: World) -> None:
    from cryptography import x509

    world.run(3)
    client, serving = (found["spec"] for found in world.cluster.requests)
    assert client["signerName"] == "kubernetes.io/kube-apiserver-client-kubelet"
    assert client["usages"] == ["digital signature", "client auth"]
    assert serving["signerName"] == "kubernetes.io/kubelet-serving"
    asked = x509.load_pem_x509_csr(base64.b64decode(serving["request"]))
    assert asked.subject.rfc4514_string() == "CN=system:node:worker-0,O=system:nodes"
    names = asked.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["worker-0"]
    assert [str(each) for each in names.get_values_for_type(x509.IPAddress)] == ["192.0.2.10"]


def test_keys_are_made_on_the_node_for_their_owner_only_and_never_sent(world: World) -> None:
    world.run(3)
    files = list(world.folder.iterdir())
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert stat.S_IMODE(world.folder.stat().st_mode) == 0o700
    assert "PRIVATE KEY" in (world.folder / "client.pem").read_text()
    assert not any(path.name.endswith(".key") for path in files)
    assert "PRIVATE" not in str(world.cluster.objects)


def test_the_lease_is_renewed_every_ten_seconds_and_little_else_is_said(world: World) -> None:
    world.run(5)
    world.cluster.asked.clear()
    world.run(600)
    asked = [(verb, path) for _, verb, path in world.cluster.asked]
    assert asked.count(("PATCH", f"{LEASES}/worker-0")) == 60
    assert asked.count(("GET", f"{NODES}/worker-0")) == 10
    assert asked.count(("PATCH", f"{NODES}/worker-0/status")) == 2
    assert len(asked) == 72


def test_an_api_that_is_away_is_waited_for_and_a_node_called_lost_says_otherwise_at_once(world: World) -> None:
    world.run(5)
    ready_since = world.cluster.condition("worker-0", "Ready")["lastTransitionTime"]
    world.cluster.away = "connection refused"
    world.run(300)
    node = world.cluster.objects[f"{NODES}/worker-0"]
    for each in node["status"]["conditions"]:
        each |= {"status": "Unknown", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    world.cluster.away = ""
    world.run(11)
    assert world.cluster.ready("worker-0") == "True"
    assert world.cluster.condition("worker-0", "Ready")["lastTransitionTime"] > ready_since
    assert len([line for line in world.said if "away" in line]) == 1


def test_while_the_api_is_away_it_is_asked_no_more_often_than_every_ten_seconds(world: World) -> None:
    world.cluster.away = "connection refused"
    world.run(60)
    world.cluster.asked.clear()
    world.run(600)
    assert len(world.cluster.asked) < 70


def test_a_short_absence_costs_one_lease_and_no_look(world: World) -> None:
    world.run(5)
    world.cluster.away = "no answer in time"
    world.run(8)
    world.cluster.away = ""
    world.cluster.asked.clear()
    world.run(20)
    assert ("node", "GET", f"{NODES}/worker-0") not in world.cluster.asked


def test_a_lost_certificate_is_asked_for_again_with_the_token(world: World) -> None:
    world.run(5)
    (world.folder / "client.pem").unlink()
    world.run(15)
    assert (world.folder / "client.pem").exists()
    before = world.cluster.renewed("worker-0")
    world.run(30)
    assert world.cluster.renewed("worker-0") > before


def test_half_a_certificate_after_a_power_cut_is_as_good_as_none(world: World) -> None:
    world.run(5)
    path = world.folder / "client.pem"
    path.write_text(path.read_text()[:300])
    world.start()
    world.run(5)
    assert "PRIVATE KEY" in path.read_text() and world.agent.ready


def test_a_certificate_that_the_cluster_takes_no_more_is_replaced_after_three_refusals(world: World) -> None:
    world.run(5)
    world.cluster.knows_certificates = False
    world.run(25)
    world.cluster.knows_certificates = True
    requests = len(world.cluster.requests)
    world.run(20)
    assert world.agent.ready and requests >= 3
    assert any("not taken any more" in line for line in world.said)


def test_a_token_that_the_cluster_does_not_know_yet_is_tried_again(world: World) -> None:
    world.cluster.knows_token = False
    world.run(60)
    world.cluster.knows_token = True
    world.run(11)
    assert world.cluster.ready("worker-0") == "True"


def test_an_agent_that_is_killed_while_it_waits_goes_on_with_the_same_request(world: World) -> None:
    world.cluster.approves = False
    world.run(30)
    world.start()
    world.run(30)
    (request,) = world.cluster.requests
    assert any(line.endswith("to be approved") for line in world.said)
    request["status"] = {
        "conditions": [{"type": "Approved"}],
        "certificate": world.cluster.sign(base64.b64decode(request["spec"]["request"])),
    }
    world.cluster.approves = True
    world.run(10)
    assert world.agent.ready


def test_a_request_that_nobody_approves_is_asked_after_ever_less_often(world: World) -> None:
    world.cluster.approves = False
    world.run(3600)
    assert len(world.cluster.asked) < 250


def test_a_denied_request_is_made_again_with_another_key_and_not_at_once(world: World) -> None:
    world.cluster.approves = False
    world.run(3)
    (first,) = world.cluster.requests
    first["status"] = {"conditions": [{"type": "Denied", "message": "a stranger"}]}
    world.run(10)
    assert len(world.cluster.requests) == 1 and any("denied: a stranger" in line for line in world.said)
    world.cluster.approves = True
    world.run(70)
    assert world.agent.ready and world.cluster.requests[1]["spec"]["request"] != first["spec"]["request"]


def test_certificates_are_renewed_with_the_nodes_own_before_they_end(world: World) -> None:
    world.cluster.lifetime = 10 * DAY
    world.run(5)
    first = world.agent.pair
    world.pass_time(9.2 * DAY)
    world.cluster.asked.clear()
    world.run(30)
    assert world.agent.pair is not None and first is not None and world.agent.pair.until > first.until
    assert world.agent.served is not None and world.agent.served.since > first.since
    assert {who for who, _, _ in world.cluster.asked} == {"node"}


def test_a_node_that_slept_past_its_certificates_end_comes_back_by_its_token(world: World) -> None:
    world.cluster.lifetime = 10 * DAY
    world.run(5)
    world.pass_time(11 * DAY)
    world.start()
    world.run(20)
    assert world.cluster.ready("worker-0") == "True" and world.agent.pair is not None
    assert world.agent.pair.until > world.cluster.wall


@pytest.mark.parametrize("jump", [400 * DAY, -400 * DAY])
def test_a_jump_of_the_nodes_clock_neither_stops_its_lease_nor_makes_it_order_without_end(
    world: World, jump: float
) -> None:
    world.run(5)
    world.wall += jump
    orders = len(world.cluster.requests)
    world.cluster.asked.clear()
    world.run(600)
    asked = [(verb, path) for _, verb, path in world.cluster.asked]
    assert asked.count(("PATCH", f"{LEASES}/worker-0")) >= 59
    assert len(world.cluster.requests) <= orders + 2


def test_a_full_disk_is_told_and_stops_neither_lease_nor_node(world: World) -> None:
    world.cluster.lifetime = 10 * DAY
    world.run(5)

    def full(subject: str, names: Sequence[str], addresses: Sequence[str], key: Path, request: Path) -> None:
        raise OSError(28, "No space left on device")

    written, world.make_key = world.make_key, full
    world.facts = facts(disk=DiskRoom(10 << 30, 0))
    world.pass_time(9.2 * DAY)
    before = world.cluster.renewed("worker-0")
    world.run(120)
    assert world.cluster.condition("worker-0", "DiskPressure")["status"] == "True"
    assert world.cluster.renewed("worker-0") > before
    assert any("No space left" in line for line in world.said)
    world.make_key, world.facts = written, facts()
    world.run(120)
    assert world.cluster.condition("worker-0", "DiskPressure")["status"] == "False"
    assert world.agent.pair is not None and world.agent.pair.since > world.cluster.wall - DAY


def test_a_node_whose_address_changed_says_so_and_serves_for_the_new_one(world: World) -> None:
    world.run(5)
    first = world.agent.served
    world.facts = facts(addresses=("192.0.2.99",))
    world.run(130)
    told = world.cluster.objects[f"{NODES}/worker-0"]["status"]["addresses"]
    assert {"type": "InternalIP", "address": "192.0.2.99"} in told
    assert (world.folder / "serving.names").read_text() == "worker-0\n192.0.2.99"
    assert world.agent.served is not None and first is not None


def test_a_node_that_was_deleted_while_it_runs_comes_back(world: World) -> None:
    world.run(5)
    del world.cluster.objects[f"{NODES}/worker-0"]
    del world.cluster.objects[f"{LEASES}/worker-0"]
    world.run(25)
    assert world.cluster.ready("worker-0") == "True"
    (owner,) = world.cluster.objects[f"{LEASES}/worker-0"]["metadata"]["ownerReferences"]
    assert owner["kind"] == "Node"


def test_a_certificate_for_another_key_is_not_put_in_place(world: World) -> None:
    world.cluster.approves = False
    world.run(3)
    (request,) = world.cluster.requests
    other = World(world.folder.parent / "other")
    other.cluster.approves = False
    other.run(3)
    stranger = base64.b64decode(other.cluster.requests[0]["spec"]["request"])
    request["status"] = {"conditions": [{"type": "Approved"}], "certificate": world.cluster.sign(stranger)}
    world.run(10)
    assert not (world.folder / "client.pem").exists()
    assert any("does not fit" in line for line in world.said)


def test_words_are_said_once_however_long_they_are_true(world: World) -> None:
    world.run(3600)
    assert world.said == [*dict.fromkeys(world.said)] and world.said[-1] in ("ready", "has a certificate to serve with")
