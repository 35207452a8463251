from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_kafka_spark.core.copies.batch_path import check_reader, describe, wants_batches
from airflow_provider_kafka_spark.core.errors import InvalidInputError
from airflow_provider_kafka_spark.core.records.trace import Trace
from airflow_provider_kafka_spark.core.spark.tuning import sink_defaults
from airflow_provider_kafka_spark.core.topics.broker_state import ClusterState
from airflow_provider_kafka_spark.core.topics.new_topics import NewTopic, with_new_topics
from airflow_provider_kafka_spark.core.wire.protocol import Transform

_PLAIN: dict[str, Any] = {"provenance": Trace.NOTHING, "preserve_partition": True}
_KNOWN = {"copy": {"compression.type": "producer"}}
_PASSED = "Passes the source's record batches on as they are; small ones are put together."
_BYTES = "Copies records as bytes, in new batches, because of "
_SOURCE = "Reads record by record with Spark's Kafka source, because of "


@pytest.mark.parametrize(
    ("reader", "transform", "options", "configs", "expected"),
    [
        pytest.param(None, _PLAIN, {}, _KNOWN, _PASSED, id="unchanged"),
        pytest.param("batches", _PLAIN, {}, {"copy": {"cleanup.policy": "compact"}}, _PASSED, id="compacted"),
        pytest.param("source", _PLAIN, {}, _KNOWN, f'{_SOURCE}reader="source".', id="source"),
        pytest.param(
            None,
            {},
            {},
            _KNOWN,
            f'{_SOURCE}provenance="headers". Many small partitions are copied as bytes.',
            id="defaults",
        ),
        pytest.param(
            "batches",
            {},
            {},
            _KNOWN,
            f'{_BYTES}provenance="headers", preserve_partition=False.',
            id="defaults-as-bytes",
        ),
        pytest.param(None, {**_PLAIN, "where": "true"}, {}, _KNOWN, f"{_SOURCE}where.", id="sql"),
        pytest.param(None, {**_PLAIN, "keys": ("a",)}, {}, _KNOWN, f"{_BYTES}keys.", id="filter"),
        pytest.param(
            None,
            {**_PLAIN, "window_start_ms": 1, "schema_id_map": {"values": {"1": 2}}, "include_headers": False},
            {},
            _KNOWN,
            f"{_BYTES}include_headers=False, the exact window, schema_id_map.",
            id="several",
        ),
        pytest.param(
            None,
            _PLAIN,
            {"kafka.compression.type": "gzip"},
            _KNOWN,
            f"{_BYTES}kafka.compression.type=gzip in sink_options.",
            id="codec",
        ),
        pytest.param(
            None,
            _PLAIN,
            {"kafka.compression.lz4.level": "12"},
            _KNOWN,
            f"{_BYTES}kafka.compression.lz4.level in sink_options.",
            id="level",
        ),
        pytest.param(
            None,
            _PLAIN,
            {},
            {"copy": {"compression.type": "zstd"}},
            f"{_BYTES}compression.type=zstd of copy.",
            id="target",
        ),
        pytest.param(
            None,
            _PLAIN,
            {},
            {"copy": {}},
            f"{_BYTES}the settings of copy are unknown (DESCRIBE_CONFIGS on it is missing).",
            id="unknown-target",
        ),
        pytest.param(
            "batches",
            {},
            {"kafka.interceptor.classes": "a.C", "kafka.partitioner.class": "a.P"},
            _KNOWN,
            f"{_SOURCE}kafka.interceptor.classes in sink_options, kafka.partitioner.class in sink_options.",
            id="classes",
        ),
    ],
)
def test_the_way_is_chosen_by_what_a_copy_does(
    reader: str | None, transform: dict[str, Any], options: dict[str, str], configs: Any, expected: str
) -> None:
    given = {**sink_defaults(), **options}
    assert (
        describe(reader, Transform(topic="copy", **transform), ({}, given), configs, fail_on_data_loss=True) == expected
    )


def test_gaps_are_permitted_by_sparks_source_only() -> None:
    text = describe("batches", Transform(topic="copy"), ({}, {}), _KNOWN, fail_on_data_loss=False)
    assert text == f"{_SOURCE}fail_on_data_loss=False."


@pytest.mark.parametrize("sql", [{"where": "true"}, {"columns": {"value": "key"}}, {"reject_when": "true"}])
def test_batches_and_sql_contradict_each_other(sql: dict[str, Any]) -> None:
    (name,) = sql
    transform = Transform(topic="copy", provenance=Trace.NOTHING, **sql)
    with pytest.raises(InvalidInputError, match=rf"reader='batches' .* {name} needs .* Drop one of the two"):
        check_reader("batches", transform)
    check_reader("source", transform)
    check_reader(None, transform)
    assert not wants_batches(None, transform)


def test_the_settings_of_a_target_that_will_be_created_are_known() -> None:
    target = with_new_topics(ClusterState("kafka_default", None, "", {}), [NewTopic("copy", 2)])
    configs = {"copy": target.topics["copy"].config}
    assert describe(None, Transform(topic="copy", **_PLAIN), ({}, {}), configs, fail_on_data_loss=True) == _PASSED
