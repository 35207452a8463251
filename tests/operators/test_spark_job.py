"""Promises of :class:`SparkJobOperator`: what Airflow shows of the job, while it runs and afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_kafka_spark.core.errors import JobReportMissingError, OptionError
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
        pytest.param({}, None, id="no-history-server"),
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
    after: str | None,
) -> None:
    """It leads to the history server, or there is none: the driver's port may be another job's soon."""
    source, target = topic(suffix="source"), topic(suffix="target")
    kafka.produce(source, [Record(value=b"v")])
    connection("spark_default", conn_type="spark", host="local[2]", extra=extra)
    driver("emit(JobStarted('local-1', 'http://driver:4040'))")
    ti = TaskInstance()
    operator = ReplayOffsetRangesOperator(
        task_id="task",
        offset_ranges=[f"{source}:0:0:1"],
        target_topic=target,
        conf={"spark.eventLog.enabled": "true", "spark.eventLog.dir": "file:///events"},
    )

    (link,) = operator.operator_extra_links
    context: Any = task_context(ti=ti)
    operator.pre_execute(context)
    with pytest.raises(JobReportMissingError):
        operator.execute(context)

    assert ti.pushed.get(link.xcom_key) == after
    # What Airflow stores when the task has ended.
    assert [each.get_link(operator, ti_key=None) for each in operator.operator_extra_links] == (
        [after] if after else []
    )  # type: ignore[arg-type]
    assert "Spark application local-1 is running: http://driver:4040" in capsys.readouterr().out


def test_what_a_template_may_have_rendered_to() -> None:
    """One named error before a broker is asked."""
    rendered: list[tuple[dict[str, Any], str]] = [
        ({"name": "a\0b"}, "name must be a text"),
        ({"name": 5}, "name must be a text"),
        ({"properties_file": ["a.conf"]}, "properties_file must be a text"),
        ({"conf": {"spark.x": "a\0b"}}, r"conf\['spark.x'\] must have no zero character"),
        ({"env_vars": {"X": "a\0b"}}, r"env_vars\['X'\] must have no zero"),
        ({"env_vars": "X=1"}, "env_vars must map names"),
        ({"conf": ["spark.x"]}, r"conf must map Spark properties to values.*got \['spark.x'\]"),
        ({"delivery": "exactly_one"}, "got 'exactly_one'. Did you mean 'exactly_once'"),
    ]
    for options, says in rendered:
        operator = ReplayOffsetRangesOperator(
            task_id="task", offset_ranges=["orders:0:0:1"], target_topic="replayed", retries=0, **options
        )
        with pytest.raises(AirflowFailException, match=says) as refused:
            operator.execute(task_context())  # type: ignore[arg-type]
        assert isinstance(refused.value.__context__, OptionError)
