from __future__ import annotations

import pytest

from airflow_provider_kafka_spark.core.streams.spark_faults import AVAILABLE_NOW_FAULTS, SparkFault, faults_of


@pytest.mark.parametrize(
    ("version", "names"),
    [
        pytest.param("3.2.4", [], id="before-availableNow"),
        pytest.param("3.3.0", ["SPARK-53560"], id="first-with-it"),
        pytest.param("4.0.1", ["SPARK-53560"], id="last-with-it"),
        pytest.param("4.0.2", [], id="fixed"),
        pytest.param("4.1.0", ["SPARK-55271"], id="first-with-the-other"),
        pytest.param("4.1.1", ["SPARK-55271"], id="last-with-the-other"),
        pytest.param("4.1.2", [], id="fixed-too"),
        pytest.param("4.0.0-amzn-1", ["SPARK-53560"], id="a-vendors"),
        pytest.param("3.10.0", ["SPARK-53560"], id="by-number-not-by-text"),
        pytest.param("", [], id="unknown"),
    ],
)
def test_knows_the_faults_of_a_version(version: str, names: list[str]) -> None:
    assert [fault.name for fault in faults_of(version)] == names


@pytest.mark.parametrize("fault", AVAILABLE_NOW_FAULTS, ids=lambda fault: fault.name)
def test_a_fault_says_what_it_does_and_where_it_is_reported(fault: SparkFault) -> None:
    shown = str(fault)

    assert fault.first <= fault.last
    for part in (fault.name, ".".join(map(str, fault.first)), ".".join(map(str, fault.last)), fault.what):
        assert part in shown
    assert shown.endswith(f"See {fault.source}.")
    assert fault.source == f"https://issues.apache.org/jira/browse/{fault.name}"
