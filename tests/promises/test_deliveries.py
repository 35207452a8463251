"""Each delivery in each layout of the writer: a try fails at a record, and what its retry adds is as documented.

No other file has all of them in one table.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

from airflow_provider_kafka_spark.core.checks import DELIVERIES, EXACTLY_ONCE
from airflow_provider_kafka_spark.core.offsets.provenance import PROVENANCE_HEADER
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from tests.operators.copy_task import NewTask, audit

pytestmark = [pytest.mark.broker, pytest.mark.spark]


@pytest.mark.parametrize("delivery", DELIVERIES)
@pytest.mark.parametrize(
    ("provenance", "reader"),
    [(provenance, reader) for provenance in ("headers", "segments", None) for reader in ("source", "batches")],
)
def test_a_copy_and_its_retry(
    new_task: NewTask, monkeypatch: pytest.MonkeyPatch, delivery: str, provenance: str | None, reader: str
) -> None:
    monkeypatch.setattr("airflow_provider_kafka_spark.jobs.write.COMMIT_RECORDS", 20)
    # Otherwise small batches are put together.
    monkeypatch.setattr("airflow_provider_kafka_spark.jobs.write.LEAST_BYTES", 0)
    task = new_task(
        source=2, target=2, preserve_partition=True, delivery=delivery, provenance=provenance, reader=reader
    )
    kafka, source, target = task.kafka, task.source, task.target
    kafka.alter_topic(target, {"max.message.bytes": "20000"})
    for first, last in ((0, 100), (100, 101), (101, 120)):
        value = os.urandom(50_000) if first == 100 else b"v"
        records = [Record(b"%d" % i, value, (("h", None), ("h", b"2")), 10**12 + i, i % 2) for i in range(first, last)]
        kafka.produce(source, records, {"batch.num.messages": 10, "linger.ms": 1_000})
    with pytest.raises(Exception, match=r"larger than max\.message\.bytes"):
        task.run()
    before = copied(kafka, target)
    kafka.alter_topic(target, {"max.message.bytes": "1000000"})
    result = task.run()

    found, wanted = copied(kafka, target), copied(kafka, source)
    continues = delivery == EXACTLY_ONCE or provenance == "headers"
    assert 0 < before.total() < 120
    assert found == (wanted if continues else wanted + before)
    assert result["delivered_before"] == (before.total() if continues else 0)
    passes_on = reader == "batches" and provenance != "headers"
    assert (result["batches_passed"] > 0, "segments" in result) == (passes_on, provenance == "segments")
    # What may be there twice is said.
    assert result["evidence"]["may_have_duplicates"] is not continues
    assert any("is written again" in warning for warning in result["warnings"]) is not continues
    if provenance is not None:
        found_by_audit = audit(of=result)
        assert (found_by_audit["once"], found_by_audit["duplicated"]) == (120, 0)
        assert found_by_audit["state"] == ("complete" if continues else "unknown")
    has_header = {any(name == PROVENANCE_HEADER for name, _ in record.headers) for record in kafka.consume(target)}
    assert has_header == {provenance == "headers"}


def copied(kafka: KafkaBroker, topic: str) -> Counter[Record]:
    """The records without their offsets and the header that says where they are from."""
    return Counter(
        record._replace(offset=None, headers=tuple(h for h in record.headers if h[0] != PROVENANCE_HEADER))
        for record in kafka.consume(topic)
    )
