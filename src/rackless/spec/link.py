"""Rate, delay and loss of the link from the lab to its servers, as at sites whose provisioning service is far away."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema, model_validator

from rackless.spec.change import Change, setting
from rackless.spec.value import Value

_DELAY = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|s)\s*")
_LOSS = re.compile(r"\s*(\d+(?:\.\d+)?)\s*%\s*")
_RATE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmg])bit(?:/s)?\s*", re.IGNORECASE)
_BITS = {"k": 10**3, "m": 10**6, "g": 10**9}
_LONGEST_MS = 10_000
_SLOWEST, _FASTEST = 64 * 10**3, 32 * 10**9
"""Bits a second. Below the first an agent's heartbeats take longer than their interval; the kernel counts bytes in 32 bits."""


def _parse_delay(value: Any) -> Any:
    if not isinstance(value, str):
        return _own(value, "a delay is a number with a unit, such as 40ms")
    if not (match := _DELAY.fullmatch(value)):
        raise ValueError(f"{value!r} is not a delay, such as 40ms or 1.5s")
    found = round(float(match[1]) * (1000 if match[2] == "s" else 1))
    if not 1 <= found <= _LONGEST_MS:
        raise ValueError(f"{value!r} is not between 1ms and {_LONGEST_MS // 1000}s")
    return found


def _parse_loss(value: Any) -> Any:
    if not isinstance(value, str):
        return _own(value, "a loss is a part of a hundred, such as 0.5%")
    if not (match := _LOSS.fullmatch(value)) or not 0 < float(match[1]) <= 50:
        raise ValueError(f"{value!r} is not a loss between 0% and 50%, such as 0.5%")
    return float(match[1])


def _parse_rate(value: Any) -> Any:
    if not isinstance(value, str):
        return _own(value, "a rate is a number with a unit, such as 10Mbit")
    if not (match := _RATE.fullmatch(value)):
        raise ValueError(f"{value!r} is not a rate, such as 512kbit, 10Mbit or 1Gbit")
    found = round(float(match[1]) * _BITS[match[2].lower()])
    if not _SLOWEST <= found <= _FASTEST:
        raise ValueError(f"{value!r} is not between 64kbit and 32Gbit")
    return found


def _own(value: Any, says: str) -> Any:
    """A field that is left out stays None; a bare number is refused, because it has no unit."""
    if value is None:
        return None
    raise ValueError(says)


def _render_rate(bits: int | None) -> str | None:
    if bits is None:
        return None
    for unit, factor in (("Gbit", 10**9), ("Mbit", 10**6)):
        if bits % factor == 0:
            return f"{bits // factor}{unit}"
    return f"{bits / 1000:g}kbit"


def _text(example: str) -> WithJsonSchema:
    return WithJsonSchema({"type": ["string", "null"], "examples": [example]})


Delay = Annotated[
    int | None,
    BeforeValidator(_parse_delay),
    PlainSerializer(lambda ms: None if ms is None else f"{ms}ms"),
    _text("40ms"),
]
Loss = Annotated[
    float | None,
    BeforeValidator(_parse_loss),
    PlainSerializer(lambda part: None if part is None else f"{part:g}%"),
    _text("0.5%"),
]
Rate = Annotated[int | None, BeforeValidator(_parse_rate), PlainSerializer(_render_rate), _text("10Mbit")]


class LinkSpec(Value):
    """What the lab sends to its servers, and not what they send."""

    delay: Delay = setting(
        "How much later it arrives, such as 40ms: a round trip takes this longer. Needs the kernel's netem.",
        Change.LIVE,
        default=None,
    )
    loss: Loss = setting("How much of it is lost, such as 0.5%. Needs the kernel's netem.", Change.LIVE, default=None)
    rate: Rate = setting("How much there may be in a second, such as 10Mbit.", Change.LIVE, default=None)

    @model_validator(mode="after")
    def _say_something(self) -> LinkSpec:
        if self.delay is self.loss is self.rate is None:
            raise ValueError("a link that is as ever needs no words; give it a delay, a loss or a rate")
        return self
