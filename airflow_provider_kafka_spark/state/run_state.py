"""The state that a task keeps between its tries, in Airflow's task state store.

It belongs to the task instance (DAG run, task and map index), whatever its parameters render to. Of a mapped task it
also has the item that it is of, since a list may change before a clear.

- A retry carries out the plan of the first try. If an earlier try delivered everything and failed only after that, the
  retry returns its result.
- A clear after a failure makes a new plan and keeps the ``run_id``, so that what was delivered is not written again,
  unless source, target or transformation has changed.
- So does a clear after a success, unless ``on_rerun`` asks for a copy of everything, which has a new ``run_id``. (This
  is not Airflow's ``run_id``.)
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_provider_kafka_spark.core.checks import COPY_AGAIN, EXACTLY_ONCE, FAIL_ON_RERUN, MISSING_ONLY
from airflow_provider_kafka_spark.core.copies.identity import fingerprint_changes
from airflow_provider_kafka_spark.core.copies.plan import ReplayPlan
from airflow_provider_kafka_spark.core.copies.planned_copy import RemoteJob
from airflow_provider_kafka_spark.core.errors import AlreadyDeliveredError
from airflow_provider_kafka_spark.core.offsets.compact_result import short_result, whole_result
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, OffsetRanges, TopicPartition
from airflow_provider_kafka_spark.core.offsets.segments import Segment, joined, within
from airflow_provider_kafka_spark.core.records.dead_letters import all_target_ranges
from airflow_provider_kafka_spark.core.runs.run_protocol import is_same_delivery, next_number
from airflow_provider_kafka_spark.core.shown_text import shortened
from airflow_provider_kafka_spark.core.topics.known_topics import recreated
from airflow_provider_kafka_spark.core.topics.log_ends import LogEnds
from airflow_provider_kafka_spark.core.wire.codec import encode
from airflow_provider_kafka_spark.core.wire.evidence import CopyEvidence
from airflow_provider_kafka_spark.core.wire.protocol import EarlierDelivery, JobReport, Submission, Transform
from airflow_provider_kafka_spark.state.item_check import check_begun_with, check_item
from airflow_provider_kafka_spark.state.task_state import RUN_KEY, STATE_VERSION, TaskState, TryNumbers, decoded

#: Under these keys, of tries that have not submitted anything, the run's id and the MAC of a mapped task's item, which
#: may have secrets. They go with the state, wherever that is deleted.
_BEGUN, _ITEM = "begun", "item"
#: Instead of a state that was found to be older than the latest submission.
_LOST = {"lost": True}


@dataclass(frozen=True, slots=True)
class RunState:
    """One run of one task instance.

    :param run_id: in the provenance header of every record; 16 random hexadecimal digits, not Airflow's ``run_id``.
    :param plan: of the earlier tries, or None if this one has to plan.
    :param submission: number of the latest submission; it only grows.
    :param untrusted_until: committed progress does not count up to this submission number: it wrote at least once, or
        its report did not prove the delivery.
    :param item: of a mapped task, see ``core.runs.run_identity``; else empty.
    :param instance: by which the run is found at the target's brokers; empty before there is a plan.
    :param former_run_ids: of the runs of this task instance that this one takes the place of.
    :param adopts_run: the state of earlier tries is lost, or the list of a mapped task was expanded anew: the run is
        that of the mark at the target's brokers, if there is one. ``run_id`` is only for the case that there is none.
    :param is_lost: the first of the two.
    :param target_ends: ends of the target's partitions before the run's first submission, or the first one since the
        task was cleared after its delivery; None if there was none.
    :param target_ids: ids of these target topics.
    :param application_id: of the latest try that was seen to start.
    :param remote: the latest submission, if its driver may outlive the worker, and nobody has judged its report.
    :param reached: how far the source's logs reached by all plans that were submitted.
    :param submitted_at_ms: when the run's first submission was about to start, in ms since 1970; None if there was
        none.
    :param fingerprint: of source, transformation and target, over all submissions; see
        :meth:`~airflow_provider_kafka_spark.core.copies.plan.ReplayPlan.fingerprint`.
    :param key: the delivery key of ``result``.
    :param proved_ids: id of each target topic that ``result`` is of.
    :param proved_ends: the ends of the target's partitions when it was delivered.
    :param result: of the try that delivered all, if this one is a retry of it.
    :param succeeded: the task did so, and not only the delivery.
    :param earlier: what was delivered before the task was cleared; it counts.
    :param copies_again: what was delivered before the task was cleared does not count.
    :param try_numbers: of the try that stored this.
    """

    run_id: str
    submission: int = 0
    untrusted_until: int = 0
    item: str = ""
    instance: str = ""
    former_run_ids: tuple[str, ...] = ()
    adopts_run: bool = False
    is_lost: bool = False
    plan: ReplayPlan | None = None
    target_ends: Mapping[str, Mapping[int, int]] | None = None
    target_ids: Mapping[str, str] = field(default_factory=dict)
    reached: LogEnds = field(default_factory=LogEnds)
    submitted_at_ms: int | None = None
    application_id: str | None = None
    remote: RemoteJob | None = None
    fingerprint: Mapping[str, str] = field(default_factory=dict)
    key: str = ""
    proved_ids: Mapping[str, str] = field(default_factory=dict)
    proved_ends: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    result: dict[str, Any] | None = None
    succeeded: bool = False
    earlier: EarlierDelivery | None = None
    copies_again: bool = False
    try_numbers: TryNumbers = field(default_factory=TryNumbers)

    @property
    def has_submitted(self) -> bool:
        """Whether an earlier try may have written records."""
        return self.submitted_at_ms is not None or self.adopts_run

    def submitted(self, at_ms: int) -> Submission:
        """The latest submission.

        :param at_ms: when it was made.
        """
        return Submission(self.submission, at_ms, self.untrusted_until)

    def after_delivery(self) -> RunState:
        """The state for a clear: nothing is trusted but what the target has."""
        result = self.result or {}
        delivered = all_target_ranges(result)
        announced = OffsetRanges() if self.earlier is None else self.earlier.still_there(self.proved_ids).announced
        ranges, segments = self._proved(result)
        earlier = EarlierDelivery(
            self.key,
            result["records_written"],
            delivered,
            delivered if self.succeeded else announced,
            {**({} if self.earlier is None else self.earlier.target_ids), **self.proved_ids},
            self.submission if ranges else 0,
            ranges,
            segments,
            self._may_have_duplicates(result),
            self._searched(),
        )
        return replace(
            self,
            result=None,
            untrusted_until=self.submission,
            # What this delivery says nothing of, other plans may have written to.
            target_ends={name: of for name, of in (self.target_ends or {}).items() if name not in self.proved_ends}
            or None,
            target_ids={name: of for name, of in self.target_ids.items() if name not in self.proved_ends},
            earlier=earlier,
        )

    def first_targets(self, plan: ReplayPlan) -> tuple[Mapping[str, Mapping[int, int]] | None, Mapping[str, str]]:
        """The ends and the ids of each target before the first submission that may have written to it, with one of this
        plan; of an adopted run they are not known.
        """
        if self.adopts_run:
            return self.target_ends, self.target_ids
        return {**plan.target_ends, **(self.target_ends or {})}, {**plan.target_ids, **self.target_ids}

    def _searched(self) -> OffsetRanges:
        """What the target got from the run's first submission, or the first one since a clear, until the delivery; and
        before that clear.
        """
        known = OffsetRanges() if self.earlier is None else self.earlier.still_there(self.proved_ids).searched
        gone = recreated(self.target_ids, self.proved_ids)
        found = []
        for topic, ends in self.proved_ends.items():
            starts = {} if topic in gone else (self.target_ends or {}).get(topic, {})
            found += [OffsetRange(topic, n, min(starts.get(n, 0), end), end) for n, end in ends.items()]
        # In a log that was cut, some are before the place where the run began.
        delivered = all_target_ranges(self.result or {})
        return known.merge(found).merge(delivered).without_empty()

    def _may_have_duplicates(self, result: Mapping[str, Any]) -> bool:
        """Whether what this delivery proves, and those before it, may be in the target more than once."""
        evidence, before = result.get("evidence"), self.earlier
        is_before = before is not None and is_same_delivery(before.key, self.key) and before.may_have_duplicates
        return is_before or (evidence is not None and CopyEvidence.from_dict(evidence).may_have_duplicates)

    def _proved(self, result: Mapping[str, Any]) -> tuple[OffsetRanges, tuple[Segment, ...] | None]:
        """What this delivery and those before it have read, and where the records are, if that is known of all."""
        evidence = result.get("evidence")
        if evidence is None or not CopyEvidence.from_dict(evidence).transform.provenance.in_segments:
            return OffsetRanges(), None
        ranges = OffsetRanges.parse(result["ranges"]).without_empty()
        segments = [Segment.from_dict(s) for s in result["segments"]] if "segments" in result else None
        before = self.earlier
        if before is not None and is_same_delivery(before.key, self.key):
            others = before.ranges.subtract(ranges)
            segments = (
                None if segments is None or before.segments is None else [*segments, *within(before.segments, others)]
            )
            ranges = ranges.merge(others)
        return ranges.merge(), None if segments is None else joined(segments)


class RunStateStore:
    """The state of this task instance.

    :param context: of the running task.
    :param task_id: of the operator.
    :param given_item: gives the item of a mapped task as its list has it; None if there is none, or it is not known.
    """

    def __init__(
        self, context: Mapping[str, Any], task_id: str, given_item: Callable[[], str | None] = lambda: None
    ) -> None:
        self._store = TaskState(context, task_id)
        self._try_numbers = TryNumbers.of(context)
        self._given_item = given_item

    def begin(self) -> None:
        """Remember the first try, before anything can fail: a later one without any state then knows that it is lost,
        and not that nothing was submitted.
        """
        if self._try_numbers.is_first and self._store.get(RUN_KEY) is None:
            self._store.set(RUN_KEY, {_BEGUN: _fresh().run_id, _ITEM: self._mac_of_item()})

    def forget(self) -> None:
        """Remember that the state is lost."""
        self._store.set(RUN_KEY, _LOST)

    def load(
        self,
        on_rerun: str = MISSING_ONLY,
        item: str = "",
        is_given_again: Callable[[], bool] = lambda: False,
        *,
        as_stored: bool = False,
    ) -> RunState:
        """The state to start this try from.

        :param on_rerun: what to do if the task has succeeded.
        :param item: of a mapped task, else empty.
        :param is_given_again: says of another item than what is stored, whether the DAG gives the same one as before,
            and only its parameters are others; then it keeps the name that it is known by.
        :param as_stored: this try itself has stored it, before a trigger followed its job: no clear has come between.
        :raises AlreadyDeliveredError: if it has, and ``on_rerun`` forbids another run.
        :raises InvalidInputError: if what is stored is of another item.
        """
        stored = self._store.get(RUN_KEY)
        begun = stored.get(_BEGUN) if isinstance(stored, dict) else None
        if stored is None or stored == _LOST or begun is not None:
            is_lost = stored == _LOST or (stored is None and not self._try_numbers.is_first)
            # A list that was expanded anew may have had the item at another index.
            may_have_moved = bool(item) and bool(self._try_numbers.clear_number)
            if begun is not None and not may_have_moved:
                check_begun_with(stored.get(_ITEM), self._mac_of_item())
            fresh = _fresh() if begun is None else RunState(begun)
            return replace(fresh, item=item, adopts_run=is_lost or may_have_moved, is_lost=is_lost)
        # A plan of another version is no obstacle to a clear, which requests a new one.
        has_plan = isinstance(stored, dict) and "plan" in stored
        state = decoded(RUN_KEY, RunState, {**stored, "plan": None} if has_plan else stored)
        if state.succeeded and on_rerun == FAIL_ON_RERUN:
            raise AlreadyDeliveredError(
                f"The task has delivered {_written(state):,} records before, under "
                f"run_id {state.run_id}, and on_rerun='fail'. Pass on_rerun='missing_only' to write what the target "
                "lacks, or 'copy_again'."
            )
        if state.item != item and not as_stored and is_given_again():
            item = state.item
        if state.succeeded and on_rerun == COPY_AGAIN:
            return replace(_fresh(), item=item, copies_again=True, **_succeeding(state, item))
        if not as_stored:
            check_item(state.item, item)
        if state.result is not None:
            state = replace(state, result=whole_result(state.result))
            # Unless this is a retry, the task was cleared: after a success, or to make it succeed after all.
            is_retry = not state.succeeded and self._try_numbers.is_retry_of(state.try_numbers)
            return state if is_retry else state.after_delivery()
        # Records that were delivered before a clear stay delivered.
        plan = stored["plan"]
        if plan is None or (not as_stored and self._try_numbers.is_cleared_since(state.try_numbers)):
            return state
        return replace(state, plan=ReplayPlan.from_dict(plan))

    def _mac_of_item(self) -> str | None:
        item = self._given_item()
        return None if item is None else self._store.mac(item)

    def for_plan(
        self, state: RunState, plan: ReplayPlan, transform: Transform, cuts: Mapping[TopicPartition, int]
    ) -> tuple[RunState, ReplayPlan]:
        """The state for this plan; and the plan, with a warning if earlier deliveries do not count.

        Records of another source, of a log that was cut since, or with other expressions do not count for this plan:
        otherwise records with the same offsets would not be copied.

        :param transform: how each record is changed.
        :param cuts: where logs were cut since that had reached further.
        """
        fingerprint = plan.fingerprint(encode(transform))
        changed = fingerprint_changes(state.fingerprint, fingerprint)
        changed += [f"the log of {p}, which was cut at {offset}" for p, offset in sorted(cuts.items())]
        if not changed:
            return replace(state, fingerprint={**state.fingerprint, **fingerprint}), plan
        # The earlier try's application may still run, and is waited for.
        fresh = replace(
            _fresh(),
            item=state.item,
            application_id=state.application_id,
            remote=state.remote,
            fingerprint=fingerprint,
            **_succeeding(state, state.item),
        )
        warning = (
            f"Changed since an earlier try of this run: {shortened(changed)}. So nothing that it delivered (run_id "
            f"{state.run_id}) is taken for delivered: all is copied under a new run_id, {fresh.run_id}, and the "
            "target also keeps the records of the earlier try."
        )
        return fresh, replace(plan, warnings=(*plan.warnings, warning))

    def submitting(
        self,
        state: RunState,
        plan: ReplayPlan,
        now_ms: int,
        delivery: str,
        remote: RemoteJob | None = None,
        known_number: int = 0,
    ) -> RunState:
        """Remember the plan and the number of the submission, before anything is written.

        :param remote: how the next try finds the job; None if it ends with this worker.
        :param known_number: the highest one that is known, apart from that of the state.
        """
        number = next_number(max(state.submission, known_number), now_ms)
        ends, ids = state.first_targets(plan)
        return self._save(
            replace(
                state,
                submission=number,
                succeeded=False,
                untrusted_until=state.untrusted_until if delivery == EXACTLY_ONCE else number,
                plan=plan,
                reached=state.reached.and_later(plan.reached),
                target_ends=ends,
                target_ids=ids,
                submitted_at_ms=now_ms if state.submitted_at_ms is None else state.submitted_at_ms,
                application_id=state.application_id if remote is None else None,
                remote=remote,
            )
        )

    def distrusted(self, state: RunState) -> RunState:
        """Remember that the report did not prove the delivery, so that the next try looks at the target itself."""
        return self._save(replace(state, untrusted_until=state.submission, remote=None))

    def started(self, state: RunState, application_id: str) -> RunState:
        """Remember the application, so that a retry can wait for its end."""
        return self._save(replace(state, application_id=application_id))

    def finished(self, state: RunState, result: dict[str, Any], report: JobReport) -> RunState:
        """Remember that all was delivered, and the result for a retry that has nothing else to do.

        :param report: that proves it.
        """
        run_id = result["run_id"]
        return self._save(
            replace(
                state,
                run_id=run_id,
                adopts_run=False,
                is_lost=False,
                plan=None,
                remote=None,
                result=result,
                key=report.delivery_key,
                proved_ids=dict(report.target_ids),
                proved_ends=report.target_ends,
            )
        )

    def found_nothing(self, state: RunState) -> None:
        """Remember a clear without records: its success is not that of the delivery before it."""
        if state.earlier is not None:
            self._save(state)

    def _save(self, state: RunState) -> RunState:
        short = None if state.result is None else short_result(state.result)
        stored = encode(replace(state, plan=None, result=short, try_numbers=self._try_numbers), STATE_VERSION)
        self._store.set(RUN_KEY, {**stored, "plan": None if state.plan is None else state.plan.to_dict()})
        return state


def _written(state: RunState) -> int:
    """How many records the latest delivery has written."""
    if state.result is not None:
        return int(state.result["records_written"])
    return 0 if state.earlier is None else state.earlier.records


def _fresh() -> RunState:
    # Random: other writers must not be able to predict it, because a record with this id counts as delivered.
    return RunState(secrets.token_hex(8))


def _succeeding(state: RunState, item: str) -> dict[str, Any]:
    """What a new run has of the one before: numbers grow, and its drivers are fenced wherever they write."""
    return {
        "submission": state.submission,
        "instance": state.instance if state.item == item else "",
        "former_run_ids": (*state.former_run_ids, state.run_id),
    }
