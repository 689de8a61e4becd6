"""The metrics of a service, in Prometheus' text format; ``docs/monitoring.md`` lists them.

No metric has a label for tables, users or other values whose number grows with the data. Labels are operations, kinds
of writes, error codes and states, whose number the code fixes.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from importlib.metadata import version
from itertools import product
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from catalog_ext.metastore.backports import StrEnum
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.errors import CatalogExtError, IndexDatabaseError, MetastoreError, StorageError
from catalog_ext.metastore.runtime.measures import (
    Committed,
    Delivered,
    Event,
    Failed,
    MetastoreCalled,
    NotCommitted,
    Planned,
    Repaired,
    Subject,
    TaskRan,
    listening,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from prometheus_client import Metric

    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.index.read.state import IndexState
    from catalog_ext.service.index_probe import Look
    from catalog_ext.service.threads import Kind, ThreadsState

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_ROOTS = {Subject.INDEX: IndexDatabaseError, Subject.METASTORE: MetastoreError, Subject.STORAGE: StorageError}
_FAST = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_SLOW = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


class ClosedFor(StrEnum):
    """The reasons for which the service closes a connection."""

    SLOW = "slow"
    """A request did not arrive in time, or the client did not read its answer."""

    CROWDED = "crowded"
    """The service had reached its limit of connections."""


class ServiceMetrics:
    """Counts events of this process while the service listens.

    Attributes:
        in_progress: Requests that are being answered.
    """

    def __init__(self, index: Index) -> None:
        self._index = index
        self._registry = CollectorRegistry()
        self._listening = ExitStack()
        ProcessCollector(registry=self._registry)
        self._gauge("build_info", "1; the label is the release.", "version").labels(version("catalog-ext")).set(1)
        self._declare_requests()
        self._declare_writes()
        self._declare_background()
        self._errors = {
            Subject.INDEX: self._counter("index_errors", "Errors of the index database.", "code"),
            Subject.METASTORE: self._counter("metastore_errors", "Errors of the metastore.", "code"),
            Subject.STORAGE: self._counter("storage_errors", "Errors of stores.", "code"),
        }
        self._begin_with_zeros()

    def _counter(self, name: str, meaning: str, *labels: str) -> Counter:
        return Counter(f"catalog_ext_{name}", meaning, labels, registry=self._registry)

    def _gauge(self, name: str, meaning: str, *labels: str) -> Gauge:
        return Gauge(f"catalog_ext_{name}", meaning, labels, registry=self._registry)

    def _histogram(self, name: str, meaning: str, *labels: str, buckets: tuple[float, ...] = _FAST) -> Histogram:
        return Histogram(f"catalog_ext_{name}", meaning, labels, registry=self._registry, buckets=buckets)

    def _declare_requests(self) -> None:
        self.in_progress = self._gauge("requests_in_progress", "Requests that are being answered.")
        self.connections = self._gauge("connections", "Connections that are open.")
        self.connections_limit = self._gauge("connections_limit", "Connections that may be open at once.")
        reasons = "Connections that the service closed: slow (no whole request in time), crowded (too many)."
        self._closed = self._counter("connections_closed", reasons, "reason")
        duration = "Time from a request's head to the end of its answer."
        self._requests = self._histogram("request_duration_seconds", duration, "operation")
        errors = "Requests answered with an error, by its code."
        self._request_errors = self._counter("request_errors", errors, "operation", "code")
        self._planning = self._histogram("planning_duration_seconds", "Time in which the files of a read were chosen.")
        self._planned_files = self._counter("planned_files", "Files that reads were given.")

    def _declare_writes(self) -> None:
        outcomes = "Commits of writes and partition commands: committed, conflict, failed."
        self._commits = self._counter("commits", outcomes, "kind", "outcome")
        duration = "Time of successful commits, without the metastore."
        self._commit_seconds = self._histogram("commit_duration_seconds", duration, buckets=_SLOW)
        self._rows = self._counter("committed_rows", "Rows that commits have made visible.")
        self._bytes = self._counter("committed_bytes", "Bytes that commits have made visible.")
        self._files = self._counter("committed_files", "Files that commits have added and removed.", "change")
        self._repairs = self._counter("repairs", "Repairs, by what they have done.", "outcome")
        self._repair_seconds = self._histogram("repair_duration_seconds", "Time of repairs.", buckets=_SLOW)
        changed = "Partitions that repairs have added, dropped and changed."
        self._repaired = self._counter("repaired_partitions", changed, "change")

    def _declare_background(self) -> None:
        outcomes = "Messages to the metastore: delivered, refused, unavailable."
        self._deliveries = self._counter("deliveries", outcomes, "outcome")
        self._calls = self._histogram("metastore_call_duration_seconds", "Time of calls of the metastore.")
        self._runs = self._counter("background_runs", "Runs of background tasks: done, failed.", "task", "outcome")
        last = "When a background task last ended well, in seconds since the epoch."
        self._last_run = self._gauge("background_last_success_timestamp_seconds", last, "task")

    def _begin_with_zeros(self) -> None:
        # Begin at zero: Prometheus shows no increase from a missing series.
        for kind, outcome in product(WriteKind, ("committed", "conflict", "failed")):
            self._commits.labels(str(kind), outcome)
        for change in ("added", "removed"):
            self._files.labels(change)
        for reason in ClosedFor:
            self._closed.labels(str(reason))
        for outcome in ("in_sync", "changed", "failed"):
            self._repairs.labels(outcome)
        for change in ("added", "dropped", "changed"):
            self._repaired.labels(change)
        for outcome in ("delivered", "refused", "unavailable"):
            self._deliveries.labels(outcome)
        for subject, root in _ROOTS.items():
            for code in _codes(root):
                self._errors[subject].labels(code)

    def expect(self, operations: Iterable[str], tasks: Iterable[str]) -> None:
        """Create the metrics of each operation and background task with the value zero."""
        for operation in operations:
            self._request_errors.labels(operation, CatalogExtError.code)
        for task, outcome in product(tasks, ("done", "failed")):
            self._runs.labels(task, outcome)

    def start(self) -> None:
        """Start counting."""
        self._listening.enter_context(listening(self._take))

    def stop(self) -> None:
        """Stop counting."""
        self._listening.close()

    def text(self, look: Look, threads: Mapping[Kind, ThreadsState]) -> bytes:
        """Return all metrics in the format ``CONTENT_TYPE``, with the probed state of the index and the threads."""
        return generate_latest(_Shown(self._registry, self._index, look, threads))

    def answered(self, operation: str, seconds: float) -> None:
        """Count an answered operation and its duration."""
        self._requests.labels(operation).observe(seconds)

    def refused(self, operation: str, code: str) -> None:
        """Count an operation that failed: it returned an error response, or its answer broke off."""
        self._request_errors.labels(operation, code).inc()

    def connection_closed(self, reason: ClosedFor) -> None:
        """Count a connection that the service closed."""
        self._closed.labels(str(reason)).inc()

    def _take(self, event: Event) -> None:
        match event:
            case Failed():
                self._errors[event.subject].labels(event.code).inc()
            case MetastoreCalled():
                self._calls.observe(event.seconds)
            case Delivered():
                self._deliveries.labels(event.outcome).inc()
            case Planned():
                self._planning.observe(event.seconds)
                self._planned_files.inc(event.files)
            case Committed():
                self._committed(event)
            case NotCommitted():
                self._commits.labels(event.kind, "conflict" if event.conflict else "failed").inc()
            case Repaired():
                self._repaired_table(event)
            case TaskRan():
                self._runs.labels(event.task, "failed" if event.failed else "done").inc()
                if not event.failed:
                    self._last_run.labels(event.task).set(time.time())

    def _committed(self, event: Committed) -> None:
        self._commits.labels(event.kind, "committed").inc()
        self._commit_seconds.observe(event.seconds)
        self._rows.inc(event.rows or 0)
        self._bytes.inc(event.bytes)
        self._files.labels("added").inc(event.files_added)
        self._files.labels("removed").inc(event.files_removed)

    def _repaired_table(self, event: Repaired) -> None:
        changes = {"added": event.added, "dropped": event.dropped, "changed": event.changed}
        self._repair_seconds.observe(event.seconds)
        outcome = "failed" if event.added is None else "changed" if any(changes.values()) else "in_sync"
        self._repairs.labels(outcome).inc()
        for change, partitions in changes.items():
            self._repaired.labels(change).inc(partitions or 0)


def _codes(root: type[CatalogExtError]) -> set[str]:
    return {root.code}.union(*map(_codes, root.__subclasses__()))


class _Shown(Collector):
    """The collector that Prometheus' exporter reads: all counters without their creation times, and the index's state.

    If the index does not answer, its state has no values; zeros would be wrong.
    """

    def __init__(
        self, registry: CollectorRegistry, index: Index, look: Look, threads: Mapping[Kind, ThreadsState]
    ) -> None:
        self._registry = registry
        self._index = index
        self._look = look
        self._threads = threads

    def collect(self) -> Iterator[Metric]:
        for metric in self._registry.collect():
            metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
            yield metric
        yield from _of_threads(self._threads)
        look, pool = self._look, self._index.pool
        yield _gauge("index_up", "1 if the index answers, with this release's schema.", look.state is not None)
        behind = "1 if the index was restored, and changes nothing until catalog-ext restored has run."
        yield _gauge("index_behind", behind, self._index.incarnations.behind is not None)
        yield _gauge("index_look_seconds", "How long the last look at the index took.", look.seconds)
        queries = "SQL statements sent to the index."
        yield CounterMetricFamily("catalog_ext_index_queries", queries, self._index.query_count)
        connections = "Connections of the pool to the index, in_use and idle."
        yield _gauges("index_pool_connections", connections, "state", {"in_use": pool.in_use, "idle": pool.idle})
        yield _gauge("index_pool_limit", "Connections that the pool may have at once; 0 without a pool.", pool.limit)
        if look.state is not None:
            yield from _of(look.state)


def _of_threads(threads: Mapping[Kind, ThreadsState]) -> Iterator[Metric]:
    def each(name: str, meaning: str, value: Callable[[ThreadsState], int]) -> Metric:
        return _gauges(name, meaning, "kind", {str(kind): value(state) for kind, state in threads.items()})

    yield each("threads_in_use", "Threads that carry out calls, by the kind of these.", lambda state: state.in_use)
    yield each("threads_limit", "Threads that a kind of calls may have at once.", lambda state: state.limit)
    yield each("calls_waiting", "Calls that wait for a thread of their kind.", lambda state: state.waiting)


def _of(state: IndexState) -> Iterator[Metric]:
    yield _gauge("deliveries_pending", "Messages that the metastore has not taken.", state.pending)
    yield _gauge("deliveries_failing", "Those of them that were tried in vain.", state.failing)
    yield _gauge("deliveries_oldest_age_seconds", "Age of the oldest of them; 0 without any.", state.oldest_pending_s)
    transactions = {str(name): count for name, count in state.transactions.items()}
    yield _gauges("transactions_open", "Transactions that have not ended, by state.", "state", transactions)
    yield _gauge("transactions_abandoned", "Those of them whose owner's lease is over.", state.abandoned)
    yield _gauge(
        "transactions_oldest_age_seconds", "Age of the oldest of them; 0 without any.", state.oldest_transaction_s
    )
    yield _gauge("tables", "Tables in the index.", state.tables)
    yield _gauge("partitions", "Partitions in the index.", state.partitions)
    yield _gauge("files", "Files in the index.", state.files)
    yield _gauge("data_bytes", "Bytes of these files.", state.bytes)
    if state.followed_s is not None:
        yield _gauge("followed_age_seconds", "How long ago the metastore was last followed.", state.followed_s)


def _gauge(name: str, meaning: str, value: float) -> Metric:
    return GaugeMetricFamily(f"catalog_ext_{name}", meaning, value)


def _gauges(name: str, meaning: str, label: str, values: dict[str, int]) -> Metric:
    family = GaugeMetricFamily(f"catalog_ext_{name}", meaning, labels=(label,))
    for key, value in values.items():
        family.add_metric((key,), value)
    return family
