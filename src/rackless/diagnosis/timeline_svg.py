"""A run as a picture for a bug report: rows for each subject, a bar for each step, one SVG file without scripts or links.

What a step was made of stands below it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from xml.sax.saxutils import escape, quoteattr

from rackless.diagnosis.runs import CUT_OFF, Run, StepSpan, by_subject, levels, tracks

_COLOURS = {
    "done": "#3b8f5a", "unchanged": "#b8c4bd", "failed": "#c0392b", "running": "#d69e2e", CUT_OFF: "#7a5c99",
}  # fmt: skip
_OTHER = "#8a8f98"
_DARK = "#1f2933"
"""On a bar that is light."""
_LEFT, _WIDTH, _ROW, _TOP, _FOOT = 190, 960, 20, 62, 16
_TICKS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 86400)
_MOST_TICKS = 12
_LETTER = 6.4
"""Width of a letter of the labels, for deciding how much of a text fits into its bar."""
_EDGED = 4.0
"""A bar that is narrower has no edge, which would hide it."""
_FEWEST = 4
"""Letters of a label that was shortened; fewer tell nothing."""


def timeline_svg(lab: str, run: Run, now: float) -> str:
    rows = [
        (subject or "the lab" if number == 0 else "", level)
        for subject, spans in by_subject(run).items()
        for number, level in enumerate(level for row in tracks(spans, now) for level in levels(row, now))
    ]
    whole = max((span.began + span.seconds(now) for span in run.spans), default=run.began) - run.began
    whole = max(whole, 0.001)
    height, width = _TOP + _ROW * len(rows) + _FOOT, _LEFT + _WIDTH + 20
    began = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(run.began))
    name = escape(f"lab {lab}, run {run.number}")
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="11">',
        f"<title>{name}</title>",
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        f'<text x="8" y="16" font-size="13" font-weight="bold">{name}: {_time(whole)}</text>',
        f'<text x="8" y="32" fill="#6b7280">since {began}</text>',
        *_legend({span.outcome for span in run.spans}),
        *_axis(whole, height),
    ]
    for number, (subject, row) in enumerate(rows):
        y = _TOP + number * _ROW
        if subject:
            lines.append(f'<line x1="0" y1="{y}" x2="{width}" y2="{y}" stroke="#e4e7eb"/>')
            lines.append(f'<text x="8" y="{y + 14}">{escape(_printable(_short(subject, 28)))}</text>')
        for span in row:
            lines.extend(_bar(span, run.began, whole, y, now))
    return "\n".join((*lines, "</svg>", ""))


def _legend(outcomes: set[str]) -> Iterator[str]:
    """Of the colours that are there."""
    known = [(outcome, colour) for outcome, colour in _COLOURS.items() if outcome in outcomes]
    known += [("other", _OTHER)] if outcomes - _COLOURS.keys() else []
    for number, (outcome, colour) in enumerate(reversed(known), 1):
        x = _LEFT + _WIDTH - 90 * number
        yield f'<rect x="{x}" y="8" width="10" height="10" rx="2" fill="{colour}"/>'
        yield f'<text x="{x + 15}" y="17" fill="#6b7280">{outcome}</text>'


def _axis(whole: float, height: int) -> Iterator[str]:
    every = next((tick for tick in _TICKS if whole / tick <= _MOST_TICKS), _TICKS[-1])
    for number in range(int(whole / every) + 1):
        x = _LEFT + _WIDTH * number * every / whole
        yield f'<line x1="{x:.1f}" y1="{_TOP - 10}" x2="{x:.1f}" y2="{height - _FOOT}" stroke="#e4e7eb"/>'
        yield f'<text x="{x:.1f}" y="{_TOP - 14}" text-anchor="middle" fill="#6b7280">{_time(number * every)}</text>'


def _bar(span: StepSpan, zero: float, whole: float, y: int, now: float) -> Iterator[str]:
    x = _LEFT + _WIDTH * (span.began - zero) / whole
    width = max(_WIDTH * span.seconds(now) / whole, 1.0)
    edge = ' stroke="#ffffff"' if width > _EDGED else ""
    colour = quoteattr(_COLOURS.get(span.outcome, _OTHER))
    told = f"{span.phase}: {span.outcome}, {_time(span.seconds(now))}"
    waited = f"waited for: {span.waits}" if span.waits and span.waits != span.detail else ""
    told += "".join(f"\n{text}" for text in (span.detail, waited) if text)
    yield (
        f'<rect x="{x:.1f}" y="{y + 2}" width="{width:.1f}" height="{_ROW - 4}" rx="2" fill={colour}{edge}>'
        f"<title>{escape(_printable(told))}</title></rect>"
    )
    if label := _short(span.phase, int((width - 8) / _LETTER)):
        light = quoteattr(_DARK if span.outcome == "unchanged" else "#ffffff")
        yield f'<text x="{x + 4:.1f}" y="{y + 14}" fill={light} pointer-events="none">{escape(_printable(label))}</text>'


def _short(text: str, letters: int) -> str:
    """As much of it as fits; nothing where that is too little."""
    if len(text) <= letters:
        return text
    return f"{text[: letters - 1]}…" if letters > _FEWEST else ""


def _printable(text: str) -> str:
    """XML has no way to write most control characters."""
    return "".join(sign if sign.isprintable() or sign == "\n" else " " for sign in text)


def _time(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s" if seconds >= 10 or seconds == int(seconds) else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s" if rest else f"{minutes} min"
