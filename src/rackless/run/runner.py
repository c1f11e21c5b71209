"""Carries out stages: observes, plans, and does exactly what is planned, in the order of their needs, in parallel where these
allow it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from rackless.errors import RacklessError, known
from rackless.events import Bus
from rackless.plan.actions import Action, Observed, Scene, Verb
from rackless.run.journal import Journal
from rackless.run.stage import Stage
from rackless.spec.lab import LabSpec

LOOK_COUNTS_FOR = 10.0
"""Seconds for which an observation made ahead by `begin` counts; an older one is made again."""


@dataclass
class Runner:
    spec: LabSpec
    stages: Sequence[Stage]
    journal: Journal
    bus: Bus
    base: Observed = field(default_factory=Observed)
    """What of the observation is known without asking a stage."""
    _alone: asyncio.Lock = field(default_factory=asyncio.Lock)
    _looks: dict[str, asyncio.Task[Observed]] = field(default_factory=dict)
    """Observations of stages that `begin` started ahead of their turn. They count until a stage changes something."""
    _looked_at: float = 0.0

    @property
    def busy(self) -> bool:
        return self._alone.locked()

    async def observe(self, *, costly: bool = True) -> Observed:
        """The observations of all stages, as one."""
        found = self._known()
        for seen in await asyncio.gather(*(stage.observe() for stage in self.stages if costly or not stage.costly)):
            found |= seen
        return found

    async def begin(self, names: Collection[str]) -> Observed:
        """An `up` begins and will run these stages one after the other; returns what can be observed at once, for its plan. The
        stages that were reached before are observed from now on, all in parallel, and `run` takes the results: in a lab that
        stands, an `up` takes as long as its slowest observation, and not as long as all of them.
        """
        self._look_ahead(names)
        found = self._known()
        for seen in await asyncio.gather(*(self._peek(stage) for stage in self.stages if not stage.costly)):
            found |= seen
        return found

    async def run(self, names: Collection[str]) -> None:
        """Carry out these stages; the other stages that they need have been run before."""
        async with self._alone:
            if asyncio.get_running_loop().time() - self._looked_at >= LOOK_COUNTS_FOR:
                self._look_ahead(())
            try:
                await self._run([stage for stage in self.stages if stage.name in names], restoring=False)
            except BaseException:
                self._look_ahead(())
                raise

    async def restore(self) -> None:
        """After a restart of labd: bring back the stages that were reached, without waiting for slow ones to have had their
        effect."""
        async with self._alone:
            self._look_ahead(())
            reached = self.journal.read().reached
            await self._run([stage for stage in self.stages if stage.name in reached], restoring=True)

    async def retire(self) -> None:
        """Stop what the stages keep running, in the reverse order of their needs."""
        self._look_ahead(())
        for stage in reversed(self.stages):
            await stage.retire()

    async def remove(self, actions: Sequence[Action]) -> None:
        """Carry out actions that delete or remake something, each by the stage that planned it, in the reverse order of their
        needs. Before the lab gets its new description: afterwards no stage knows any more what is to go.
        """
        of_kind: dict[str, list[Action]] = {}
        for action in actions:
            of_kind.setdefault(action.subject.partition("/")[0], []).append(action)
        known = {stage.planned.removes: stage for stage in self.stages if stage.planned.removes}
        if strange := [action for kind, these in of_kind.items() if kind not in known for action in these]:
            raise RacklessError(f"no stage knows how to {strange[0].verb} {strange[0].subject}")
        async with self._alone:
            self._look_ahead(())
            self.journal.begin()
            for kind, stage in reversed(known.items()):
                if mine := of_kind.get(kind):
                    with self.journal.carrying_out(mine):
                        await stage.remove(mine)

    async def _run(self, chosen: Sequence[Stage], *, restoring: bool) -> None:
        if not restoring or not self.journal.path.exists():
            self.journal.begin()
        done = {stage.name: asyncio.Event() for stage in chosen}

        async def in_turn(stage: Stage) -> None:
            for need in stage.planned.needs:
                if need in done:
                    await done[need].wait()
            await self._carry_out(stage, restoring=restoring)
            done[stage.name].set()

        try:
            async with asyncio.TaskGroup() as together:
                for stage in chosen:
                    together.create_task(in_turn(stage), name=f"stage {stage.name}")
        except BaseExceptionGroup as group:
            ours = known(group)
            if ours is None:
                raise
            raise ours from group

    async def _carry_out(self, stage: Stage, *, restoring: bool) -> None:
        actions = stage.planned.plan(Scene.of(self.spec, self._known() | await self._look_at(stage)))
        work = [action for action in actions if action.verb is not Verb.KEEP]
        if not work:
            if actions:
                with self.bus.step(stage.title, subject="", **stage.numbers) as step:
                    step.unchanged()
        else:
            _refuse_loss(work)
            self._look_ahead(())
            with self.journal.carrying_out(work):
                await (stage.restore if restoring else stage.ensure)(work)
        self.journal.reach(stage.name)

    def _look_ahead(self, names: Collection[str]) -> None:
        """Forget the observations that were begun, and begin these: only of stages that were reached, for the others are still to
        be made."""
        for look in self._looks.values():
            look.cancel()
        reached = self.journal.read().reached if names else frozenset()
        self._looks = {
            stage.name: asyncio.create_task(stage.observe(), name=f"look at {stage.name}")
            for stage in self.stages
            if stage.name in names and stage.name in reached
        }
        for look in self._looks.values():
            look.add_done_callback(_retrieve)
        self._looked_at = asyncio.get_running_loop().time()

    async def _peek(self, stage: Stage) -> Observed:
        """An observation that was begun stays for `run`; a stage that changes something meanwhile cancels it."""
        look = self._looks.get(stage.name)
        if look is not None:
            await asyncio.wait([look])
        return await (stage.observe() if look is None or look.cancelled() else look)

    async def _look_at(self, stage: Stage) -> Observed:
        look = self._looks.pop(stage.name, None)
        return await (stage.observe() if look is None else look)

    def _known(self) -> Observed:
        return self.base | Observed(stages=self.journal.read().reached)


def _retrieve(look: asyncio.Task[Observed]) -> None:
    """Mark a failed observation's error as seen: `run` raises it when it takes the observation, and asyncio is not to warn when
    it does not."""
    if not look.cancelled():
        look.exception()


def _refuse_loss(work: Sequence[Action]) -> None:
    if lost := [action for action in work if action.verb in (Verb.REFUSE, Verb.RECREATE, Verb.REMOVE)]:
        raise RacklessError(
            f"the daemon was asked to {lost[0].verb} {lost[0].subject}",
            why="what loses something is done before it, by `rackless up --replace`",
        )
