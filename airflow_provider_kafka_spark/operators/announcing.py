"""What a copy returns and announces: its entry in the ledger, its asset events, its lineage and its metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk.bases import operator as airflow_operator
from airflow.sdk.exceptions import AirflowSkipException

from airflow_provider_kafka_spark.core.copies.copy_parameters import CopyParameters
from airflow_provider_kafka_spark.core.copies.verification import totals
from airflow_provider_kafka_spark.core.offsets.compact_result import short_result
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, OffsetRanges
from airflow_provider_kafka_spark.core.shown_text import first_ten
from airflow_provider_kafka_spark.core.topics.known_topics import KnownTopics
from airflow_provider_kafka_spark.core.wire.protocol import EarlierDelivery
from airflow_provider_kafka_spark.metrics import count_copy
from airflow_provider_kafka_spark.operators.asset_events import (
    LEDGER_OUTLETS,
    announce,
    outlets_with_ledger,
    record_without_records,
)
from airflow_provider_kafka_spark.operators.decision import show_warnings
from airflow_provider_kafka_spark.operators.deferral import DeferrableOperator
from airflow_provider_kafka_spark.operators.ledger import TaskLedger
from airflow_provider_kafka_spark.state.task_state import remember_success
from airflow_provider_kafka_spark.submission.expression_check import compile_expressions

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage
    from airflow.sdk import Context
    from airflow.sdk.definitions.mappedoperator import OperatorPartial

    from airflow_provider_kafka_spark.core.copies.plan import ReplayPlan
    from airflow_provider_kafka_spark.core.copies.planned_copy import PlannedCopy
    from airflow_provider_kafka_spark.operators.task_try import TaskTry


class AnnouncingOperator(DeferrableOperator):
    """The base of operators whose copies are in the ledger.

    :param outlets: Airflow's outlets; the ledger's asset ``COPIES`` is added to them.
    """

    #: A parameter of all subclasses.
    on_empty: str

    def __init__(self, *, outlets: Any = LEDGER_OUTLETS, **kwargs: Any) -> None:
        super().__init__(outlets=outlets_with_ledger(outlets), **kwargs)
        # The author's own may take longer than Airflow waits for callbacks ([core] task_success_overtime).
        self.on_success_callback = [remember_success, *self.on_success_callback]
        self._lineage_entry: Mapping[str, Any] | None = None

    @classmethod
    def partial(cls, **kwargs: Any) -> OperatorPartial:
        """Airflow's method: a mapped task has the ledger among its outlets before there is an operator."""
        made = super().partial(**kwargs)
        given = made.kwargs.get("outlets")
        # Airflow 3.3.1 has its own default there, and not that of the operator.
        is_given = given is not getattr(airflow_operator, "OPERATOR_DEFAULTS", {}).get("outlets")
        made.kwargs["outlets"] = outlets_with_ledger(given if is_given else None)
        return made

    def get_openlineage_facets_on_start(self) -> OperatorLineage[Any, Any] | None:
        """Nothing yet: a task plans while it runs."""
        return None

    def get_openlineage_facets_on_complete(self, ti: Any) -> OperatorLineage[Any, Any] | None:  # noqa: ARG002 - Airflow's
        """The topics, records and offset ranges of this task, for Airflow's OpenLineage provider."""
        from airflow_provider_kafka_spark.operators.lineage import lineage_of

        return lineage_of(self._lineage_entry)

    def get_openlineage_facets_on_failure(self, ti: Any) -> OperatorLineage[Any, Any] | None:
        """The topics of this task, and what of them is known to be committed."""
        return self.get_openlineage_facets_on_complete(ti)

    def _note_lineage(self, entry: Mapping[str, Any]) -> None:
        self._lineage_entry = entry

    def _ledger(self, context: Context, parameters: CopyParameters) -> TaskLedger:
        return TaskLedger(context, self.task_id, parameters, self._note_lineage)

    def _done(
        self,
        context: Context,
        ledger: TaskLedger,
        result: dict[str, Any],
        earlier: EarlierDelivery | None = None,
    ) -> dict[str, Any]:
        """The end of a task that has copied.

        :param earlier: what it delivered before it was cleared: no asset event announces the same records twice.
        """
        entry, is_news = dict(ledger.complete(result)), True
        if earlier is not None and earlier.announced:
            unannounced = OffsetRanges(map(OffsetRange.parse, result["target_ranges"])).subtract(earlier.announced)
            entry["target_ranges"] = KnownTopics.of_ranges(result["target_ranges"]).dicts(unannounced)
            is_news = bool(unannounced)
        if is_news and (result["records_written"] or result.get("finished_before")):
            announce(context, self, entry)
        elif any(not OffsetRange.parse(text).is_empty for text in (*entry["offset_ranges"], *entry["missing_ranges"])):
            self.outlets = record_without_records(context, self.outlets, entry)
        else:
            self._suppress_asset_events()
        count_copy(context, result)
        self.log.info("%s", totals(result))
        return short_result(result)

    def _skip_if_empty(self, plan: ReplayPlan) -> None:
        """:raises AirflowSkipException: if there was nothing to copy, nothing is missing, and ``on_empty`` says so."""
        if plan.is_empty and not plan.missing and self.on_empty == "skip":
            raise AirflowSkipException("No records in the requested ranges; on_empty='skip'.")

    def _return_stored_result(
        self,
        context: Context,
        ledger: TaskLedger,
        result: dict[str, Any],
        earlier: EarlierDelivery | None = None,
    ) -> dict[str, Any]:
        self.log.info(
            "An earlier try of this run delivered everything, and failed only after that. Its result is returned; "
            "Spark is not started."
        )
        return self._done(context, ledger, result, earlier)

    def _done_planning(self, task_try: TaskTry, planned: PlannedCopy, result: dict[str, Any]) -> dict[str, Any]:
        """The end of a task that only planned.

        :raises ExpressionError: if Spark refuses an expression.
        """
        self._suppress_asset_events()
        unchecked = compile_expressions(task_try.spark.cluster, planned.transform)
        show_warnings(result, unchecked)
        if self.use_delegation_token:
            unchecked.append("Only the copy creates delegation tokens, and knows whether they live long enough.")
        if planned.stream is not None:
            unchecked.append("Only the copy takes the checkpoint, which another run may be using.")
        result["warnings"][-1:-1] = unchecked
        # The table of the plan has the others. PLAN_ONLY is the last one.
        for warning in first_ten(result["warnings"][len(planned.plan.warnings) :]):
            self.log.warning("%s", warning)
        return short_result(result)

    def _suppress_asset_events(self) -> None:
        # Airflow emits an event for each outlet of the running task, which is a copy of the DAG's task.
        self.outlets = []
