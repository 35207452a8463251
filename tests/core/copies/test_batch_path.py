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
_CONFIG = {"compression.type": "producer"}
_PASSED = "Passes the source's record batches on as they are; small ones are put together."
_BYTES = "Copies records as bytes, in new batches, because of "
_SOURCE = "Reads record by record with Spark's Kafka source, because of "
_DEFAULTS: dict[str, Any] = {"provenance": Trace.HEADERS, "preserve_partition": False}
_LEVEL, _CODEC = "kafka.compression.lz4.level", "kafka.compression.type"
_CLASSES = {"kafka.interceptor.classes": "a.C", "kafka.partitioner.class": "a.P"}
_OTHERS = {"window_start_ms": 1, "schema_id_map": {"values": {"1": 2}}, "include_headers": False}
_UNKNOWN = f"{_BYTES}the settings of copy are unknown (DESCRIBE_CONFIGS on it is missing)."
#: That of a target which the task will create.
_NEW = with_new_topics(ClusterState("kafka_default", None, "", {}), [NewTopic("copy", 2)]).topics["copy"].config


def _way(
    reader: str | None = None,
    *,
    options: dict[str, str] | None = None,
    config: Any = _CONFIG,
    fail_on_data_loss: bool = True,
    **transform: Any,
) -> str:
    """What is said of a copy that changes nothing, but for what is given.

    :param config: of the target.
    """
    asked = Transform(topic="copy", **{**_PLAIN, **transform})
    sink_options = {**sink_defaults(), **(options or {})}
    return describe(reader, asked, sink_options, {"copy": config}, fail_on_data_loss=fail_on_data_loss)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param({}, _PASSED, id="unchanged"),
        pytest.param({"reader": "batches", "config": {"cleanup.policy": "compact"}}, _PASSED, id="compacted"),
        pytest.param({"config": _NEW}, _PASSED, id="target-that-will-be-created"),
        pytest.param({"reader": "source"}, f'{_SOURCE}reader="source".', id="source"),
        pytest.param(
            _DEFAULTS,
            f'{_SOURCE}provenance="headers". Many small partitions are copied as bytes.',
            id="defaults",
        ),
        pytest.param(
            {"reader": "batches", **_DEFAULTS},
            f'{_BYTES}provenance="headers", preserve_partition=False.',
            id="defaults-as-bytes",
        ),
        pytest.param({"where": "true"}, f"{_SOURCE}where.", id="sql"),
        pytest.param({"keys": ("a",)}, f"{_BYTES}keys.", id="filter"),
        pytest.param(_OTHERS, f"{_BYTES}include_headers=False, the exact window, schema_id_map.", id="several"),
        pytest.param({"options": {_CODEC: "gzip"}}, f"{_BYTES}{_CODEC}=gzip in sink_options.", id="codec"),
        pytest.param({"options": {_LEVEL: "12"}}, f"{_BYTES}{_LEVEL} in sink_options.", id="level"),
        pytest.param({"config": {"compression.type": "zstd"}}, f"{_BYTES}compression.type=zstd of copy.", id="target"),
        pytest.param({"config": {}}, _UNKNOWN, id="unknown-target"),
        pytest.param(
            {"reader": "batches", "options": _CLASSES, **_DEFAULTS},
            f"{_SOURCE}kafka.interceptor.classes in sink_options, kafka.partitioner.class in sink_options.",
            id="classes",
        ),
        # Only Spark's source permits them.
        pytest.param(
            {"reader": "batches", "fail_on_data_loss": False},
            f"{_SOURCE}fail_on_data_loss=False.",
            id="gaps-are-permitted",
        ),
    ],
)
def test_the_way_is_chosen_by_what_a_copy_does(given: dict[str, Any], expected: str) -> None:
    assert _way(**given) == expected


@pytest.mark.parametrize("sql", [{"where": "true"}, {"columns": {"value": "key"}}, {"reject_when": "true"}])
def test_batches_and_sql_contradict_each_other(sql: dict[str, Any]) -> None:
    (name,) = sql
    transform = Transform(topic="copy", provenance=Trace.NOTHING, **sql)
    with pytest.raises(InvalidInputError, match=rf"reader='batches' .* {name} needs .* Drop one of the two"):
        check_reader("batches", transform)
    check_reader("source", transform)
    check_reader(None, transform)
    assert not wants_batches(None, transform)
