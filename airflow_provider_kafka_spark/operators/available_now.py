"""A stream that copies all records up to the current end and stops; the next run continues from there."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import uuid4

from airflow_provider_kafka_spark.clients.consumer_group import ConsumerGroup
from airflow_provider_kafka_spark.clients.permissions import check_topics
from airflow_provider_kafka_spark.clients.run_mark import judge_run
from airflow_provider_kafka_spark.core.checks import MISSING_ONLY
from airflow_provider_kafka_spark.core.copies.batch_form import BatchForm
from airflow_provider_kafka_spark.core.copies.copy_parameters import CopyParameters
from airflow_provider_kafka_spark.core.copies.declaration import (
    COMMON,
    STREAM,
    Decides,
    Declared,
    names,
    read,
    read_in_dag,
    renderers,
)
from airflow_provider_kafka_spark.core.copies.plan import ReplayPlan, make_plan
from airflow_provider_kafka_spark.core.copies.planned_copy import PlannedCopy, SubmittedJob
from airflow_provider_kafka_spark.core.errors import (
    CheckpointError,
    JobReportMissingError,
    KafkaSparkError,
    OptionError,
)
from airflow_provider_kafka_spark.core.ledger.log_look import LogLook
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRanges, TopicPartition
from airflow_provider_kafka_spark.core.offsets.segments import MappedBatch, joined, within
from airflow_provider_kafka_spark.core.offsets.spans import plan_spans
from airflow_provider_kafka_spark.core.shown_text import first_ten
from airflow_provider_kafka_spark.core.streams.checkpoint import Batch, Binding, Checkpoint
from airflow_provider_kafka_spark.core.streams.spark_faults import faults_of
from airflow_provider_kafka_spark.core.streams.stream_plan import Reset, StreamPlan, resolve_stream
from airflow_provider_kafka_spark.core.streams.verification import (
    check_stream,
    lag_of,
    report_of_nothing,
    result_of_stream,
    result_of_stream_plan,
)
from airflow_provider_kafka_spark.core.topics.bounds import Bound
from airflow_provider_kafka_spark.core.topics.broker_state import ClusterState, Selection
from airflow_provider_kafka_spark.core.topics.new_topics import with_new_topics
from airflow_provider_kafka_spark.core.topics.resolve import ReadRules, timestamps_in
from airflow_provider_kafka_spark.core.topics.starts import GroupStart, parse_any_start
from airflow_provider_kafka_spark.core.wire.job_events import JobEvent, JobStarted
from airflow_provider_kafka_spark.core.wire.protocol import JobReport, StreamRequest
from airflow_provider_kafka_spark.hooks.spark_job import SparkJobHook
from airflow_provider_kafka_spark.operators.attempt import Attempt
from airflow_provider_kafka_spark.operators.deferral import ClusterManager, report_of_ended
from airflow_provider_kafka_spark.operators.kafka_to_kafka import KafkaToKafkaOperator, no_retry_on_permanent_error
from airflow_provider_kafka_spark.operators.memory import MemoryPlace
from airflow_provider_kafka_spark.operators.new_targets import created, descriptions
from airflow_provider_kafka_spark.operators.stream_log import log_stream_plan
from airflow_provider_kafka_spark.operators.stream_request import stream_request
from airflow_provider_kafka_spark.state.checkpoint import CheckpointFolder, finished_offsets
from airflow_provider_kafka_spark.state.run_state import DeferredStream, StreamRunStore
from airflow_provider_kafka_spark.state.task_state import TaskState

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
        (templated)
    :param commit_group_id: a consumer group without members to which the finished offsets are committed after success,
        forwards only, for lag monitors. It is never read back. (templated)
    :param reset_checkpoint_to: start again, from offsets or a moment as in ``starting_offsets``, with a new generation
        of the checkpoint; the old one is kept. Done once for each DAG run. (templated)

    Further parameters: :class:`~airflow_provider_kafka_spark.operators.kafka_to_kafka.KafkaToKafkaOperator`.
    """

    _declared: ClassVar[Sequence[Declared]] = (*COMMON, *STREAM)
    template_fields: Sequence[str] = (*names(STREAM), *KafkaToKafkaOperator.template_fields)
    template_fields_renderers = renderers(_declared)
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
        read_in_dag(STREAM, self)

    @no_retry_on_permanent_error
    def execute(self, context: Context) -> dict[str, Any]:
        """Plan from the checkpoint, submit, and collect the report that plan and checkpoint confirm.

        :return: the result, as the documentation gives it.
        :raises AirflowFailException: for non-retriable errors.
        :raises KafkaSparkError: for retriable errors.
        """
        parameters = self._parameters(context)
        ledger, store = self._ledger(context, parameters), StreamRunStore(context, self.task_id)
        if store.result is not None and not self.plan_only:
            return self._return_stored_result(context, ledger, store.result)
        folder = CheckpointFolder(parameters.records["checkpoint_location"])
        spark = self._new_spark_hook(context, parameters.delivery)
        stale_lock = manager = None
        self._check_submission(spark, folder)
        self._check_names(parameters, spark.cluster.spark_home.spark_version)
        if not self.plan_only and not self._follows_trigger:
            manager = self._manager_for(spark, context)
            stale_lock = self._free_checkpoint(spark, folder, context)
        checkpoint = folder.read()
        with self._attempt(context, parameters, spark) as attempt:
            group, job = self._group(attempt), self._deferred(store)
            if job is None:
                stream_plan, planned = self._plan(attempt, folder, checkpoint, stale_lock)
            else:
                stream_plan = job.stream_plan
                planned = self._planned_copy(attempt, stream_plan, job.plan, job.stream, job.run_id)
            ledger.looked(planned)
            if self.plan_only and job is None:
                return self._done_planning(
                    planned, result_of_stream_plan(planned.plan, stream_plan, planned.transform, planned.pace)
                )
            if stream_plan.has_work:
                before = store.finished_before(stream_plan.manifest.stream_id, planned.plan.ranges)
                with (
                    ledger.running(planned, partial(_finished, folder, planned), before),
                    MemoryPlace(context, self.task_id).watched(),
                ):
                    if job is None:
                        submission, report = self._submit(attempt, store, folder, stream_plan, planned, manager)
                    else:
                        submission, report = job.submission, self._report_of(attempt, job)
                    collected = self._collect(attempt, store, folder, stream_plan, planned, submission, report)
            else:
                self.log.info("No new records: the stream is at the end of every partition; Spark is not started.")
                nothing = report_of_nothing(planned.plan, stream_plan.manifest.stream_id)
                collected = _Collected(nothing, {} if checkpoint is None else checkpoint.finished)
            result = self._result(attempt, store, folder, group, stream_plan, planned, collected)
            store.finished(result)
            if not result["records_read"] and not result["finished_before"]:
                self._skip_if_empty(planned.plan)
            return self._done(context, ledger, result)

    def _records(self) -> dict[str, Any]:
        starting, reset = (
            None if _is_blank(value) else parse_any_start(value, name=name).to_json()
            for name, value in (
                ("starting_offsets", self.starting_offsets),
                ("reset_checkpoint_to", self.reset_checkpoint_to),
            )
        )
        given = read(STREAM, self, Decides.RECORDS)
        return {
            **Selection(given["topics"], given["topic_pattern"], given["assign"]).to_json(),
            "checkpoint_location": CheckpointFolder(self.checkpoint_location).location,
            "starting_offsets": starting,
            "commit_group_id": given["commit_group_id"],
            "reset_checkpoint_to": reset,
        }

    def _group(self, attempt: Attempt) -> ConsumerGroup | None:
        """The group for lag monitors, which must have no members."""
        name = attempt.parameters.records["commit_group_id"]
        if name is None:
            return None
        group = ConsumerGroup(attempt.source, name)
        group.raise_if_members()
        return group

    def _read_rendered(self) -> None:
        super()._read_rendered()
        if self.on_rerun != MISSING_ONLY:
            raise OptionError(
                f"on_rerun of a stream must be {MISSING_ONLY!r}; got {self.on_rerun!r}. A stream continues from its "
                "checkpoint; reset_checkpoint_to copies again from an earlier position."
            )

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
        earlier, job = self._application_of(context), StreamRunStore(context, self.task_id).deferred
        if earlier is None and job is not None:
            earlier = spark.applications.find(job.remote.tag)
        if earlier is not None:
            spark.applications.wait_for(earlier)
        return folder.stale_lock()

    def _on_event(self, context: Context, event: JobEvent) -> None:
        if isinstance(event, JobStarted):
            TaskState(context, self.task_id).set(_APPLICATION_KEY, event.application_id)
        super()._on_event(context, event)

    def _plan(
        self, attempt: Attempt, folder: CheckpointFolder, checkpoint: Checkpoint | None, stale_lock: str | None
    ) -> tuple[StreamPlan, PlannedCopy]:
        """Decide everything, by one look at the checkpoint and at each cluster."""
        parameters, rules = attempt.parameters, self._rules(attempt.parameters)
        target = attempt.target_state()
        stream_plan, cluster = self._resolve(attempt, checkpoint, target, rules)
        check_topics(attempt.source, cluster.topics, "READ")
        # What a try has begun must be finished, whatever has arrived since.
        is_limited = stream_plan.uncommitted_batch is None and not self._is_resumed
        plan, target = self._plan_for_target(attempt, stream_plan, cluster, target, is_limited=is_limited)
        attempt.check_target(target, reads_back=stream_plan.uncommitted_batch is not None)
        self._log_plan(parameters, plan, stream_plan, checkpoint)
        self._log_pace(plan)
        self._path(parameters, parameters.transform(), target, plan)
        lags = attempt.check_pace(self._pace(), target)
        lags += attempt.lag_of_source(parameters.records["commit_group_id"], cluster)
        attempt.check_timestamps(target, plan)
        stream = stream_request(
            folder,
            checkpoint,
            stream_plan,
            plan,
            is_assigned=parameters.records["assign"] is not None,
            stale_lock=stale_lock,
            owner=_owner(attempt.context),
            max_offsets_per_trigger=self.max_offsets_per_trigger,
        )
        batch, manifest = None, stream_plan.manifest
        if checkpoint is not None and stream_plan.uncommitted_batch is not None:
            # The records of the batch have the id of the stream that began it.
            batch, manifest = checkpoint.uncommitted, checkpoint.manifest or manifest
        planned = self._planned_copy(attempt, stream_plan, plan, stream, manifest.stream_id, batch)
        return stream_plan, replace(planned, look=LogLook.of(cluster, target, rules, OffsetRanges(), lags))

    def _planned_copy(
        self,
        attempt: Attempt,
        stream_plan: StreamPlan,
        plan: ReplayPlan,
        stream: StreamRequest,
        run_id: str,
        batch: Batch | None = None,
    ) -> PlannedCopy:
        """
        :param batch: that is finished first.
        """
        parameters = attempt.parameters
        return PlannedCopy(
            run_id=run_id,
            instance=run_id,
            parameters=parameters,
            plan=plan,
            transform=parameters.transform().of_topics({r.topic for r in (*plan.ranges, *stream_plan.uncommitted)}),
            rules=self._rules(parameters),
            ranges=stream_plan.uncommitted,
            spans=plan_spans(stream_plan.uncommitted),
            allow_same_topic=self.allow_same_topic,
            is_retry=batch is not None,
            audit_since_ms=None if batch is None else batch.timestamp_ms,
            reader=self.reader,
            pace=self._pace(),
            client_id=self._client_id(attempt.context),
            title=self._title(attempt.context),
            stream=stream,
        )

    def _plan_for_target(
        self,
        attempt: Attempt,
        stream_plan: StreamPlan,
        source: ClusterState,
        target: ClusterState,
        *,
        is_limited: bool,
    ) -> tuple[ReplayPlan, ClusterState]:
        """The plan, and the target's cluster with the topics that were created for it."""
        of_target, resolved = self._target(attempt.parameters), stream_plan.resolved
        routes = of_target.routes(r.topic for r in resolved.ranges)
        new = self._new_targets.planned(attempt, routes, source, target)
        # All that can fail comes before the creation.
        plan = make_plan(resolved, source, with_new_topics(target, new), of_target)
        if is_limited:
            self._check_size(plan)
        if new:
            target = created(attempt, new, target, plan, plan_only=self.plan_only)
            plan = make_plan(resolved, source, target, of_target)
        return replace(plan, warnings=(*descriptions(new, plan_only=self.plan_only), *plan.warnings)), target

    def _log_plan(
        self, parameters: CopyParameters, plan: ReplayPlan, stream_plan: StreamPlan, checkpoint: Checkpoint | None
    ) -> None:
        finds_delivered = parameters.provenance.in_headers or parameters.is_exactly_once
        starting = parameters.records["starting_offsets"]
        log_stream_plan(self.log, plan, stream_plan, checkpoint, starting, finds_delivered)

    def _resolve(
        self, attempt: Attempt, checkpoint: Checkpoint | None, target: ClusterState, rules: ReadRules
    ) -> tuple[StreamPlan, ClusterState]:
        """The next run of the stream, and the state of the source that it was resolved against."""
        parameters, records = attempt.parameters, attempt.parameters.records
        selection = Selection(records["topics"], records["topic_pattern"], records["assign"])
        starting = records["starting_offsets"]
        reset = _reset(records["reset_checkpoint_to"], attempt.context["ti"].run_id)
        if reset is not None:
            start: Bound | GroupStart | None = reset.start
            begins = not reset.is_done(checkpoint)
        else:
            start = None if starting is None else parse_any_start(starting)
            begins = checkpoint is None
        known = {p.topic for p in checkpoint.finished} if checkpoint is not None else set()
        existing = attempt.source.topic_names(records["topics"] or records["assign"] or (), "READ")
        # A missing topic of the checkpoint is distinguished from a misspelt one later.
        selected = selection.matching(existing) if known else frozenset(selection.topic_names(existing))
        times = timestamps_in(start) if isinstance(start, Bound) else ()
        begin = start if isinstance(start, Bound) else None
        if isinstance(start, GroupStart) and begins:
            begin = attempt.source.start_of(start, selected, selection, _start_name(reset))
        finished = () if checkpoint is None else checkpoint.finished
        asked = None if selection.assigned is None else {*selection.assigned, *finished}
        cluster = attempt.source.state((selected | known) & existing, times, only=asked)
        if checkpoint is not None and checkpoint.manifest is not None:
            cluster = replace(cluster, cut_at=attempt.source.cuts(checkpoint.manifest.reached, cluster))
        if reset is not None:
            reset = replace(reset, group_stands_at=begin)
        binding = Binding.of(parameters, cluster.cluster_id, target.cluster_id)
        form, new_id = BatchForm.of(parameters), uuid4().hex[:16]
        return resolve_stream(checkpoint, binding, form, selection, begin, reset, cluster, rules, new_id), cluster

    def _application_of(self, context: Context) -> str | None:
        found = TaskState(context, self.task_id).get(_APPLICATION_KEY)
        return found if isinstance(found, str) and found else None

    def _deferred(self, store: StreamRunStore) -> DeferredStream | None:
        """The job that a trigger has followed to its end for this try; None if it has followed none.

        :raises JobReportMissingError: if nothing is known of it.
        """
        if not self._follows_trigger:
            return None
        job = store.deferred
        if job is None:
            raise JobReportMissingError(
                "Airflow must have what this task has planned; the task's state is gone. A retry goes on from the "
                "checkpoint."
            )
        return job

    def _report_of(self, attempt: Attempt, job: DeferredStream) -> JobReport:
        """The report of a job that a trigger has followed.

        :raises KafkaSparkError: if it left none, or failed.
        """
        application_id = self._application_of(attempt.context)
        if application_id is not None:
            attempt.spark.applications.wait_for(application_id)
        report = report_of_ended(attempt, job.remote)
        attempt.spark.remove_report(job.remote)
        if isinstance(report, KafkaSparkError):
            raise report
        return report

    def _submit(
        self,
        attempt: Attempt,
        store: StreamRunStore,
        folder: CheckpointFolder,
        stream_plan: StreamPlan,
        planned: PlannedCopy,
        manager: ClusterManager | None,
    ) -> tuple[int, JobReport]:
        """Submit the job and follow it to its end. Its handle is stored before it can write anything.

        :return: the number of the submission, and the report.
        """
        with self._logins(attempt) as logins:
            self._remember(attempt)
            stream_id, now_ms = stream_plan.manifest.stream_id, int(time.time() * 1000)
            delivery, known = planned.parameters.delivery, folder.latest_submission()
            number, untrusted = store.submitting(planned.plan, stream_id, now_ms, delivery, known)
            request = planned.request(SubmittedJob(number, now_ms, untrusted, now_ms), logins, self.progress_seconds)
            request = MemoryPlace(attempt.context, self.task_id).careful(request, attempt.parameters.source_options)
            on_event = partial(self._on_event, attempt.context)
            remote = None if manager is None else attempt.spark.remote_job(stream_id, planned.instance, "")
            if manager is not None and remote is not None and planned.stream is not None:
                job = DeferredStream(remote, number, planned.run_id, stream_plan, planned.plan, planned.stream)
                store.deferring(job)
                TaskState(attempt.context, self.task_id).set(_APPLICATION_KEY, "")
                started = attempt.spark.start(request, "available_now", on_event, logins, remote)
                self._defer(attempt.context, started, manager, remote.report_uri)
            return number, attempt.spark.run(request, "available_now", on_event, logins)

    def _collect(
        self,
        attempt: Attempt,
        store: StreamRunStore,
        folder: CheckpointFolder,
        stream_plan: StreamPlan,
        planned: PlannedCopy,
        submission: int,
        report: JobReport,
    ) -> _Collected:
        """What the report proves, together with the checkpoint.

        :raises KafkaSparkError: if they do not match the plan; the next try then looks at the target itself.
        """
        finished = finished_offsets(folder.location)
        try:
            check_stream(report, planned.plan, stream_plan.manifest.stream_id, finished, planned.transform)
            warnings = self._check_counts(attempt, planned, report)
        except KafkaSparkError:
            store.distrusted()
            judge_run(attempt.sink, planned.instance, submission, report.run_id, report.target_topics, proved=False)
            raise
        return _Collected(report, finished, tuple(warnings))

    def _result(
        self,
        attempt: Attempt,
        store: StreamRunStore,
        folder: CheckpointFolder,
        group: ConsumerGroup | None,
        stream_plan: StreamPlan,
        planned: PlannedCopy,
        collected: _Collected,
    ) -> dict[str, Any]:
        """What the task returns, with what its earlier tries had finished."""
        finished, warnings = collected.finished, list(collected.warnings)
        stream_id, plan, rules = stream_plan.manifest.stream_id, planned.plan, planned.rules
        existing = {p.topic for p in finished} & attempt.source.topic_names()
        after = attempt.source.state(existing, only=finished)
        if stream_plan.has_work:
            plan = plan.after_job(after, rules, attempt.source.cuts(plan.reached, after))
        lags = lag_of(finished, after, rules)
        committed = None if group is None else group.commit(finished)
        finished_before = store.finished_before(stream_id, plan.ranges)
        if finished_before and plan.target.topic_expr is not None:
            warnings.append(_UNKNOWN_TARGETS)
        for warning in first_ten([*collected.report.warnings, *warnings], "more warnings in the result"):
            self.log.warning("%s", warning)
        result = result_of_stream(collected.report, plan, stream_plan, lags, committed, tuple(warnings))
        may_have_duplicates = collected.report.may_have_duplicates
        is_mapped = collected.report.segments is not None or not collected.report.records_written
        if finished_before and planned.transform.provenance.in_segments and is_mapped:
            before = self._segments(folder, stream_plan)
            segments = {*(collected.report.segments or ()), *within(before.segments, finished_before)}
            result["segments"] = [s.to_dict() for s in joined(segments)]
            result["mapped_before"] = before.ranges.intersect(finished_before).format()
            may_have_duplicates = may_have_duplicates or bool(before.repeated.intersect(finished_before))
        written_before = plan.targets(collected.report.target_ids).marked(
            store.written_before(stream_id, plan.target_ends)
        )
        if (dead := plan.target.dead_letters) is not None:
            result["dead_letters"]["ranges"] += [r for r in written_before if r["topic"] == dead]
        return {
            **result,
            "finished_before": finished_before.format(),
            "written_before": [r for r in written_before if r["topic"] != dead],
            "evidence": planned.evidence(
                collected.report.target_ids, stream_id, may_have_duplicates=may_have_duplicates
            ),
        }

    def _segments(self, folder: CheckpointFolder, stream_plan: StreamPlan) -> MappedBatch:
        """What finished batches have read and where its records are, as far as the checkpoint says it."""
        try:
            return folder.segments(stream_plan.generation)
        except KafkaSparkError as error:
            self.log.warning("The result has no segments of what earlier tries had finished: %s", error)
            return MappedBatch(OffsetRanges(), (), OffsetRanges())


@dataclass(frozen=True)
class _Collected:
    """A proved report.

    :param finished: the offsets of the checkpoint after the job.
    """

    report: JobReport
    finished: Mapping[TopicPartition, int]
    warnings: tuple[str, ...] = ()


def _finished(folder: CheckpointFolder, planned: PlannedCopy) -> OffsetRanges:
    """What of a plan the checkpoint has finished."""
    checkpoint = folder.read()
    ends = {} if checkpoint is None else checkpoint.finished
    reached = ((r, min(ends.get(r.topic_partition, 0), r.until_offset)) for r in planned.plan.ranges)
    return OffsetRanges(replace(r, until_offset=end) for r, end in reached if end > r.from_offset)


def _is_blank(value: object) -> bool:
    return value is None or (isinstance(value, str) and value.strip() in ("", "None"))


def _reset(to: Any, dag_run_id: str) -> Reset | None:
    """One text for each meaning, since the checkpoint stores it."""
    if to is None:
        return None
    return Reset(json.dumps(to, sort_keys=True) if isinstance(to, Mapping) else str(to), dag_run_id)


def _start_name(reset: Reset | None) -> str:
    return "starting_offsets" if reset is None else "reset_checkpoint_to"


def _owner(context: Context) -> str:
    """This task's run, the same for all its tries."""
    ti = context["ti"]
    return f"task {ti.task_id!r} of DAG {ti.dag_id!r}, run {ti.run_id!r}" + (
        f", map index {ti.map_index}" if ti.map_index is not None and ti.map_index >= 0 else ""
    )
