"""Errors as they cross the control socket: the kind and the words, made into the same kind of error on the other side."""

from __future__ import annotations

from dataclasses import dataclass

from rackless import errors
from rackless.errors import RacklessError

_KINDS: dict[str, type[RacklessError]] = {
    name: kind for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, RacklessError)
}


@dataclass(frozen=True, slots=True)
class Failure:
    kind: str
    what: str
    why: str = ""
    hint: str = ""
    log: str = ""

    @classmethod
    def of(cls, error: RacklessError) -> Failure:
        return cls(type(error).__name__, error.what, error.why, error.hint, error.log)

    def error(self) -> RacklessError:
        """The error again; one of a kind that this version does not know keeps its words only."""
        kind = _KINDS.get(self.kind, RacklessError)
        error = kind.__new__(kind)
        RacklessError.__init__(error, self.what, why=self.why, hint=self.hint, log=self.log)
        return error


@dataclass(frozen=True, slots=True)
class FailureAnswer:
    """The answer of a request that failed."""

    error: Failure
