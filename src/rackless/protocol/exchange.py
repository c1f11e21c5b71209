"""One thing that can be asked over a control socket: its name, what is asked, what is answered.

`protocol/messages.py` has all of them. The client takes one and returns the typed answer; a server is given one together with
whoever answers it, and types are checked on both sides.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from rackless.codec import BadValue, decode

Q = TypeVar("Q")
A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class Nothing:
    """A request or an answer without any value."""


@dataclass(frozen=True, slots=True)
class Exchange(Generic[Q, A]):
    name: str
    asked: type[Q]
    answered: type[A]
    works: bool = False
    """Whether it changes something: its steps are told while it does, and it ends when the asker goes away."""
    root: bool = False
    """Whether only root may ask it: it makes, stops or removes something of the lab, and does not only use it."""
    bare: str = ""
    """The one field that daemons before this version answered with alone, without an object around it."""

    def by(self, answer: Callable[[Q], Awaitable[A]]) -> Served:
        return Served(self, answer)

    def read_answer(self, value: object) -> A:
        """Raises BadValue."""
        if self.answered is Nothing and value is None:
            value = {}
        if self.bare and not isinstance(value, dict):
            value = {self.bare: value}
        try:
            return decode(self.answered, value)
        except BadValue as error:
            raise BadValue(f"in the answer to {self.name}, {error}") from error


@dataclass(frozen=True, slots=True)
class Served:
    """An exchange, and the function that answers it."""

    exchange: Exchange[Any, Any]
    answer: Callable[[Any], Awaitable[object]]
