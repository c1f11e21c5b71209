"""Durations as a person reads them, and how long steps usually take."""

from __future__ import annotations

from rackless.diagnosis.estimates import Usual

_ENOUGH = 3
"""The number of earlier runs from which on we say "usually"."""


def spent(seconds: float) -> str:
    """`4.2 s`, `1 min 40 s`, `2 h 05 min`."""
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def rounded(seconds: float) -> str:
    """For an estimate: no tenths from ten seconds on."""
    return (
        f"{seconds:.0f} s" if 9.95 <= seconds < 59.5 else spent(float(round(seconds)) if seconds >= 59.5 else seconds)
    )


def usually(usual: Usual) -> str:
    """`usually 1 min 40 s here`, with where half of the runs were when they differ; after one or two runs, what it was."""
    if usual.runs < _ENOUGH:
        return f"{rounded(usual.median)} here before"
    low, high = rounded(usual.low), rounded(usual.high)
    spread = f" ({low} to {high})" if usual.high - usual.low > max(1.0, 0.2 * usual.median) else ""
    return f"usually {rounded(usual.median)} here{spread}"
