"""The common base of batch copies and replays: exact offsets are fixed before Spark starts, and a retry reuses them."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_provider_kafka_spark.core.checks import text_or_none
from airflow_provider_kafka_spark.core.copies.approved_plan import ApprovedPlan, PlanOrigin
from airflow_provider_kafka_spark.core.copies.copy_parameters import CopyParameters
from airflow_provider_kafka_spark.core.copies.declaration import (
    BOUNDED,
    COMMON,
    Decides,
    Declared,
    names,
    read_in_dag,
    renderers,
)
from airflow_provider_kafka_spark.core.copies.planned_copy import PlannedCopy, RemoteJob
from airflow_provider_kafka_spark.core.copies.verification import result_of_empty_plan
from airflow_provider_kafka_spark.core.errors import JobReportMissingError, OptionError
from airflow_provider_kafka_spark.core.topics.broker_state import ClusterState
from airflow_provider_kafka_spark.core.topics.resolve import ResolvedRanges
from airflow_provider_kafka_spark.core.wire.job_events import JobEvent, JobStarted
from airflow_provider_kafka_spark.core.wire.protocol import JobReport, Submission, Transform
from airflow_provider_kafka_spark.failure import no_retry_on_permanent_error
from airflow_provider_kafka_spark.operators.bounded_job import (
    announce_retry,
    collected,
    known_number,
    report_of_earlier,
)
from airflow_provider_kafka_spark.operators.bounded_plan import plan_bounded, resolve_ranges
from airflow_provider_kafka_spark.operators.decision import result_to_approve
from airflow_provider_kafka_spark.operators.deferral import ClusterManager
from airflow_provider_kafka_spark.operators.job_bundle import BundlePlace, JobBundle, check_bundled, check_not_empty
from airflow_provider_kafka_spark.operators.kafka_to_kafka import KafkaToKafkaOperator
from airflow_provider_kafka_spark.operators.mapped_item import given_item
from airflow_provider_kafka_spark.operators.memory import MemoryPlace
from airflow_provider_kafka_spark.operators.sealed_plan import adopt, opened_plan, sealed_plan
from airflow_provider_kafka_spark.operators.task_try import TaskTry
from airflow_provider_kafka_spark.state.run_state import RunState, RunStateStore
from airflow_provider_kafka_spark.submission.bundle_files import bundle_properties

if TYPE_CHECKING:
    from airflow.sdk import Context


class BoundedCopyOperator(KafkaToKafkaOperator):
    """Copy from a start to an end. Use one of the subclasses, which define the records to read.

    :param plan: carry out exactly this plan: the result of another task with ``plan_only=True``, with the parameters of
        that task, which are left out here. It fails if the plan no longer holds. (templated)
    :param max_records_per_partition: cut ranges into Spark partitions of at most this many offsets; needs
        ``preserve_order=False``. (templated)
    :param preserve_order: keep the order of each Kafka partition: one Spark task reads all of its ranges. (templated)

    Further parameters: :class:`~airflow_provider_kafka_spark.operators.kafka_to_kafka.KafkaToKafkaOperator`.
    """

    #: The author, and no question to a broker, says which offsets are read.
    _has_given_ranges: ClassVar[bool] = False
    _declared: ClassVar[Sequence[Declared]] = (*COMMON, *BOUNDED)
    template_fields: Sequence[str] = (*names(BOUNDED), *KafkaToKafkaOperator.template_fields)
    template_fields_renderers = renderers(_declared)

    def __init__(
        self,
        *,
        plan: dict[str, Any] | str | None = None,
        max_records_per_partition: int | None = None,
        preserve_order: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.plan = plan
        self._approved: ApprovedPlan | None = None
        #: The running task instance.
        self._ti: Any = None
        self.max_records_per_partition = max_records_per_partition
        self.preserve_order = preserve_order
        read_in_dag(BOUNDED, self)

    @abstractmethod
    def _own_selection(self) -> dict[str, Any]:
        """The parameters that say which records are read, as plain JSON with one form for each meaning.

        :raises KafkaSparkError: if one is malformed.
        """

    def _transform(self, parameters: CopyParameters) -> Transform:
        """How each record is changed, if no plan says it."""
        return parameters.transform

    def _resolve(self, task_try: TaskTry) -> tuple[ResolvedRanges, ClusterState]:
        """The exact offsets, if no plan says them, and the broker state they were resolved against."""
        return resolve_ranges(task_try)

    @no_retry_on_permanent_error
    def execute(self, context: Context) -> dict[str, Any]:
        """Plan, submit, and collect the report that proves the delivery.

        :return: the result, as the documentation gives it.
        :raises AirflowFailException: for non-retriable errors.
        :raises KafkaSparkError: for retriable errors.
        """
        store = RunStateStore(context, self.task_id, partial(given_item, context))
        if not self._follows_trigger:
            store.begin()
        parameters = self._parameters(context)
        ledger = self._ledger(context, parameters)
        state = store.load(self.on_rerun, self._item, self._is_given_again, as_stored=self._follows_trigger)
        if self._follows_trigger and state.remote is None and state.result is None:
            raise JobReportMissingError(
                "Airflow must have what this task has submitted; the task's state is gone. A retry asks the target "
                "what was delivered."
            )
        if state.result is not None and not self.plan_only:
            earlier = None if state.earlier is None else state.earlier.still_there(state.proved_ids)
            return self._return_stored_result(context, ledger, state.result, earlier)
        spark = self._new_spark_hook(context, parameters.delivery)
        spark.check(asks_cluster=state.remote is None)
        self._check_names(parameters, spark.cluster.spark_home.spark_version)
        manager = None if self.plan_only else self._manager_for(spark, context)
        earlier = None
        with self._new_try(context, parameters, spark) as task_try:
            state, planned = self._plan(task_try, store, state)
            ledger.looked(planned)
            if self.plan_only:
                result = self._done_planning(task_try, planned, self._result_of_plan(task_try, planned))
                return sealed_plan(result, context["ti"])
            if planned.plan.is_empty:
                self.log.info("No records in the requested ranges; Spark is not started.")
                # Nothing is written after a success, also by a driver of before.
                report_of_earlier(task_try, state, planned, partial(self._on_event, context), is_own=False)
                store.found_nothing(state)
                if not planned.plan.leaves_out:
                    self._skip_if_empty(planned.plan)
                result = result_of_empty_plan(planned.plan, planned.run_id)
                result["evidence"] = planned.evidence({}, planned.run_id)
            else:
                with ledger.running(planned), MemoryPlace(context, self.task_id).watched():
                    submitted, report = self._submit(task_try, store, state, planned, manager)
                    result = collected(task_try, store, submitted, planned, report)
                earlier = planned.earlier and planned.earlier.still_there(report.target_ids)
        return self._done(context, ledger, result, earlier)

    @no_retry_on_permanent_error
    def bundle(
        self,
        context: Context,
        *,
        folder: str,
        spark_version: str,
        scala_version: str,
        report_location: str | None = None,
    ) -> JobBundle:
        """Plan as :meth:`execute` does, and return the job for another operator to submit.

        Of the parameters of the submission only ``conf`` counts. Nothing is submitted, and no Spark is needed here. A
        later bundle of the same task instance, after a retry or a clear, is of the same run: its job writes only what
        the target lacks. It writes everything again, with a warning, where the plan has changed with
        ``provenance=None``, and with ``provenance="segments"`` where it has changed after a proof. A second job of the
        same bundle writes nothing, and fails.

        :param folder: where the driver finds the files of the job: a path that driver and executors have, or a URI
            whose files Spark sends them.
        :param spark_version: of the cluster, such as ``"4.0.0"``.
        :param scala_version: of this Spark, such as ``"2.13"``.
        :param report_location: folder, as path or URI, that the driver and Airflow's workers reach; the operator's own
            if None.
        :raises AirflowFailException: for non-retriable errors.
        :raises AirflowSkipException: if there is nothing to copy, whatever ``on_empty`` says.
        :raises KafkaSparkError: for retriable errors.
        """
        location = self.report_location if report_location is None else report_location
        store = RunStateStore(context, self.task_id, partial(given_item, context))
        store.begin()
        place = BundlePlace.parse(folder, location, spark_version, scala_version)
        parameters = self._parameters(context)
        check_bundled(parameters, self.use_delegation_token, self.on_rerun, plan_only=self.plan_only)
        self._check_names(parameters, spark_version)
        state = store.load(self.on_rerun, self._item, self._is_given_again)
        if state.result is not None:
            # This task has executed the operator before.
            state = state.after_delivery()
        with self._new_try(context, parameters, self._new_spark_hook(context, parameters.delivery)) as task_try:
            # What can fail comes before the submission is stored.
            bundle_properties(self.conf or {}, place.logins(task_try))
            state, planned = self._plan(task_try, store, state)
            check_not_empty(planned.plan)
            announce_retry(task_try, state, planned)
            _, submission = self._stored(task_try, store, state, planned)
            return place.bundle(task_try, planned, submission, self.conf or {}, self.progress_seconds)

    def _parsed(self) -> CopyParameters:
        if text_or_none(self.plan) is not None:
            approved = opened_plan(self.plan, self._ti).plan
            adopt(self, self._declared, approved)
            self._approved = approved
        return super()._parsed()

    def _selection(self) -> dict[str, Any]:
        return self._own_selection() if self._approved is None else self._approved.to_selection()

    def _result_of_plan(self, task_try: TaskTry, planned: PlannedCopy) -> dict[str, Any]:
        how = {name: getattr(self, name) for name in names(self._declared, Decides.HOW)}
        return result_to_approve(task_try, planned, PlanOrigin.of(planned, how), self.inlets)

    def _parameters(self, context: Context) -> CopyParameters:
        self._ti = context["ti"]
        parameters = super()._parameters(context)
        approved = ApprovedPlan.from_selection(parameters.selection)
        if approved is not None:
            # Those that CopyParameters does not have, also for a retry.
            for name in names(self._declared, Decides.HOW):
                setattr(self, name, approved.origin.parameters[name])
            self._read_rendered()
        if self.max_records_per_partition is not None and self.preserve_order:
            raise OptionError(
                f"max_records_per_partition={self.max_records_per_partition!r} splits a partition over several Spark "
                "tasks, which write at the same time, so the order of its records is lost. Pass preserve_order=False "
                "if that is right for the target."
            )
        return parameters

    def _plan(self, task_try: TaskTry, store: RunStateStore, state: RunState) -> tuple[RunState, PlannedCopy]:
        """Decide everything, by one look at each cluster; a retry restores the plan of the first try.

        :return: the run's state for this plan, and the plan.
        """
        parameters, looks_beside = task_try.parameters, self._has_given_ranges and not self.plan_only
        approved = ApprovedPlan.from_selection(parameters.selection)
        if approved is None:
            transform = self._transform(parameters)
        else:
            start_ms, end_ms = approved.origin.window
            transform = replace(parameters.transform, window_start_ms=start_ms, window_end_ms=end_ms)
        return plan_bounded(task_try, store, state, transform, self._resolve, self.on_rerun, looks_beside=looks_beside)

    def _submit(
        self,
        task_try: TaskTry,
        store: RunStateStore,
        state: RunState,
        planned: PlannedCopy,
        manager: ClusterManager | None,
    ) -> tuple[RunState, JobReport]:
        """Submit the job and follow it to its end. Plan and handle are stored before it can write anything."""
        said = partial(self._on_event, task_try.context)
        report = report_of_earlier(task_try, state, planned, said, is_own=self._follows_trigger)
        if report is not None:
            return state, report
        if state.remote is not None:
            task_try.spark.cluster.check_rights()
        announce_retry(task_try, state, planned)
        with self._logins(task_try.context, task_try.spark, task_try.source, task_try.sink) as logins:
            remote = task_try.spark.remote_job(planned.run_id, planned.instance, planned.digest)
            submitted, submission = self._stored(task_try, store, state, planned, remote)

            def on_event(event: JobEvent) -> None:
                if isinstance(event, JobStarted):
                    store.started(submitted, event.application_id)
                said(event)

            request = planned.request(submission, logins, self.progress_seconds)
            request = MemoryPlace(task_try.context, self.task_id).careful(request, task_try.parameters.source_options)
            if remote is not None and manager is not None:
                started = task_try.spark.start(request, on_event, logins, remote)
                self._defer(task_try.context, started, manager, remote.report_uri)
            return submitted, task_try.spark.run(request, on_event, logins, remote)

    def _stored(
        self,
        task_try: TaskTry,
        store: RunStateStore,
        state: RunState,
        planned: PlannedCopy,
        remote: RemoteJob | None = None,
    ) -> tuple[RunState, Submission]:
        """Remember all that the next try needs, before anything is written.

        :param remote: how it finds the job; None if that ends with this worker.
        """
        self._remember(task_try)
        now_ms, delivery = int(time.time() * 1000), planned.parameters.delivery
        known = known_number(task_try, store, state, planned)
        submitted = store.submitting(state, planned.plan, now_ms, delivery, remote, known)
        return submitted, submitted.submitted(now_ms)
