from rackless.plan.addressing import plan_lab
from rackless.plan.budget import Finding, Machine, check_budget
from rackless.spec.lab import GIB
from rackless.spec.load import parse

LAPTOP = Machine(memory=32 * GIB, available=20 * GIB, cpus=8, free_disk=200 * GIB)


def findings(text: str, machine: Machine = LAPTOP) -> list[Finding]:
    spec = parse(text, "lab.yaml")
    return check_budget(spec, plan_lab(spec), machine)


def levels(text: str, machine: Machine = LAPTOP) -> dict[str, str]:
    return {finding.about: finding.level for finding in findings(text, machine)}


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
    crowded = Machine(32 * GIB, 30 * GIB, 8, 200 * GIB, promised=30 * GIB)
    assert levels("", crowded)["memory"] == "error"


def test_more_virtual_cpus_than_real_ones_are_allowed_and_said() -> None:
    assert levels("", Machine(32 * GIB, 20 * GIB, 2, 200 * GIB))["cpu"] == "info"


def test_a_full_disk_is_refused_and_a_slow_one_told() -> None:
    assert levels("", Machine(32 * GIB, 20 * GIB, 8, 4 * GIB))["disk"] == "error"
    slow = findings("", Machine(32 * GIB, 20 * GIB, 8, 200 * GIB, fsync=0.055))
    assert any("takes 55 ms; etcd wants 10 ms" in finding.says for finding in slow)


def test_the_profiles_for_openshift_are_large_enough_for_it() -> None:
    assert "openshift" not in levels("profile: full", Machine(256 * GIB, 250 * GIB, 64, 900 * GIB))


def test_what_is_the_least_for_openshift_and_what_is_recommended_are_told_apart() -> None:
    big = Machine(256 * GIB, 250 * GIB, 64, 900 * GIB)
    least = findings("servers: {c: {role: control-plane, count: 1, memory: 12GiB, vcpus: 4, disk: 120GiB}}", big)
    assert [f.says for f in least] == [
        "c-0: the least for a control-plane of OpenShift; 16GiB and 4 virtual CPUs are recommended"
    ]
