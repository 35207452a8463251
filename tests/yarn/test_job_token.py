"""A job on YARN that logs in with a delegation token of the worker's, where Spark itself has no Kerberos to obtain one by."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airflow_provider_kafka_spark.hooks.delegation_token import DelegationTokenHook
from airflow_provider_kafka_spark.operators.replay import ReplayOffsetRangesOperator
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from airflow_provider_kafka_spark.testing.yarn_cluster import YarnCluster
from tests.airflow_fakes import task_context

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.timeout(300)]


@pytest.fixture
def secured() -> Iterator[KafkaBroker]:
    with KafkaBroker(sasl_users={"alice": "password-of-alice"}) as broker:
        for name in ("orders", "copy"):
            broker.create_topic(name, 2)
        broker.produce("orders", [Record(b"k", b"v%d" % i, partition=i % 2) for i in range(100)])
        yield broker


def test_driver_and_executors_log_in_by_the_token(
    secured: KafkaBroker,
    yarn_cluster: YarnCluster,
    connection: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """In cluster mode, on other machines than the worker's; and the token has ended with the job."""
    for name, value in {**yarn_cluster.environment(), "PYSPARK_PYTHON": sys.executable}.items():
        monkeypatch.setenv(name, value)
    connection("spark_default", conn_type="spark", host="yarn", extra={"deploy-mode": "cluster"})
    connection("kafka_default", extra=secured.sasl_client_config("alice"))
    operator = ReplayOffsetRangesOperator(
        task_id="t",
        offset_ranges=["orders:0:0:50", "orders:1:0:50"],
        target_topic="copy",
        use_delegation_token=True,
        report_location=tmp_path.as_uri(),
        conf=yarn_cluster.spark_conf(),
        num_executors=1,
        driver_memory="512m",
        executor_memory="512m",
        name="token-on-yarn",
    )
    result = operator.execute(task_context())  # type: ignore[arg-type]

    assert result["records_written"] == 100
    assert len(secured.consume("copy")) == 100
    with DelegationTokenHook() as hook:
        assert hook.describe() == []
