"""Copies on the oldest broker that is supported: logins by tokens, both deliveries, a clear, and a replay."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

import pytest

from airflow_provider_kafka_spark.operators.batch import KafkaToKafkaBatchOperator
from airflow_provider_kafka_spark.operators.replay import ReplayOffsetRangesOperator
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from tests.airflow_fakes import TaskStateStore, Try, task_context
from tests.in_process_jobs import InProcessSpark

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.long]

_VERSION = "3.9.2"
_COUNT = 200


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    with KafkaBroker(version=_VERSION, sasl_users={"alice": "password-of-alice"}) as running:
        running.create_topic("orders", 2)
        running.produce("orders", [Record(b"k", b"%d" % i, partition=i % 2) for i in range(_COUNT)])
        yield running


@pytest.fixture(autouse=True)
def connections(broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    extra = broker.sasl_client_config("alice")
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps({"conn_type": "kafka", "extra": extra}))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[2]"}))


@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
@pytest.mark.parametrize("use_token", [True, False], ids=["token", "login"])
def test_a_copy_and_its_clear(
    broker: KafkaBroker, in_process_spark: InProcessSpark, delivery: str, *, use_token: bool
) -> None:
    target, store = broker.create_topic(f"copy-{delivery}-{use_token}", 2), TaskStateStore()

    def attempt(number: int) -> int:
        operator = KafkaToKafkaBatchOperator(
            task_id="copy",
            topics=["orders"],
            target_topic=target,
            delivery=delivery,
            use_delegation_token=use_token,
        )
        ti = Try(try_number=number + 1, max_tries=number)
        result = operator.execute(task_context(store, clear_number=number, ti=ti))  # type: ignore[arg-type]
        assert result["missing"] == 0
        written: int = result["records_written"]
        return written

    assert attempt(0) == _COUNT
    attempt(1)
    assert Counter(r.value for r in broker.consume(target)) == Counter(b"%d" % i for i in range(_COUNT))


def test_a_replay(broker: KafkaBroker, in_process_spark: InProcessSpark) -> None:
    ranges = ["orders:0:10:20", "orders:1:0:5"]
    operator = ReplayOffsetRangesOperator(
        task_id="replay", offset_ranges=ranges, target_topic=broker.create_topic("replay")
    )
    result = operator.execute(task_context())  # type: ignore[arg-type]

    assert (result["records_written"], result["warnings"]) == (15, [])
