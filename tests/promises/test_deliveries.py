"""Each delivery in each layout of the writer: a try fails at a record, and what its retry adds is as documented.

No other file has all of them in one table.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

from airflow_provider_kafka_spark.core.parameters import DELIVERIES, EXACTLY_ONCE
from airflow_provider_kafka_spark.core.provenance import PROVENANCE_HEADER
from airflow_provider_kafka_spark.operators.batch import KafkaToKafkaBatchOperator
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.airflow_fakes import TaskStateStore, Try, task_context

pytestmark = [pytest.mark.broker, pytest.mark.spark]


@pytest.mark.parametrize("delivery", DELIVERIES)
@pytest.mark.parametrize(
    ("provenance", "by_batches"),
    [("headers", False), ("segments", False), ("segments", True), (None, False), (None, True)],
)
@pytest.mark.usefixtures("in_process_spark")
def test_a_copy_and_its_retry(
    kafka: KafkaBroker,
    topic: TopicFactory,
    monkeypatch: pytest.MonkeyPatch,
    delivery: str,
    provenance: str | None,
    by_batches: bool,
) -> None:
    monkeypatch.setattr("airflow_provider_kafka_spark.jobs.write.COMMIT_RECORDS", 20)
    source, target = topic(2, suffix="source"), topic(2, {"max.message.bytes": "20000"}, suffix="target")
    for first, last in ((0, 100), (100, 101), (101, 120)):
        value = os.urandom(50_000) if first == 100 else b"v"
        records = [Record(b"%d" % i, value, (("h", None), ("h", b"2")), 10**12 + i, i % 2) for i in range(first, last)]
        kafka.produce(source, records, {"batch.num.messages": 10, "linger.ms": 1_000})
    store, started = TaskStateStore(), KafkaToKafkaBatchOperator
    given = {
        "topics": [source],
        "target_topic": target,
        "delivery": delivery,
        "provenance": provenance,
        "preserve_partition": True,
        # Records that are compressed anew are read one by one.
        "sink_options": {} if by_batches else {"kafka.compression.type": "gzip"},
    }
    with pytest.raises(Exception, match=r"larger than max\.message\.bytes"):
        started(task_id="task", **given).execute(task_context(store))  # type: ignore[arg-type]
    before = copied(kafka, target)
    kafka.alter_topic(target, {"max.message.bytes": "1000000"})
    result = started(task_id="task", **given).execute(task_context(store, ti=Try(try_number=2)))  # type: ignore[arg-type]

    found, wanted = copied(kafka, target), copied(kafka, source)
    continues = delivery == EXACTLY_ONCE or provenance == "headers"
    assert 0 < before.total() < 120
    assert found == (wanted if continues else wanted + before)
    assert result["delivered_before"] == (before.total() if continues else 0)
    assert (result["batches_passed"] > 0, "segments" in result) == (by_batches, provenance == "segments")
    has_header = {any(name == PROVENANCE_HEADER for name, _ in record.headers) for record in kafka.consume(target)}
    assert has_header == {provenance == "headers"}


def copied(kafka: KafkaBroker, topic: str) -> Counter[Record]:
    """The records without their offsets and the header that says where they are from."""
    return Counter(
        record._replace(offset=None, headers=tuple(h for h in record.headers if h[0] != PROVENANCE_HEADER))
        for record in kafka.consume(topic)
    )
