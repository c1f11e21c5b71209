"""The filter of events that a client receives: with a request for work, and on the event stream."""

from __future__ import annotations

from collections.abc import Sequence

from rackless import events


class Hearing:
    """Which events an asker hears: those of the steps below their own, and those about `subjects`.

    A subject may end in a star: `host/*` are all hosts, `*` is everything.
    """

    def __init__(self, step: str | None, subjects: Sequence[str] = ()) -> None:
        self._steps = {step} if step is not None else set()
        self._subjects = subjects

    @property
    def everything(self) -> bool:
        """Also how steps end whose beginning was not heard."""
        return "*" in self._subjects

    def concerns(self, event: events.Event) -> bool:
        match event:
            case events.StepStarted():
                if event.parent in self._steps or self._about(event.subject):
                    self._steps.add(event.step)
                    return True
                return False
            case events.StepFinished():
                known = event.step in self._steps
                self._steps.discard(event.step)
                return known
        return event.step in self._steps or self._about(event.subject)

    def _about(self, subject: str) -> bool:
        return any(
            subject.startswith(wanted[:-1]) if wanted.endswith("*") else subject == wanted for wanted in self._subjects
        )
