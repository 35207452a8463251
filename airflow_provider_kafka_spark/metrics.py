"""Metrics of copies and watchers, sent by Airflow's own ``stats`` to StatsD, Datadog or OpenTelemetry.

Airflow sends nothing unless its section ``[metrics]`` says where to. A metric that cannot be sent fails nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow.sdk import Context

log = logging.getLogger(__name__)

RECORDS_READ = "kafka_spark.records_read"
RECORDS_WRITTEN = "kafka_spark.records_written"
BYTES_WRITTEN = "kafka_spark.bytes_written"
DURATION = "kafka_spark.duration"
RETRIES = "kafka_spark.retries"
RECORDS_BEHIND = "kafka_spark.records_behind"
OFFSETS_MISSING = "kafka_spark.offsets_missing"
FAILURES = "kafka_spark.failures"
WATCHER_ALIVE = "kafka_spark.watcher.alive"
WATCHER_EVALUATIONS = "kafka_spark.watcher.evaluations"
WATCHER_FAILURES = "kafka_spark.watcher.failures"
WATCHER_EVENTS = "kafka_spark.watcher.events"
WATCHER_LAST_EVENT = "kafka_spark.watcher.last_event"

COUNTER, GAUGE, TIMING = "counter", "gauge", "timing"

#: Each metric with its type and its tags; docs/reference/metrics.md has the same.
METRICS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    RECORDS_READ: (COUNTER, ("dag_id", "task_id")),
    RECORDS_WRITTEN: (COUNTER, ("dag_id", "task_id")),
    BYTES_WRITTEN: (COUNTER, ("dag_id", "task_id")),
    DURATION: (TIMING, ("dag_id", "task_id")),
    RETRIES: (COUNTER, ("dag_id", "task_id")),
    RECORDS_BEHIND: (GAUGE, ("dag_id", "task_id")),
    OFFSETS_MISSING: (GAUGE, ("source", "topic", "target", "target_topic")),
    FAILURES: (COUNTER, ("dag_id", "task_id", "error")),
    WATCHER_ALIVE: (GAUGE, ("watcher",)),
    WATCHER_EVALUATIONS: (COUNTER, ("watcher",)),
    WATCHER_FAILURES: (COUNTER, ("watcher", "error")),
    WATCHER_EVENTS: (COUNTER, ("watcher",)),
    WATCHER_LAST_EVENT: (GAUGE, ("watcher",)),
}


def begin() -> None:
    """Let a process send metrics that Airflow has not started: a command. Nothing is sent without it."""
    try:
        from airflow.configuration import conf
        from airflow.sdk.observability import stats
        from airflow.sdk.observability.metrics import stats_utils

        legacy = conf.getboolean("metrics", "legacy_names_on", fallback=False)
        stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=legacy)
    except Exception as error:  # noqa: BLE001 - whatever it is, the command counts
        log.debug("No metrics are sent: %r", error)


def count_copy(context: Context, result: Mapping[str, Any]) -> None:
    """Send what a task has copied.

    :param result: what the task returns.
    """
    tags = _tags_of(context)
    send(RECORDS_READ, result["records_read"], tags)
    send(RECORDS_WRITTEN, result["records_written"], tags)
    # A result that an older version has stored has none.
    send(BYTES_WRITTEN, result.get("bytes_written", 0), tags)
    # Airflow takes timings in milliseconds.
    send(DURATION, result["seconds"] * 1000, tags)
    if "records_behind" in result:
        send(RECORDS_BEHIND, result["records_behind"], tags)


def count_retry(context: Context) -> None:
    """Send that a try continues what an earlier one has submitted."""
    send(RETRIES, 1, _tags_of(context))


def count_failure(context: Context, error: Exception) -> None:
    """Send that a task has failed, once for each error, however many calls it passes through."""
    if not getattr(error, "_is_counted", False):
        error._is_counted = True  # type: ignore[attr-defined]
        send(FAILURES, 1, {**_tags_of(context), "error": type(error).__name__})


def send(name: str, value: float, tags: Mapping[str, str], *, in_triggerer: bool = False) -> None:
    """Send one value of a metric.

    :param name: one of :data:`METRICS`.
    :param in_triggerer: Airflow configures another module there than in tasks.
    """
    kind, _ = METRICS[name]
    try:
        if in_triggerer:
            from airflow.observability import stats
        else:
            from airflow.sdk.observability import stats  # type: ignore[no-redef]
        if kind == COUNTER:
            stats.incr(name, int(value), tags=dict(tags))
        elif kind == GAUGE:
            stats.gauge(name, value, tags=dict(tags))
        else:
            stats.timing(name, value, tags=dict(tags))
    except Exception as error:  # noqa: BLE001 - whatever it is, the copy counts
        log.debug("The metric %s is not sent: %r", name, error)


def _tags_of(context: Context) -> dict[str, str]:
    """Those that Airflow's own metrics of a task have."""
    ti = context["ti"]
    return getattr(ti, "stats_tags", None) or {"dag_id": ti.dag_id, "task_id": ti.task_id}
