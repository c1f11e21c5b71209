"""What the server counts of itself, and the page of it in Prometheus' text format; names are kube-apiserver's where it
has them.

A page of our own instead of a library: a request is counted by one look into a dict on the only thread that counts,
and the format is a line a number. Labels come from the kinds that are served, never from what a client wrote, so that
the number of series is bounded.
"""

from __future__ import annotations

import os
import resource
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

MEDIA = "text/plain; version=0.0.4; charset=utf-8"
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_PAGE = os.sysconf("SC_PAGE_SIZE")


class RequestSubject(NamedTuple):
    """What a request was about: a verb of the API, and of what."""

    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""


class Histogram:
    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(_BUCKETS) + 1)
        self.total = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(_BUCKETS, seconds)] += 1
        self.total += seconds


Sample = tuple[Mapping[str, str], float]
Source = Callable[[], Iterable[Sample]]


class Metrics:
    """Counters of requests, and sources that are asked when somebody looks."""

    def __init__(self) -> None:
        self._requests: dict[tuple[RequestSubject, int], int] = {}
        self._durations: dict[RequestSubject, Histogram] = {}
        self._sources: list[tuple[str, str, str, Source]] = []
        self._histograms: list[tuple[str, str, Histogram]] = []
        self.watches: dict[RequestSubject, int] = {}
        self.inflight = {"mutating": 0, "readOnly": 0}
        self.of_callers: Counter[tuple[str, str]] = Counter()
        """Requests and watches by kind and caller; not shown, for there may be any number of callers."""
        self.refused = 0
        self._started = time.time()

    def count(self, asked: RequestSubject, code: int, seconds: float) -> None:
        key = (asked, code)
        self._requests[key] = self._requests.get(key, 0) + 1
        found = self._durations.get(asked)
        if found is None:
            found = self._durations[asked] = Histogram()
        found.observe(seconds)

    def source(self, name: str, kind: str, text: str, found: Source) -> None:
        """A family of numbers (`kind` is gauge or counter) that is asked for when the page is made."""
        self._sources.append((name, kind, text, found))

    def number(self, name: str, kind: str, text: str, found: Callable[[], float]) -> None:
        self.source(name, kind, text, lambda: [({}, found())])

    def histogram(self, name: str, text: str, found: Histogram) -> None:
        self._histograms.append((name, text, found))

    def page(self) -> bytes:
        lines: list[str] = []
        _family(lines, "apiserver_request_total", "counter", "Requests by what they asked and how they were answered.",
                (({**asked._asdict(), "code": str(code)}, n) for (asked, code), n in self._requests.items()))  # fmt: skip
        _head(
            lines, "apiserver_request_duration_seconds", "histogram", "How long requests took; watches until their end."
        )
        for asked, found in self._durations.items():
            _histogram(lines, "apiserver_request_duration_seconds", asked._asdict(), found)
        for name, text, found in self._histograms:
            _head(lines, name, "histogram", text)
            _histogram(lines, name, {}, found)
        _family(lines, "apiserver_current_inflight_requests", "gauge", "Requests being answered, watches left out.",
                (({"request_kind": kind}, n) for kind, n in self.inflight.items()))  # fmt: skip
        _family(lines, "apiserver_longrunning_requests", "gauge", "Watches that are open.",
                ((asked._asdict(), n) for asked, n in self.watches.items()))  # fmt: skip
        _family(lines, "apiserver_dropped_requests_total", "counter", "Requests told to come again later.",
                [({}, self.refused)])  # fmt: skip
        for name, kind, text, source in self._sources:
            _family(lines, name, kind, text, source())
        self._process(lines)
        return ("\n".join(lines) + "\n").encode()

    def _process(self, lines: list[str]) -> None:
        used = resource.getrusage(resource.RUSAGE_SELF)
        resident = int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE
        files = len(os.listdir("/proc/self/fd"))
        for name, kind, text, value in (
            ("process_cpu_seconds_total", "counter", "Processor time.", used.ru_utime + used.ru_stime),
            ("process_resident_memory_bytes", "gauge", "Memory.", resident),
            ("process_open_fds", "gauge", "Open files.", files),
            ("process_start_time_seconds", "gauge", "Since when.", self._started),
        ):
            _family(lines, name, kind, text, [({}, value)])


def _head(lines: list[str], name: str, kind: str, text: str) -> None:
    lines.append(f"# HELP {name} {text}")
    lines.append(f"# TYPE {name} {kind}")


def _family(lines: list[str], name: str, kind: str, text: str, samples: Iterable[Sample]) -> None:
    _head(lines, name, kind, text)
    lines.extend(f"{name}{_labels(labels)} {_number(value)}" for labels, value in samples)


def _histogram(lines: list[str], name: str, labels: Mapping[str, str], found: Histogram) -> None:
    total = 0
    for bound, count in zip((*map(_number, _BUCKETS), "+Inf"), found.counts, strict=True):
        total += count
        lines.append(f"{name}_bucket{_labels({**labels, 'le': bound})} {total}")
    lines.append(f"{name}_sum{_labels(labels)} {_number(found.total)}")
    lines.append(f"{name}_count{_labels(labels)} {total}")


def _labels(labels: Mapping[str, str]) -> str:
    return "{" + ",".join(f'{name}="{_quoted(value)}"' for name, value in labels.items()) + "}" if labels else ""


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return repr(int(value)) if value == int(value) else repr(float(value))
