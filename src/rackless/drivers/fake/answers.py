"""Lost answers: a port whose calls take effect while their caller may never get the answer."""

from __future__ import annotations

from inspect import iscoroutinefunction
from typing import Any, TypeVar, cast

from rackless.drivers.fake.script import Script

P = TypeVar("P")


def losing(port: str, fake: P, script: Script) -> P:
    """The same port, with every answer passed through the script on its way back."""
    return cast(P, _Losing(port, fake, script))


class _Losing:
    def __init__(self, port: str, fake: object, script: Script) -> None:
        self._port = port
        self._fake = fake
        self._script = script

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._fake, name)
        if name.startswith("_") or not iscoroutinefunction(found):
            return found

        async def call(*arguments: Any, **more: Any) -> Any:
            done = await found(*arguments, **more)
            await self._script.answer(self._port, name, _subject(arguments))
            return done

        return call


def _subject(arguments: tuple[Any, ...]) -> str:
    """The name that the fakes note for a call: its first argument, or that argument's name."""
    first = arguments[0] if arguments else ""
    return first if isinstance(first, str) else str(getattr(first, "name", ""))
