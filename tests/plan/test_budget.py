from typing import Any

from rackless.plan.addressing import plan_lab
from rackless.plan.budget import BudgetFinding, Capacity, check_budget
from rackless.spec.lab import GIB
from rackless.spec.load import parse

LAPTOP = Capacity(memory=32 * GIB, available=20 * GIB, cpus=8, free_disk=200 * GIB)


def findings(text: str, capacity: Capacity = LAPTOP) -> list[BudgetFinding]:
    spec = parse(text, "lab.yaml")
    return check_budget(spec, plan_lab(spec), capacity)


def levels(text: str, capacity: Capacity = LAPTOP) -> dict[str, str]:
    return {finding.about: finding.level for finding in findings(text, capacity)}


def test_the_default_lab_fits_a_laptop_and_openshift_is_told_apart() -> None:
    assert levels("") == {"openshift": "info"}


def test_more_memory_than_there_is_is_refused_unless_asked_for() -> None:
    assert levels("profile: full")["memory"] == "error"
    assert levels("profile: full\nmemory_overcommit: true")["memory"] == "warning"


def test_spare_servers_cost_nothing_until_they_are_started() -> None:
    assert levels(
        "servers: {a: {role: spare, count: 200, memory: 16GiB}}\nnetworks: {cluster: {cidr: 10.0.0.0/22},"
        " bmc: {cidr: 10.1.0.0/22}}"
    ) == {"disk": "info"}


def test_other_labs_count() -> None:
    crowded = Capacity(32 * GIB, 30 * GIB, 8, 200 * GIB, promised=30 * GIB)
    assert levels("", crowded)["memory"] == "error"


def test_more_virtual_cpus_than_real_ones_are_allowed_and_said() -> None:
    assert levels("", Capacity(32 * GIB, 20 * GIB, 2, 200 * GIB))["cpu"] == "info"


def test_a_full_disk_is_refused() -> None:
    assert levels("", Capacity(32 * GIB, 20 * GIB, 8, 4 * GIB))["disk"] == "error"


def test_a_slow_disk_is_a_warning_only_where_guests_wait_for_it() -> None:
    slow = Capacity(32 * GIB, 20 * GIB, 8, 200 * GIB, fsync=0.055)
    safe = [finding for finding in findings("disk: {cache: safe}", slow) if finding.about == "disk"]
    assert [(finding.level, finding.says) for finding in safe] == [
        ("warning", "a sync of the disk takes 55 ms; etcd wants 10 ms")
    ]
    unsafe = [finding for finding in findings("", slow) if finding.about == "disk"]
    assert [finding.level for finding in unsafe] == ["info"]
    assert "servers do not wait for it" in unsafe[0].says and "crash of the computer" in unsafe[0].says
    assert "disk" not in levels("disk: {cache: safe}", Capacity(32 * GIB, 20 * GIB, 8, 200 * GIB, fsync=0.009))


def test_the_profiles_for_openshift_are_large_enough_for_it() -> None:
    assert "openshift" not in levels("profile: full", Capacity(256 * GIB, 250 * GIB, 64, 900 * GIB))


def test_what_is_the_least_for_openshift_and_what_is_recommended_are_told_apart() -> None:
    big = Capacity(256 * GIB, 250 * GIB, 64, 900 * GIB)
    least = findings("servers: {c: {role: control-plane, count: 1, memory: 12GiB, vcpus: 4, disk: 120GiB}}", big)
    assert [f.says for f in least] == [
        "c-0: the least for a control-plane of OpenShift; 16GiB and 4 virtual CPUs are recommended"
    ]


SERVER = "servers: {{a: {{count: {}, memory: 2GiB, disk: 8GiB, extra_disks: [2GiB]}}}}"
DAEMONS = 700 << 20


def said(text: str, capacity: Capacity, about: str) -> list[tuple[str, str]]:
    return [(finding.level, finding.says) for finding in findings(text, capacity) if finding.about == about]


def having(**known: Any) -> Capacity:
    return Capacity(**{"memory": 64 * GIB, "available": 64 * GIB, "cpus": 64, "free_disk": 900 * GIB, **known})


def test_memory_is_enough_to_the_last_byte() -> None:
    need = 4 * GIB + DAEMONS
    assert said(SERVER.format(2), having(memory=need, available=need), "memory") == []
    assert said(SERVER.format(2), having(memory=need - 1, available=need), "memory") == [
        ("error", "the servers have 4.0 GiB, the daemons take 700 MiB: more than the 4.7 GiB of this computer")
    ]
    assert said(SERVER.format(2), having(available=need - 1), "memory") == [
        ("warning", "the servers have 4.0 GiB, the daemons take 700 MiB; 4.7 GiB of 64.0 GiB are available now")
    ]
    assert said(SERVER.format(2), having(memory=need + GIB, promised=GIB), "memory") == []
    assert said(SERVER.format(2), having(memory=need + GIB - 1, promised=GIB), "memory") == [
        (
            "error",
            "the servers have 4.0 GiB, the daemons take 700 MiB, other labs 1.0 GiB: more than the 5.7 GiB of this computer",
        )
    ]
    spare = "servers: {a: {role: spare, memory: 2GiB}, b: {memory: 1GiB}}"
    assert "the servers have 1.0 GiB" in said(spare, having(memory=GIB), "memory")[0][1]


def test_processors_are_shared_only_when_there_are_too_few() -> None:
    assert said(SERVER.format(3), having(cpus=3), "cpu") == []
    assert [level for level, _ in said(SERVER.format(3), having(cpus=2), "cpu")] == ["info"]


def test_disks_are_thin_and_leave_room_on_the_hypervisor() -> None:
    two = SERVER.format(2)
    assert [level for level, _ in said(two, having(free_disk=4 * GIB - 1), "disk")] == ["error"]
    assert said(two, having(free_disk=4 * GIB), "disk") == [
        ("info", "the disks may grow to 20.0 GiB, and 4.0 GiB are free; they are thin")
    ]
    assert said(two, having(free_disk=20 * GIB), "disk") == []
    assert "2 servers take about 2.0 GiB, and 1.0 GiB are free" in said(two, having(free_disk=GIB), "disk")[0][1]
    safe = f"{two}\ndisk: {{cache: safe}}"
    assert said(safe, having(fsync=0.010), "disk") == [] and said(safe, having(fsync=0.0101), "disk")[0][0] == "warning"


def test_a_role_of_openshift_needs_memory_and_processors_both() -> None:
    def openshift(role: str, memory: int, vcpus: int, count: int = 1) -> list[str]:
        text = f"servers: {{a: {{role: {role}, memory: {memory}GiB, vcpus: {vcpus}, count: {count}}}}}"
        found = said(text, having(memory=900 * GIB, available=900 * GIB), "openshift")
        assert {level for level, _ in found} <= {"info"}
        return [says for _, says in found]

    few = "{}: enough for the reference cluster; as a {} of OpenShift it needs {} virtual CPUs"
    assert openshift("control-plane", 11, 4) == [few.format("a-0", "control-plane", "12GiB and 4")]
    assert openshift("control-plane", 16, 3) == [few.format("a-0", "control-plane", "12GiB and 4")]
    assert openshift("control-plane", 16, 4) == [] == openshift("worker", 8, 2)
    assert openshift("worker", 7, 2) == [few.format("a-0", "worker", "8GiB and 2")] == openshift("worker", 8, 1)
    assert openshift("spare", 1, 1) == []
    assert openshift("worker", 1, 1, 3)[0].startswith("a-0, a-1, a-2: ")
    assert openshift("worker", 1, 1, 4)[0].startswith("a-0, a-1, a-2 …: ")
    assert "a-0: the least" in openshift("control-plane", 15, 4)[0]


def test_servers_on_demand_that_would_not_all_fit_are_a_warning() -> None:
    assert "memory" not in levels("servers: {a: {memory: 8GiB, elastic: {max: 3}}}")
    [found] = [each for each in findings("servers: {a: {memory: 8GiB, elastic: {max: 5}}}") if each.about == "memory"]
    assert found.level == "warning" and "32.0 GiB more" in found.says
