"""A stream that copies all records up to the current end and stops; the next run continues from there."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_provider_kafka_spark.clients.consumer_group import ConsumerGroup
from airflow_provider_kafka_spark.core.checks import MISSING_ONLY, text_or_none
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
from airflow_provider_kafka_spark.core.copies.planned_copy import PlannedCopy
from airflow_provider_kafka_spark.core.errors import (
    CheckpointError,
    JobReportMissingError,
    KafkaSparkError,
    OptionError,
)
from airflow_provider_kafka_spark.core.streams.spark_faults import faults_of
from airflow_provider_kafka_spark.core.streams.stream_plan import StreamPlan
from airflow_provider_kafka_spark.core.streams.verification import result_of_stream_plan
from airflow_provider_kafka_spark.core.topics.broker_state import Selection
from airflow_provider_kafka_spark.core.topics.starts import parse_any_start
from airflow_provider_kafka_spark.core.wire.job_events import JobEvent, JobStarted
from airflow_provider_kafka_spark.core.wire.protocol import JobReport, Submission
from airflow_provider_kafka_spark.failure import no_retry_on_permanent_error
from airflow_provider_kafka_spark.hooks.spark_job import SparkJobHook
from airflow_provider_kafka_spark.operators.deferral import ClusterManager, report_of_ended
from airflow_provider_kafka_spark.operators.kafka_to_kafka import KafkaToKafkaOperator
from airflow_provider_kafka_spark.operators.memory import MemoryPlace
from airflow_provider_kafka_spark.operators.planned_stream import plan_stream, planned_stream
from airflow_provider_kafka_spark.operators.stream_result import (
    collected_stream,
    finished_before,
    finished_of,
    nothing_collected,
    stream_result,
)
from airflow_provider_kafka_spark.operators.task_try import TaskTry
from airflow_provider_kafka_spark.state.checkpoint import CheckpointFolder
from airflow_provider_kafka_spark.state.stream_state import DeferredStream, StreamRunStore
from airflow_provider_kafka_spark.state.task_state import TaskState

if TYPE_CHECKING:
    from airflow.sdk import Context

#: In the task's state, the id of the Spark application that an earlier try has started.
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
        ``{"orders": {"0": 23}}``, a moment, or a consumer group, ``{"group_id": "billing"}``. Later runs use the
        checkpoint. (templated)
    :param max_offsets_per_trigger: maximum offsets of one micro-batch, over all partitions; None for one batch.
        (templated)
    :param commit_group_id: a consumer group without members to which the finished offsets are committed after success,
        forwards only, for lag monitors. It is never read back. (templated)
    :param reset_checkpoint_to: start again, from a place as in ``starting_offsets``, with a new generation of the
        checkpoint; the old one is kept. A retry or a clear of the DAG run that has done it does not do it again, and
        another DAG run with the same place is refused. (templated)

    Further parameters: :class:`~airflow_provider_kafka_spark.operators.kafka_to_kafka.KafkaToKafkaOperator`.
    """

    _declared: ClassVar[Sequence[Declared]] = (*COMMON, *STREAM)
    template_fields: Sequence[str] = (*names(STREAM), *KafkaToKafkaOperator.template_fields)
    template_fields_renderers = renderers(_declared)

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
        folder = CheckpointFolder(parameters.selection["checkpoint_location"])
        spark = self._new_spark_hook(context, parameters.delivery)
        self._check_submission(spark, folder)
        self._check_names(parameters, spark.cluster.spark_home.spark_version)
        submits = not self.plan_only and not self._follows_trigger
        manager = self._manager_for(spark, context) if submits else None
        stale_lock = self._free_checkpoint(spark, folder, context) if submits else None
        if not self._follows_trigger:
            spark.cluster.check_rights()
        checkpoint = folder.read()
        with self._new_try(context, parameters, spark) as task_try:
            group, job = _group_of(task_try), self._deferred(store)
            if job is None:
                stream_plan, planned = plan_stream(task_try, folder, checkpoint, stale_lock, is_retry=self._is_resumed)
            else:
                stream_plan, planned = job.stream_plan, _planned_before(task_try, job)
            ledger.looked(planned)
            if self.plan_only and job is None:
                plan = result_of_stream_plan(planned.plan, stream_plan, planned.transform, planned.how.pace)
                return self._done_planning(task_try, planned, plan)
            before = finished_before(task_try, store, folder, stream_plan, planned, checks=job is None)
            if stream_plan.has_work:
                with (
                    ledger.running(planned, partial(finished_of, folder, planned), before.ranges),
                    MemoryPlace(context, self.task_id).watched(),
                ):
                    found = self._report(task_try, store, folder, stream_plan, planned, job, manager)
                    collected = collected_stream(task_try, store, folder, stream_plan, planned, *found)
            else:
                self.log.info("No new records: the stream is at the end of every partition; Spark is not started.")
                collected = nothing_collected(planned, stream_plan, checkpoint)
            result = stream_result(task_try, before, group, stream_plan, planned, collected)
            store.finished(result)
            if not result["records_read"] and not result["finished_before"]:
                self._skip_if_empty(planned.plan)
            return self._done(context, ledger, result)

    def _selection(self) -> dict[str, Any]:
        starting, reset = (
            None if text_or_none(value) is None else parse_any_start(value, name=name).to_json()
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

    def _read_rendered(self) -> None:
        super()._read_rendered()
        if self.on_rerun != MISSING_ONLY:
            raise OptionError(
                f"on_rerun of a stream must be {MISSING_ONLY!r}; got {self.on_rerun!r}. A stream continues from its "
                "checkpoint; reset_checkpoint_to copies again from an earlier position."
            )

    def _check_submission(self, spark: SparkJobHook, folder: CheckpointFolder) -> None:
        spark.check(asks_cluster=False)
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

    def _report_of(self, task_try: TaskTry, job: DeferredStream) -> JobReport:
        """The report of a job that a trigger has followed.

        :raises KafkaSparkError: if it left none, or failed.
        """
        application_id = self._application_of(task_try.context)
        if application_id is not None:
            task_try.spark.applications.wait_for(application_id)
        report = report_of_ended(task_try, job.remote)
        task_try.spark.remove_report(job.remote)
        if isinstance(report, KafkaSparkError):
            raise report
        return report

    def _report(
        self,
        task_try: TaskTry,
        store: StreamRunStore,
        folder: CheckpointFolder,
        stream_plan: StreamPlan,
        planned: PlannedCopy,
        job: DeferredStream | None,
        manager: ClusterManager | None,
    ) -> tuple[int, JobReport]:
        """The report of the job that a trigger has followed, or of one that is submitted now and followed to its end.
        Its handle is stored before it can write anything.

        :return: the number of the submission, and the report.
        """
        if job is not None:
            return job.submission, self._report_of(task_try, job)
        stream = planned.checkpoint
        with self._logins(task_try.context, task_try.spark, task_try.source, task_try.sink) as logins:
            self._remember(task_try)
            now_ms, known = int(time.time() * 1000), folder.latest_submission()
            number, untrusted = store.submitting(stream, now_ms, planned.parameters.delivery, known)
            request = planned.request(Submission(number, now_ms, untrusted), logins, self.progress_seconds)
            request = MemoryPlace(task_try.context, self.task_id).careful(request, task_try.parameters.source_options)
            on_event = partial(self._on_event, task_try.context)
            remote = None if manager is None else task_try.spark.remote_job(stream.stream_id, planned.instance, "")
            if manager is not None and remote is not None:
                job = DeferredStream(remote, number, planned.run_id, stream_plan, planned.plan, stream)
                store.deferring(job)
                TaskState(task_try.context, self.task_id).set(_APPLICATION_KEY, "")
                started = task_try.spark.start(request, on_event, logins, remote)
                self._defer(task_try.context, started, manager, remote.report_uri)
            return number, task_try.spark.run(request, on_event, logins)


def _planned_before(task_try: TaskTry, job: DeferredStream) -> PlannedCopy:
    """What this try has planned before a trigger followed its job."""
    return planned_stream(task_try, job.stream_plan, job.plan, job.stream, job.run_id)


def _group_of(task_try: TaskTry) -> ConsumerGroup | None:
    """The group for lag monitors, which must have no members."""
    name = task_try.parameters.selection["commit_group_id"]
    if name is None:
        return None
    group = ConsumerGroup(task_try.source, name)
    group.raise_if_members()
    return group
