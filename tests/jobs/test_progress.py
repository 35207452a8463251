from __future__ import annotations

import pytest

from airflow_provider_kafka_spark.core.handoff.job_events import JobProgress, take_event
from airflow_provider_kafka_spark.testing.broker_client import Record
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.jobs.conftest import Copy

RECORDS = 400
#: The broker waits so long for more, then hands out one batch of a partition: a copy that takes seconds on any machine.
SLOW = {"kafka.fetch.min.bytes": "1000000", "kafka.fetch.max.wait.ms": "300", "kafka.max.partition.fetch.bytes": "1"}


@pytest.mark.broker
@pytest.mark.spark
def test_says_how_far_the_copy_is(
    kafka_broker: KafkaBroker, topic: TopicFactory, run_copy: Copy, capfd: pytest.CaptureFixture[str]
) -> None:
    """While it runs, the job says how many records were read, never less than before, and at the end that all were."""
    source, target = topic(2, suffix="source"), topic(2, suffix="target")
    records = [Record(value=b"%d" % i, partition=i % 2) for i in range(RECORDS)]
    kafka_broker.produce(source, records, {"batch.num.messages": 10})

    run_copy(
        [f"{source}:0:0:{RECORDS // 2}", f"{source}:1:0:{RECORDS // 2}"],
        topic=target,
        source_options=SLOW,
        progress_seconds=0.2,
        event_token="token",
    )

    events = [take_event(line, "token")[1] for line in capfd.readouterr().out.splitlines()]
    reported = [event.records for event in events if isinstance(event, JobProgress)]
    assert reported == sorted(reported)
    assert reported[-1] == RECORDS
    assert any(0 < records < RECORDS for records in reported)
