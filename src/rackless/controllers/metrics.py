"""What the controllers of a process count, as a page in Prometheus' text format.

Names are controller-runtime's where it has them.
"""

from __future__ import annotations

import resource
from collections import Counter
from collections.abc import Iterator, Sequence

from rackless.controllers.runtime.loop import BUCKETS
from rackless.controllers.runtime.runtime import Runtime

MEDIA = "text/plain; version=0.0.4; charset=utf-8"


def page(*runtimes: Runtime, leading: bool = True) -> str:
    return "\n".join(_lines(runtimes, leading)) + "\n"


def _lines(runtimes: Sequence[Runtime], leading: bool) -> Iterator[str]:
    loops = [loop for runtime in runtimes for loop in runtime.loops]
    cached = Counter[str]()
    for runtime in runtimes:
        cached.update(runtime.cached())
    yield from _head("controller_runtime_reconcile_total", "counter", "Looks at objects, by how they ended.")
    for loop in loops:
        name, counts = loop.controller.name, loop.counts
        good = counts.looks - counts.errors - counts.conflicts
        for result, many in (("success", good), ("error", counts.errors), ("conflict", counts.conflicts)):
            yield f'controller_runtime_reconcile_total{{controller="{name}",result="{result}"}} {many}'
    yield from _head("controller_runtime_reconcile_time_seconds", "histogram", "How long looks took.")
    for loop in loops:
        name, many = loop.controller.name, 0
        for limit, count in zip((*BUCKETS, "+Inf"), loop.counts.buckets, strict=True):
            many += count
            yield f'controller_runtime_reconcile_time_seconds_bucket{{controller="{name}",le="{limit}"}} {many}'
        yield f'controller_runtime_reconcile_time_seconds_sum{{controller="{name}"}} {loop.counts.seconds:.6f}'
        yield f'controller_runtime_reconcile_time_seconds_count{{controller="{name}"}} {loop.counts.looks}'
    yield from _head("rackless_controller_writes_total", "counter", "Writes of the objects that were looked at.")
    for loop in loops:
        yield f'rackless_controller_writes_total{{controller="{loop.controller.name}"}} {loop.counts.writes}'
    yield from _head("workqueue_depth", "gauge", "Objects that want a look now.")
    for loop in loops:
        yield f'workqueue_depth{{name="{loop.controller.name}"}} {len(loop.queue)}'
    yield from _head("rackless_cached_objects", "gauge", "Objects that watches keep in memory.")
    for kind, many in sorted(cached.items()):
        yield f'rackless_cached_objects{{kind="{kind}"}} {many}'
    yield from _head("rackless_events_dropped_total", "counter", "Events that could not be written.")
    yield f"rackless_events_dropped_total {sum(runtime.recorder.dropped for runtime in runtimes)}"
    yield from _head("leader_election_master_status", "gauge", "Whether this process is the one that acts.")
    yield f"leader_election_master_status {int(leading)}"
    usage = resource.getrusage(resource.RUSAGE_SELF)
    yield from _head("process_cpu_seconds_total", "counter", "Processor time.")
    yield f"process_cpu_seconds_total {usage.ru_utime + usage.ru_stime:.3f}"
    yield from _head("process_resident_memory_max_bytes", "gauge", "Most memory that was ever resident.")
    yield f"process_resident_memory_max_bytes {usage.ru_maxrss * 1024}"


def _head(name: str, kind: str, help_: str) -> tuple[str, str]:
    return f"# HELP {name} {help_}", f"# TYPE {name} {kind}"
