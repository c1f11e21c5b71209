"""What the running server tells of itself: `/readyz` check by check, and the numbers of `/metrics` beyond requests."""

from __future__ import annotations

from collections.abc import Iterable

from rackless.api.duties.upkeep import Upkeep
from rackless.api.metrics import Metrics, Sample
from rackless.api.objects.operations import Objects
from rackless.api.stores.port import Store
from rackless.run.connections import GuardedServer


def readiness(store: Store, keeper: Upkeep) -> dict[str, str]:
    """Each check with its problem, or nothing. A single object that cannot be worked on is no reason to turn clients
    away: it is told in the metrics and the log.
    """
    tasks = {f"task/{name}": found.problem for name, found in keeper.supervisor.tasks.items()}
    return {"etcd": store.problem, **tasks}


def measure(metrics: Metrics, objects: Objects, keeper: Upkeep, server: GuardedServer) -> None:
    store, offload = objects.store, objects.offload

    def tasks(part: str) -> Iterable[Sample]:
        for name, found in keeper.supervisor.tasks.items():
            yield {"task": name}, found.restarts if part == "restarts" else float(not found.problem)

    def queues() -> Iterable[Sample]:
        for name, length in {**keeper.queue_lengths, "heavy": offload.waiting, "store": store.queued}.items():
            yield {"queue": name}, length

    def stored() -> Iterable[Sample]:
        for kind in objects.registry.kinds():
            if kind.stored_as is None and kind.verbs != ("create",):
                yield {"group": kind.group, "resource": kind.plural}, store.count(kind.bucket)

    metrics.histogram("rackless_store_commit_duration_seconds", "Commits of the store, each of one or many writes.",
                      store.commits)  # fmt: skip
    metrics.number("rackless_store_up", "gauge", "Whether the store takes writes.", lambda: not store.problem)
    metrics.number("rackless_store_revision", "gauge", "The newest revision.", lambda: store.revision)
    metrics.number("rackless_store_history", "gauge", "Changes kept for watches to resume from.", lambda: store.backlog)
    metrics.source("apiserver_storage_objects", "gauge", "Stored objects by kind.", stored)
    metrics.number("apiserver_registered_watchers", "gauge", "Watches that are open.", lambda: objects.hub.count)
    metrics.number("rackless_watch_overruns_total", "counter", "Watches ended because their client read too slowly.",
                   lambda: objects.hub.overruns)  # fmt: skip
    metrics.source("rackless_queue_length", "gauge", "Work that waits.", queues)
    metrics.source("rackless_task_restarts_total", "counter", "How often a background task was begun anew.",
                   lambda: tasks("restarts"))  # fmt: skip
    metrics.source("rackless_task_up", "gauge", "Whether a background task is well.", lambda: tasks("up"))
    metrics.number("rackless_stuck_objects", "gauge", "Objects that a background task cannot work on.",
                   lambda: len(keeper.stuck))  # fmt: skip
    metrics.number("rackless_unreadable_definitions", "gauge", "Stored definitions that are left out; the log says why.",
                   lambda: len(objects.registry.unreadable))  # fmt: skip
    metrics.number("rackless_subscriber_faults_total", "counter", "Changes at which something inside the server failed.",
                   lambda: store.faults)  # fmt: skip
    metrics.number("rackless_heavy_requests_total", "counter", "Work done in threads.", lambda: offload.done)
    metrics.number("rackless_connections", "gauge", "Open connections.", lambda: server.open)
    metrics.number("rackless_connections_cut_off_total", "counter", "Connections ended for want of patience or room.",
                   lambda: server.cut_off)  # fmt: skip
