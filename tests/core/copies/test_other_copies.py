from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_kafka_spark.core.copies.other_copies import FORM, form_of, other_copies
from airflow_provider_kafka_spark.core.copies.plan import ReplayPlan, Target
from airflow_provider_kafka_spark.core.ledger.entry import TaskRun
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRanges
from airflow_provider_kafka_spark.core.wire.protocol import Transform
from tests.core.ledger.test_coverage import entry

_PLAN = ReplayPlan(
    ranges=OffsetRanges.parse(["orders:0:0:100", "clicks:0:0:100"]),
    missing=(),
    source_cluster_id="one",
    target_cluster_id="two",
    topic_ids={"orders": "id-1", "clicks": "id-2"},
    partition_counts={"orders": 1, "clicks": 1},
    target=Target("copy"),
    target_ids={"copy": "id-3"},
)
_FORM = form_of(Transform(topic="copy"))


def _event(by: dict[str, Any], **changes: Any) -> Any:
    given = {
        "source_cluster_id": "one",
        "target_cluster_id": "two",
        "source_topic_ids": {"orders": "id-1", "clicks": "id-0"},
        "target_topic_ids": {"copy": "id-3"},
        "target_topics": ["copy"],
        "target_ranges": [{"topic": t, "partition": 0, "from_offset": 7, "until_offset": 9} for t in ("copy", "other")],
        FORM: _FORM,
    }
    extra = entry("a" * 16, "orders:0:50:200", "clicks:0:0:9", **given | changes)
    who = {"source_dag_id": "replay", "source_run_id": "run", "source_task_id": "task"}
    return SimpleNamespace(extra=extra, **who | by)


@pytest.mark.parametrize(
    ("by", "changes", "found"),
    [
        ({}, {}, ["orders:0:50:100"]),
        # Mapped tasks of one DAG run, and tasks after one another, are as their author wants them.
        ({"source_dag_id": "own", "source_run_id": "own"}, {}, []),
        # So are runs of one task, such as a full copy each hour that begins late.
        ({"source_dag_id": "own"}, {}, []),
        ({"source_dag_id": "own", "source_task_id": "another"}, {}, ["orders:0:50:100"]),
        ({"source_task_id": None}, {}, []),
        ({}, {"from_rest_api": True}, []),
        ({}, {"filtered": True}, []),
        ({}, {FORM: form_of(Transform(topic="copy", columns={"key": "value"}))}, []),
        ({}, {FORM: form_of(Transform(topic="elsewhere", where="offset > 3"))}, ["orders:0:50:100"]),
        ({}, {"source_cluster_id": "another"}, []),
        ({}, {"target_cluster_id": ""}, []),
        ({}, {"source_topic_ids": {}}, []),
        ({}, {"target_topic_ids": {"copy": "id-0"}}, []),
        ({}, {"target_ranges": "copy:0:7:9"}, []),
        ({}, {"topic_map": {"orders": "other"}}, []),
    ],
)
def test_what_an_event_says_of_a_plan(by: dict[str, Any], changes: dict[str, Any], found: list[str]) -> None:
    """What it does not say, or says of other topics, is not copied."""
    copies = other_copies([_event(by, **changes)], _PLAN, Transform(topic="copy"), TaskRun("own", "own", "task"))

    assert [text for copy in copies for text in copy.ranges.format()] == found
    assert {text for copy in copies for text in copy.written.format()} == ({"copy:0:7:9"} if found else set())


def test_a_copy_that_rejects_records_looks_for_no_other() -> None:
    transform = Transform(topic="copy", reject_when="offset > 3", dead_letter_topic="dead")

    assert other_copies([_event({})], _PLAN, transform, TaskRun("own", "own", "task")) == []
