from __future__ import annotations

from datetime import datetime, timezone
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest

from airflow_provider_kafka_spark.core.copies.decision import ApprovalFacts, copied_before
from airflow_provider_kafka_spark.core.copies.plan import ReplayPlan
from airflow_provider_kafka_spark.core.copies.target import Target
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRanges
from airflow_provider_kafka_spark.operators.asset_events import COPIES
from airflow_provider_kafka_spark.operators.decision import approval_facts
from tests.core.ledger.test_coverage import entry

_NOW = datetime(2026, 11, 20, tzinfo=timezone.utc)
_WINDOW = {
    "starting_offsets": "earliest",
    "ending_offsets": "latest",
    "starting_timestamp": 1_795_165_200_000,
    "ending_timestamp": None,
}


def _plan(*ranges: str, **changes: Any) -> ReplayPlan:
    given = {
        "source_cluster_id": "one",
        "target_cluster_id": "two",
        "target": Target("copy"),
        "ranges": OffsetRanges.parse(ranges),
        "topic_ids": {"orders": "id-1"},
        "partition_counts": {"orders": 2},
        "spark_partitions": 1,
    }
    return ReplayPlan(**{**given, **changes})


def _event(*ranges: str, at: datetime = _NOW, **changes: Any) -> Any:
    return SimpleNamespace(source_task_id="copy", extra=entry("a" * 16, *ranges, **changes), timestamp=at)


def test_begins_with_what_was_asked_for_and_by_whom() -> None:
    decision = ApprovalFacts(_WINDOW, ("a:9092", "b:9092"), "ada", 40)

    assert decision.items(_plan("orders:0:0:100")) == [
        ("Records", "at most 100, to copy"),
        ("Asked for", "orders from 2026-11-20T09:00:00.000+00:00 until before latest"),
        ("Asked by", "ada"),
        ("Brokers", "from a:9092 to b:9092"),
        ("Copied there before", "40 of these 100 offsets, as far as the ledger was read"),
    ]


def test_an_empty_plan_begins_with_a_warning_and_the_table_has_exact_ranges() -> None:
    items = ApprovalFacts({"offset_ranges": ["orders:0:7:7"]}, ("a:9092", "a:9092")).items(_plan("orders:0:7:7"))

    assert [name for name, _ in items] == ["Warning", "Records", "Brokers"]
    assert "nothing would be copied" in items[0][1]


@pytest.mark.parametrize(
    ("event", "count"),
    [
        (_event("orders:0:50:200"), 50),
        (_event("orders:0:0:100", target_topics=["other"]), 0),
        (_event("orders:0:0:100", source_topic_ids={"orders": "id-0"}), 0),
        (_event("orders:0:0:100", target_cluster_id="three"), 0),
        (SimpleNamespace(source_task_id=None, extra=_event("orders:0:0:100").extra), 0),
    ],
    ids=["a-part", "elsewhere", "a-topic-that-was-recreated", "another-cluster", "no-task-says-so"],
)
def test_counts_what_the_ledger_has_of_the_same_topics(event: Any, count: int) -> None:
    """Once, whatever the number of copies."""
    assert copied_before(_plan("orders:0:0:100"), [event, event]) == count


def test_without_the_ids_of_clusters_nobody_can_tell() -> None:
    assert copied_before(_plan("orders:0:0:100", source_cluster_id=""), [_event("orders:0:0:100")]) is None


def test_a_plan_is_no_worse_without_the_ledger(caplog: pytest.LogCaptureFixture) -> None:
    hook = SimpleNamespace(config=SimpleNamespace(bootstrap_servers="a:9092"))
    # Airflow's accessor asks its API when it is read.
    context = {"inlet_events": MappingProxyType({})}
    task_try = SimpleNamespace(source=hook, sink=hook, context=context, parameters=SimpleNamespace(selection=_WINDOW))

    made = approval_facts(task_try, _plan("orders:0:0:100"), [COPIES])  # type: ignore[arg-type]

    assert made.copied_before is None
    assert "the ledger could not be read: KeyError" in caplog.text


def test_an_expression_may_have_copied_the_same_offsets_to_several_topics() -> None:
    one = _event("orders:0:0:100", target_topics=["t1", "t2"], target_expr="e")
    plan = _plan("orders:0:0:400", target=Target(None, topic_expr="concat(topic, '_x')"))

    assert copied_before(plan, [one]) == 100
