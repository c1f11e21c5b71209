import itertools
from dataclasses import replace
from typing import Any

import pytest

from rackless.cli.words import message
from rackless.controllers.host import YIELD_WITHIN
from rackless.controllers.host_annotations import DETACHED
from rackless.drivers.fake.provisioner import SECONDS, FakeProvisioner, Fault
from rackless.errors import ProvisioningFailed
from rackless.events import Note
from rackless.ports.provisioner import ErrorKind, HostAccess, Result
from rackless.provisioning.baremetalhost import KIND, PAUSED, State, image_record, secret
from rackless.provisioning.progress import worded
from tests.provisioning.site import IMAGE, Site


async def test_a_host_goes_all_the_way_to_provisioned() -> None:
    site = Site()
    await site.add("ctrl-0")
    async with site.controlled():
        await site.until_state("ctrl-0")

    host = await site.host("ctrl-0")
    assert site.work("ctrl-0") == ["register", "inspect", "prepare", "provision"]
    assert host.status.operational == "OK" and host.status.error_type is None
    assert host.status.image == IMAGE and host.status.powered_on
    assert host.status.hardware and host.status.hardware["ramMebibytes"] == 2048
    assert {name: (span.start, span.end) for name, span in host.status.history.items()} == {
        "register": ("0.0", "1.0"),
        "inspect": ("1.0", "31.0"),
        "provision": ("39.0", "84.0"),
    }
    config = site.provisioner.hosts["ctrl-0"].config
    assert config and config.user_data == '{"ignition": {}}'


async def test_each_phase_of_a_host_is_a_step_on_the_bus() -> None:
    site = Site()
    await site.add("ctrl-0")
    async with site.controlled():
        await site.until_state("ctrl-0")
    assert site.steps("ctrl-0") == [
        ("registering", "done"),
        ("inspecting", "done"),
        ("preparing", "done"),
        ("provisioning", "done"),
    ]
    assert [event.message for event in site.seen if isinstance(event, Note)].count("inspect") == 1


async def test_hosts_do_not_wait_for_each_other() -> None:
    site = Site()
    names = [f"worker-{number}" for number in range(20)]
    await site.add(*names)
    async with site.controlled():
        await site.until_state(*names)
    assert site.clock.now() == 84.0


async def test_a_host_without_an_image_stops_at_available_and_goes_on_when_it_gets_one() -> None:
    site = Site()
    await site.add("spare", image=None)
    async with site.controlled():
        await site.until_state("spare", state=State.AVAILABLE)
        image = {"url": IMAGE.url, "checksum": IMAGE.checksum, "checksumType": "sha256", "format": "qcow2"}
        await site.change("spare", image=image)
        await site.until_state("spare")
    assert site.work("spare")[-1] == "provision"


async def test_a_host_that_should_be_off_is_not_provisioned() -> None:
    site = Site()
    await site.add("dark", online=False)
    async with site.controlled():
        await site.until_state("dark", state=State.AVAILABLE)
    assert "provision" not in site.work("dark")


WORK_AND_KIND = [
    ("register", ErrorKind.REGISTRATION, State.REGISTERING),
    ("inspect", ErrorKind.INSPECTION, State.INSPECTING),
    ("prepare", ErrorKind.PREPARATION, State.PREPARING),
    ("provision", ErrorKind.PROVISIONING, State.PROVISIONING),
]


@pytest.mark.parametrize(("work", "kind", "state"), WORK_AND_KIND)
async def test_a_failure_is_told_waited_out_and_tried_again(work: str, kind: ErrorKind, state: State) -> None:
    site = Site()
    await site.add("ctrl-0")
    site.provisioner.faults.append(Fault(work, "ctrl-0", "no luck"))
    async with site.controlled():
        failed = await site.until("ctrl-0", lambda host: host.status.error_type is not None)
        at = site.clock.now()
        assert (failed.status.state, failed.status.error_type) == (state, kind)
        assert (failed.status.operational, failed.status.error_message) == ("error", "no luck")
        assert failed.status.error_count == 1

        recovering = await site.until("ctrl-0", lambda host: host.status.error_type is None)
        assert site.clock.now() == at + 120.0
        assert recovering.status.error_message == ""
        await site.until_state("ctrl-0")
    assert (await site.host("ctrl-0")).status.error_count == 0
    assert site.work("ctrl-0").count(work) == 2


@pytest.mark.parametrize("work", ["inspect", "prepare", "provision"])
async def test_a_server_that_goes_off_under_its_agent_is_told_at_once_and_begun_anew(work: str) -> None:
    site = Site()
    await site.add("ctrl-0")
    off = {work}

    def lost(name: str) -> str:
        begun = site.work(name)
        return "the server went off" if begun and begun[-1] in off else ""

    async with site.controlled(lost=lost):
        failed = await site.until("ctrl-0", lambda host: host.status.error_type is not None)
        assert failed.status.error_message == f"the server went off, while {work}"
        off.clear()
        await site.until_state("ctrl-0")
    assert site.work("ctrl-0").count(work) >= 2


async def test_waits_double_with_every_failure_in_a_row() -> None:
    site = Site()
    await site.add("ctrl-0")
    site.provisioner.faults.append(Fault("inspect", "ctrl-0", times=4))
    times = []
    async with site.controlled():
        for count in range(1, 5):
            await site.until("ctrl-0", lambda host, count=count: host.status.error_count == count)  # type: ignore[misc]
            times.append(site.clock.now())
        await site.until_state("ctrl-0")
    assert [round(later - earlier) for earlier, later in itertools.pairwise(times)] == [150, 270, 510]


async def test_a_failed_installation_is_taken_off_before_the_next_try() -> None:
    site = Site()
    await site.add("ctrl-0")
    site.provisioner.faults.append(Fault("provision", "ctrl-0", times=2))
    async with site.controlled():
        await site.until_state("ctrl-0")
    assert site.work("ctrl-0")[3:] == ["provision", "deprovision", "provision", "deprovision", "provision"]


async def test_an_installation_that_always_fails_is_given_up_and_says_so() -> None:
    site = Site()
    await site.add("ctrl-0")
    site.provisioner.faults.append(Fault("provision", "ctrl-0", "the disk is on fire", times=99))
    async with site.controlled():
        with pytest.raises(TimeoutError, match="nobody for time"):
            await site.until_state("ctrl-0", retries=99)
    host = await site.host("ctrl-0")
    assert site.work("ctrl-0").count("provision") == 5
    assert host.status.error_message == "the disk is on fire"


async def test_waiting_for_hosts_ends_with_the_host_the_phase_and_the_reason() -> None:
    site = Site()
    await site.add("ctrl-0", "ctrl-1")
    site.provisioner.faults.append(Fault("inspect", "ctrl-1", "no agent called", times=2))
    async with site.controlled():
        with pytest.raises(ProvisioningFailed) as failure:
            await site.until_state("ctrl-0", "ctrl-1", retries=1)
    assert failure.value.what == "host ctrl-1 failed while inspecting"
    assert failure.value.why == "inspection error: no agent called"


async def test_another_image_is_written_after_the_first_was_taken_off() -> None:
    site = Site()
    await site.add("ctrl-0")
    other = replace(IMAGE, url="http://192.0.2.1/other.qcow2")
    async with site.controlled():
        await site.until_state("ctrl-0")
        await site.change("ctrl-0", image={"url": other.url, "checksum": other.checksum, "checksumType": "sha256"})
        host = await site.until(
            "ctrl-0", lambda host: host.status.image == other and host.status.state == "provisioned"
        )
    assert site.work("ctrl-0")[-2:] == ["deprovision", "provision"]
    assert host.status.history["deprovision"].end


async def test_a_host_without_its_image_becomes_available_again() -> None:
    site = Site()
    await site.add("ctrl-0")
    async with site.controlled():
        await site.until_state("ctrl-0")
        await site.change("ctrl-0", image=None)
        await site.until_state("ctrl-0", state=State.AVAILABLE)
    assert (await site.host("ctrl-0")).status.image is None


@pytest.mark.parametrize("state", [State.REGISTERING, State.INSPECTING, State.PROVISIONING, State.PROVISIONED])
async def test_a_deleted_host_is_taken_down_and_forgotten_wherever_it_was(state: State) -> None:
    site = Site()
    await site.add("ctrl-0")
    async with site.controlled():
        await site.until("ctrl-0", lambda host: host.status.state is state)
        await site.resources.delete(KIND, "ctrl-0")
        await site.until_gone("ctrl-0")
    assert "ctrl-0" not in site.provisioner.hosts
    assert ("deprovision" in site.work("ctrl-0")) == (state in (State.PROVISIONING, State.PROVISIONED))


async def test_a_deleted_host_whose_cleaning_always_fails_is_let_go_in_the_end() -> None:
    site = Site()
    await site.add("ctrl-0")
    site.provisioner.faults.append(Fault("deprovision", "ctrl-0", times=99))
    site.provisioner.faults.append(Fault("power", "ctrl-0", times=99))
    async with site.controlled():
        await site.until_state("ctrl-0")
        await site.resources.delete(KIND, "ctrl-0")
        await site.until_gone("ctrl-0")


@pytest.mark.parametrize("at", [0.5, 15.0, 35.0, 60.0, 200.0])
async def test_a_controller_that_starts_anew_goes_on_where_the_last_one_was(at: float) -> None:
    site = Site()
    await site.add("ctrl-0")
    async with site.controlled():
        await site.clock.run(site.clock.sleep(at))
    async with site.controlled():
        await site.until_state("ctrl-0")
    assert site.work("ctrl-0") == ["register", "inspect", "prepare", "provision"]
    assert site.clock.now() <= max(at, 84.0) + 2.0


@pytest.mark.parametrize("new_engine", [False, True])
async def test_an_engine_that_begins_with_nothing_installs_first_and_adopts_afterwards(new_engine: bool) -> None:
    site = Site()
    await site.add("ctrl-0", "ctrl-1")
    async with site.controlled():
        await site.until_state("ctrl-0", "ctrl-1")
    site.provisioner = FakeProvisioner(site.clock)
    await site.add("ctrl-0", "ctrl-1", "worker-0")
    async with site.controlled(new_engine=new_engine):
        await site.until_state("worker-0")
        before = [work for host, work in site.provisioner.started if host != "worker-0"]
        assert ("adopt" in before) is not new_engine
        await site.clock.run(site.clock.sleep(30))
    for name in ("ctrl-0", "ctrl-1"):
        assert site.work(name) == ["register", "adopt"]
        assert (await site.host(name)).status.state is State.PROVISIONED


async def test_a_host_that_is_never_installed_does_not_keep_others_from_being_adopted() -> None:
    site = Site()
    await site.add("ctrl-0")
    async with site.controlled():
        await site.until_state("ctrl-0")
    site.provisioner = FakeProvisioner(site.clock, seconds={**SECONDS, "inspect": 100_000})
    await site.add("ctrl-0", "worker-0")
    async with site.controlled(new_engine=True):
        await site.clock.run(site.clock.sleep(YIELD_WITHIN - 60))
        assert site.work("ctrl-0") == []
        await site.clock.run(site.clock.sleep(120))
        assert site.work("ctrl-0") == ["register", "adopt"]


async def test_what_is_wanted_of_an_installed_host_is_done_while_others_are_being_installed() -> None:
    site = Site()
    await site.add("ctrl-0")
    async with site.controlled():
        await site.until_state("ctrl-0")
    site.provisioner = FakeProvisioner(site.clock)
    await site.add("ctrl-0", "worker-0")
    await site.change("ctrl-0", online=False)
    async with site.controlled(new_engine=True):
        host = await site.until("ctrl-0", lambda host: not host.status.powered_on)
        assert host.status.state is State.PROVISIONED
        assert (await site.host("worker-0")).status.state is not State.PROVISIONED


async def test_a_stopped_controller_closes_its_steps_as_cancelled() -> None:
    site = Site()
    await site.add("ctrl-0")
    async with site.controlled():
        await site.clock.run(site.clock.sleep(10.0))
    assert site.steps("ctrl-0") == [("registering", "done"), ("inspecting", "cancelled")]


async def test_a_busy_engine_is_asked_again_and_no_failure() -> None:
    site = Site()
    await site.add("ctrl-0")
    site.provisioner.busy = 7
    async with site.controlled():
        await site.until_state("ctrl-0", retries=0)
    assert site.clock.now() == 84.0 + 7.0


async def test_an_engine_that_was_busy_at_the_retry_still_gets_the_retry() -> None:
    site = Site()
    await site.add("ctrl-0")
    site.provisioner.faults.append(Fault("inspect", "ctrl-0"))
    async with site.controlled():
        await site.until("ctrl-0", lambda host: host.status.error_count == 1)
        site.provisioner.busy = 3
        await site.until_state("ctrl-0")
    assert site.work("ctrl-0").count("inspect") == 2


async def test_missing_credentials_are_told_and_mended_by_their_arrival() -> None:
    site = Site()
    await site.add("ctrl-0")
    await site.resources.delete("Secret", "bmc")
    async with site.controlled():
        host = await site.until("ctrl-0", lambda host: host.status.error_type is not None)
        assert host.status.error_type is ErrorKind.REGISTRATION
        assert host.status.error_message == "the BMC secret bmc is not there"
        assert "BMCCredentialError" in await told(site)
        await site.resources.apply(secret("bmc", {"username": "admin", "password": "secret"}))
        await site.until_state("ctrl-0")


async def test_a_missing_user_data_secret_is_a_provisioning_error_by_name() -> None:
    site = Site()
    await site.add("ctrl-0")
    await site.resources.delete("Secret", "ignition")
    async with site.controlled():
        host = await site.until("ctrl-0", lambda host: host.status.error_type is not None)
    assert host.status.error_message == "secret ignition with the userData is not there"


async def test_a_paused_host_is_left_alone_until_it_is_not_paused() -> None:
    site = Site()
    await site.add("ctrl-0")
    record = await site.resources.get(KIND, "ctrl-0")
    assert record
    del record["metadata"]["resourceVersion"]
    record["metadata"]["annotations"] = {"baremetalhost.metal3.io/paused": ""}
    await site.resources.apply(record)
    async with site.controlled():
        with pytest.raises(TimeoutError):
            await site.until_state("ctrl-0")
        assert site.work("ctrl-0") == []
        record["metadata"]["annotations"] = {}
        await site.resources.apply(record)
        await site.until_state("ctrl-0")


async def test_a_provisioned_host_follows_online() -> None:
    site = Site()
    await site.add("ctrl-0")
    async with site.controlled():
        await site.until_state("ctrl-0")
        await site.change("ctrl-0", online=False)
        await site.until("ctrl-0", lambda host: not host.status.powered_on)
        assert not site.provisioner.hosts["ctrl-0"].powered_on
        await site.change("ctrl-0", online=True)
        await site.until("ctrl-0", lambda host: host.status.powered_on)
    assert (await site.host("ctrl-0")).status.state is State.PROVISIONED


async def test_an_available_host_is_switched_off_without_asking_and_a_provisioned_one_is_asked() -> None:
    site = Site()
    await site.add("spare", image=None)
    await site.add("ctrl-0")
    async with site.controlled():
        await site.until("spare", lambda host: host.status.state is State.AVAILABLE and host.status.powered_on)
        await site.until_state("ctrl-0")
        for name in ("spare", "ctrl-0"):
            await site.change(name, online=False)
            await site.until(name, lambda host: not host.status.powered_on)
    assert "spare" in site.provisioner.hard and "ctrl-0" not in site.provisioner.hard


async def test_a_reboot_is_off_and_on_again_once() -> None:
    site = Site()
    await site.add("ctrl-0")
    async with site.controlled():
        await site.until_state("ctrl-0")
        await site.annotate("ctrl-0", {"reboot.metal3.io": '{"mode": "hard"}'})
        await site.until("ctrl-0", lambda host: not host.status.powered_on)
        host = await site.until("ctrl-0", lambda host: host.status.powered_on)
    assert not host.annotations
    assert site.work("ctrl-0")[-2:] == ["power", "power"]


async def test_a_named_reboot_holds_the_host_off_until_its_name_is_taken_away() -> None:
    site = Site()
    await site.add("ctrl-0")
    async with site.controlled():
        await site.until_state("ctrl-0")
        await site.annotate("ctrl-0", {"reboot.metal3.io/repair": ""})
        await site.until("ctrl-0", lambda host: not host.status.powered_on)
        await site.clock.run(site.clock.sleep(600))
        assert not site.provisioner.hosts["ctrl-0"].powered_on
        await site.annotate("ctrl-0", {})
        await site.until("ctrl-0", lambda host: host.status.powered_on)


async def test_a_new_inspection_of_an_available_host_is_a_new_inspection() -> None:
    site = Site()
    await site.add("spare", image=None)
    async with site.controlled():
        await site.until_state("spare", state=State.AVAILABLE)
        record = await site.resources.get(KIND, "spare")
        assert record
        del record["metadata"]["resourceVersion"]
        record["metadata"]["annotations"] = {"inspect.metal3.io": ""}
        await site.resources.apply(record)
        await site.until("spare", lambda host: host.status.state is State.INSPECTING)
        await site.until_state("spare", state=State.AVAILABLE)
    assert site.work("spare").count("inspect") == 2
    assert not (await site.host("spare")).annotations


async def test_the_host_of_a_lost_engine_is_registered_again_on_the_way() -> None:
    site = Site()
    await site.add("ctrl-0")
    async with site.controlled():
        await site.until("ctrl-0", lambda host: host.status.state is State.INSPECTING)
        site.provisioner.forget()
        await site.until_state("ctrl-0")


async def test_a_record_that_cannot_be_read_stops_nobody_else() -> None:
    site = Site()
    await site.add("ctrl-0")
    await site.resources.apply({"kind": KIND, "metadata": {"name": "odd"}, "spec": {"bmc": "not a mapping"}})
    async with site.controlled():
        await site.until_state("ctrl-0")
    warnings = [message(event) for event in site.seen if isinstance(event, Note) and event.level == "warning"]
    assert len(warnings) == 1 and warnings[0].startswith("odd: its record cannot be read")


async def test_a_host_with_no_bmc_is_unmanaged() -> None:
    site = Site()
    await site.resources.apply(
        {"apiVersion": "metal3.io/v1alpha1", "kind": KIND, "metadata": {"name": "lone"}, "spec": {"online": False}}
    )
    async with site.controlled():
        await site.until_state("lone", state=State.UNMANAGED)


async def test_an_engine_that_lost_its_memory_adopts_what_is_there_and_installs_nothing_again() -> None:
    site = Site()
    await site.add("a")
    async with site.controlled():
        await site.until("a", lambda host: host.status.state is State.PROVISIONED)
        site.provisioner.forget()
        site.provisioner.started.clear()
        await site.clock.run(site.clock.sleep(300))
    assert (await site.host("a")).status.state is State.PROVISIONED
    works = [work for _, work in site.provisioner.started]
    assert "adopt" in works and not {"inspect", "prepare", "provision"} & set(works)
    assert site.provisioner.hosts["a"].image == IMAGE


async def test_whoever_looks_after_a_host_next_says_by_which_name_the_engine_knows_it() -> None:
    site = Site()
    await site.add("a")
    async with site.controlled():
        known = await site.until("a", lambda host: host.status.state is State.PROVISIONED)
    site.provisioner.forget()  # as one does that is started elsewhere
    async with site.controlled():
        found = await site.until("a", lambda host: host.status.id != known.status.id)
    assert found.status.id == f"{known.status.id}-1" and found.status.state is State.PROVISIONED


async def test_an_adoption_that_fails_is_named_and_tried_again() -> None:
    site = Site()
    await site.add("a")
    async with site.controlled():
        await site.until("a", lambda host: host.status.state is State.PROVISIONED)
        site.provisioner.forget()
        site.provisioner.faults.append(Fault("adopt", "a", "no such image"))
        failed = await site.until("a", lambda host: host.status.error_type is not None)
        assert (failed.status.error_type, failed.status.error_message) == (ErrorKind.ADOPTION, "no such image")
        mended = await site.until("a", lambda host: host.status.error_type is None)
        assert mended.status.state is State.PROVISIONED


async def test_a_failure_carries_what_was_seen_of_the_host() -> None:
    site = Site()
    await site.add("a")
    site.provisioner.faults.append(Fault("inspect", "a", "timed out"))
    async with site.controlled(evidence=lambda name: f"{name}: power off"):
        failed = await site.until("a", lambda host: host.status.error_type is not None)
    assert failed.status.error_message == "timed out\na: power off"


async def test_an_error_nobody_expected_is_one_hosts_trouble_and_is_told_in_its_status() -> None:
    site = Site()
    await site.add("ctrl-0", "ctrl-1", "ctrl-2")
    broken = {"ctrl-1"}
    inspect = site.provisioner.inspect

    async def faulty(host: HostAccess, *, restart: bool = False) -> Result:
        if host.name in broken:
            raise ZeroDivisionError("planted")
        return await inspect(host, restart=restart)

    site.provisioner.inspect = faulty  # type: ignore[method-assign]
    async with site.controlled():
        await site.until_state("ctrl-0", "ctrl-2")
        failed = await site.host("ctrl-1")
        assert failed.status.error_type is ErrorKind.INSPECTION
        assert failed.status.error_message == "rackless met an error of its own, ZeroDivisionError: planted"
        told = [event for event in await site.resources.list("Event") if event["involvedObject"]["name"] == "ctrl-1"]
        assert any(event["reason"] == "ReconcileFailed" and event["count"] > 1 for event in told)
        broken.clear()
        await site.until_state("ctrl-1")
    assert (await site.host("ctrl-1")).status.error_type is None


async def test_an_error_nobody_expected_right_after_an_install_does_not_undo_it() -> None:
    site = Site()
    await site.add("worker-0")
    power, planted = site.provisioner.power, [ZeroDivisionError("planted")]

    async def faulty(host: HostAccess, on: bool, **how: bool) -> Result:
        if planted:
            raise planted.pop()
        return await power(host, on, **how)

    site.provisioner.power = faulty  # type: ignore[method-assign]
    async with site.controlled():
        await site.until_state("worker-0")
    assert planted == []
    assert [work for _, work in site.provisioner.started].count("provision") == 1
    assert "deprovision" not in [work for _, work in site.provisioner.started]


@pytest.mark.parametrize("many", [20, pytest.param(500, marks=pytest.mark.slow)])
async def test_a_secret_that_nobody_names_costs_no_read_and_one_that_is_named_wakes_its_hosts_only(many: int) -> None:
    site = Site()
    names = [f"worker-{number}" for number in range(many)]
    await site.add(*names, image=None, online=False)
    await site.resources.apply(secret("own", {"username": "admin", "password": "other"}))
    asked: list[str] = []
    register = site.provisioner.register

    async def counted(host: HostAccess, *, restart: bool = False) -> Result:
        asked.append(host.name)
        return await register(host, restart=restart)

    site.provisioner.register = counted  # type: ignore[method-assign]
    await site.change("worker-7", bmc={"address": "redfish-virtualmedia://192.0.2.7/1", "credentialsName": "own"})
    async with site.controlled():
        await site.until_state(*names, state=State.AVAILABLE)
        await site.clock.run(site.clock.sleep(1))
        site.resources.calls.clear()
        asked.clear()
        await site.resources.apply(secret("unrelated", {"password": "x"}))
        await site.clock.run(site.clock.sleep(1))
        assert site.resources.calls == {"apply Secret": 1}
        assert asked == []
        await site.resources.apply(secret("own", {"username": "admin", "password": "new"}))
        await site.clock.run(site.clock.sleep(1))
        assert asked == ["worker-7"]


async def test_a_wish_that_is_answered_costs_one_patch_of_the_status_and_one_of_the_record() -> None:
    site = Site()
    await site.add("ctrl-0")
    async with site.controlled():
        await site.until_state("ctrl-0")
        await site.clock.run(site.clock.sleep(1))
        site.resources.calls.clear()
        await site.annotate("ctrl-0", {"reboot.metal3.io": ""})
        await site.until("ctrl-0", lambda host: not host.status.powered_on)
        await site.until("ctrl-0", lambda host: host.status.powered_on and not host.annotations)
    reads = {call: number for call, number in site.resources.calls.items() if call.startswith(("get", "list"))}
    assert reads == {"get BareMetalHost": 1}  # the test's own
    assert site.resources.calls["patch BareMetalHost"] == 3


async def test_credentials_that_change_are_tried_at_once_and_noted_when_they_are_good() -> None:
    site = Site()
    seen: list[str] = []
    register = site.provisioner.register

    async def noting(host: HostAccess, *, restart: bool = False) -> Result:
        seen.append(host.bmc.password)
        return await register(host, restart=restart)

    site.provisioner.register = noting  # type: ignore[method-assign]
    await site.add("ctrl-0")
    async with site.controlled():
        await site.until_state("ctrl-0")
        before = (await site.host("ctrl-0")).status.good_credentials
        assert set(seen) == {"secret"}
        await site.resources.apply(secret("bmc", {"username": "admin", "password": "other"}))
        await site.until("ctrl-0", lambda host: host.status.good_credentials != before)
        assert (await told(site))[-1] == "BMCAccessValidated"
    assert seen[-1] == "other"
    assert site.work("ctrl-0").count("provision") == 1


async def test_a_host_of_another_architecture_is_told_so_and_nothing_is_tried_until_that_is_mended() -> None:
    site = Site()
    await site.add("arm", image=None)
    await site.change("arm", architecture="aarch64")
    async with site.controlled():
        failed = await site.until("arm", lambda host: host.status.error_type is not None)
        assert failed.status.error_type is ErrorKind.REGISTRATION and "aarch64" in failed.status.error_message
        await site.clock.run(site.clock.sleep(900))
        assert site.work("arm") == [] and (await site.host("arm")).status.error_count == 1
        await site.change("arm", architecture="x86_64")
        await site.until_state("arm", state=State.AVAILABLE)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"raid": {"softwareRAIDVolumes": [{"level": "1"}]}}, "spec.raid: Forbidden: RAID volumes are not set up here"),
        ({"disablePowerOff": True}, "spec.disablePowerOff: Forbidden: hosts are switched off here"),
        ({"inspectionMode": "fast"}, "spec.inspectionMode: Forbidden: hosts are inspected by the agent"),
    ],
)
async def test_what_nobody_does_is_the_hosts_error_where_the_api_took_it(asked: dict[str, Any], said: str) -> None:
    """As on somebody else's cluster, whose API refuses none of it."""
    site = Site()
    await site.add("a", image=None)
    await site.change("a", **asked)
    async with site.controlled():
        failed = await site.until("a", lambda host: host.status.error_type is not None)
        assert failed.status.error_type is ErrorKind.REGISTRATION and said in failed.status.error_message
        await site.clock.run(site.clock.sleep(900))
        assert site.work("a") == [] and (await site.host("a")).status.error_count == 1
        await site.change("a", **dict.fromkeys(asked))
        await site.until_state("a", state=State.AVAILABLE)


async def test_a_host_that_is_installed_is_not_held_to_what_nobody_does() -> None:
    site = Site()
    await site.add("a")
    async with site.controlled():
        await site.until_state("a")
        await site.change("a", raid={"hardwareRAIDVolumes": [{"level": "1"}]}, online=False)
        host = await site.until("a", lambda host: not host.status.powered_on)
    assert host.status.error_type is None


async def test_what_is_being_done_with_a_host_and_how_far_that_is_stands_in_its_status() -> None:
    site = Site()
    await site.add("a")
    site.provisioner.seconds = {**site.provisioner.seconds, "inspect": 60.0}
    async with site.controlled():
        host = await site.until("a", lambda host: bool(host.status.doing) and host.status.state is State.INSPECTING)
        record = await site.resources.get(KIND, "a")
        await site.until_state("a")
        done = await site.resources.get(KIND, "a")
    assert record is not None and done is not None
    said = {each["type"]: each["message"] for each in record["status"]["conditions"]}
    assert said["Progressing"] == host.status.doing and host.status.doing.startswith("inspect, since ")
    assert {each["type"]: each["message"] for each in done["status"]["conditions"]}["Progressing"] == ""


@pytest.mark.parametrize(
    ("state", "doing", "said"),
    [
        (State.PROVISIONING, "write image", "37 %: write image, since 17:02:11Z"),
        (State.INSPECTING, "starting inspection", "0 %: starting inspection, since 17:02:11Z"),
        (State.PROVISIONING, "install coreos", "install coreos, since 17:02:11Z"),
    ],
)
def test_progress_is_told_in_percent_where_the_way_is_known(state: State, doing: str, said: str) -> None:
    assert worded(state, doing, "2026-11-18T17:02:11Z") == said


async def test_what_is_being_done_costs_a_write_when_it_changes_and_not_each_time_it_is_looked_at() -> None:
    site = Site()
    await site.add("a")
    site.provisioner.seconds = {**site.provisioner.seconds, "inspect": 600.0}
    async with site.controlled():
        await site.until("a", lambda host: bool(host.status.doing) and host.status.state is State.INSPECTING)
        before = (await site.resources.get(KIND, "a") or {})["metadata"]["resourceVersion"]
        await site.clock.run(site.clock.sleep(300))
        assert (await site.resources.get(KIND, "a") or {})["metadata"]["resourceVersion"] == before


@pytest.mark.parametrize("state", [State.INSPECTING, State.AVAILABLE, State.PROVISIONED])
async def test_a_host_that_is_deleted_by_force_is_forgotten_by_the_engine(state: State) -> None:
    """Somebody takes its finalizer away: nobody switches it, and another record can have its server."""
    site = Site()
    await site.add("a", image=None if state is State.AVAILABLE else IMAGE)
    async with site.controlled():
        await site.until("a", lambda host: host.status.state is state)
        await site.resources.patch(KIND, "a", {"metadata": {"finalizers": []}})
        await site.resources.delete(KIND, "a")
        await site.clock.run(site.clock.sleep(120))
        assert await site.resources.get(KIND, "a") is None and "a" not in site.provisioner.hosts
        assert await site.resources.get("HardwareData", "a") is None
        await site.add("a")
        await site.until_state("a")


@pytest.mark.parametrize("annotation", [PAUSED, DETACHED])
async def test_a_host_that_somebody_else_looks_after_is_not_collected(annotation: str) -> None:
    site = Site()
    await site.add("a")
    async with site.controlled():
        await site.until_state("a")
        site.provisioner.hosts["another"] = site.provisioner.hosts["a"]
        await site.annotate("a", {annotation: ""})
        await site.clock.run(site.clock.sleep(120))
        site.provisioner.hosts["a"] = site.provisioner.hosts["another"]  # as whoever has it now knows it
        await site.resources.patch(KIND, "a", {"metadata": {"finalizers": []}})
        await site.resources.delete(KIND, "a")
        await site.clock.run(site.clock.sleep(120))
        assert await site.resources.get(KIND, "a") is None and "a" in site.provisioner.hosts


async def told(site: Site) -> list[str]:
    """The reasons of all Events, as they were first told."""
    await site.clock.run(site.clock.sleep(0.01))
    events = await site.resources.list("Event")
    return [event["reason"] for event in sorted(events, key=lambda event: int(event["metadata"]["resourceVersion"]))]


async def test_what_happens_to_a_host_is_told_in_metal3s_words() -> None:
    site = Site()
    await site.add("ctrl-0")
    async with site.controlled():
        await site.until_state("ctrl-0")
        await site.change("ctrl-0", online=False)
        await site.until("ctrl-0", lambda host: not host.status.powered_on)
        await site.change("ctrl-0", online=True)
        await site.until("ctrl-0", lambda host: host.status.powered_on)
        await site.change("ctrl-0", image=None)
        await site.until_state("ctrl-0", state=State.AVAILABLE)
        await site.annotate("ctrl-0", {"inspect.metal3.io": ""})
        await site.until("ctrl-0", lambda host: host.status.state is State.INSPECTING)
        reasons = await told(site)
    assert reasons == [
        "Registering", "Registered", "InspectionComplete", "Available", "ProvisioningStarted", "ProvisioningComplete",
        "PowerOff", "PowerOn", "DeprovisioningStarted", "DeprovisioningComplete", "InspectionStarted",
    ]  # fmt: skip


async def test_a_host_without_a_bmc_is_discovered_and_one_that_is_not_inspected_says_so() -> None:
    site = Site()
    await site.add("ctrl-0", "nobody", image=None)
    await site.change("ctrl-0", inspectionMode="disabled")
    await site.change("nobody", bmc={})
    async with site.controlled():
        await site.until_state("ctrl-0", state=State.AVAILABLE)
        assert {"Discovered", "InspectionSkipped"} <= set(await told(site))


async def test_a_reboot_that_was_asked_for_before_an_installation_is_none_of_the_new_system() -> None:
    site = Site()
    await site.add("ctrl-0", image=None)
    async with site.controlled():
        await site.until_state("ctrl-0", state=State.AVAILABLE)
        record = await site.resources.get(KIND, "ctrl-0")
        assert record
        record["metadata"]["annotations"] = {"reboot.metal3.io": ""}
        record["spec"]["image"] = image_record(IMAGE)
        await site.resources.apply(record)
        await site.until_state("ctrl-0")
        await site.clock.run(site.clock.sleep(300))
        host = await site.host("ctrl-0")
    assert not host.annotations and host.status.powered_on
    assert site.work("ctrl-0")[-1] == "provision", "the new system is not switched off and on"
