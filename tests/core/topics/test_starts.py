"""A start has the same forms everywhere."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest

from airflow_provider_kafka_spark.core.errors import BoundError, InvalidInputError
from airflow_provider_kafka_spark.core.offsets.offset_range import TopicPartition
from airflow_provider_kafka_spark.core.topics.bounds import AtOffset, AtTimestamp, Bound, Earliest, Latest
from airflow_provider_kafka_spark.core.topics.starts import GroupStart, parse_any_start

MOMENT = datetime(2026, 11, 20, 10, tzinfo=timezone.utc)
AT = Bound.everywhere(AtTimestamp(int(MOMENT.timestamp()) * 1000))
OFFSETS = Bound(None, {TopicPartition("orders", 0): AtOffset(23)})


@pytest.mark.parametrize("side", ["start", "stream start"])
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("earliest", Bound.everywhere(Earliest())),
        ({"offsets": "earliest"}, Bound.everywhere(Earliest())),
        ({"orders": {"0": 23}}, OFFSETS),
        ({"offsets": {"orders": {"0": 23}}}, OFFSETS),
        ({"offsets": {"0": 23}}, Bound(None, {TopicPartition("offsets", 0): AtOffset(23)})),
        (MOMENT, AT),
        ('{"timestamp": "2026-11-20T10:00:00Z"}', AT),
        ({"group_id": "billing"}, GroupStart("billing")),
        ("group:billing", GroupStart("billing")),
    ],
)
def test_forms(side: Any, given: Any, expected: Any) -> None:
    found = parse_any_start(given, side)

    assert found == expected
    assert parse_any_start(found.to_json(), side) == expected


def test_only_a_stream_starts_at_the_latest() -> None:
    assert parse_any_start({"offsets": "latest"}) == Bound.everywhere(Latest())
    with pytest.raises(BoundError, match="would copy nothing"):
        parse_any_start("latest", "start")


@pytest.mark.parametrize("side", ["start", "stream start"])
@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("last_run", "KafkaNewRecordsSensor"),
        ("erliest", "must be 'earliest'"),
        ({"group_id": ""}, "group"),
        ({"time": 5}, "by partition"),
        (None, "moment"),
    ],
)
def test_bad_starts(side: Any, given: Any, says: str) -> None:
    with pytest.raises(InvalidInputError, match=says):
        parse_any_start(given, side)


def test_a_group_that_has_committed_nothing_is_no_start() -> None:
    start = GroupStart("billing")

    assert start.bound({TopicPartition("orders", 0): 5}).requested_for(TopicPartition("orders", 1)) == Earliest()
    with pytest.raises(BoundError, match="'billing' has not"):
        start.bound({})
