"""Copies on the oldest broker that is supported: logins by tokens, both deliveries, and a clear."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

import pytest

from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from tests.airflow_fakes import TaskStateStore, Try
from tests.operators.copy_task import Batch, execute

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


@pytest.mark.usefixtures("in_process_spark")
@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
@pytest.mark.parametrize("use_token", [True, False], ids=["token", "login"])
def test_a_copy_and_its_clear(broker: KafkaBroker, delivery: str, *, use_token: bool) -> None:
    target, store = broker.create_topic(f"copy-{delivery}-{use_token}", 2), TaskStateStore()

    def attempt(number: int) -> None:
        how = {"delivery": delivery, "use_delegation_token": use_token}
        operator = Batch(task_id="copy", topics=["orders"], target_topic=target, **how)
        ti = Try(try_number=number + 1, max_tries=number)
        result = execute(operator, store, clear_number=number, ti=ti)
        assert (result["missing"], result["records_written"]) == (0, _COUNT)

    attempt(0)
    attempt(1)
    assert Counter(r.value for r in broker.consume(target)) == Counter(b"%d" % i for i in range(_COUNT))
