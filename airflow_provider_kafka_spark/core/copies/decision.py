"""What an approver of a plan needs first: what is requested and by whom, how much it is, and what may be wrong.

No I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_kafka_spark.core.copies.plan import ReplayPlan
from airflow_provider_kafka_spark.core.ledger.coverage import Coverage
from airflow_provider_kafka_spark.core.ledger.entry import deliveries_of_event
from airflow_provider_kafka_spark.core.ledger.pairs import pairs_of
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRanges
from airflow_provider_kafka_spark.core.shown_text import moment, shortened

_THERE = (Coverage.COVERED, Coverage.DUPLICATED)


@dataclass(frozen=True, slots=True)
class ApprovalFacts:
    """The facts beside the plan.

    :param records: the parameters that say which records were asked for, as ``CopyParameters.selection`` has them.
    :param brokers: bootstrap servers of the source and of the target.
    :param asked_by: who has triggered the DAG run; empty if Airflow does not say.
    :param copied_before: of the plan's offsets, those that the ledger knows as copied to these targets; None if it was
        not asked.
    """

    records: Mapping[str, Any]
    brokers: tuple[str, str]
    asked_by: str = ""
    copied_before: int | None = None

    def items(self, plan: ReplayPlan) -> list[tuple[str, str]]:
        """Names and texts, the first one first."""
        source, target = self.brokers
        items = [
            ("Records", f"at most {plan.planned_records:,}, to {plan.target}"),
            *([("Asked for", asked)] if (asked := self._asked(plan)) else []),
            *([("Asked by", self.asked_by)] if self.asked_by else []),
            ("Brokers", source if source == target else f"from {source} to {target}"),
        ]
        if plan.is_empty:
            warning = "nothing would be copied, since no record lies in what was asked for. Compare it with the topic."
            items.insert(0, ("Warning", warning))
        if self.copied_before is not None:
            text = f"{self.copied_before:,} of these {plan.planned_records:,} offsets, as far as the ledger was read"
            items.append(("Copied there before", text))
        return items

    def _asked(self, plan: ReplayPlan) -> str:
        """In the words of the parameters; empty for exact ranges, which the table has."""
        given = self.records
        if "starting_offsets" not in given:
            return ""
        edges = ("starting", "ending")
        start, end = (_moment(given[f"{edge}_timestamp"]) or f"{given[f'{edge}_offsets']}" for edge in edges)
        topics = shortened(sorted({r.topic for r in plan.ranges}))
        return f"{topics or 'no topic'} from {start} until before {end}"


def copied_before(plan: ReplayPlan, events: Iterable[Any]) -> int | None:
    """How many offsets of a plan were copied to one of its targets before.

    :param events: asset events of the ledger.
    :return: None if that cannot be told, since brokers do not name their cluster.
    """
    if not plan.source_cluster_id or not plan.target_cluster_id:
        return None
    of_tasks = [event for event in events if event.source_task_id is not None]
    found = [d for event in of_tasks for d in deliveries_of_event(event.extra, at=event.timestamp)[0]]
    now = {(plan.target_cluster_id, name): topic_id for name, topic_id in plan.target_ids.items()}
    copied = OffsetRanges()
    for topic in sorted({r.topic for r in plan.ranges}):
        wanted = OffsetRanges(r for r in plan.ranges.without_empty() if r.topic == topic)
        targets = plan.target.routes([topic])
        for pair in pairs_of(found, topic, topic_id=plan.topic_ids.get(topic), target_ids=now)[0]:
            is_between = plan.source_cluster_id in pair.sources and plan.target_cluster_id in pair.targets
            if is_between and (not targets or pair.target_topic in targets):
                there = OffsetRanges(s.offsets for s in pair.stretches(wanted) if s.coverage in _THERE)
                copied = copied.merge(there)
    return copied.total


def _moment(ms: int | None) -> str:
    """A time as forms and logs show it; empty for None."""
    return "" if ms is None else moment(ms)
