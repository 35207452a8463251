"""Promises of the audit of a past copy."""

from __future__ import annotations

import pytest

from airflow_provider_kafka_spark.operators.audit import AuditReplayOperator
from airflow_provider_kafka_spark.operators.batch import KafkaToKafkaBatchOperator
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.airflow_fakes import task_context
from tests.in_process_jobs import InProcessSpark

pytestmark = [pytest.mark.broker, pytest.mark.spark]


def test_thin(kafka: KafkaBroker, topic: TopicFactory, in_process_spark: InProcessSpark) -> None:
    source, target = topic(2, suffix="source"), topic(2, suffix="target")
    kafka.produce(source, [Record(value=b"%d" % i, partition=i % 2) for i in range(10)])
    copied = KafkaToKafkaBatchOperator(task_id="task", topics=[source], target_topic=target).execute(task_context())
    result = AuditReplayOperator(task_id="audit", of=copied).execute(task_context())
    assert result["once"] == 10
    assert result["state"] == "complete"
