"""Promises of :mod:`~airflow_provider_kafka_spark.core.conditions.since`: every form that an author may write, and one
clear error for every other.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_provider_kafka_spark.core.conditions.since import (
    Since,
    SinceCheckpoint,
    SinceGroup,
    SinceOffsets,
    SinceTimestamp,
    names_location,
    parse_since,
)
from airflow_provider_kafka_spark.core.errors import BoundError
from airflow_provider_kafka_spark.core.offsets.offset_range import TopicPartition
from airflow_provider_kafka_spark.core.topics.bounds import AtOffset, Bound, Earliest
from tests.core.refusals import refuses

NOON = 1_795_176_000_000


def offsets(**by_partition: int) -> SinceOffsets:
    """``offsets(orders_0=23)``."""
    named = {
        TopicPartition(name.rpartition("_")[0], int(name.rpartition("_")[2])): AtOffset(offset)
        for name, offset in by_partition.items()
    }
    return SinceOffsets(Bound(Earliest(), named))


RANGES = [
    {"topic": "orders", "partition": 0, "from_offset": 10, "until_offset": 23},
    {"topic": "orders", "partition": 0, "from_offset": 0, "until_offset": 7},
    {"topic": "orders", "partition": 1, "from_offset": 5, "until_offset": 5},
]

FORMS = [
    pytest.param({"orders": {"0": 23}}, offsets(orders_0=23), id="spark-offsets"),
    pytest.param({"offsets": {"orders": {"0": 23}}}, offsets(orders_0=23), id="named-offsets"),
    pytest.param({"offsets": RANGES}, offsets(orders_0=23, orders_1=5), id="named-ranges"),
    pytest.param({"offsets": {"0": 23}}, offsets(offsets_0=23), id="a-topic-called-offsets"),
    pytest.param(RANGES, offsets(orders_0=23, orders_1=5), id="ranges"),
    pytest.param(
        {"version": 1, "run_id": "r", "ranges": [{**RANGES[0], "records_read": 13, "records_written": 13}]},
        offsets(orders_0=23), id="a-result",
    ),
    pytest.param(
        {"ranges": [{"topic": "orders", "partition": 0, "from_offset": 10, "until_offset": 23}],
         "source_topic_ids": {"orders": "id-1"}},
        SinceOffsets(Bound(Earliest(), {TopicPartition("orders", 0): AtOffset(23)}), {"orders": "id-1"}),
        id="result-with-topic-ids",
    ),
    pytest.param("earliest", SinceOffsets(Bound(Earliest(), {})), id="earliest"),
    pytest.param({"group_id": "copy"}, SinceGroup("copy"), id="named-group"),
    pytest.param("group:copy", SinceGroup("copy"), id="group"),
    pytest.param({"checkpoint_location": "/data/c"}, SinceCheckpoint("/data/c"), id="named-checkpoint"),
    pytest.param("/data/c", SinceCheckpoint("/data/c"), id="checkpoint-path"),
    pytest.param(
        {
            "checkpoint_location": "/data/c", "if_missing": "earliest",
        }, SinceCheckpoint("/data/c", True), id="checkpoint-or-earliest"
    ),
    pytest.param(" s3a://bucket/c ", SinceCheckpoint("s3a://bucket/c"), id="checkpoint-uri"),
    pytest.param("2026-11-20T13:00:00+01:00", SinceTimestamp(NOON), id="iso"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "expected"), FORMS)
def test_reads_every_form(value: Any, expected: Since) -> None:
    assert parse_since(value) == expected == parse_since(json.loads(json.dumps(expected.to_json())))


@pytest.mark.parametrize(
    ("value", "fragment"),
    [
        pytest.param(None, "NoneType", id="nothing"),
        pytest.param("latest", "'latest'", id="latest"),
        pytest.param({"ranges": []}, "at least one", id="a-result-without-ranges"),
        pytest.param({"orders": {"0": -1}}, "-1", id="latest-as-number"),
        pytest.param('{"orders": {"0": 1, "0": 2}}', "twice", id="repeated-key"),
        pytest.param("{'orders': {'0': 1}}", "not JSON", id="python-not-json"),
        pytest.param({"group_id": ""}, "group_id", id="empty-group"),
        pytest.param({"checkpoint_location": " "}, "checkpoint_location", id="blank-checkpoint"),
        pytest.param({"checkpoint_location": "/c", "if_missing": "latest"}, "if_missing", id="checkpoint-or-what"),
        pytest.param({"timestamp": "soon"}, "soon", id="no-timestamp"),
    ],
)
def test_refuses_anything_else(value: Any, fragment: str) -> None:
    with refuses(BoundError, "since must be {'offsets'", f"got {value!r}", fragment):
        parse_since(value)


@pytest.mark.parametrize("value", ["sftp://etl:hunter22@h/c", {"checkpoint_location": "s3://b/c?secret=hunter22"}])
def test_a_location_with_a_password_is_not_quoted(value: Any) -> None:
    with refuses(BoundError, "checkpoint_location in since must have no password") as refused:
        parse_since(value)
    assert "hunter22" not in str(refused.value)


@pytest.mark.parametrize(
    ("written", "names"),
    [
        ("/data/{{ ds }}", True),
        ("s3a://bucket/{{ params.place }}", True),
        ({"checkpoint_location": "{{ params.place }}", "if_missing": "earliest"}, True),
        ({"last_run": {"checkpoint_location": "/c"}}, True),
        ('{"checkpoint_location": "/c"}', True),
        ("{{ params.since }}", False),
        ("group:billing", False),
        ({"last_run": "earliest"}, False),
        ({"offsets": {"orders": {"0": 1}}}, False),
        (object(), False),
    ],
)
def test_only_the_dag_file_names_a_checkpoint(written: object, names: bool) -> None:
    assert names_location(written) is names
