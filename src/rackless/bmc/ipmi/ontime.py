"""How long a server has been on: in its life, and since its BMC started. Time is given."""

from __future__ import annotations

from collections.abc import Callable


class OnTime:
    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._began = now()
        self._since: float | None = None
        self._counted = 0.0
        """Seconds on since the beginning, without the stretch that is going on."""

    def note(self, on: bool) -> None:
        if on and self._since is None:
            self._since = self._now()
        elif not on and self._since is not None:
            self._counted += self._now() - self._since
            self._since = None

    @property
    def seconds(self) -> float:
        return self._counted + (self._now() - self._since if self._since is not None else 0.0)

    @property
    def watched(self) -> float:
        return self._now() - self._began

    @property
    def share(self) -> float:
        if not self.watched:
            return 1.0 if self._since is not None else 0.0
        return min(1.0, self.seconds / self.watched)
