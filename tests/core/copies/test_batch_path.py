from __future__ import annotations

import pytest

from airflow_provider_kafka_spark.core.copies.batch_path import clients_in_the_way, targets_in_the_way
from airflow_provider_kafka_spark.core.spark.tuning import sink_defaults
from airflow_provider_kafka_spark.core.topics.broker_state import ClusterState
from airflow_provider_kafka_spark.core.topics.new_topics import NewTopic, with_new_topics


@pytest.mark.parametrize(
    ("source_options", "sink_options", "fails", "expected"),
    [
        pytest.param({}, {}, True, (), id="none"),
        pytest.param({}, {}, False, ("fail_on_data_loss=False",), id="gaps-are-permitted"),
        pytest.param(
            {}, {"kafka.compression.type": "gzip"}, True, ("kafka.compression.type=gzip in sink_options",), id="codec"
        ),
        pytest.param(
            {},
            {"kafka.compression.lz4.level": "12"},
            True,
            ("kafka.compression.lz4.level in sink_options",),
            id="level",
        ),
        pytest.param(
            {"kafka.interceptor.classes": "a.B"},
            {"kafka.interceptor.classes": "a.C"},
            True,
            ("kafka.interceptor.classes in source_options", "kafka.interceptor.classes in sink_options"),
            id="interceptors",
        ),
    ],
)
def test_options_that_need_each_record(
    source_options: dict[str, str], sink_options: dict[str, str], fails: bool, expected: tuple[str, ...]
) -> None:
    """Batches that were passed on would be as they were in the source, without a word."""
    given = {**sink_defaults(), **sink_options}
    assert clients_in_the_way(source_options, given, fail_on_data_loss=fails) == expected


def test_the_settings_of_a_target_that_will_be_created_are_known() -> None:
    target = with_new_topics(ClusterState("kafka_default", None, "", {}), [NewTopic("new", 2)])
    assert targets_in_the_way(["new"], {"new": target.topics["new"].config}) == ()
    assert "unknown" in targets_in_the_way(["other"], {})[0]
