import pytest

from rackless.plan.actions import DESTRUCTIVE, Action, Observed, Verb
from rackless.plan.addressing import plan_lab
from rackless.plan.stages import plan_actions
from rackless.spec.lab import LabSpec
from rackless.spec.load import parse

STAGES = ("lab", "bmc")


def running(spec: LabSpec, power: str = "off") -> Observed:
    plan = plan_lab(spec)
    links = {"cluster", "baremetal", "bmc", "provisioning", *spec.networks.extra}
    return Observed(spec, True, {s.name: power for s in plan.servers}, frozenset(links), frozenset(STAGES))


def actions(before: str, after: str, power: str = "off") -> dict[str, Action]:
    found = plan_actions(parse(after, "b"), running(parse(before, "a"), power), STAGES)
    return {action.subject: action for action in found}


def test_nothing_there_means_everything_is_made() -> None:
    verbs = {action.verb for action in plan_actions(LabSpec(), Observed(), STAGES)}
    assert verbs == {Verb.CREATE, Verb.START}


def test_a_lab_as_wanted_is_left_alone() -> None:
    assert {action.verb for action in plan_actions(LabSpec(), running(LabSpec()), STAGES)} == {Verb.KEEP}


def test_a_stopped_lab_is_started() -> None:
    found = plan_actions(LabSpec(), Observed(LabSpec()), STAGES)
    assert (found[0].subject, found[0].verb) == ("lab/lab", Verb.START)


def test_a_record_changes_the_network_and_nothing_else() -> None:
    found = actions("", "networks: {dns: {records: {registry: 192.168.111.7}}}")
    assert found["network/cluster"].verb is Verb.CHANGE
    assert "networks.dns.records.registry is new" in found["network/cluster"].reason
    assert all(action.verb is Verb.KEEP for subject, action in found.items() if subject.startswith("server/"))


def test_more_memory_restarts_a_running_server_and_just_changes_one_that_is_off() -> None:
    after = "servers: {ctrl: {role: control-plane, count: 3, memory: 2GiB}, worker: {}}"
    assert actions("", after, "on")["server/ctrl-0"] == Action(
        "server/ctrl-0", Verb.RESTART, "memory changed from 1024 to 2048"
    )
    assert actions("", after, "off")["server/ctrl-0"].verb is Verb.CHANGE
    assert actions("", after)["server/worker-0"].verb is Verb.KEEP


def test_more_servers_at_the_end_are_made_and_the_others_stay() -> None:
    found = actions("", "servers: {ctrl: {role: control-plane, count: 3}, worker: {count: 2}}")
    assert (found["server/worker-1"].verb, found["server/worker-0"].verb) == (Verb.CREATE, Verb.KEEP)


def test_more_servers_in_the_middle_push_the_others_off_their_addresses_unless_these_are_pinned() -> None:
    groups = "servers: {{a: {{count: {}}}, b: {{count: 1{}}}}}"
    pushed = actions(groups.format(1, ""), groups.format(2, ""))["server/b-0"]
    assert pushed.verb is Verb.RECREATE and "address changed from 192.168.111.21 to 192.168.111.22" in pushed.reason
    assert actions(groups.format(1, ", first: 60"), groups.format(2, ", first: 60"))["server/b-0"].verb is Verb.KEEP


def test_what_is_no_longer_described_is_removed() -> None:
    found = actions("", "servers: {ctrl: {role: control-plane, count: 3}}")
    assert found["server/worker-0"].verb is Verb.REMOVE


def test_a_new_network_means_a_new_lab() -> None:
    found = actions("", "networks: {cluster: {cidr: 10.0.0.0/24}}")
    assert found["lab/lab"].verb is Verb.CREATE, "after it was taken away it is made like any other"
    first = plan_actions(parse("networks: {cluster: {cidr: 10.0.0.0/24}}", "b"), running(LabSpec()), STAGES)[0]
    assert first.verb is Verb.RECREATE
    assert first.reason == "networks.cluster.cidr changed from 192.168.111.0/24 to 10.0.0.0/24"


def test_another_way_to_boot_makes_the_servers_anew_and_a_new_network_for_it_the_lab() -> None:
    groups = "servers: {{a: {{bmc: {}}}, b: {{bmc: redfish}}}}"
    found = actions(groups.format("redfish"), groups.format("ipmi"))
    assert found["server/a-0"] == Action(
        "server/a-0", Verb.RECREATE, "way to boot changed from redfish to ipmi"
    )  # fmt: skip
    assert found["server/b-0"].verb is found["network/provisioning"].verb is Verb.KEEP
    (first, *_) = plan_actions(parse("servers: {a: {bmc: ipmi}}", "b"), running(parse("servers: {a: {}}", "a")), STAGES)
    assert first.verb is Verb.RECREATE
    assert "networks.provisioning.mode changed from disabled to managed" in first.reason


def test_another_name_is_another_lab() -> None:
    first = plan_actions(LabSpec(name="other"), running(LabSpec()), STAGES)
    assert [action.verb for action in first] == [Verb.REFUSE]


def test_another_image_makes_the_servers_it_concerns_anew_and_leaves_the_others() -> None:
    found = actions("", "servers: {ctrl: {role: control-plane, count: 3}, worker: {image: {url: /srv/my.raw}}}")
    assert found["server/worker-0"].verb is Verb.RECREATE
    assert found["server/worker-0"].reason == "image changed from the node image to /srv/my.raw"
    assert found["server/ctrl-0"].verb is Verb.KEEP
    found = actions("", "image: {url: /srv/my.raw}")
    assert found["lab/lab"].verb is Verb.CHANGE
    assert {found[f"server/ctrl-{number}"].verb for number in range(3)} == {Verb.RECREATE}


def test_a_refused_change_is_the_only_thing_told_and_says_why() -> None:
    (refused,) = plan_actions(parse("name: other\ndomain: other.test", "b"), running(LabSpec()), STAGES)
    assert refused == Action("lab/other", Verb.REFUSE, "name changed from lab to other")


def test_a_lab_that_is_made_anew_is_told_first_and_then_everything_that_is_made() -> None:
    first, *rest = plan_actions(parse("domain: other.test", "b"), running(LabSpec()), STAGES)
    assert first == Action("lab/lab", Verb.RECREATE, "domain changed from rackless.test to other.test")
    assert {action.verb for action in rest} == {Verb.CREATE, Verb.START}


def test_everything_up_looks_at_is_told_in_its_order_with_its_reason() -> None:
    stages = ("lab", "bmc", "engine", "hosts", "cluster")
    text = (
        "networks: {bmc: {access: routed}, extra: {store: {cidr: 10.8.0.0/24}, tagged: {cidr: 10.9.0.0/24, vlan: 7}}}"
    )
    spec = parse(f"{text}\nservers: {{a: {{bmc: ipmi, count: 2}}}}", "x")
    assert plan_actions(spec, Observed(), stages) == [
        Action("lab/lab", Verb.CREATE, "there is none"),
        Action("service/libvirtd", Verb.START, "does not run"),
        *(
            Action(f"network/{name}", Verb.CREATE, "is not there")
            for name in ("baremetal", "cluster", "provisioning", "store", "tagged")
        ),
        Action("network/bmc", Verb.CREATE, "is not there (routed)"),
        *(Action(f"service/{name}", Verb.START, "does not run") for name in ("time", "api")),
        *(Action(f"server/a-{number}", Verb.CREATE, "is not there") for number in (0, 1)),
        Action("stage/bmc", Verb.START, "2 BMCs: not running yet"),
        Action("stage/engine", Verb.START, "Ironic: not running yet"),
        Action("stage/hosts", Verb.START, "hosts: not provisioned yet"),
        Action("stage/cluster", Verb.START, "cluster: not there yet"),
    ]


def test_a_lab_without_a_provisioning_network_is_not_asked_for_one() -> None:
    subjects = [action.subject for action in plan_actions(LabSpec(), Observed(), STAGES)]
    assert [subject for subject in subjects if subject.startswith("network/")] == [
        "network/baremetal",
        "network/cluster",
        "network/bmc",
    ]


def test_what_is_there_is_kept_and_named_so() -> None:
    found = actions("", "")
    assert found["lab/lab"] == Action("lab/lab", Verb.KEEP, "its daemon runs")
    assert found["network/bmc"] == Action("network/bmc", Verb.KEEP, "is there (direct)")
    assert found["network/baremetal"].verb is found["network/cluster"].verb is Verb.KEEP
    assert found["server/ctrl-0"] == Action("server/ctrl-0", Verb.KEEP, "is as wanted")
    assert found["stage/bmc"] == Action("stage/bmc", Verb.KEEP, "4 BMCs: is there")


def test_a_stage_is_there_only_while_the_daemon_runs() -> None:
    there, without, elsewhere = (
        {a.subject: a.verb for a in plan_actions(LabSpec(), observed, STAGES)}["stage/bmc"]
        for observed in (
            running(LabSpec()),
            Observed(LabSpec(), False, {}, frozenset(), frozenset(STAGES)),
            Observed(LabSpec(), True, {}, frozenset(), frozenset({"lab"})),
        )
    )
    assert (there, without, elsewhere) == (Verb.KEEP, Verb.START, Verb.START)


def test_a_server_that_was_made_and_is_gone_is_made_again_once_the_daemon_says_so() -> None:
    def one(daemon: bool) -> Action:
        found = plan_actions(LabSpec(), Observed(LabSpec(), daemon), STAGES)
        return {action.subject: action for action in found}["server/ctrl-0"]

    assert one(True) == Action("server/ctrl-0", Verb.CREATE, "was made, but is not there")
    assert one(False).verb is Verb.KEEP


def test_servers_that_come_or_go_change_the_network_that_names_them() -> None:
    two = "servers: {ctrl: {role: control-plane, count: 3}, worker: {count: 2}}"
    assert actions("", two)["network/cluster"] == Action(
        "network/cluster", Verb.CHANGE, "servers.worker.count changed from 1 to 2; running servers go on"
    )
    new = "servers: {ctrl: {role: control-plane, count: 3}, worker: {}, more: {}}"
    assert actions("", new)["network/cluster"].reason == "its servers changed; running servers go on"
    assert actions("", two)["network/bmc"].reason == "who may talk to the BMCs is said anew, with the daemon (direct)"


def test_a_server_that_moved_is_told_by_its_address_alone() -> None:
    groups = "servers: {{a: {{count: {}}}, b: {{extra_nics: {}}}}}"
    moved = actions(groups.format(1, 0), groups.format(2, 0))["server/b-0"].reason
    assert "NICs" not in moved and "address changed from" in moved
    assert actions(groups.format(1, 0), groups.format(1, 1), "on")["server/b-0"] == Action(
        "server/b-0", Verb.RESTART, "NICs changed"
    )


@pytest.mark.parametrize(
    ("field", "reason"),
    [
        ("memory: 2GiB", "memory changed from 1024 to 2048"),
        ("vcpus: 2", "virtual CPUs changed from 1 to 2"),
        ("extra_nics: 1", "NICs changed"),
        ("role: spare", "role changed from worker to spare"),
        ("disk: 9GiB", "disks changed"),
        ("firmware: bios", "firmware changed from uefi to bios"),
        ("secure_boot: true", "secure boot changed from False to True"),
        ("tpm: true", "TPM changed from False to True"),
    ],
)
def test_what_can_wait_for_a_restart_does_and_the_rest_makes_the_server_anew(field: str, reason: str) -> None:
    waits = reason.startswith(("memory", "virtual", "NICs"))
    for power in ("on", "off"):
        verb = Verb.RECREATE if not waits else Verb.RESTART if power == "on" else Verb.CHANGE
        found = actions("servers: {a: {}}", f"servers: {{a: {{{field}}}}}", power)["server/a-0"]
        assert found == Action("server/a-0", verb, reason)


def test_two_differences_are_told_together_and_the_graver_one_counts() -> None:
    found = actions("servers: {a: {}}", "servers: {a: {memory: 2GiB, tpm: true}}", "on")["server/a-0"]
    assert (found.verb, found.reason) == (
        Verb.RECREATE,
        "memory changed from 1024 to 2048; TPM changed from False to True",
    )


def test_another_image_with_the_same_address_is_told_without_repeating_it() -> None:
    image = "servers: {{a: {{image: {{url: /srv/my.raw, format: {}}}}}}}"
    found = actions(image.format("raw"), image.format("qcow2"))["server/a-0"]
    assert found == Action("server/a-0", Verb.RECREATE, "image changed")


def test_what_loses_something_is_known_as_such() -> None:
    assert set(DESTRUCTIVE) == {Verb.RECREATE, Verb.REMOVE}
    assert [verb.value for verb in Verb] == [
        "keep", "create", "start", "change", "restart", "recreate", "remove", "refuse",
    ]  # fmt: skip
    gone = actions("", "servers: {ctrl: {role: control-plane, count: 3}}")["server/worker-0"]
    assert gone.verb in DESTRUCTIVE and "its disks go with it" in gone.reason
