"""The ledger's entry of one task: in the task's state while it runs and when it fails, in its asset events when it has
delivered.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from airflow_provider_kafka_spark.clients.committed_progress import delivered_by_progress
from airflow_provider_kafka_spark.core.copies.copy_parameters import CopyParameters
from airflow_provider_kafka_spark.core.copies.other_copies import FORM, form_of
from airflow_provider_kafka_spark.core.copies.planned_copy import PlannedCopy
from airflow_provider_kafka_spark.core.errors import BrokerError, KafkaSparkError
from airflow_provider_kafka_spark.core.ledger.coverage import Coverage, coverage, picture
from airflow_provider_kafka_spark.core.ledger.entry import ENTRY_VERSION, STATE_KEY, Delivery, EntryState
from airflow_provider_kafka_spark.core.ledger.log_look import LogLook
from airflow_provider_kafka_spark.core.offsets.compact_result import short_entry
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, OffsetRanges
from airflow_provider_kafka_spark.core.wire.evidence import CopyEvidence
from airflow_provider_kafka_spark.core.wire.protocol import Transform
from airflow_provider_kafka_spark.hooks.kafka import KafkaHook
from airflow_provider_kafka_spark.state.task_state import TaskState

if TYPE_CHECKING:
    from airflow.sdk import Context

log = logging.getLogger(__name__)

#: Seconds for a request to a broker when a task has failed: its end must not be delayed much.
_TIMEOUT = 10.0
#: Where a task's state has what the logs had at the last look.
_LOOK_KEY = "log_look"


class TaskLedger:
    """The entry of one operator in one task instance.

    :param context: of the running task.
    :param task_id: of the operator.
    :param on_save: called with each entry after it is stored.
    """

    def __init__(
        self,
        context: Context,
        task_id: str,
        parameters: CopyParameters,
        on_save: Callable[[Mapping[str, Any]], None] | None = None,
    ) -> None:
        self._context = context
        self._on_save = on_save
        self._store = TaskState(context, task_id)
        self._parameters = parameters
        self._look: LogLook | None = None
        #: The first bootstrap server of each connection.
        self._servers: dict[str, str] = {}

    def looked(self, planned: PlannedCopy) -> None:
        """Keep what the logs had for the entries of this try, and of one that returns its result."""
        self._look = planned.look
        if planned.look is not None and not planned.plan.is_empty:
            self._store.save(_LOOK_KEY, planned.look)

    @contextmanager
    def running(
        self,
        planned: PlannedCopy,
        delivered: Callable[[], OffsetRanges] | None = None,
        before: OffsetRanges | None = None,
    ) -> Iterator[None]:
        """Store what is planned, for the time within, and what of it is delivered if that fails.

        :param delivered: what of a failed run has been delivered; by default, what its committed progress says.
        :param before: what earlier tries have delivered that is not in the plan any more.
        """
        before = before or OffsetRanges()
        self._save(self._of_plan(planned, EntryState.RUNNING, before))
        try:
            yield
        except Exception as error:
            # A broker that did not answer the task does not answer this.
            if not isinstance(error, BrokerError):
                self._fail(planned, delivered or (lambda: self._committed(planned)), before)
            raise

    def complete(self, result: Mapping[str, Any]) -> dict[str, Any]:
        """The entry of a delivery, for asset events; the task's state has it too."""
        evidence = CopyEvidence.from_dict(result["evidence"])
        ranges = [OffsetRange.parse(r) for r in (*result.get("finished_before", ()), *result["ranges"])]
        written = [*result.get("written_before", ()), *result["target_ranges"]]
        entry = {
            **self._head(EntryState.COMPLETE, result["run_id"], ranges),
            **self._logs(OffsetRanges.parse(written, merge_overlaps=True)),
            "records_read": result["records_read"],
            "records_written": result["records_written"],
            "missing_ranges": _texts(map(OffsetRange.parse, result["missing_ranges"])),
            **_done_with_records(evidence.transform),
            "target_topics": result["target_topics"],
            "target_ranges": written,
            **({"segments": result["segments"]} if "segments" in result else {}),
            **({"bytes_written": result["bytes_written"]} if _has_all_bytes(result) else {}),
            "source_cluster_id": evidence.source_cluster_id,
            "target_cluster_id": evidence.target_cluster_id,
            "source_topic_ids": result["source_topic_ids"],
            "target_topic_ids": dict(evidence.target_ids),
            "seconds": result["seconds"],
        }
        self._save(entry)
        return entry

    def _fail(self, planned: PlannedCopy, delivered: Callable[[], OffsetRanges], before: OffsetRanges) -> None:
        """Store what is known of a failed run."""
        known = before
        # Nothing may hide why the task has failed.
        try:
            known = before.merge(delivered())
        except Exception as error:  # noqa: BLE001 - whatever it was
            log.debug("What the failed run has delivered could not be found out: %r", error)
        try:
            entry = self._of_plan(planned, EntryState.PARTIAL, known)
            self._save(entry)
            delivery = Delivery.parse(entry, is_active=False)
            if known and delivery is not None:
                names = {Coverage.COVERED: "delivered", Coverage.FAILED: "for a retry, or a clear"}
                log.info("What the run has delivered:\n%s", picture(coverage([delivery]), names=names))
        except Exception as error:  # noqa: BLE001 - whatever it was
            log.warning("The ledger has no entry of this failure: %r", error)

    def _committed(self, planned: PlannedCopy) -> OffsetRanges:
        parameters, plan = planned.parameters, planned.plan
        if not parameters.is_exactly_once or not parameters.known_targets:
            return OffsetRanges()
        earlier = planned.earlier
        finished = planned.ranges if earlier is None else earlier.ranges
        targets = parameters.known_targets
        with KafkaHook(parameters.target_connection, _TIMEOUT) as sink:
            return delivered_by_progress(
                sink, planned.instance, planned.run_id, targets, planned.ranges, plan.topic_ids, finished
            )

    def _of_plan(self, planned: PlannedCopy, state: EntryState, delivered: OffsetRanges) -> dict[str, Any]:
        plan = planned.plan
        return {
            **self._head(state, planned.run_id, delivered),
            **self._logs(),
            "planned_ranges": plan.ranges.merge().format(),
            "records_written": 0,
            "missing_ranges": _texts(m.offset_range for m in plan.missing),
            **_done_with_records(planned.transform),
            "target_topics": [name for name in plan.target_topics if name != plan.target.dead_letters],
            "source_cluster_id": plan.source_cluster_id or "",
            "target_cluster_id": plan.target_cluster_id or "",
            "source_topic_ids": dict(plan.topic_ids),
            "target_topic_ids": dict(plan.target_ids),
        }

    def _head(self, state: EntryState, run_id: str, delivered: Iterable[OffsetRange]) -> dict[str, Any]:
        started = getattr(self._context["ti"], "start_date", None)
        return {
            "version": ENTRY_VERSION,
            "state": state.value,
            "run_id": run_id,
            "offset_ranges": [r.format() for r in delivered],
            "source": self._server_of(self._parameters.source_conn_id),
            "target": self._server_of(self._parameters.target_connection),
            "started_at": None if started is None else started.isoformat(),
            "try_number": getattr(self._context["ti"], "try_number", None),
        }

    def _logs(self, written: OffsetRanges | None = None) -> dict[str, Any]:
        look = self._look or self._store.load(_LOOK_KEY, LogLook)
        return {} if look is None else look.to_entry(written or OffsetRanges())

    def _server_of(self, conn_id: str) -> str:
        """The first bootstrap server of a connection, as ``host:port``; empty if the connection is gone."""
        if conn_id not in self._servers:
            try:
                self._servers[conn_id] = KafkaHook(conn_id).config.bootstrap_servers.split(",")[0].strip()
            except KafkaSparkError as error:
                log.warning("The ledger does not have the server of connection %r: %s", conn_id, error)
                return ""
        return self._servers[conn_id]

    def _save(self, entry: Mapping[str, Any]) -> None:
        self._store.publish(STATE_KEY, short_entry(entry))
        if self._on_save is not None:
            self._on_save(entry)


def _done_with_records(transform: Transform) -> dict[str, Any]:
    filtered = transform.drops_records or transform.reject_when is not None
    return {"filtered": filtered, **_routes(transform), FORM: form_of(transform)}


def _routes(transform: Transform) -> dict[str, Any]:
    """What decides to which target a record goes, if there may be several. An expression is only told from others."""
    if transform.topic_expr is not None:
        return {"target_expr": hashlib.sha256(transform.topic_expr.encode()).hexdigest()[:16]}
    return {"topic_map": dict(transform.topic_map)} if transform.topic_map else {}


def _has_all_bytes(result: Mapping[str, Any]) -> bool:
    """Whether ``bytes_written`` is of all records that were written: it does not have those of earlier tries."""
    return "bytes_written" in result and not result["delivered_before"] and not result.get("finished_before")


def _texts(ranges: Iterable[OffsetRange]) -> list[str]:
    return [r.format() for r in ranges if not r.is_empty]
