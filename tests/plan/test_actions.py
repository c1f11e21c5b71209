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
    assert found["service/time"] == Action("service/time", Verb.KEEP, "runs")
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


NAT, WITHOUT = "networks: {uplink: nat}", "networks: {uplink: none}"
AN_UPLINK = Observed(networks=frozenset({"uplink"}))


@pytest.mark.parametrize(
    ("before", "after", "seen", "expected"),
    [
        (NAT, NAT, Observed(), (Verb.CREATE, "is not there")),
        (NAT, NAT, AN_UPLINK, (Verb.KEEP, "is there")),
        (WITHOUT, WITHOUT, Observed(), None),
        (WITHOUT, WITHOUT, AN_UPLINK, (Verb.CHANGE, "is no longer wanted, and taken away")),
        (WITHOUT, NAT, Observed(), (Verb.CREATE, "is not there")),
        (NAT, NAT, AN_UPLINK | Observed(differing={"network/uplink": "its rules were flushed"}),
         (Verb.CHANGE, "its rules were flushed")),
        (NAT, NAT + "\nservers: {a: {memory: 2GiB}}", AN_UPLINK, (Verb.KEEP, "is there")),
        (NAT, "networks: {uplink: {mode: nat, reach: [192.0.2.0/24]}}", AN_UPLINK,
         (Verb.CHANGE, "networks.uplink.reach changed from (none) to 192.0.2.0/24")),
    ],
)  # fmt: skip
def test_an_uplink_is_made_kept_changed_or_taken_away(
    before: str, after: str, seen: Observed, expected: tuple[Verb, str] | None
) -> None:
    found = plan_actions(parse(after, "b"), running(parse(before, "a")) | seen, ("lab",))
    told = [(action.verb, action.reason) for action in found if action.subject == "network/uplink"]
    assert told == ([expected] if expected else [])


def test_two_looks_at_a_lab_add_up() -> None:
    spec = LabSpec()
    first = Observed(
        servers={"a": "on"}, networks=frozenset({"bmc"}), stages=frozenset({"lab"}), differing={"x": "1"},
        resting=frozenset({"a"}), grown=frozenset({"g"}),
    )  # fmt: skip
    second = Observed(
        spec, True, {"b": "off"}, frozenset({"cluster"}), frozenset({"bmc"}), {"y": "2"}, frozenset({"b"}), "is old",
        frozenset({"h"}),
    )  # fmt: skip
    whole = Observed(
        spec, True, {"a": "on", "b": "off"}, frozenset({"bmc", "cluster"}), frozenset({"lab", "bmc"}), {"x": "1", "y": "2"},
        frozenset({"a", "b"}), "is old", frozenset({"g", "h"}),
    )  # fmt: skip
    assert first | second == second | first == whole
    assert (Observed(differing={"x": "before"}) | Observed(differing={"x": "now"})).differing == {"x": "now"}


def test_what_was_found_wanting_is_made_right_with_its_reason() -> None:
    names = ("network/baremetal", "network/bmc", "service/time", "server/ctrl-0", "stage/bmc")
    seen = running(LabSpec()) | Observed(differing={name: f"{name} is broken" for name in names})
    found = {action.subject: action for action in plan_actions(LabSpec(), seen, STAGES)}
    assert {subject for subject, action in found.items() if action.verb is not Verb.KEEP} == set(names)
    assert found["network/baremetal"] == Action("network/baremetal", Verb.CHANGE, "network/baremetal is broken")
    assert found["network/bmc"] == Action("network/bmc", Verb.CHANGE, "network/bmc is broken (direct)")
    assert found["service/time"] == Action("service/time", Verb.START, "service/time is broken")
    assert found["server/ctrl-0"] == Action("server/ctrl-0", Verb.CHANGE, "server/ctrl-0 is broken")
    assert found["stage/bmc"] == Action("stage/bmc", Verb.START, "4 BMCs: stage/bmc is broken")


def test_a_daemon_that_cannot_stay_takes_along_what_it_keeps_running() -> None:
    goals = ("lab", "bmc", "engine", "hosts", "cluster")
    stages = Observed(stages=frozenset({*goals, "nodes"}))
    seen = running(LabSpec()) | stages | Observed(outdated="it is of version 1")
    found = {action.subject: action for action in plan_actions(LabSpec(), seen, goals)}
    assert found["lab/lab"] == Action("lab/lab", Verb.RESTART, "it is of version 1")
    assert found["service/libvirtd"] == Action("service/libvirtd", Verb.START, "is started with the daemon")
    assert found["network/bmc"].verb is Verb.CHANGE
    verbs = {goal: found[f"stage/{goal}"].verb for goal in ("bmc", "engine", "hosts", "cluster", "nodes")}
    assert verbs == {
        "bmc": Verb.START, "engine": Verb.START, "hosts": Verb.KEEP, "cluster": Verb.KEEP, "nodes": Verb.KEEP,
    }  # fmt: skip
    assert found["stage/nodes"].reason == "nodes join: is there"


def test_servers_that_come_or_are_made_anew_have_to_go_through_every_goal() -> None:
    goals = ("lab", "bmc", "hosts", "cluster")
    reached = Observed(stages=frozenset({*goals, "nodes"}))

    def later(after: str) -> dict[str, tuple[Verb, str]]:
        found = plan_actions(parse(after, "b"), running(LabSpec(), "on") | reached, goals)
        return {action.subject: (action.verb, action.reason) for action in found if action.subject.startswith("stage/")}

    assert later("")["stage/hosts"] == (Verb.KEEP, "hosts: is there")
    more = later("servers: {ctrl: {role: control-plane, count: 3}, worker: {count: 2}}")
    assert more["stage/hosts"] == (Verb.START, "hosts: worker-1 not yet")
    assert more["stage/nodes"] == (Verb.START, "nodes join: worker-1 not yet")
    anew = later("servers: {ctrl: {role: control-plane, count: 3, tpm: true}, worker: {}}")
    assert anew["stage/cluster"] == (Verb.START, "cluster: ctrl-0, ctrl-1, ctrl-2 not yet")
    larger = later("servers: {ctrl: {role: control-plane, count: 3}, worker: {memory: 2GiB}}")
    assert larger["stage/hosts"] == (Verb.KEEP, "hosts: is there"), "it is only started again"


def test_without_control_planes_of_ours_no_node_is_waited_for() -> None:
    for text, waits in (("", True), ("servers: {a: {}}", False)):
        subjects = [action.subject for action in plan_actions(parse(text, "x"), Observed(), ("cluster",))]
        assert ("stage/nodes" in subjects) is waits


def test_servers_that_were_on_are_switched_on_again_while_they_are_described() -> None:
    seen = running(LabSpec()) | Observed(resting=frozenset({"worker-0", "gone-0", "ctrl-1"}))
    found = [action for action in plan_actions(LabSpec(), seen, STAGES) if action.subject.startswith("power/")]
    assert found == [
        Action(f"power/{name}", Verb.START, "was on when the lab was stopped") for name in ("ctrl-1", "worker-0")
    ]


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ("", "elastic: {max: 2}", "servers.worker.elastic changed from (default) to (given)"),
        ("elastic: {max: 2}", "elastic: {max: 3}", "servers.worker.elastic.max changed from 2 to 3"),
    ],
)
def test_places_for_servers_on_demand_change_the_network_that_names_them(before: str, after: str, why: str) -> None:
    text = "servers: {ctrl: {role: control-plane, count: 3}, worker: {%s}}"
    changed = actions(text % before, text % after)["network/cluster"]
    assert changed == Action("network/cluster", Verb.CHANGE, f"{why}; running servers go on")


def test_a_server_made_on_demand_is_kept_where_it_was_made_and_its_group_is_still_elastic() -> None:
    text = "servers: {ctrl: {role: control-plane, count: 3}, worker: {elastic: {max: 3}}}"
    spec = parse(text, "x")
    names = [server.name for server in plan_lab(spec).elastic]
    seen = running(spec) | Observed(servers={names[0]: "on"}, grown=frozenset({names[0]}))
    found = {action.subject: action.verb for action in plan_actions(spec, seen, STAGES)}
    assert found[f"server/{names[0]}"] is Verb.KEEP and f"server/{names[1]}" not in found
