"""A run as a picture for a bug report: a row for each subject, a bar for each step, one SVG file without scripts or links."""

from __future__ import annotations

from collections.abc import Iterator
from xml.sax.saxutils import escape, quoteattr

from rackless.diagnosis.runs import Run, StepSpan, by_subject, tracks

_COLOURS = {"done": "#3b8f5a", "unchanged": "#b8c4bd", "failed": "#c0392b", "running": "#d69e2e"}
_OTHER = "#8a8f98"
_LEFT, _WIDTH, _ROW, _TOP, _FOOT = 190, 960, 20, 46, 16
_TICKS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 86400)
_MOST_TICKS = 12
_LETTER = 6.4
"""Width of a letter of the labels, for deciding whether a text fits into its bar."""


def timeline_svg(lab: str, run: Run, now: float) -> str:
    rows = [
        (subject or "the lab" if number == 0 else "", row)
        for subject, spans in by_subject(run).items()
        for number, row in enumerate(tracks(spans, now))
    ]
    whole = max((span.began + span.seconds(now) for span in run.spans), default=run.began) - run.began
    whole = max(whole, 0.001)
    height = _TOP + _ROW * len(rows) + _FOOT
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + _WIDTH + 20}" height="{height}" '
        'font-family="sans-serif" font-size="11">',
        f"<title>{escape(f'lab {lab}, run {run.number}')}</title>",
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        f'<text x="8" y="16" font-size="13" font-weight="bold">{escape(f"lab {lab}, run {run.number}: {_time(whole)}")}</text>',
        *_axis(whole, height),
    ]
    for number, (name, row) in enumerate(rows):
        y = _TOP + number * _ROW
        lines.append(f'<text x="8" y="{y + 14}">{escape(name[:30])}</text>')
        for span in row:
            lines.extend(_bar(span, run.began, whole, y, now))
    return "\n".join((*lines, "</svg>", ""))


def _axis(whole: float, height: int) -> Iterator[str]:
    every = next((tick for tick in _TICKS if whole / tick <= _MOST_TICKS), _TICKS[-1])
    for number in range(int(whole / every) + 1):
        x = _LEFT + _WIDTH * number * every / whole
        yield f'<line x1="{x:.1f}" y1="{_TOP - 10}" x2="{x:.1f}" y2="{height - _FOOT}" stroke="#e4e7eb"/>'
        yield f'<text x="{x:.1f}" y="{_TOP - 14}" text-anchor="middle" fill="#6b7280">{_time(number * every)}</text>'


def _bar(span: StepSpan, zero: float, whole: float, y: int, now: float) -> Iterator[str]:
    x = _LEFT + _WIDTH * (span.began - zero) / whole
    width = max(_WIDTH * span.seconds(now) / whole, 1.0)
    colour = quoteattr(_COLOURS.get(span.outcome, _OTHER))
    told = f"{span.phase}: {span.outcome}, {_time(span.seconds(now))}"
    told += "".join(f"\n{text}" for text in (span.detail, span.waits and f"waited for: {span.waits}") if text)
    yield (
        f'<rect x="{x:.1f}" y="{y + 2}" width="{width:.1f}" height="{_ROW - 4}" rx="2" fill={colour} stroke="#ffffff">'
        f"<title>{escape(_printable(told))}</title></rect>"
    )
    if width > len(span.phase) * _LETTER + 8:
        yield f'<text x="{x + 4:.1f}" y="{y + 14}" fill="#ffffff" pointer-events="none">{escape(_printable(span.phase))}</text>'


def _printable(text: str) -> str:
    """XML has no way to write most control characters."""
    return "".join(sign if sign.isprintable() or sign == "\n" else " " for sign in text)


def _time(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s" if seconds >= 10 or seconds == int(seconds) else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s" if rest else f"{minutes} min"
