"""The common base of batch copies and replays: exact offsets are fixed before Spark starts, and a retry reuses them."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk.exceptions import AirflowSkipException

from airflow_provider_kafka_spark.clients.permissions import check_topics
from airflow_provider_kafka_spark.clients.run_mark import judge_run, remove_progress, run_mark
from airflow_provider_kafka_spark.core.checks import (
    MISSING_ONLY,
    text_or_none,
)
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
from airflow_provider_kafka_spark.core.copies.plan import ReplayPlan, make_plan, shortened
from airflow_provider_kafka_spark.core.copies.planned_copy import PlannedCopy, RemoteJob, SubmittedJob
from airflow_provider_kafka_spark.core.copies.verification import (
    result_of_empty_plan,
    result_of_plan,
)
from airflow_provider_kafka_spark.core.errors import (
    BrokerError,
    DeliveryError,
    InvalidInputError,
    JobReportMissingError,
    KafkaSparkError,
    OptionError,
)
from airflow_provider_kafka_spark.core.ledger.coverage import plan_picture
from airflow_provider_kafka_spark.core.ledger.log_look import LogLook
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, OffsetRanges, TopicPartition
from airflow_provider_kafka_spark.core.offsets.spans import plan_spans
from airflow_provider_kafka_spark.core.shown_text import first_ten, item, markdown_item
from airflow_provider_kafka_spark.core.topics.broker_state import ClusterState, TopicState
from airflow_provider_kafka_spark.core.topics.known_topics import KnownTopics, recreated
from airflow_provider_kafka_spark.core.topics.new_topics import with_new_topics
from airflow_provider_kafka_spark.core.topics.resolve import MissingRange, ReadRules, ResolvedRanges, resolve_replay
from airflow_provider_kafka_spark.core.wire.codec import decode, encode
from airflow_provider_kafka_spark.core.wire.job_events import JobEvent, JobStarted
from airflow_provider_kafka_spark.core.wire.protocol import JobReport, Transform
from airflow_provider_kafka_spark.operators.attempt import Attempt
from airflow_provider_kafka_spark.operators.decision import decision
from airflow_provider_kafka_spark.operators.deferral import ClusterManager, report_of_ended
from airflow_provider_kafka_spark.operators.job_bundle import BundlePlace, JobBundle
from airflow_provider_kafka_spark.operators.kafka_to_kafka import KafkaToKafkaOperator, no_retry_on_permanent_error
from airflow_provider_kafka_spark.operators.memory import MemoryPlace
from airflow_provider_kafka_spark.operators.new_targets import created, descriptions
from airflow_provider_kafka_spark.operators.other_copies import left_to_copy
from airflow_provider_kafka_spark.operators.proof import LOST_STATE, proved_result, recreated_target
from airflow_provider_kafka_spark.operators.sealed_plan import opened_plan, sealed_plan
from airflow_provider_kafka_spark.state.run_state import RunState, RunStateStore
from airflow_provider_kafka_spark.submission.bundle_files import bundle_properties
from airflow_provider_kafka_spark.submission.progress_file import followed_progress

if TYPE_CHECKING:
    from airflow.sdk import Context

_LAYOUT = names((*COMMON, *BOUNDED), Decides.LAYOUT)
#: Of the stored parameters of a replay.
KNOWN_TOPICS = "known_topics"
_RERUN = (
    "This task has delivered {:,} records before, under this run_id. on_rerun='missing_only': only what the target "
    "lacks is written."
)
_COPIES_AGAIN = (
    "This task has succeeded before. on_rerun='copy_again': everything is written again, under a new run_id, and the "
    "target keeps what it has."
)


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
        #: The plan has not what another run has copied.
        self._left_out = False
        self.max_records_per_partition = max_records_per_partition
        self.preserve_order = preserve_order
        read_in_dag(BOUNDED, self)

    @abstractmethod
    def _selection(self) -> dict[str, Any]:
        """The parameters that say which records are read, as plain JSON with one form for each meaning.

        :raises KafkaSparkError: if one is malformed.
        """

    def _transform(self, parameters: CopyParameters) -> Transform:
        """How each record is changed, if no plan says it."""
        return parameters.transform()

    def _resolve(self, attempt: Attempt, rules: ReadRules) -> tuple[ResolvedRanges, ClusterState]:
        """The exact offsets, if no plan says them, and the broker state they were resolved against."""
        return _resolve_ranges(attempt, rules)

    @no_retry_on_permanent_error
    def execute(self, context: Context) -> dict[str, Any]:
        """Plan, submit, and collect the report that proves the delivery.

        :return: the result, as the documentation gives it.
        :raises AirflowFailException: for non-retriable errors.
        :raises KafkaSparkError: for retriable errors.
        """
        store = RunStateStore(context, self.task_id)
        if not self._follows_trigger:
            store.begin()
        parameters = self._parameters(context)
        ledger = self._ledger(context, parameters)
        state = store.load(self.on_rerun, self._item, as_stored=self._follows_trigger)
        if self._follows_trigger and state.remote is None and state.result is None:
            raise JobReportMissingError(
                "Airflow must have what this task has submitted; the task's state is gone. A retry asks the target "
                "what was delivered."
            )
        if state.result is not None and not self.plan_only:
            earlier = None if state.earlier is None else state.earlier.still_there(state.proved_ids)
            return self._return_stored_result(context, ledger, state.result, earlier)
        spark = self._new_spark_hook(context, parameters.delivery)
        spark.check()
        self._check_names(parameters, spark.cluster.spark_home.spark_version)
        manager = None if self.plan_only else self._manager_for(spark, context)
        earlier = None
        with self._attempt(context, parameters, spark) as attempt:
            state, planned = self._plan(attempt, store, state)
            ledger.looked(planned)
            if self.plan_only:
                return sealed_plan(self._done_planning(planned, self._result_of_plan(attempt, planned)), context["ti"])
            if planned.plan.is_empty:
                self.log.info("No records in the requested ranges; Spark is not started.")
                store.found_nothing(state)
                if not self._left_out:
                    self._skip_if_empty(planned.plan)
                result = result_of_empty_plan(planned.plan, planned.run_id)
                result["evidence"] = planned.evidence({}, planned.run_id)
            else:
                with ledger.running(planned), MemoryPlace(context, self.task_id).watched():
                    submitted, report = self._submit(attempt, store, state, planned, manager)
                    result = self._collect(attempt, store, submitted, planned, report)
                if planned.earlier is not None:
                    earlier = planned.earlier.still_there(report.target_ids)
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
        the target lacks. A second job of the same bundle writes nothing, and fails.

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
        store = RunStateStore(context, self.task_id)
        store.begin()
        place = BundlePlace.parse(folder, location, spark_version, scala_version)
        parameters = self._parameters(context)
        self._check_bundled(parameters)
        self._check_names(parameters, spark_version)
        state = store.load(self.on_rerun, self._item)
        if state.result is not None:
            # This task has executed the operator before.
            state = state.after_delivery()
        with self._attempt(context, parameters, self._new_spark_hook(context, parameters.delivery)) as attempt:
            # What can fail comes before the submission is stored.
            bundle_properties(self.conf or {}, place.logins(attempt))
            state, planned = self._plan(attempt, store, state)
            if planned.plan.is_empty:
                gone = sum(m.offset_range.size for m in planned.plan.missing)
                raise AirflowSkipException(
                    "No records in the requested ranges, so there is no job for another operator"
                    + (f"; {gone:,} requested offsets are no longer there." if gone else ".")
                )
            if planned.is_retry:
                self._announce_retry(planned)
            self._remember(attempt)
            now_ms = int(time.time() * 1000)
            known = self._known_number(attempt, store, state, planned)
            submitted = store.submitting(state, planned.plan, now_ms, parameters.delivery, known_number=known)
            job = SubmittedJob(submitted.submission, now_ms, submitted.untrusted_until, submitted.submitted_at_ms)
            return place.bundle(attempt, planned, job, self.conf or {}, self.progress_seconds)

    def _check_bundled(self, parameters: CopyParameters) -> None:
        """Check that another operator may submit the job.

        :raises OptionError: if a parameter needs a worker that follows the job, or that knows its end.
        """
        if not parameters.is_exactly_once:
            raise OptionError(
                "delivery must be 'exactly_once' where another operator submits the job: without transactions nothing "
                f"keeps two jobs from writing the same records; got {parameters.delivery!r}. Leave it out."
            )
        if self.use_delegation_token not in (None, False):
            raise OptionError(
                "use_delegation_token must be False where another operator submits the job: no worker would renew the "
                "token while the job runs. Leave it out; the job logs in as the connections do."
            )
        if self.on_rerun != MISSING_ONLY:
            raise OptionError(
                f"on_rerun must be 'missing_only' where another operator submits the job, since this task does not "
                f"learn of the delivery; got {self.on_rerun!r}. Leave it out."
            )
        if self.plan_only:
            raise OptionError("plan_only=True makes no job, and bundle() makes one. Leave one of the two out.")

    def _parsed(self) -> CopyParameters:
        if text_or_none(self.plan) is not None:
            self._adopt(opened_plan(self.plan, self._ti).plan)
        return super()._parsed()

    def _adopt(self, approved: ApprovedPlan) -> None:
        """Take the parameters of a plan.

        :raises InvalidInputError: if others were given here.
        """
        defaults, declared = _defaults_of(type(self)), {p.name: p for p in self._declared}
        selecting = [
            p.name
            for p in self._declared
            if p.decides is Decides.RECORDS and p.read(getattr(self, p.name)) != p.read_default(defaults[p.name])
        ]
        if selecting:
            raise InvalidInputError(
                f"plan says which records are copied; {', '.join(selecting)} must not be given with it. Leave one of "
                "the two out."
            )
        fixed = approved.origin.parameters
        given = {name: encode(declared[name].read(getattr(self, name))) for name in fixed}
        otherwise = {name: encode(declared[name].read_default(defaults[name])) for name in fixed}
        for name, value in approved.adopted(given, otherwise).items():
            setattr(self, name, value)
        self._approved = approved

    def _records(self) -> dict[str, Any]:
        return self._selection() if self._approved is None else self._approved.to_records()

    def _result_of_plan(self, attempt: Attempt, planned: PlannedCopy) -> dict[str, Any]:
        origin = PlanOrigin.of(planned, {name: getattr(self, name) for name in _LAYOUT})
        result = result_of_plan(planned.plan, planned.run_id, planned.transform, planned.pace)
        pace = "none" if planned.pace is None else planned.pace.describe(planned.plan.planned_records)
        first = decision(attempt, planned.plan, self.inlets).items(planned.plan)
        parts = [
            *(markdown_item(name, text) for name, text in first),
            origin.markdown(),
            markdown_item("Pace", pace.removeprefix("Pace: ")),
            "",
            planned.plan.markdown(),
            markdown_item("How records are read", planned.path),
        ]
        texts = [*(item(name, text) for name, text in first), result["text"], planned.path, origin.describe()]
        return {**result, "text": "\n".join(texts), "markdown": "\n".join(parts), "plan": origin.to_json()}

    def _parameters(self, context: Context) -> CopyParameters:
        self._ti = context["ti"]
        parameters = super()._parameters(context)
        approved = ApprovedPlan.from_records(parameters.records)
        if approved is not None:
            # Those that CopyParameters does not have, also for a retry.
            for name in _LAYOUT:
                setattr(self, name, approved.origin.parameters[name])
            self._read_rendered()
        if self.max_records_per_partition is not None and self.preserve_order:
            raise OptionError(
                f"max_records_per_partition={self.max_records_per_partition!r} splits a partition over several Spark "
                "tasks, which write at the same time, so the order of its records is lost. Pass preserve_order=False "
                "if that is right for the target."
            )
        return parameters

    def _plan(self, attempt: Attempt, store: RunStateStore, state: RunState) -> tuple[RunState, PlannedCopy]:
        """Decide everything, by one look at each cluster; a retry restores the plan of the first try.

        :return: the run's state for this plan, and the plan.
        """
        approved, rules = ApprovedPlan.from_records(attempt.parameters.records), self._rules(attempt.parameters)
        if approved is None:
            transform = self._transform(attempt.parameters)
        else:
            transform = attempt.parameters.transform(*approved.origin.window)
        resolved, source, target, cuts = self._resolved_plan(attempt, state, rules)
        transform = transform.of_topics({r.topic for r in resolved.ranges})
        state, plan = store.for_plan(state, resolved, transform, cuts)
        state = replace(state, instance=state.instance or self._instance(attempt.context, state.item))
        # Only the new one: the table below has all.
        for warning in first_ten(plan.warnings[len(resolved.warnings) :]):
            self.log.warning("%s", warning)
        attempt.check_target(target, reads_back=state.has_submitted)
        self.log.info("The plan of run %s:\n%s", state.run_id, plan.table())
        self._log_pace(plan)
        path = self._path(attempt.parameters, transform, target, plan)
        lags = attempt.check_pace(self._pace(), target)
        looks_beside = self._has_given_ranges and not self.plan_only
        empty = attempt.empty_after(plan, source, rules) if looks_beside else OffsetRanges()
        is_rerun = state.earlier is not None and state.plan is None
        # A try without a stored state may adopt a run, and is the first one that is known to look.
        if is_rerun or state.submitted_at_ms is None:
            attempt.check_timestamps(target, plan)
        return state, PlannedCopy(
            run_id=state.run_id,
            instance=state.instance,
            parameters=attempt.parameters,
            plan=plan,
            transform=transform,
            reader=self.reader,
            path=path,
            rules=rules,
            ranges=plan.ranges.without_empty(),
            spans=plan_spans(plan.ranges, self.max_records_per_partition),
            preserve_order=self.preserve_order,
            allow_same_topic=self.allow_same_topic,
            is_retry=state.has_submitted,
            former_run_ids=state.former_run_ids,
            adopts_run=state.adopts_run,
            is_lost=state.is_lost,
            is_first_submission=state.submitted_at_ms is None,
            earlier=state.earlier,
            pace=self._pace(),
            client_id=self._client_id(attempt.context),
            title=self._title(attempt.context),
            audit_from=_audit_from(target, state, plan),
            look=LogLook.of(source, target, rules, empty, lags),
        )

    def _resolved_plan(
        self, attempt: Attempt, state: RunState, rules: ReadRules
    ) -> tuple[ReplayPlan, ClusterState, ClusterState, dict[TopicPartition, int]]:
        """The plan of an earlier try while it is valid, or else a new one; the clusters of source and target; and where
        the source's logs were cut that had reached further.
        """
        earlier, lost, target = state.plan, tuple[MissingRange, ...](), attempt.target_state()
        if earlier is not None:
            check_topics(attempt.source, earlier.topic_ids, "READ")
            source = attempt.source.state(earlier.topic_ids)
            cuts = attempt.source.cuts(state.reached, source)
            lost = earlier.losses(source, rules, cuts)
            # Of what another run had copied to a topic that was deleted since, the plan has nothing.
            ids = {name: topic.topic_id for name, topic in target.topics.items()}
            gone = {} if self._follows_trigger else recreated(earlier.target_ids, ids)
            if not lost and not gone and earlier.target_cluster_id == target.cluster_id:
                self.log.info("Reusing the plan of an earlier try of this run.")
                new = self._new_targets.planned(attempt, earlier.target.routes(earlier.topic_ids), source, target)
                return earlier, source, created(attempt, new, target, earlier, plan_only=self.plan_only), cuts
            self.log.warning("The plan of an earlier try of this run is no longer valid; making a new one.")
        approved = ApprovedPlan.from_records(attempt.parameters.records)
        resolved, cluster = self._resolve(attempt, rules) if approved is None else _resolve_ranges(attempt, rules)
        of_target = self._target(attempt.parameters)
        routes = of_target.routes(r.topic for r in resolved.ranges)
        new = self._new_targets.planned(attempt, routes, cluster, target)

        def plan_with(state_of_target: ClusterState) -> ReplayPlan:
            return make_plan(
                resolved, cluster, state_of_target, of_target, self.max_records_per_partition, self.preserve_order
            )

        # All that can fail comes before the creation.
        plan = plan_with(with_new_topics(target, new))
        if approved is not None:
            approved.check(plan)
            resolved = replace(resolved, missing=(*approved.missing, *resolved.missing))
            plan = replace(plan, missing=resolved.missing)
        self._check_size(plan)
        # A plan says all that would be copied.
        is_clear = state.earlier is not None
        others = None if self.plan_only else left_to_copy(attempt, plan, target, self.on_rerun, is_clear=is_clear)
        if others is not None:
            left, warning = others
            self._left_out = True
            resolved = replace(resolved, ranges=left, warnings=(*resolved.warnings, warning))
            plan = plan_with(with_new_topics(target, new))
        if new:
            target = created(attempt, new, target, plan, plan_only=self.plan_only)
            plan = plan_with(target)
        self._log_picture(plan, cluster)
        warnings = [*descriptions(new, plan_only=self.plan_only), *plan.warnings]
        if state.earlier is not None:
            warnings.append(_RERUN.format(state.earlier.records))
        elif state.copies_again:
            warnings.append(_COPIES_AGAIN)
        plan = replace(plan, missing=(*plan.missing, *lost), warnings=tuple(warnings))
        return plan, cluster, target, attempt.source.cuts(state.reached, cluster)

    def _log_picture(self, plan: ReplayPlan, source: ClusterState) -> None:
        """Say first what will be done, and show where the plan lies in its topics."""
        if plan.is_empty:
            return
        partitions = {r.topic_partition for r in plan.ranges}
        ends = ((p, source.partition(p)) for p in sorted(partitions))
        whole = (OffsetRange(p.topic, p.partition, s.log_start, max(s.log_start, s.high_watermark)) for p, s in ends)
        missing = OffsetRanges.parse([m.offset_range for m in plan.missing], merge_overlaps=True)
        self.log.info(
            "To copy: at most %s records of %s to %s.\n%s",
            f"{plan.planned_records:,}",
            shortened(sorted({r.topic for r in plan.ranges})),
            plan.target,
            plan_picture(plan.ranges, missing, whole),
        )

    def _submit(
        self,
        attempt: Attempt,
        store: RunStateStore,
        state: RunState,
        planned: PlannedCopy,
        manager: ClusterManager | None,
    ) -> tuple[RunState, JobReport]:
        """Submit the job and follow it to its end. Plan and handle are stored before it can write anything."""
        report = self._report_of_earlier(attempt, state, planned)
        if report is not None:
            return state, report
        if planned.is_retry:
            self._announce_retry(planned)
        with self._logins(attempt) as logins:
            self._remember(attempt)
            remote = attempt.spark.remote_job(planned.run_id, planned.instance, planned.asked)
            now_ms, delivery = int(time.time() * 1000), planned.parameters.delivery
            known = self._known_number(attempt, store, state, planned)
            submitted = store.submitting(state, planned.plan, now_ms, delivery, remote, known)

            def on_event(event: JobEvent) -> None:
                if isinstance(event, JobStarted):
                    store.started(submitted, event.application_id)
                self._on_event(attempt.context, event)

            job = SubmittedJob(submitted.submission, now_ms, submitted.untrusted_until, submitted.submitted_at_ms)
            request = planned.request(job, logins, self.progress_seconds)
            request = MemoryPlace(attempt.context, self.task_id).careful(request, attempt.parameters.source_options)
            if remote is not None and manager is not None:
                started = attempt.spark.start(request, "batch", on_event, logins, remote)
                self._defer(attempt.context, started, manager, remote.report_uri)
            return submitted, attempt.spark.run(request, "batch", on_event, logins, remote)

    @staticmethod
    def _known_number(attempt: Attempt, store: RunStateStore, state: RunState, planned: PlannedCopy) -> int:
        """The number of the run's latest submission, by the mark at the target's brokers; 0 without one.

        :raises JobReportMissingError: if the task's state is older than that submission, which is stored before the job
            can begin. A retry has lost it.
        """
        mark = run_mark(attempt.sink, planned.instance, planned.transform.targets)
        if mark is not None and mark.run_id == state.run_id and mark.number > state.submission and not state.adopts_run:
            store.forget()
            raise JobReportMissingError(
                f"Airflow must have the state of this run's latest submission, number {mark.number}; it has that of "
                f"number {state.submission}. Somebody has written an older one by Airflow's API, an earlier try has "
                "woken up, or the database was restored. It is forgotten: a retry asks the target what was delivered."
            )
        return 0 if mark is None else mark.number

    def _report_of_earlier(self, attempt: Attempt, state: RunState, planned: PlannedCopy) -> JobReport | None:
        """Wait for the end of a job that was submitted before, if one runs.

        :return: its report, if nobody has read it and it answers what this try would ask; otherwise None.
        :raises KafkaSparkError: if a trigger has followed this try's own job: why that proves nothing.
        """
        remote, application_id = state.remote, state.application_id
        if remote is not None and application_id is None:
            application_id = attempt.spark.applications.find(remote.tag)
        if application_id is not None:
            said = partial(self._on_event, attempt.context)
            with nullcontext() if remote is None else followed_progress(remote.report_uri, said):
                attempt.spark.applications.wait_for(application_id)
        if remote is None:
            return None
        # A storage or a broker that does not answer is no answer: another try asks again.
        found = report_of_ended(attempt, remote)
        now = {} if isinstance(found, KafkaSparkError) else attempt.sink.state(found.target_topics).topics
        report = found if isinstance(found, KafkaSparkError) else self._judged(found, remote, planned, now)
        if isinstance(report, KafkaSparkError):
            attempt.spark.remove_report(remote)
            if self._follows_trigger:
                raise report
            self.log.warning("The job of an earlier try proves nothing: %s", report)
            return None
        self.log.info("Application %s has delivered everything; no other one is started.", report.application_id)
        return report

    def _judged(
        self, report: JobReport, remote: RemoteJob, planned: PlannedCopy, now: Mapping[str, TopicState]
    ) -> JobReport | KafkaSparkError:
        """The report, or why it does not count for this plan.

        :param now: the targets, as far as they exist.
        """
        if remote.asked != planned.asked:
            return DeliveryError(
                f"The report must be of the copy that is planned now; application {report.application_id} was asked "
                "for another one. A retry looks at what it has delivered."
            )
        return recreated_target(report, now) or report

    def _collect(
        self,
        attempt: Attempt,
        store: RunStateStore,
        submitted: RunState,
        planned: PlannedCopy,
        report: JobReport,
    ) -> dict[str, Any]:
        """The result of a report that proves the delivery.

        :raises BrokerError: if nobody can tell; a retry finds everything as the job has left it.
        :raises KafkaSparkError: if it does not; the next try then looks at the target itself.
        """
        of_run = (planned.instance, submitted.submission, report.run_id, report.target_topics)
        try:
            result = proved_result(attempt.source, planned, report, allow_duplicates=self.allow_duplicates)
        except BrokerError:
            # No answer is no verdict.
            raise
        except KafkaSparkError:
            store.distrusted(submitted)
            if submitted.remote is not None:
                attempt.spark.remove_report(submitted.remote)
            judge_run(attempt.sink, *of_run, proved=False)
            raise
        store.finished(submitted, result, report)
        if submitted.remote is not None:
            attempt.spark.remove_report(submitted.remote)
        judge_run(attempt.sink, *of_run, proved=True, leaves=report.leaves_mark)
        remove_progress(attempt.sink, report.progress_groups)
        return result

    def _announce_retry(self, planned: PlannedCopy) -> None:
        if planned.is_lost:
            self.log.warning("%s", LOST_STATE)
        elif planned.adopts_run:
            self.log.info(
                "This map index is new in a DAG run that was cleared: if its item had another index before, that run "
                "is continued."
            )
        elif planned.earlier is not None:
            self.log.info("The target is searched for what this task has delivered before.")
        elif planned.parameters.is_exactly_once:
            self.log.info(
                "An earlier try of this run may have written records: this one resumes from its committed progress."
            )
        elif planned.parameters.provenance.in_headers:
            self.log.info(
                "An earlier try of this run may have delivered records: the target is searched for them first."
            )
        else:
            self.log.warning(
                "An earlier try of this run may have delivered records, and without provenance headers there is no way "
                "to find which: they are written again."
            )


def _resolve_ranges(attempt: Attempt, rules: ReadRules) -> tuple[ResolvedRanges, ClusterState]:
    """Ranges that were given."""
    records = attempt.parameters.records
    ranges = OffsetRanges.parse(records["offset_ranges"])
    # A plan compares more than this.
    known = decode(KnownTopics, records[KNOWN_TOPICS]) if KNOWN_TOPICS in records else None
    topics = {r.topic for r in ranges}
    cluster = attempt.source.state(topics, operation="READ")
    check_topics(attempt.source, topics, "READ")
    return resolve_replay(ranges, cluster, rules, known), cluster


def _defaults_of(kind: type) -> dict[str, Any]:
    """The defaults of an operator's parameters."""
    return {
        name: parameter.default
        for base in reversed(kind.__mro__)
        if "__init__" in vars(base)
        for name, parameter in signature(base.__init__).parameters.items()  # type: ignore[misc]
        if parameter.default is not Parameter.empty
    }


def _audit_from(target: ClusterState, state: RunState, plan: ReplayPlan) -> dict[str, dict[str, int]]:
    """The ends of the target before the run's first submission, or the first one since a clear after its delivery."""
    first_ends, first_ids = state.first_targets(plan)
    found = {}
    for name in plan.target_topics:
        topic = target.topic(name)
        ends = (first_ends or {}).get(name, {})
        if first_ids.get(name, topic.topic_id) != topic.topic_id:
            # It was recreated: its offsets begin anew.
            ends = {}
        found[name] = {str(number): ends.get(number, 0) for number in topic.partitions}
    return found
