"""Promises of :mod:`airflow_provider_kafka_spark.operators.mapped_item`, with Airflow's own mapped tasks."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk import DAG, task, task_group
from airflow.sdk.definitions.mappedoperator import MappedOperator, OperatorPartial

from airflow_provider_kafka_spark.operators.kafka_to_kafka import KafkaToKafkaOperator
from airflow_provider_kafka_spark.operators.mapped_item import mapped_item
from airflow_provider_kafka_spark.operators.replay import ReplayOffsetRangesOperator
from tests.airflow_fakes import TaskInstance, task_context

GIVEN = {
    "target_topic": "copy",
    "offset_ranges": ["orders:0:0:10"],
    "where": "offset > 0",
    "sink_options": {"kafka.a": "secret"},
}
ALL = '{"offset_ranges": ["orders:0:0:10"], "target_topic": "copy", "where": "offset > 0"}'


def partial() -> OperatorPartial:
    return ReplayOffsetRangesOperator.partial(task_id="task", target_topic="copy")


def item(index: int | None, dag: DAG | None, task_id: str = "task") -> str:
    """Of a copy that was asked for with ``GIVEN``."""
    context: Any = task_context(ti=TaskInstance(task_id=task_id, map_index=index), dag=dag)  # type: ignore[arg-type]
    return mapped_item(context, GIVEN, KafkaToKafkaOperator)


def one(dag: DAG) -> MappedOperator:
    (found,) = dag.task_dict.values()
    assert isinstance(found, MappedOperator)
    return found


@pytest.mark.parametrize("index", [None, -1])
def test_a_task_that_is_not_mapped_has_none(index: int | None) -> None:
    assert item(index, None) == ""


def test_it_is_what_is_mapped() -> None:
    """A change of another parameter makes no other item; the index is only its place."""
    with DAG("dag") as dag:
        partial().expand(offset_ranges=[["orders:0:0:10"], ["orders:0:10:20"]], conf=[{}])

    assert item(0, dag) == item(1, dag) == '{"offset_ranges": ["orders:0:0:10"]}'


def test_it_is_what_this_item_has_of_a_list_of_mappings() -> None:
    with DAG("dag") as dag:
        partial().expand_kwargs([{"offset_ranges": ["a:0:0:1"]}, {"offset_ranges": ["a:0:0:1"], "where": "offset > 0"}])

    assert item(0, dag) == '{"offset_ranges": ["orders:0:0:10"]}'
    assert item(1, dag) == '{"offset_ranges": ["orders:0:0:10"], "where": "offset > 0"}'


def test_copies_that_differ_only_in_how_they_are_submitted_are_told_by_their_index() -> None:
    with DAG("dag") as dag:
        partial().expand(conf=[{"a": "1"}, {"a": "2"}])

    assert (item(0, dag), item(1, dag)) == ('{"map_index": 0}', '{"map_index": 1}')


def test_a_plan_says_all() -> None:
    with DAG("dag") as dag:
        ReplayOffsetRangesOperator.partial(task_id="task").expand(plan=[{}, {}])

    assert item(0, dag) == ALL


def test_in_a_mapped_group_and_within_a_mapped_function_all_parameters_tell() -> None:
    """But for the options, which may hold what is secret."""

    @task_group
    def group(ranges: Any) -> None:
        ReplayOffsetRangesOperator(task_id="task", target_topic="copy", offset_ranges=ranges)

    @task
    def function(ranges: Any) -> None:
        """Calls the operator."""

    with DAG("dag") as dag:
        group.expand(ranges=[["a:0:0:1"]])
        function.expand(ranges=[["a:0:0:1"]])

    assert item(0, dag, "group.task") == item(0, dag, "function") == ALL


def test_airflows_context_leads_to_the_mapped_task() -> None:
    """The operator that runs is another one, which does not know what of it is mapped."""
    with DAG("dag") as dag:
        partial().expand(offset_ranges=[["orders:0:0:10"]])

    unmapped = one(dag).unmap({"offset_ranges": ["orders:0:0:10"]})

    assert unmapped.dag is not None
    assert isinstance(unmapped.dag.task_dict["task"], MappedOperator)
