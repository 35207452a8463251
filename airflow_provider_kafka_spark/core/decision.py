"""What the one who approves a plan needs first: what was asked for and by whom, how much it is, and what may be wrong.
No I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from airflow_provider_kafka_spark.core.ledger import Coverage, Delivery, coverage, entries_in, select
from airflow_provider_kafka_spark.core.offset_range import OffsetRanges
from airflow_provider_kafka_spark.core.plan import ReplayPlan, shortened


@dataclass(frozen=True, slots=True)
class Decision:
    """The facts beside the plan.

    :param records: the parameters that say which records were asked for, as ``CopyParameters.records`` has them.
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
    of_tasks = (event for event in events if event.source_task_id is not None)
    found = (Delivery.parse(entry) for event in of_tasks for entry in entries_in(event.extra))
    deliveries, copied = [d for d in found if d is not None], OffsetRanges()
    for topic in sorted({r.topic for r in plan.ranges}):
        wanted = OffsetRanges(r for r in plan.ranges.without_empty() if r.topic == topic)
        targets: list[str | None] = [*plan.target.routes([topic])]
        for target in targets or [None]:
            of_target = select(
                deliveries,
                topic,
                source=plan.source_cluster_id,
                target=plan.target_cluster_id,
                target_topic=target,
                topic_id=plan.topic_ids.get(topic),
            )
            stretches = coverage(of_target, wanted)
            there = [s.offsets for s in stretches if s.coverage in (Coverage.COVERED, Coverage.DOUBLED)]
            copied = OffsetRanges([*copied, *there]).merge()
    return copied.total


def _moment(ms: int | None) -> str:
    """A time as forms and logs show it; empty for None."""
    return "" if ms is None else datetime.fromtimestamp(ms / 1000, timezone.utc).isoformat(timespec="milliseconds")
