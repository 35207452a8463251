"""What all Kafka-to-Kafka operators share: resolve, check, submit, and be green only when the job's report proves delivery."""

from __future__ import annotations

import json
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_kafka_spark.core.broker_state import ClusterState
from airflow_provider_kafka_spark.core.delivery import (
    check_delivery,
    check_duplicates,
    check_gaps,
    ranges_with_gaps,
    result_of_empty_plan,
    result_of_plan,
    result_of_run,
)
from airflow_provider_kafka_spark.core.errors import InvalidInputError, KafkaSparkError, OptionError
from airflow_provider_kafka_spark.core.job_events import JobEvent, JobStarted
from airflow_provider_kafka_spark.core.offset_range import OffsetRange
from airflow_provider_kafka_spark.core.options import check_sink_options, check_source_options
from airflow_provider_kafka_spark.core.plan import ReplayPlan, Target, make_plan
from airflow_provider_kafka_spark.core.protocol import JobReport, JobRequest, Transform
from airflow_provider_kafka_spark.core.resolve import ReadRules, ResolvedRanges
from airflow_provider_kafka_spark.core.spans import plan_spans
from airflow_provider_kafka_spark.core.tuning import sink_defaults, source_defaults
from airflow_provider_kafka_spark.hooks.kafka import KafkaHook
from airflow_provider_kafka_spark.hooks.run_state import RunState, RunStateStore
from airflow_provider_kafka_spark.operators.spark_job import SparkJobOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

T = TypeVar("T")

_COLUMNS = ("key", "value", "headers", "partition")
_ISOLATION_LEVELS = ("read_committed", "read_uncommitted")
#: Ranges with gaps are counted by a second client if they have no more offsets than this.
_MOST_RECOUNTED_OFFSETS = 1_000_000


def fail_for_good(execute: Callable[..., T]) -> Callable[..., T]:
    """Make Airflow retry only what a retry can mend."""

    @wraps(execute)
    def wrapped(*args: Any, **kwargs: Any) -> T:
        try:
            return execute(*args, **kwargs)
        except KafkaSparkError as error:
            if error.retriable:
                raise
            raise AirflowFailException(f"{type(error).__name__}: {error}") from error

    return wrapped


class KafkaToKafkaOperator(SparkJobOperator):
    """Copy records from Kafka to Kafka through Spark. Use one of the subclasses, which say what is read.

    A green task means that every planned record that exists was read, and that everything that passed ``where`` was written to the target and acknowledged by all in-sync
    replicas, as counted by the job itself. The exact offsets are fixed before Spark starts, and a retry of the task uses them again.

    .. warning::
        Spark's Kafka sink is at-least-once. A failed try leaves what it had written; the next try reads the target back by the provenance header and writes only what is missing.
        With ``provenance_headers=False`` it would write everything again.

    :param source_conn_id: Kafka connection to read from. (templated)
    :param target_conn_id: Kafka connection to write to; the source's when None. (templated)
    :param target_topic: one topic for all records. (templated)
    :param target_topic_expr: an SQL expression per row, such as ``"concat(topic, '_replay')"``; exactly one of the two. (templated)
    :param allow_same_topic: permit writing into a topic that is being read.
    :param where: an SQL predicate over ``key, value, topic, partition, offset, timestamp, timestampType, headers``. (templated)
    :param columns: SQL expressions for ``key``, ``value``, ``headers``, ``partition``; what is left out is unchanged. (templated)
    :param preserve_partition: write to the partition number that the record came from; otherwise the Java producer's hash of the key decides.
    :param include_headers: keep the source's headers.
    :param provenance_headers: add a header ``x-kafka-spark-source``: ``run_id|topic|partition|offset|timestamp in ms``.
    :param allow_duplicates: only report records that the target has more than once, in place of failing.
    :param isolation_level: ``read_committed`` leaves aborted records out and ends at the last stable offset; ``read_uncommitted`` does neither.
    :param fail_on_data_loss: aged-out offsets and re-created topics are an error; otherwise the gap is in the result.
    :param max_records_per_partition: cut ranges into Spark partitions of at most so many offsets; needs ``preserve_order=False``.
    :param preserve_order: keep the order of each range.
    :param source_options: further options of Spark's Kafka source. (templated)
    :param sink_options: further options of Spark's Kafka sink. (templated)
    :param plan_only: resolve, check, return the plan, submit nothing.
    :param kafka_timeout: seconds for each request to a broker.
    :param progress_seconds: seconds between two lines of progress in the log.

    Further parameters: :class:`~airflow_provider_kafka_spark.operators.spark_job.SparkJobOperator`.
    """

    template_fields: Sequence[str] = (
        "source_conn_id",
        "target_conn_id",
        "target_topic",
        "target_topic_expr",
        "where",
        "columns",
        "source_options",
        "sink_options",
        *SparkJobOperator.template_fields,
    )
    template_fields_renderers = {"where": "sql", "columns": "json", "source_options": "json", "sink_options": "json"}  # noqa: RUF012 - Airflow's
    ui_color = "#f5e3d0"

    def __init__(
        self,
        *,
        source_conn_id: str = "kafka_default",
        target_conn_id: str | None = None,
        target_topic: str | None = None,
        target_topic_expr: str | None = None,
        allow_same_topic: bool = False,
        where: str | None = None,
        columns: dict[str, str] | None = None,
        preserve_partition: bool = False,
        include_headers: bool = True,
        provenance_headers: bool = True,
        allow_duplicates: bool = False,
        isolation_level: str = "read_committed",
        fail_on_data_loss: bool = True,
        max_records_per_partition: int | None = None,
        preserve_order: bool = True,
        source_options: dict[str, Any] | None = None,
        sink_options: dict[str, Any] | None = None,
        plan_only: bool = False,
        kafka_timeout: float = 30.0,
        progress_seconds: float = 5.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.source_conn_id = source_conn_id
        self.target_conn_id = target_conn_id
        self.target_topic = target_topic
        self.target_topic_expr = target_topic_expr
        self.allow_same_topic = allow_same_topic
        self.where = where
        self.columns = columns
        self.preserve_partition = preserve_partition
        self.include_headers = include_headers
        self.provenance_headers = provenance_headers
        self.allow_duplicates = allow_duplicates
        self.isolation_level = isolation_level
        self.fail_on_data_loss = fail_on_data_loss
        self.max_records_per_partition = max_records_per_partition
        self.preserve_order = preserve_order
        self.source_options = source_options
        self.sink_options = sink_options
        self.plan_only = plan_only
        self.kafka_timeout = kafka_timeout
        self.progress_seconds = progress_seconds

    @abstractmethod
    def _wish(self) -> dict[str, Any]:
        """What is to be read, as plain JSON: the identity of the run."""

    @abstractmethod
    def _resolve(self, hook: KafkaHook, rules: ReadRules) -> tuple[ResolvedRanges, ClusterState]:
        """The exact offsets, and the broker state they were resolved against."""

    def _window(self) -> tuple[int | None, int | None]:
        """Timestamps, in ms, that a record must lie between to be kept."""
        return None, None

    @fail_for_good
    def execute(self, context: Context) -> dict[str, Any]:
        """Resolve, check, submit, and hold the report against the plan.

        :return: the result, as the documentation gives it.
        :raises AirflowFailException: for what a retry cannot mend.
        :raises KafkaSparkError: for what it can.
        """
        rules, target, transform = self._check_parameters()
        spark = self._new_spark_hook(context)
        if not self.plan_only:
            spark.check()
        store = RunStateStore(
            context, {**self._wish(), "target": [self.target_conn_id, self.target_topic, self.target_topic_expr]}
        )
        state = store.load()
        with KafkaHook(self.source_conn_id, self.kafka_timeout) as source, self._target_hook(source) as sink:
            plan = self._plan(source, sink, state, rules, target)
            self.log.info("The plan of run %s:\n%s", state.run_id, plan.table())
            if self.plan_only:
                return result_of_plan(plan, state.run_id)
            if plan.is_empty:
                self.log.info("Nothing to do: there are no records in the wish. Spark is not started.")
                return self._done(context, result_of_empty_plan(plan, state.run_id))
            if state.application_id is not None:
                spark.wait_for_earlier(state.application_id)
            is_retry = state.has_submitted
            if is_retry:
                self._announce_retry()
            state = store.submitting(state, plan, int(time.time() * 1000))
            request = self._request(source, sink, state, plan, transform, rules, is_retry=is_retry)

            def on_event(event: JobEvent) -> None:
                if isinstance(event, JobStarted):
                    store.started(state, event.application_id)
                self._on_event(context, event)

            report = spark.run(request, "batch", on_event)
            check_delivery(report, plan, state.run_id, transform)
            if not self.allow_duplicates:
                check_duplicates(report, transform)
            warnings = self._look_again(source, report, plan, rules)
        store.finished(state)
        return self._done(context, result_of_run(report, plan, warnings))

    def _check_parameters(self) -> tuple[ReadRules, Target, Transform]:
        self._check_types()
        if self.isolation_level not in _ISOLATION_LEVELS:
            raise OptionError(f"isolation_level must be one of {_ISOLATION_LEVELS}; got {self.isolation_level!r}.")
        columns = self.columns or {}
        unknown = sorted(set(columns) - set(_COLUMNS))
        if unknown:
            raise InvalidInputError(
                f"columns may set {', '.join(_COLUMNS)}; got {unknown}. (Spark's sink ignores timestamp and offset, and the topic is target_topic_expr.)"
            )
        if self.preserve_partition and "partition" in columns:
            raise InvalidInputError(
                "preserve_partition=True and columns['partition'] contradict each other; give one of the two."
            )
        if self.max_records_per_partition is not None and self.preserve_order:
            raise OptionError(
                f"max_records_per_partition={self.max_records_per_partition!r} splits a partition over several Spark tasks, which write at the same time, so the order of its records is lost. "
                f"Pass preserve_order=False if that is right for the target."
            )
        source_options = check_source_options(self.source_options)
        check_sink_options(self.sink_options)
        if "minPartitions" in source_options:
            raise OptionError(
                "source_options must not set 'minPartitions': with it Spark splits partitions and loses their order. Use max_records_per_partition with preserve_order=False."
            )
        start_ms, end_ms = self._window()
        transform = Transform(
            where=self.where,
            columns=dict(columns),
            topic=self.target_topic,
            topic_expr=self.target_topic_expr,
            preserve_partition=self.preserve_partition,
            include_headers=self.include_headers,
            provenance_headers=self.provenance_headers,
            window_start_ms=start_ms,
            window_end_ms=end_ms,
        )
        target = Target(self.target_topic, self.target_topic_expr, self.preserve_partition, self.allow_same_topic)
        return ReadRules(self.isolation_level == "read_committed", self.fail_on_data_loss), target, transform

    def _check_types(self) -> None:
        """Refuse what a template may have rendered to, and what a caller without type checks may have given."""
        for name in ("source_conn_id", "spark_conn_id", "target_conn_id", "target_topic", "target_topic_expr", "where"):
            text = getattr(self, name)
            if text is None and name not in ("source_conn_id", "spark_conn_id"):
                continue
            if not isinstance(text, str) or not text.strip():
                raise InvalidInputError(
                    f"{name} must be text that is not blank; got {text!r}. If a template stands there, look at what it rendered to."
                )
        expressions = self.columns or {}
        if not isinstance(expressions, Mapping) or not all(
            isinstance(sql, str) and sql.strip() for sql in expressions.values()
        ):
            raise InvalidInputError(
                f"columns must map columns to SQL expressions, such as {{'value': 'upper(string(value))'}}; got {self.columns!r}."
            )
        self._check_submit_types()
        largest = self.max_records_per_partition
        if largest is not None and (isinstance(largest, bool) or not isinstance(largest, int) or largest < 1):
            raise OptionError(
                f"max_records_per_partition must be an integer of at least 1, such as 1000000; got {largest!r}."
            )
        for name in ("kafka_timeout", "progress_seconds"):
            seconds = getattr(self, name)
            if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not seconds > 0:
                raise OptionError(f"{name} must be a number of seconds greater than 0, such as 30; got {seconds!r}.")

    def _target_hook(self, source: KafkaHook) -> KafkaHook:
        if self.target_conn_id is None or self.target_conn_id == self.source_conn_id:
            return source
        return KafkaHook(self.target_conn_id, self.kafka_timeout)

    def _plan(
        self, source: KafkaHook, sink: KafkaHook, state: RunState, rules: ReadRules, target: Target
    ) -> ReplayPlan:
        if state.plan is not None:
            self.log.info("An earlier try of this run made a plan; it is used again.")
            if rules.fail_on_data_loss:
                state.plan.check_topics_unchanged(source.state(state.plan.topic_ids))
            return state.plan
        resolved, cluster = self._resolve(source, rules)
        target_state = sink.state([target.topic] if target.topic else [])
        return make_plan(resolved, cluster, target_state, target, self.max_records_per_partition, self.preserve_order)

    def _request(
        self,
        source: KafkaHook,
        sink: KafkaHook,
        state: RunState,
        plan: ReplayPlan,
        transform: Transform,
        rules: ReadRules,
        *,
        is_retry: bool,
    ) -> JobRequest:
        spans = plan_spans(plan.ranges, self.max_records_per_partition)
        same_cluster = plan.source_cluster_id == plan.target_cluster_id
        forbidden = {r.topic for r in plan.ranges} if same_cluster and not self.allow_same_topic else set()
        return JobRequest(
            run_id=state.run_id,
            plan_digest=plan.digest,
            ranges=tuple(plan.ranges.without_empty().format()),
            spans=spans,
            transform=transform,
            source_options={
                **source_defaults(spans, read_committed=rules.read_committed),
                **source.config.spark_options(),
                **check_source_options(self.source_options),
            },
            sink_options={
                **sink_defaults(),
                **sink.config.spark_options(),
                **check_sink_options(self.sink_options),
            },
            report_uri="",
            read_committed=rules.read_committed,
            fail_on_data_loss=rules.fail_on_data_loss,
            preserve_order=self.preserve_order,
            is_retry=is_retry,
            audit_from=self._target_ends(sink, state),
            audit_since_ms=state.submitted_at_ms,
            forbidden_targets=tuple(sorted(forbidden)),
            progress_seconds=self.progress_seconds,
        )

    def _announce_retry(self) -> None:
        if self.provenance_headers:
            self.log.info(
                "An earlier try of this run may have delivered records: the target is searched for them first."
            )
        else:
            self.log.warning(
                "An earlier try of this run may have delivered records, and provenance_headers=False leaves no way to tell which: they are written again."
            )

    def _target_ends(self, sink: KafkaHook, state: RunState) -> dict[str, dict[str, int]]:
        """Where the target ended before the run's first submission; what this run delivered lies behind."""
        if self.target_topic is None:
            return {}
        before = (state.target_ends or {}).get(self.target_topic, {})
        partitions = sink.state([self.target_topic]).topic(self.target_topic).partitions
        return {self.target_topic: {str(number): before.get(number, 0) for number in partitions}}

    def _on_event(self, context: Context, event: JobEvent) -> None:
        if isinstance(event, JobStarted):
            self._announce_application(context, event)
        else:
            self.log.info("Progress: %s", event)

    def _look_again(self, source: KafkaHook, report: JobReport, plan: ReplayPlan, rules: ReadRules) -> tuple[str, ...]:
        """Compare with the broker after the copy: gaps must be gaps there too, and new partitions are not covered."""
        warnings = list(plan.partitions_added(source.state(plan.partition_counts)))
        gaps = ranges_with_gaps(report)
        if gaps.total > _MOST_RECOUNTED_OFFSETS:
            warnings.append(
                f"{len(gaps)} ranges have offsets without a record (compacted, aborted, or transaction markers); with {gaps.total:,} offsets they are too many to be counted a second time"
            )
        elif gaps:
            self.log.info("%s ranges have offsets without a record; a second client counts them.", f"{len(gaps):,}")
            check_gaps(report, source.count_records(gaps, read_committed=rules.read_committed))
        for warning in warnings:
            self.log.warning("%s", warning)
        return tuple(warnings)

    def _done(self, context: Context, result: dict[str, Any]) -> dict[str, Any]:
        for outlet in self.outlets or ():
            context["outlet_events"][outlet].extra = {
                "run_id": result["run_id"],
                "records_written": result["records_written"],
                "offset_ranges": [
                    OffsetRange(r["topic"], r["partition"], r["from_offset"], r["until_offset"]).format()
                    for r in result["ranges"]
                ],
            }
        self.log.info(
            "Delivered: %s records read, %s written, %s offsets without a record. Result: %s",
            f"{result['records_read']:,}",
            f"{result['records_written']:,}",
            f"{result['gaps']:,}",
            json.dumps({name: value for name, value in result.items() if name != "ranges"}),
        )
        return result
