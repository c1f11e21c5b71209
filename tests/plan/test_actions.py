from rackless.plan.actions import Action, Observed, Verb, plan_actions
from rackless.plan.addressing import plan_lab
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
    assert found["lab/lab"].verb is Verb.CREATE or found["lab/lab"].verb is Verb.RECREATE
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
