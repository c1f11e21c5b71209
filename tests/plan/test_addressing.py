from hypothesis import given
from hypothesis import strategies as st

from rackless.plan.addressing import plan_lab
from rackless.spec.lab import LabSpec, Role, ServerGroup


def test_the_default_lab_has_the_names_and_addresses_the_documentation_shows() -> None:
    plan = plan_lab(LabSpec())
    assert [(s.name, str(s.address), str(s.bmc_address)) for s in plan.servers] == [
        ("ctrl-0", "192.168.111.20", "192.168.112.20"),
        ("ctrl-1", "192.168.111.21", "192.168.112.21"),
        ("ctrl-2", "192.168.111.22", "192.168.112.22"),
        ("worker-0", "192.168.111.23", "192.168.112.23"),
    ]
    assert (str(plan.gateway), str(plan.api_vip)) == ("192.168.111.1/24", "192.168.111.5")
    assert [s.name for s in plan.control_planes] == ["ctrl-0", "ctrl-1", "ctrl-2"]


def test_every_server_resolves_and_so_do_the_api_and_the_applications() -> None:
    plan = plan_lab(LabSpec(name="site"))
    names = {name: str(record.address) for record in plan.cluster.records for name in record.names}
    assert names["ctrl-1.site.rackless.test"] == "192.168.111.21"
    assert names["api.site.rackless.test"] == names["api-int.site.rackless.test"] == "192.168.111.5"
    assert names["*.apps.site.rackless.test"] == "192.168.111.4"


@given(st.integers(min_value=1, max_value=150), st.from_regex(r"[a-z]{1,8}", fullmatch=True))
def test_the_same_spec_gives_the_same_plan_and_nothing_in_it_twice(count: int, name: str) -> None:
    spec = LabSpec(name=name, servers={"w": ServerGroup(role=Role.WORKER, count=count)})
    plan = plan_lab(spec)
    assert plan == plan_lab(spec)
    for values in ([s.mac for s in plan.servers], [s.address for s in plan.servers], [s.uuid for s in plan.servers]):
        assert len(set(values)) == count
    assert all(int(s.mac[:2], 16) & 3 == 2 and not s.mac.startswith("52:54:00") for s in plan.servers)


def test_a_group_that_becomes_elastic_moves_nobody_and_its_places_are_known_to_the_networks() -> None:
    groups = {"worker": ServerGroup(count=1), "spare": ServerGroup(role=Role.SPARE, count=1)}
    before = plan_lab(LabSpec(servers=groups))
    groups["worker"] = ServerGroup.model_validate({"count": 1, "elastic": {"max": 3}})
    plan = plan_lab(LabSpec(servers=groups))
    assert plan.servers == before.servers
    assert [(s.name, s.role, str(s.address)) for s in plan.elastic] == [
        ("worker-1", Role.SPARE, "192.168.111.22"),
        ("worker-2", Role.SPARE, "192.168.111.23"),
    ]
    assert {s.mac for s in plan.elastic} < {reservation.mac for reservation in plan.cluster.reservations}
    grown = plan.grown(["worker-2"])
    assert [s.name for s in grown.servers] == ["worker-0", "spare-0", "worker-2"]
    assert grown.cluster == plan.cluster and grown.bmc == plan.bmc
    assert grown.grown([]) == plan and grown.places == plan.places
