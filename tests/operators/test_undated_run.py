"""A run without a logical date has no data interval: templates that ask for it say what to do."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.bases.operator import BaseOperator
from airflow.sdk.exceptions import AirflowFailException
from jinja2.exceptions import UndefinedError

from airflow_provider_kafka_spark.operators.batch import KafkaToKafkaBatchOperator
from airflow_provider_kafka_spark.operators.replay import ReplayOffsetRangesOperator
from airflow_provider_kafka_spark.sensors.offsets import KafkaTimestampReachedSensor

TASKS = [
    pytest.param(KafkaToKafkaBatchOperator, {"starting_timestamp": "{{ data_interval_start }}"}, id="window"),
    pytest.param(ReplayOffsetRangesOperator, {"offset_ranges": [], "where": "dt = '{{ ds }}'"}, id="expression"),
    pytest.param(
        KafkaTimestampReachedSensor,
        {"topics": ["orders"], "timestamp": "{{ data_interval_end + macros.timedelta(minutes=30) }}"},
        id="sensor",
    ),
]


def render(task: type[BaseOperator], parameters: dict[str, Any]) -> None:
    """As Airflow does it for a run that was started without a logical date."""
    with DAG("dag"):
        operator = task(task_id="task", **parameters)
    context = {"params": {}, "task_instance_key_str": "key", "macros": SimpleNamespace(timedelta=timedelta)}
    operator.render_template_fields(context)  # type: ignore[arg-type]


@pytest.mark.parametrize(("task", "parameters"), TASKS)
def test_a_template_of_a_run_without_data_interval_says_what_to_do(
    task: type[BaseOperator], parameters: dict[str, Any]
) -> None:
    """Jinja says only that a name is undefined; and no retry can give it one."""
    with pytest.raises(AirflowFailException, match=r"InvalidInputError: .*no data interval.*logical-date.*backfill"):
        render(task, parameters)


def test_other_names_that_are_undefined_are_left_to_jinja() -> None:
    with pytest.raises(UndefinedError, match="'data_interval_strat' is undefined"):
        render(KafkaToKafkaBatchOperator, {"starting_timestamp": "{{ data_interval_strat }}"})
