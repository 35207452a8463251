"""A stream that copies all records up to the current end and stops; the next run continues from there."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import uuid4

from airflow_provider_kafka_spark.clients.consumer_group import ConsumerGroup
from airflow_provider_kafka_spark.clients.permissions import check_topics
from airflow_provider_kafka_spark.clients.run_mark import judge_run
from airflow_provider_kafka_spark.core.bounds import Bound, parse_start
from airflow_provider_kafka_spark.core.broker_state import ClusterState, Selection
from airflow_provider_kafka_spark.core.errors import CheckpointError, KafkaSparkError
from airflow_provider_kafka_spark.core.handoff.job_credentials import JobCredentials
from airflow_provider_kafka_spark.core.handoff.job_events import JobEvent, JobStarted
from airflow_provider_kafka_spark.core.offset_range import TopicPartition, by_topic
from airflow_provider_kafka_spark.core.parameters import EXACTLY_ONCE, check_group_id, check_integer
from airflow_provider_kafka_spark.core.plan import ReplayPlan, Target, make_plan
from airflow_provider_kafka_spark.core.protocol import JobReport, JobRequest, StreamRequest, Transform
from airflow_provider_kafka_spark.core.resolve import ReadRules, timestamps_in
from airflow_provider_kafka_spark.core.spans import plan_spans
from airflow_provider_kafka_spark.core.streams.checkpoint import Binding, Checkpoint
from airflow_provider_kafka_spark.core.streams.spark_faults import faults_of
from airflow_provider_kafka_spark.core.streams.stream_plan import Reset, StreamPlan, resolve_stream
from airflow_provider_kafka_spark.core.streams.verification import (
    check_stream,
    lag_of,
    report_of_nothing,
    result_of_stream,
)
from airflow_provider_kafka_spark.core.verification import check_duplicates, result_of_plan
from airflow_provider_kafka_spark.hooks.kafka import KafkaHook
from airflow_provider_kafka_spark.hooks.spark_job import SparkJobHook
from airflow_provider_kafka_spark.operators.kafka_to_kafka import KafkaToKafkaOperator, no_retry_on_permanent_error
from airflow_provider_kafka_spark.operators.stream_log import log_stream_plan
from airflow_provider_kafka_spark.state.checkpoint import CheckpointFolder, finished_offsets
from airflow_provider_kafka_spark.state.run_state import StreamRunStore, TaskState

if TYPE_CHECKING:
    from airflow.sdk import Context

_UNKNOWN_TARGETS = (
    "Earlier tries of this task finished batches, and with target_topic_expr their target ranges are unknown: "
    "target_ranges and the asset event only have the ranges of this try."
)
#: The state that a task keeps for its retries; the rest is in the checkpoint.
_APPLICATION_KEY = "kafka_spark_application"

Start = str | int | datetime | dict[str, Any]


class KafkaToKafkaAvailableNowOperator(KafkaToKafkaOperator):
    """Copy all records that topics have when the run starts, in micro-batches, and stop. The next run continues from
    there.

    The driver decides the offsets and stores them in a checkpoint; nothing is read back from Kafka. A batch that a
    crash left uncommitted is finished first, with exactly its offsets; records that the target already has are not
    written again.

    .. warning::
        A checkpoint belongs to one job, and one run uses it at a time. A job with other topics, clusters, target or
        expressions is refused, and so is a second run while one is active. Use ``max_active_runs=1``.

    :param topics: names of topics. (templated)
    :param topic_pattern: a regular expression that matches whole names; topics that match later are included.
        (templated)
    :param assign: partitions by topic, ``{"orders": [0, 1]}``; exactly one of the three. (templated)
    :param checkpoint_location: a folder for this task only: an absolute path, or a URI that both Hadoop's file systems
        and Airflow's ``ObjectStoragePath`` reach. (templated)
    :param starting_offsets: where the first run starts: ``"earliest"``, ``"latest"``, offsets as
        ``{"orders": {"0": 23}}``, or a moment. Later runs use the checkpoint. (templated)
    :param max_offsets_per_trigger: maximum offsets of one micro-batch, over all partitions; None for one batch.
    :param commit_group_id: a consumer group without members to which the finished offsets are committed after success,
        forwards only, for lag monitors. It is never read back. (templated)
    :param reset_checkpoint_to: start again, from offsets or a moment as in ``starting_offsets``, with a new generation
        of the checkpoint; the old one is kept. Done once for each DAG run. (templated)

    Further parameters: :class:`~airflow_provider_kafka_spark.operators.kafka_to_kafka.KafkaToKafkaOperator`.
    """

    template_fields: Sequence[str] = (
        "topics",
        "topic_pattern",
        "assign",
        "checkpoint_location",
        "starting_offsets",
        "commit_group_id",
        "reset_checkpoint_to",
        *KafkaToKafkaOperator.template_fields,
    )
    _is_stream: ClassVar[bool] = True

    def __init__(
        self,
        *,
        checkpoint_location: str,
        topics: list[str] | None = None,
        topic_pattern: str | None = None,
        assign: dict[str, list[int]] | None = None,
        starting_offsets: Start | None = None,
        max_offsets_per_trigger: int | None = None,
        commit_group_id: str | None = None,
        reset_checkpoint_to: Start | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.checkpoint_location = checkpoint_location
        self.topics = topics
        self.topic_pattern = topic_pattern
        self.assign = assign
        self.starting_offsets = starting_offsets
        self.max_offsets_per_trigger = max_offsets_per_trigger
        self.commit_group_id = commit_group_id
        self.reset_checkpoint_to = reset_checkpoint_to

    @no_retry_on_permanent_error
    def execute(self, context: Context) -> dict[str, Any]:
        """Read the checkpoint, resolve, check, submit, and compare the report with plan and checkpoint.

        :return: the result, as the documentation gives it.
        :raises AirflowFailException: for non-retriable errors.
        :raises KafkaSparkError: for retriable errors.
        """
        self._resume_request(context)
        rules, target, transform = self._check_parameters()
        store = StreamRunStore(context, self.task_id)
        if store.result is not None and not self.plan_only:
            return self._done_before(context, store.result)
        folder = CheckpointFolder(self.checkpoint_location)
        spark = self._new_spark_hook(context)
        stale_lock = None
        if not self.plan_only:
            self._check_submission(spark, folder)
            stale_lock = self._free_checkpoint(spark, folder, context)
        checkpoint = folder.read()
        with KafkaHook(self.source_conn_id, self.kafka_timeout) as source, self._target_hook(source) as sink:
            group = None if self.commit_group_id is None else ConsumerGroup(source, self.commit_group_id)
            if group is not None:
                group.refuse_members()
            self._tokens.check(spark.cluster, source, sink, makes_them=not self.plan_only)
            stream_plan, plan = self._plan(context, source, sink, checkpoint, rules, target)
            finds_delivered = self.provenance_headers or self.delivery == EXACTLY_ONCE
            log_stream_plan(self.log, plan, stream_plan, checkpoint, self.starting_offsets, finds_delivered)
            self._check_timestamps(source, sink, target, plan.ranges)
            if self.plan_only:
                self._make_no_asset_event()
                return {
                    **result_of_plan(plan, stream_plan.manifest.stream_id),
                    "unfinished": stream_plan.uncommitted.format(),
                    "added_partitions": list(map(str, stream_plan.added)),
                    "generation": stream_plan.generation,
                }
            report, warnings = report_of_nothing(plan, stream_plan.manifest.stream_id), list[str]()
            finished = checkpoint.finished if checkpoint is not None else {}
            if stream_plan.has_work:
                with self._tokens.logins(context["task_state_store"], spark.cluster, source, sink) as logins:
                    self._remember_request(context)
                    stream_id, now_ms = stream_plan.manifest.stream_id, int(time.time() * 1000)
                    submission, untrusted = store.submitting(plan, stream_id, now_ms, self.delivery)
                    request = self._request(
                        context, logins, folder, stale_lock, checkpoint, stream_plan, plan, transform, rules
                    )
                    request = replace(request, submission=submission, untrusted_until=untrusted)
                    report = spark.run(request, "available_now", lambda event: self._on_event(context, event), logins)
                finished = finished_offsets(folder.location)
                try:
                    self._check_report(report, plan, finished, stream_plan, transform)
                    warnings = self._recount_gaps(source, report, rules)
                except KafkaSparkError:
                    store.distrusted()
                    judge_run(sink, request, report.run_id, report.target_topics, proved=False)
                    raise
            else:
                self.log.info("No new records: the stream is at the end of every partition; Spark is not started.")
            after = source.state({p.topic for p in finished} & source.topic_names())
            if stream_plan.has_work:
                plan = plan.after_job(after, rules)
            lags = lag_of(finished, after, rules)
            committed = None if group is None else group.commit(finished)
        finished_before = store.finished_before(stream_plan.manifest.stream_id, plan.ranges)
        if finished_before and self.target_topic is None:
            warnings.append(_UNKNOWN_TARGETS)
        for warning in (*report.warnings, *warnings):
            self.log.warning("%s", warning)
        result = {
            **result_of_stream(report, plan, stream_plan, lags, committed, tuple(warnings)),
            "finished_before": finished_before.format(),
            "written_before": store.written_before(stream_plan.manifest.stream_id, plan.target_ends),
        }
        store.finished(result)
        return self._done(context, result)

    def _requested(self) -> dict[str, Any]:
        starting, reset = self._starting(), self._reset_text()
        return {
            **super()._requested(),
            **self._selection().to_json(),
            "checkpoint_location": CheckpointFolder(self.checkpoint_location).location,
            "starting_offsets": starting and starting.to_json(),
            "commit_group_id": self.commit_group_id,
            "reset_checkpoint_to": reset and parse_start(reset, "reset_checkpoint_to").to_json(),
        }

    def _selection(self) -> Selection:
        return Selection(self.topics, self.topic_pattern, self.assign)

    def _check_parameters(self) -> tuple[ReadRules, Target, Transform]:
        checked = super()._check_parameters()
        if self.max_offsets_per_trigger is not None:
            check_integer(self.max_offsets_per_trigger, "max_offsets_per_trigger", least=1)
        if self.commit_group_id is not None:
            check_group_id(self.commit_group_id, "commit_group_id")
        # Malformed values fail before any request.
        self._starting()
        if (reset := self._reset_text()) is not None:
            parse_start(reset, "reset_checkpoint_to")
        return checked

    def _check_submission(self, spark: SparkJobHook, folder: CheckpointFolder) -> None:
        spark.check()
        on_worker = spark.cluster.deployment.driver_on_worker
        if not on_worker and folder.is_local and "file:" not in folder.location:
            raise CheckpointError(
                "In cluster mode the driver runs on another machine, so checkpoint_location must be a URI that both "
                f"sides reach, such as 's3a://bucket/checkpoints/orders'; got {folder.location!r}."
            )
        if on_worker:
            folder.check_writable()
        # An unreachable storage or a damaged file fails before any wait.
        folder.read()
        for fault in faults_of(spark.cluster.spark_home.spark_version):
            self.log.warning("Known fault of this Spark: %s", fault)

    def _free_checkpoint(self, spark: SparkJobHook, folder: CheckpointFolder, context: Context) -> str | None:
        """Wait for the end of an earlier try of this task, and refuse any other active run.

        :return: the stale lock of a run that is gone, or None.
        """
        earlier = TaskState(context, self.task_id).get(_APPLICATION_KEY)
        if isinstance(earlier, str):
            spark.wait_for_earlier(earlier)
        return folder.stale_lock()

    def _on_event(self, context: Context, event: JobEvent) -> None:
        if isinstance(event, JobStarted):
            TaskState(context, self.task_id).set(_APPLICATION_KEY, event.application_id)
        super()._on_event(context, event)

    def _starting(self) -> Bound | None:
        text = self.starting_offsets
        if text is None or (isinstance(text, str) and text.strip() in ("", "None")):
            return None
        return parse_start(text, "starting_offsets")

    def _reset_text(self) -> str | None:
        """One text for each meaning, since the checkpoint stores it."""
        to = self.reset_checkpoint_to
        if to is None or (isinstance(to, str) and to.strip() in ("", "None")):
            return None
        if isinstance(to, Mapping):
            return json.dumps(to, sort_keys=True)
        return to.isoformat() if isinstance(to, datetime) else str(to).strip()

    def _plan(
        self,
        context: Context,
        source: KafkaHook,
        sink: KafkaHook,
        checkpoint: Checkpoint | None,
        rules: ReadRules,
        target: Target,
    ) -> tuple[StreamPlan, ReplayPlan]:
        selection = self._selection()
        text = self._reset_text()
        reset = None if text is None else Reset(text, context["ti"].run_id)
        begin = self._starting() if reset is None else parse_start(reset.to, "reset_checkpoint_to")
        known = {p.topic for p in checkpoint.finished} if checkpoint is not None else set()
        cluster = self._source_state(source, selection, known, begin)
        target_state = sink.state([target.topic] if target.topic else [], operation=self._target_operation)
        binding = Binding(
            source_cluster_id=cluster.cluster_id,
            selection=_text_of(selection),
            target_cluster_id=target_state.cluster_id,
            target_topic=target.topic,
            target_topic_expr=target.topic_expr,
            where=self.where,
            columns=json.dumps(self.columns or {}, sort_keys=True),
            preserve_partition=self.preserve_partition,
        )
        stream_plan = resolve_stream(
            checkpoint, binding, selection, self._starting(), reset, cluster, rules, uuid4().hex[:16]
        )
        check_topics(source, cluster.topics, self._source_operation)
        self._check_target(sink, target, reads_back=stream_plan.uncommitted_batch is not None)
        return stream_plan, make_plan(stream_plan.resolved, cluster, target_state, target)

    def _source_state(
        self, source: KafkaHook, selection: Selection, known: set[str], begin: Bound | None
    ) -> ClusterState:
        """The topics that are selected or in the checkpoint, as far as they exist."""
        existing = source.topic_names(self.topics or self.assign or (), self._source_operation)
        # A missing topic of the checkpoint is distinguished from a misspelt one later.
        selected = selection.matching(existing) if known else frozenset(selection.topic_names(existing))
        return source.state((selected | known) & existing, timestamps_in(begin) if begin is not None else ())

    def _request(
        self,
        context: Context,
        logins: JobCredentials,
        folder: CheckpointFolder,
        stale_lock: str | None,
        checkpoint: Checkpoint | None,
        stream_plan: StreamPlan,
        plan: ReplayPlan,
        transform: Transform,
        rules: ReadRules,
    ) -> JobRequest:
        uncommitted = (
            checkpoint.uncommitted if checkpoint is not None and stream_plan.uncommitted_batch is not None else None
        )
        manifest = checkpoint.manifest if checkpoint is not None and uncommitted is not None else None
        last = checkpoint.committed if checkpoint is not None and not stream_plan.is_new else None
        uncommitted_checkpoint = (
            None if checkpoint is None or uncommitted is None else folder.generation_uri(checkpoint.number)
        )
        stream_id = manifest.stream_id if manifest is not None else stream_plan.manifest.stream_id
        return JobRequest(
            run_id=stream_id,
            instance=stream_id,
            submission=0,
            plan_digest=plan.digest,
            ranges=tuple(stream_plan.uncommitted.format()),
            spans=plan_spans(stream_plan.uncommitted),
            transform=transform,
            source_options=self._source_options(logins, plan_spans(plan.ranges), rules),
            sink_options=self._sink_options(logins),
            report_uri="",
            fail_on_data_loss=rules.fail_on_data_loss,
            delivery=self.delivery,
            delivery_parts=self._delivery_parts(plan, transform),
            goes_on=True,
            source_ids=dict(plan.topic_ids),
            is_retry=uncommitted is not None,
            audit_since_ms=uncommitted.timestamp_ms if uncommitted is not None else int(time.time() * 1000),
            forbidden_targets=self._forbidden_targets(plan),
            progress_seconds=self.progress_seconds,
            stream=StreamRequest(
                stream_id=stream_plan.manifest.stream_id,
                planned=tuple(plan.ranges.format()),
                source=self._subscription(plan),
                starting_offsets=_starting_json(stream_plan, plan),
                checkpoint=folder.generation_uri(stream_plan.generation),
                record=stream_plan.manifest.to_json(),
                last_batch=uncommitted.number if uncommitted is not None else last.number if last is not None else -1,
                lock=folder.lock_uri,
                stale_lock=stale_lock,
                owner=_owner(context),
                unfinished_batch=stream_plan.uncommitted_batch,
                unfinished_checkpoint=uncommitted_checkpoint,
                max_offsets_per_trigger=self.max_offsets_per_trigger,
            ),
        )

    def _subscription(self, plan: ReplayPlan) -> dict[str, str]:
        """The matched names, since Spark's own pattern is an unanchored search."""
        topics = sorted({r.topic for r in plan.ranges})
        if self.assign is None:
            return {"subscribe": ",".join(topics)}
        assign = {topic: [r.partition for r in plan.ranges if r.topic == topic] for topic in topics}
        return {"assign": json.dumps(assign)}

    def _check_report(
        self,
        report: JobReport,
        plan: ReplayPlan,
        finished: Mapping[TopicPartition, int],
        stream_plan: StreamPlan,
        transform: Transform,
    ) -> None:
        check_stream(report, plan, stream_plan.manifest.stream_id, finished, transform)
        if not self.allow_duplicates:
            check_duplicates(report, transform)


def _text_of(selection: Selection) -> str:
    """A selection as text, the same in whatever order its topics and partitions are given."""
    topics, pattern, partitions = selection.to_json().values()
    return json.dumps([topics or [], pattern, partitions], sort_keys=True)


def _owner(context: Context) -> str:
    """This task's run, the same for all its tries."""
    ti = context["ti"]
    return f"task {ti.task_id!r} of DAG {ti.dag_id!r}, run {ti.run_id!r}" + (
        f", map index {ti.map_index}" if ti.map_index is not None and ti.map_index >= 0 else ""
    )


def _starting_json(stream_plan: StreamPlan, plan: ReplayPlan) -> str:
    """The offsets of Spark's first batch; a partition that is added later starts at its earliest offset, -2."""
    starting = stream_plan.manifest.starting
    return json.dumps(by_topic({p: starting.get(p, -2) for p in plan.ranges.topic_partitions}))
