"""Promises of :class:`SparkJobOperator`: what Airflow shows of the job, while it runs and afterwards."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from airflow_provider_kafka_spark.core.errors import JobReportMissingError
from airflow_provider_kafka_spark.operators.replay import ReplayOffsetRangesOperator
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.airflow_fakes import TaskInstance, task_context
from tests.driver_program import Driver

_HISTORY = "http://history.example.com:18080"


@pytest.mark.broker
@pytest.mark.parametrize(
    ("extra", "after"),
    [
        pytest.param({}, "", id="no-history-server"),
        pytest.param({"history-server": _HISTORY}, f"{_HISTORY}/history/local-1/", id="history-server"),
    ],
)
def test_the_link_after_a_local_job(
    kafka: KafkaBroker,
    topic: TopicFactory,
    driver: Driver,
    connection: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
    extra: dict[str, str],
    after: str,
) -> None:
    """It leads to the driver while that runs, then to the history server or nowhere: the port may be another job's."""
    source, target = topic(suffix="source"), topic(suffix="target")
    kafka.produce(source, [Record(value=b"v")])
    connection("spark_default", conn_type="spark", host="local[2]", extra=extra)
    driver("say(JobStarted('local-1', 'http://driver:4040'))")
    ti = TaskInstance()
    operator = ReplayOffsetRangesOperator(
        task_id="task",
        offset_ranges=[f"{source}:0:0:1"],
        target_topic=target,
        conf={"spark.eventLog.enabled": "true", "spark.eventLog.dir": "file:///events"},
    )

    with pytest.raises(JobReportMissingError):
        operator.execute(task_context(ti=ti))  # type: ignore[arg-type]

    (link,) = operator.operator_extra_links
    assert ti.pushed[link.xcom_key] == "http://driver:4040"
    # Airflow asks when the task has ended, and puts this in its place.
    assert link.get_link(operator, ti_key=None) == after  # type: ignore[arg-type]
    assert ("The link to the application ends with the job." in capsys.readouterr().out) == (after == "")
