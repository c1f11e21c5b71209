"""Bugs as they are really made, each as a patch that can be switched on: what the simulator has to find.

`python -m tests.simulation.planted NAME [FIRST [SEEDS]]` prints the first seed that finds it, with its smallest story.
"""

from __future__ import annotations

import asyncio
import logging
import os
import stat
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, patch

from rackless.controllers.leader import Leader
from rackless.controllers.machines.controller import MachineController
from rackless.controllers.machines.living import EXISTS
from rackless.controllers.machines.records import Machine, consumer_of, state_of
from rackless.controllers.runtime import loop as controllers
from rackless.controllers.runtime.queue import Queue
from rackless.errors import LabError, RacklessError
from rackless.node.vip.holding import VipHolder
from rackless.operations import attachment, daemon_life, teardown
from rackless.operations.rehearsal.leavings import Leavings
from rackless.ports.provisioner import Failed
from rackless.ports.resources import Key, Record
from rackless.provisioning import states
from rackless.provisioning.baremetalhost import State
from rackless.provisioning.config_drive import config_drive
from rackless.provisioning.states import Move, Outcome, Turn, available, provisioned
from rackless.provisioning.wishes import HostWishes
from rackless.run import files, runner, supervise
from rackless.run.ledger import Ledger, LedgerEntry
from rackless.simulation.__main__ import describe, load_everything
from rackless.simulation.campaign import StoryTold, run_seeds, warm_up
from rackless.simulation.shrink import shrink


def ledger_line_after_the_thing() -> Any:
    """What is owned is written down a moment later."""
    own = Ledger.own

    def late(self: Ledger, kind: str, id: Any, **detail: str) -> None:
        asyncio.get_running_loop().call_later(0.02, lambda: own(self, kind, id, **detail))

    return patch.object(Ledger, "own", late)


def ledger_line_struck_before_the_thing_is_gone() -> Any:
    retire = teardown._retire_namespace

    async def early(entry: LedgerEntry, *rest: Any) -> None:
        await asyncio.sleep(0)
        state = next(path for path in Path(entry.id).parents if path.name == "run").parent / "state"
        Ledger(state / f"{Path(entry.id).parent.name}.ledger").strike(entry)
        await retire(entry, *rest)

    return patch.object(teardown, "_retire_namespace", early)


def swallowed_exception() -> Any:
    """A stage that failed counts as done."""
    carry_out = runner.Runner._carry_out

    async def careless(self: runner.Runner, stage: Any, *, restoring: bool) -> None:
        try:
            await carry_out(self, stage, restoring=restoring)
        except RacklessError:
            self.journal.reach(stage.name)

    return patch.object(runner.Runner, "_carry_out", careless)


def lost_wake_up() -> Any:
    """Looks that are due later are kept by the second in which they are due: of two in the same second one is forgotten."""
    done = Queue.done
    due: dict[tuple[int, int], Key] = {}

    def forgetful(self: Queue, key: Key, after: float | None) -> None:
        second = id(self), int(self._clock.now() + (after or 0.0))
        done(self, key, None if after and due.setdefault(second, key) != key else after)

    return patch.object(Queue, "done", forgetful)


def missing_fsync() -> Any:
    """A file is put in its place before its content is on the disk."""
    fsync = os.fsync

    def hurried(handle: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            os.fsync(handle)

    assert fsync is os.fsync
    hasty = type("os", (), {"__getattr__": lambda _, name: hurried if name == "fsync" else getattr(os, name)})()
    return patch.object(files, "os", hasty)


def patch_without_a_version() -> Any:
    """A wish is written over whatever somebody else wrote since it was read."""
    change = HostWishes._change

    async def blind(self: HostWishes, name: str, wish: Callable[..., bool]) -> bool:
        def unversioned(record: dict[str, Any], host: Any) -> bool:
            changed = wish(record, host)
            record["metadata"].pop("resourceVersion", None)
            return changed

        return await change(self, name, unversioned)

    return patch.object(HostWishes, "_change", blind)


def retry_that_forgets() -> Any:
    """A program that died is not started again when it died within its first minute."""
    keep = supervise.Keeper._keep

    async def once(self: supervise.Keeper) -> None:
        assert self._child is not None
        begun = asyncio.get_running_loop().time()
        await self._child.wait()
        if asyncio.get_running_loop().time() - begun > supervise.STEADY:
            await keep(self)

    return patch.object(supervise.Keeper, "_keep", once)


def error_that_ends_the_loop() -> Any:
    """An error that nobody expected ends the looking after that host."""
    return patch.object(controllers.Loop, "_tell", _never_again)


async def _never_again(self: controllers.Loop, *_: Any) -> None:
    return None


def lease_that_is_not_renewed() -> Any:
    """Whoever leads has no Lease any more after a while, and leads on."""

    async def idle(self: Leader, version: str, renewed: float) -> None:
        await asyncio.get_running_loop().create_future()

    return patch.object(Leader, "_renew", idle)


def claim_that_is_made_again() -> Any:
    """A Machine whose host has no system yet looks for another one."""
    find = MachineController._host

    def impatient(self: MachineController, machine: Machine) -> Record | None:
        host = find(self, machine)
        claimed = host is not None and consumer_of(host) == machine.key
        return None if host is None or (claimed and state_of(host) not in EXISTS) else host

    return patch.object(MachineController, "_host", impatient)


def vip_that_is_taken_from_its_holder() -> Any:
    """A control plane takes the VIP as soon as it can, whoever has it."""
    return patch.multiple(VipHolder, _is_free=lambda *_: True, _is_alone=lambda *_: True)


def system_that_is_lost_with_the_power() -> Any:
    """A host that is off counts as one that has no system."""

    async def hasty(turn: Turn) -> Outcome:
        return await provisioned(turn) if turn.host.status.powered_on else Move(State.DEPROVISIONING)

    return patch.dict(states.STEPS, {State.PROVISIONED: hasty})


def work_before_it_is_written_down() -> Any:
    """The engine is asked to install a host whose record does not say so yet."""

    async def hasty(turn: Turn) -> Outcome:
        outcome = await available(turn)
        if isinstance(outcome, Move) and outcome.to is State.PROVISIONING and turn.host.spec.image is not None:
            config = await config_drive(turn.resources, turn.host)
            if not isinstance(config, Failed):
                await turn.provisioner.provision(turn.access, turn.host.spec.image, config)
        return outcome

    return patch.dict(states.STEPS, {State.AVAILABLE: hasty})


def program_that_is_started_twice() -> Any:
    start = supervise.Keeper.start

    async def twice(self: supervise.Keeper) -> None:
        await start(self)
        await self._spawn()

    return patch.object(supervise.Keeper, "start", twice)


def folder_that_is_struck_and_stays() -> Any:
    async def nothing(_: LedgerEntry) -> None: ...

    return patch.object(teardown, "_retire_folder", nothing)


def error_that_loses_its_cause() -> Any:
    carry_out = runner.Runner._carry_out

    async def terse(self: runner.Runner, stage: Any, *, restoring: bool) -> None:
        try:
            await carry_out(self, stage, restoring=restoring)
        except RacklessError as error:
            raise LabError("a stage failed") from error

    return patch.object(runner.Runner, "_carry_out", terse)


def error_that_nobody_put_into_words() -> Any:
    """What is taken away for the first time is looked up where it was never put."""
    retire, known = teardown._retire_folder, dict[str, LedgerEntry]()

    async def bare(entry: LedgerEntry) -> None:
        if known.setdefault(entry.id, entry) is entry:
            raise KeyError(entry.id)
        await retire(entry)

    return patch.object(teardown, "_retire_folder", bare)


def device_that_is_not_given_back() -> Any:
    """A NIC of the computer comes out of the lab's namespace as it was in there: without addresses, and nobody looks after it."""
    return patch.object(attachment, "retire_attachment", AsyncMock())


def leavings_that_stay() -> Any:
    """What an installer has left in the lab's libvirt is not looked for before it is run anew."""
    return patch.object(Leavings, "_virsh", AsyncMock(return_value=[]))


def daemon_that_is_never_the_right_one() -> Any:
    """Every `up` starts labd anew."""
    return patch.object(daemon_life, "outdated", lambda _: "another version runs")


PLANTED: Mapping[str, Callable[[], Any]] = {
    plant.__name__: plant
    for plant in (
        ledger_line_after_the_thing,
        ledger_line_struck_before_the_thing_is_gone,
        swallowed_exception,
        lost_wake_up,
        missing_fsync,
        patch_without_a_version,
        retry_that_forgets,
        error_that_ends_the_loop,
        lease_that_is_not_renewed,
        claim_that_is_made_again,
        vip_that_is_taken_from_its_holder,
        system_that_is_lost_with_the_power,
        work_before_it_is_written_down,
        program_that_is_started_twice,
        folder_that_is_struck_and_stays,
        error_that_loses_its_cause,
        error_that_nobody_put_into_words,
        device_that_is_not_given_back,
        leavings_that_stay,
        daemon_that_is_never_the_right_one,
    )
}


def hunt(name: str, first: int = 0, seeds: int = 500, jobs: int = 2) -> StoryTold | None:
    """The first seed that finds this bug."""
    logging.disable()
    load_everything()
    warm_up()
    with PLANTED[name]():
        for told in run_seeds(range(first, first + seeds), jobs):
            if told.wrong:
                return told
    return None


if __name__ == "__main__":
    found = hunt(sys.argv[1], *map(int, sys.argv[2:]))
    with PLANTED[sys.argv[1]]():
        print(describe(shrink(found)) if found else "not found", flush=True)  # noqa: T201
    os._exit(0 if found else 1)
