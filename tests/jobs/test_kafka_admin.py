"""Committed offsets while a transaction changes them: known when it has ended, and never taken for none."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from airflow_provider_kafka_spark.core.errors import DeliveryError
from airflow_provider_kafka_spark.jobs.kafka_admin import CommittedOffset, KafkaAdmin, kafka_admin
from airflow_provider_kafka_spark.testing.broker_client import Record
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.jobs.open_commits import open_commit

pytestmark = [pytest.mark.broker, pytest.mark.spark]

#: To these metadata, librdkafka adds a zero in a transaction.
_BEFORE, _AFTER = "before", "after"


@pytest.fixture
def admin(spark: SparkSession, kafka_broker: KafkaBroker) -> Iterator[KafkaAdmin]:
    with kafka_admin(spark, {"kafka.bootstrap.servers": kafka_broker.bootstrap_servers}) as admin:
        yield admin


@pytest.mark.parametrize(("is_first", "commits"), [(True, True), (False, False)])
def test_a_transaction_is_waited_for(
    admin: KafkaAdmin, kafka_broker: KafkaBroker, topic: TopicFactory, is_first: bool, commits: bool
) -> None:
    """Whether the group has an earlier offset or none, and whatever becomes of the transaction."""
    name, group = topic(2), f"group-{uuid4().hex[:8]}"
    kafka_broker.produce(name, [Record(b"k", b"v")])
    place = (name, 0)
    earlier = {} if is_first else {place: CommittedOffset(5, f"{_BEFORE}\0")}
    if not is_first:
        with open_commit(kafka_broker, group, {name: (5, _BEFORE)}) as producer:
            producer.commit_transaction(30)
        assert admin.stable_offsets({group: [place]}) == {group: earlier}
    with open_commit(kafka_broker, group, {name: (7, _AFTER)}) as producer, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(admin.stable_offsets, {group: [place, (name, 1)], f"{group}-2": [place]})
        with pytest.raises(FutureTimeout):
            waiting.result(1)
        assert admin.committed(group) == earlier
        if commits:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)
        found = waiting.result(30)

    expected = {place: CommittedOffset(7, f"{_AFTER}\0")} if commits else earlier
    assert found == {group: expected, f"{group}-2": {}}


def test_a_transaction_that_does_not_end(
    admin: KafkaAdmin, kafka_broker: KafkaBroker, topic: TopicFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_provider_kafka_spark.jobs.kafka_admin._STABLE_SECONDS", 0.5)
    name, group = topic(), f"group-{uuid4().hex[:8]}"
    with open_commit(kafka_broker, group, {name: (7, _AFTER)}) as producer:
        with pytest.raises(DeliveryError, match=rf"open for 0 s, of group {group}\. This driver writes nothing"):
            admin.stable_offsets({group: [(name, 0)]})
        producer.abort_transaction(30)
