"""The common base of batch copies and replays: exact offsets are fixed before Spark starts, and a retry reuses them."""

from __future__ import annotations

import time
from abc import abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow_provider_kafka_spark.clients.permissions import check_topics
from airflow_provider_kafka_spark.clients.run_mark import judge_run, remove_progress
from airflow_provider_kafka_spark.core.broker_state import ClusterState
from airflow_provider_kafka_spark.core.errors import KafkaSparkError, OptionError
from airflow_provider_kafka_spark.core.handoff.job_credentials import JobCredentials
from airflow_provider_kafka_spark.core.handoff.job_events import JobEvent, JobStarted
from airflow_provider_kafka_spark.core.parameters import EXACTLY_ONCE, check_integer
from airflow_provider_kafka_spark.core.plan import ReplayPlan, Target, make_plan
from airflow_provider_kafka_spark.core.protocol import JobReport, JobRequest, Transform
from airflow_provider_kafka_spark.core.resolve import MissingRange, ReadRules, ResolvedRanges
from airflow_provider_kafka_spark.core.spans import plan_spans
from airflow_provider_kafka_spark.core.verification import (
    check_delivery,
    check_duplicates,
    result_of_empty_plan,
    result_of_plan,
    result_of_run,
)
from airflow_provider_kafka_spark.hooks.kafka import KafkaHook
from airflow_provider_kafka_spark.operators.kafka_to_kafka import KafkaToKafkaOperator, no_retry_on_permanent_error
from airflow_provider_kafka_spark.state.run_state import RunState, RunStateStore

if TYPE_CHECKING:
    from airflow.sdk import Context

_LOST_STATE = (
    "This task has run before, and what Airflow stored of that is gone ([state_store] default_retention_days deletes "
    "it). If its run has left a mark at the target's brokers, that run is continued, and what it delivered is not "
    "written again; brokers keep the mark for offsets.retention.minutes, a week by default."
)


class BoundedCopyOperator(KafkaToKafkaOperator):
    """Copy from a start to an end. Use one of the subclasses, which define the records to read.

    :param max_records_per_partition: cut ranges into Spark partitions of at most this many offsets; needs
        ``preserve_order=False``.
    :param preserve_order: keep the order of each Kafka partition: one Spark task reads all of its ranges.

    Further parameters: :class:`~airflow_provider_kafka_spark.operators.kafka_to_kafka.KafkaToKafkaOperator`.
    """

    def __init__(
        self,
        *,
        max_records_per_partition: int | None = None,
        preserve_order: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.max_records_per_partition = max_records_per_partition
        self.preserve_order = preserve_order

    @abstractmethod
    def _resolve(self, hook: KafkaHook, rules: ReadRules) -> tuple[ResolvedRanges, ClusterState]:
        """The exact offsets, and the broker state they were resolved against."""

    @no_retry_on_permanent_error
    def execute(self, context: Context) -> dict[str, Any]:
        """Resolve, check, submit, and compare the report with the plan.

        :return: the result, as the documentation gives it.
        :raises AirflowFailException: for non-retriable errors.
        :raises KafkaSparkError: for retriable errors.
        """
        self._resume_request(context)
        rules, target, transform = self._check_parameters()
        store = RunStateStore(context, self.task_id)
        state = store.load()
        if state.result is not None and not self.plan_only:
            return self._done_before(context, state.result)
        spark = self._new_spark_hook(context)
        if not self.plan_only:
            spark.check()
        with KafkaHook(self.source_conn_id, self.kafka_timeout) as source, self._target_hook(source) as sink:
            self._tokens.check(spark.cluster, source, sink, makes_them=not self.plan_only)
            planned = self._plan(source, sink, state, rules, target)
            state, plan = store.for_plan(state, planned, transform)
            # Only the new one: the table below has all.
            for warning in plan.warnings[len(planned.warnings) :]:
                self.log.warning("%s", warning)
            self._check_target(sink, target, reads_back=state.has_submitted)
            self.log.info("The plan of run %s:\n%s", state.run_id, plan.table())
            if not state.has_submitted:
                self._check_timestamps(source, sink, target, plan.ranges)
            if self.plan_only:
                self._make_no_asset_event()
                return result_of_plan(plan, state.run_id)
            if plan.is_empty:
                self.log.info("No records in the requested ranges; Spark is not started.")
                return self._done(context, result_of_empty_plan(plan, state.run_id))
            if state.application_id is not None:
                spark.wait_for_earlier(state.application_id)
            if state.has_submitted:
                self._announce_retry(state)
            with self._tokens.logins(context["task_state_store"], spark.cluster, source, sink) as logins:
                self._remember_request(context)
                submitted = store.submitting(state, plan, int(time.time() * 1000), self.delivery)

                def on_event(event: JobEvent) -> None:
                    if isinstance(event, JobStarted):
                        store.started(submitted, event.application_id)
                    self._on_event(context, event)

                request = self._request(
                    context, sink, logins, submitted, plan, transform, rules, is_retry=state.has_submitted
                )
                report = spark.run(request, "batch", on_event, logins)
            judged = request, report.run_id, report.target_topics
            try:
                result = self._verified(source, report, plan, transform, rules, submitted)
            except KafkaSparkError:
                store.distrusted(submitted)
                judge_run(sink, *judged, proved=False)
                raise
            store.finished(submitted, result)
            judge_run(sink, *judged, proved=True)
            remove_progress(sink, report.progress_groups)
        return self._done(context, result)

    def _verified(
        self,
        source: KafkaHook,
        report: JobReport,
        plan: ReplayPlan,
        transform: Transform,
        rules: ReadRules,
        state: RunState,
    ) -> dict[str, Any]:
        """The result of a report that proves the delivery.

        :raises KafkaSparkError: if it does not.
        """
        check_delivery(report, plan, report.run_id if state.adopts_run else state.run_id, transform)
        if not self.allow_duplicates:
            check_duplicates(report, transform)
        after = source.state(plan.partition_counts)
        plan = plan.after_job(after, rules)
        warnings = [*plan.partitions_added(after), *self._recount_gaps(source, report, rules)]
        if state.adopts_run:
            warnings.append(_LOST_STATE)
        for warning in (*report.warnings, *warnings):
            self.log.warning("%s", warning)
        return result_of_run(report, plan, tuple(warnings))

    def _check_parameters(self) -> tuple[ReadRules, Target, Transform]:
        checked = super()._check_parameters()
        if self.max_records_per_partition is not None and self.preserve_order:
            raise OptionError(
                f"max_records_per_partition={self.max_records_per_partition!r} splits a partition over several Spark "
                "tasks, which write at the same time, so the order of its records is lost. Pass preserve_order=False "
                "if that is right for the target."
            )
        return checked

    def _check_types(self) -> None:
        super()._check_types()
        if self.max_records_per_partition is not None:
            check_integer(self.max_records_per_partition, "max_records_per_partition", least=1)

    def _plan(
        self, source: KafkaHook, sink: KafkaHook, state: RunState, rules: ReadRules, target: Target
    ) -> ReplayPlan:
        """The plan of an earlier try while it is valid, or else a new one."""
        target_state = sink.state([target.topic] if target.topic else [], operation=self._target_operation)
        lost: tuple[MissingRange, ...] = ()
        if state.plan is not None:
            check_topics(source, state.plan.topic_ids, self._source_operation)
            cluster = source.state(state.plan.topic_ids)
            lost = state.plan.losses(cluster, rules)
            if not lost and state.plan.target_cluster_id == target_state.cluster_id:
                self.log.info("Reusing the plan of an earlier try of this run.")
                return state.plan
            self.log.warning("The plan of an earlier try of this run is no longer valid; making a new one.")
        resolved, cluster = self._resolve(source, rules)
        plan = make_plan(resolved, cluster, target_state, target, self.max_records_per_partition, self.preserve_order)
        return replace(plan, missing=(*plan.missing, *lost))

    def _request(
        self,
        context: Context,
        sink: KafkaHook,
        logins: JobCredentials,
        state: RunState,
        plan: ReplayPlan,
        transform: Transform,
        rules: ReadRules,
        *,
        is_retry: bool,
    ) -> JobRequest:
        spans = plan_spans(plan.ranges, self.max_records_per_partition)
        return JobRequest(
            run_id=state.run_id,
            instance=self._instance(context),
            submission=state.submission,
            plan_digest=plan.digest,
            ranges=tuple(plan.ranges.without_empty().format()),
            spans=spans,
            transform=transform,
            source_options=self._source_options(logins, spans, rules),
            sink_options=self._sink_options(logins),
            report_uri="",
            fail_on_data_loss=rules.fail_on_data_loss,
            preserve_order=self.preserve_order,
            delivery=self.delivery,
            delivery_parts=self._delivery_parts(plan, transform),
            source_ids=dict(plan.topic_ids),
            is_retry=is_retry,
            adopts_run=state.adopts_run,
            untrusted_until=state.untrusted_until,
            audit_from=self._target_ends(sink, state),
            audit_since_ms=state.submitted_at_ms,
            forbidden_targets=self._forbidden_targets(plan),
            progress_seconds=self.progress_seconds,
        )

    def _announce_retry(self, state: RunState) -> None:
        if state.adopts_run:
            self.log.warning("%s", _LOST_STATE)
        elif self.delivery == EXACTLY_ONCE:
            self.log.info(
                "An earlier try of this run may have written records: this one resumes from its committed progress."
            )
        elif self.provenance_headers:
            self.log.info(
                "An earlier try of this run may have delivered records: the target is searched for them first."
            )
        else:
            self.log.warning(
                "An earlier try of this run may have delivered records, and provenance_headers=False leaves no way to "
                "find which: they are written again."
            )

    def _target_ends(self, sink: KafkaHook, state: RunState) -> dict[str, dict[str, int]]:
        """The ends of the target before the run's first submission; records of this run lie after them."""
        if self.target_topic is None:
            return {}
        target = sink.state([self.target_topic]).topic(self.target_topic)
        before, partitions = (state.target_ends or {}).get(self.target_topic, {}), target.partitions
        if state.target_ids.get(self.target_topic, target.topic_id) != target.topic_id:
            # It was recreated: its offsets begin anew.
            before = {}
        return {self.target_topic: {str(number): before.get(number, 0) for number in partitions}}
