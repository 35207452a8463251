"""Promises of a run's identity: what another deployment or another item of a mapped task delivers is not this run's.
And of :mod:`airflow_provider_kafka_spark.operators.mapped_item`, with Airflow's own mapped tasks.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG, XComArg, task, task_group
from airflow.sdk.definitions.mappedoperator import MappedOperator
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_kafka_spark.operators.batch import KafkaToKafkaBatchOperator
from airflow_provider_kafka_spark.operators.kafka_to_kafka import KafkaToKafkaOperator
from airflow_provider_kafka_spark.operators.mapped_item import given_item, mapped_item
from airflow_provider_kafka_spark.operators.replay import ReplayOffsetRangesOperator
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from airflow_provider_kafka_spark.toolchain.settings import DEPLOYMENT
from tests.airflow_fakes import TaskInstance, task_context
from tests.in_process_jobs import InProcessSpark
from tests.operators.copy_task import CopyTask, Replay, once

Make = Callable[..., CopyTask]


@pytest.fixture
def make(kafka: KafkaBroker, topic: TopicFactory, in_process_spark: InProcessSpark, tmp_path: Path) -> Make:
    """A task that reads a topic of 30 records."""
    source = topic(suffix="source")
    kafka.produce(source, [Record(value=b"%d" % i) for i in range(30)])

    def make(target: str, **fields: Any) -> CopyTask:
        given = {"target_topic": target, "provenance": "segments", "preserve_partition": True}
        return CopyTask(kafka, in_process_spark, tmp_path, [source], given, **fields)

    return make


@pytest.mark.broker
@pytest.mark.spark
@pytest.mark.parametrize("names", [("production", "staging"), pytest.param(("same", "same"), id="one-name")])
def test_two_deployments_with_the_same_names(
    topic: TopicFactory, make: Make, monkeypatch: pytest.MonkeyPatch, names: tuple[str, str]
) -> None:
    """One has written to its target when the other one begins: its progress stays. With one name for both this is so
    as long as they have different targets, and do not run at once.
    """
    tasks = {i: make(topic(suffix=f"target-{i}")) for i in range(2)}

    def of(i: int) -> CopyTask:
        monkeypatch.setenv(DEPLOYMENT.variable, names[i])
        return tasks[i]

    for i in tasks:
        of(i).lose_report()
    results = [of(i).succeed() for i in tasks]

    assert [task.values() for task in tasks.values()] == [once(0, 30)] * 2
    assert [(result["delivered_before"], result["duplicates"]) for result in results] == [(30, 0)] * 2
    assert [result["warnings"] for result in results] == [[], []]


@pytest.mark.broker
@pytest.mark.spark
def test_a_list_that_has_changed_before_a_clear(topic: TopicFactory, make: Make) -> None:
    """It had grown at its front: the items that moved are refused by name, or found where they were; so nothing is
    written twice. One at the end is new.
    """
    target = topic(suffix="target")

    def ranges(start: int) -> list[str]:
        return [f"{tasks[0].source}:0:{start}:{start + 10}"]

    def of_list(*starts: int) -> None:
        for each in tasks:
            each.dag = dag_of(in_its_own_expand, [ranges(start) for start in starts])

    tasks = [make(target, map_index=i) for i in range(4)]
    of_list(0, 10)
    first = [tasks[i].clear(Replay, topics=None, offset_ranges=ranges(10 * i)) for i in range(2)]
    for each in tasks:
        each.clears = 1
    of_list(20, 0, 10)
    for each, start in zip(tasks, (20, 0), strict=False):
        with pytest.raises(AirflowFailException, match=r"The item at a map index must be .*:0:10.*; got .*"):
            each.run(Replay, topics=None, offset_ranges=ranges(start))
    moved = tasks[2].succeed(Replay, topics=None, offset_ranges=ranges(10))
    of_list(0, 10, 10, 20)
    new = tasks[3].succeed(Replay, topics=None, offset_ranges=ranges(20))

    assert tasks[0].values() == once(0, 30)
    assert moved["run_id"] == first[1]["run_id"]
    assert any("was copied before the clear" in warning for warning in moved["warnings"])
    assert new["warnings"] == []


def in_its_own_expand(items: list[Any]) -> None:
    Replay.partial(task_id="task", target_topic="copy").expand(offset_ranges=items)


@task_group(prefix_group_id=False)
def group(offset_ranges: Any) -> None:
    Replay(task_id="task", target_topic="copy", offset_ranges=offset_ranges)


def in_a_mapped_group(items: list[Any]) -> None:
    group.expand(offset_ranges=items)


def in_a_group_of_whole_items(items: list[Any]) -> None:
    group.expand_kwargs([{"offset_ranges": each} for each in items])


def in_a_mapped_function(items: list[Any]) -> None:
    @task(task_id="task")
    def function(offset_ranges: Any) -> None:
        """Calls the operator."""

    function.expand(offset_ranges=items)


def in_a_group_in_a_group(items: list[Any]) -> None:
    @task_group
    def outer(number: Any) -> None:
        in_a_mapped_group(items)

    outer.expand(number=[1, 2])


def dag_of(mapped: Callable[[list[Any]], None], items: list[Any]) -> DAG:
    with DAG("dag") as dag:
        mapped(items)
    return dag


@pytest.mark.broker
@pytest.mark.spark
@pytest.mark.parametrize("mapped", [in_its_own_expand, in_a_mapped_group])
def test_a_retry_with_the_same_item_has_the_first_parameters(
    topic: TopicFactory, make: Make, mapped: Callable[[list[Any]], None]
) -> None:
    """Its template gives other ranges each time. If the index has another item, it is refused, also after that."""
    earlier, later = ["{{ first }}", "{{ second }}"], ["{{ second }}", "{{ first }}"]
    copy = make(topic(suffix="target"), map_index=0)

    def rendered(items: list[Any], end: int) -> dict[str, Any]:
        copy.dag = dag_of(mapped, items)
        return {"topics": None, "offset_ranges": [f"{copy.source}:0:0:{end}"]}

    copy.lose_report(Replay, **rendered(earlier, 10))
    copy.lose_report(Replay, **rendered(earlier, 20))
    with pytest.raises(AirflowFailException, match="The item at a map index must be "):
        copy.run(Replay, **rendered(later, 20))
    result = copy.succeed(Replay, **rendered(earlier, 30))

    assert copy.values() == once(0, 10)
    assert (result["delivered_before"], result["duplicates"]) == (10, 0)


@pytest.mark.broker
@pytest.mark.spark
@pytest.mark.parametrize("mapped", [in_its_own_expand, in_a_mapped_group])
def test_a_clear_with_the_same_item_goes_on_with_other_parameters(
    topic: TopicFactory, make: Make, mapped: Callable[[list[Any]], None]
) -> None:
    """What its templates gave before is delivered already, and a retry after the clear has what they gave then."""
    items = ["{{ first }}", "{{ second }}"]
    copy = make(topic(suffix="target"), map_index=0, dag=dag_of(mapped, items))

    def of(end: int) -> dict[str, Any]:
        return {"topics": None, "offset_ranges": [f"{copy.source}:0:0:{end}"]}

    first = copy.succeed(Replay, **of(10))
    copy.clears += 1
    copy.lose_report(Replay, **of(20))
    second = copy.succeed(Replay, **of(30))
    copy.clears += 1
    copy.dag = dag_of(mapped, items[::-1])
    with pytest.raises(AirflowFailException, match="The item at a map index must be "):
        copy.run(Replay, **of(30))

    assert copy.values() == once(0, 20)
    assert (second["run_id"], second["delivered_before"]) == (first["run_id"], 20)


class Upstream(XComArg):
    """What another task has returned."""

    def __init__(self, result: Any) -> None:
        self.result = result

    def iter_references(self) -> Any:
        return iter(())

    def resolve(self, context: Any) -> Any:  # noqa: ARG002 - Airflow's
        return self.result


@pytest.mark.parametrize(
    ("mapped", "items", "expected"),
    [
        pytest.param(in_its_own_expand, ["{{ now }}"], '"{{ now }}"', id="a-template"),
        pytest.param(
            in_a_mapped_group, [("a", datetime(2026, 11, 27, tzinfo=UTC))], '["a", "2026-11-27T00:00:00+00:00"]'
        ),
        pytest.param(in_a_group_of_whole_items, [{"b": 1, "a": {}}], '{"a": {}, "b": 1}', id="of-a-group"),
        pytest.param(in_a_mapped_function, ["a:0:0:1"], '"a:0:0:1"', id="of-a-function"),
        pytest.param(in_a_mapped_group, [Upstream(["a:0:0:1"])], '["a:0:0:1"]', id="of-another-task"),
        pytest.param(in_a_mapped_group, [], None, id="a-list-that-is-shorter-now"),
        pytest.param(in_its_own_expand, [object()], None, id="not-plain"),
        pytest.param(in_a_group_in_a_group, ["a:0:0:1"], None, id="in-two-groups"),
    ],
)
def test_an_item_as_the_dag_gives_it(
    mapped: Callable[[list[Any]], None], items: list[Any], expected: str | None
) -> None:
    context: Any = task_context(ti=TaskInstance(map_index=0), dag=dag_of(mapped, items))  # type: ignore[arg-type]

    found = given_item(context)

    assert found == (None if expected is None else f'{{"offset_ranges": {expected}}}')


GIVEN = {
    "target_topic": "copy",
    "offset_ranges": ["orders:0:0:10"],
    "where": "offset > 0",
    "sink_options": {"kafka.a": "secret"},
}
ALL = '{"offset_ranges": ["orders:0:0:10"], "target_topic": "copy", "where": "offset > 0"}'


def item(index: int | None, dag: DAG | None, task_id: str = "task") -> str:
    """Of a copy that was asked for with ``GIVEN``."""
    context: Any = task_context(ti=TaskInstance(task_id=task_id, map_index=index), dag=dag)  # type: ignore[arg-type]
    return mapped_item(context, GIVEN, KafkaToKafkaOperator)


@pytest.mark.parametrize("index", [None, -1])
def test_a_task_that_is_not_mapped_has_none(index: int | None) -> None:
    assert item(index, None) == ""
    assert given_item(task_context(ti=TaskInstance(map_index=index))) is None  # type: ignore[arg-type]


RANGES, WHERE = '{"offset_ranges": ["orders:0:0:10"]}', '{"offset_ranges": ["orders:0:0:10"], "where": "offset > 0"}'


@pytest.mark.parametrize(
    ("mapped", "items"),
    [
        # A change of another parameter makes no other item; the index is only its place.
        pytest.param({"offset_ranges": [["orders:0:0:10"], []], "conf": [{}]}, [RANGES] * 2, id="what-is-mapped"),
        pytest.param([{"offset_ranges": []}, {"offset_ranges": [], "where": ""}], [RANGES, WHERE], id="of-a-list"),
        # Copies that differ only in how they are submitted are told by their index.
        pytest.param({"conf": [{}, {}]}, ['{"map_index": 0}', '{"map_index": 1}'], id="only-submitted-differently"),
        pytest.param({"plan": [{}]}, [ALL], id="a-plan-says-all"),
    ],
)
def test_it_is_what_is_mapped(mapped: Any, items: list[str]) -> None:
    with DAG("dag") as dag:
        given = {} if "plan" in mapped else {"target_topic": "copy"}
        partial = ReplayOffsetRangesOperator.partial(task_id="task", **given)
        partial.expand_kwargs(mapped) if isinstance(mapped, list) else partial.expand(**mapped)

    assert [item(index, dag) for index in range(len(items))] == items


def test_moments_among_the_starting_offsets_tell_the_items() -> None:
    """They are read as the start of a window."""
    moments = ["2026-11-27T00:00:00Z", "2026-11-27T01:00:00Z"]
    with DAG("dag") as dag:
        mapped = KafkaToKafkaBatchOperator.partial(task_id="task", target_topic="copy", topics=["orders"])
        mapped = mapped.expand(starting_offsets=moments)
    items = set()
    for i, moment in enumerate(moments):
        operator = KafkaToKafkaBatchOperator(
            task_id="task", target_topic="copy", topics=["orders"], starting_offsets=moment
        )
        context: Any = task_context(ti=TaskInstance(task_id="task", map_index=i), dag=dag)
        parameters = operator._parsed().by_name()  # noqa: SLF001 - as a try reads them
        items.add(mapped_item(context, parameters, KafkaToKafkaOperator))

    assert len(items) == 2


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
    with DAG("dag"):
        partial = ReplayOffsetRangesOperator.partial(task_id="task", target_topic="copy")
        mapped = partial.expand(offset_ranges=[["orders:0:0:10"]])

    unmapped = mapped.unmap({"offset_ranges": ["orders:0:0:10"]})

    assert unmapped.dag is not None
    assert isinstance(unmapped.dag.task_dict["task"], MappedOperator)
