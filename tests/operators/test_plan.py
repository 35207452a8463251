"""Promises of ``plan=``: exactly what another task has planned is carried out, or nothing.

And a task with more than a thousand ranges: everything that takes its result takes the compact form as it takes a list.
The rules are tested with the form itself; this goes the whole way once.
"""

from __future__ import annotations

import gc
import json
from collections import Counter
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_kafka_spark.clients.consumer_group import ConsumerGroup
from airflow_provider_kafka_spark.clients.kafka_client import KafkaClient
from airflow_provider_kafka_spark.core.conditions.watch import announced_ranges
from airflow_provider_kafka_spark.core.copies.approved_plan import SealedPlan
from airflow_provider_kafka_spark.core.errors import InvalidInputError
from airflow_provider_kafka_spark.core.offsets.compact_result import whole_result
from airflow_provider_kafka_spark.core.offsets.compact_rows import rows_in
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRanges, TopicPartition
from airflow_provider_kafka_spark.core.wire.protocol import Pace, PauseWhileLag
from airflow_provider_kafka_spark.coverage import uncovered
from airflow_provider_kafka_spark.hooks.kafka import KafkaHook
from airflow_provider_kafka_spark.operators import bounded_copy
from airflow_provider_kafka_spark.operators.asset_events import COPIES
from airflow_provider_kafka_spark.operators.sealed_plan import checked_plan
from airflow_provider_kafka_spark.state.seal import seal
from airflow_provider_kafka_spark.submission.local_driver import LocalDriver
from airflow_provider_kafka_spark.testing.kafka_broker import Record
from tests.airflow_fakes import TaskInstance, TaskStateStore, task_context
from tests.operators.copy_task import Batch, CopyTask, NewTask, Replay, audit, numbered

pytestmark = [pytest.mark.broker, pytest.mark.spark]

START = 1_795_165_200_000


def seconds(first: int, last: int) -> list[Record]:
    """A record each second."""
    return [r._replace(timestamp=START + int(r.value or b"") * 1000) for r in numbered(first, last)]


class Scene(CopyTask):
    """A source with 20 records, and a target."""

    def plan(self, **parameters: Any) -> dict[str, Any]:
        """Of another task, as Airflow's XCom has it."""
        given = {"topics": self.sources, **self.given, **parameters}
        given = {name: value for name, value in given.items() if value is not None}
        operator = Batch(task_id="plan", plan_only=True, **given)
        return json.loads(json.dumps(operator.execute(task_context())))  # type: ignore[arg-type,no-any-return]

    def carry_out(self, plan: Any, **parameters: Any) -> dict[str, Any]:
        """By a task of its own."""
        self.store, self.tries = TaskStateStore(), 0
        return self.run(Replay, plan=plan, **parameters)


@pytest.fixture
def scene(new_task: NewTask) -> Any:
    return new_task(Scene, 2, 2, seconds(0, 20))


@pytest.mark.long
@pytest.mark.parametrize(("kind", "as_text"), [(Replay, False), (Batch, True)])
def test_exactly_the_plan_is_carried_out(scene: Scene, kind: type, as_text: bool) -> None:
    """With all parameters of the task that planned, and without what has come since. The one who approves has seen
    all of them, and for which group it pauses.
    """
    group_id = f"consumers-{uuid4().hex[:8]}"
    with KafkaHook() as hook:
        ConsumerGroup(hook, group_id).commit({TopicPartition(scene.target, 0): 0})
    plan = scene.plan(
        starting_timestamp=START + 4_000,
        exact_window=True,
        where="offset <> 5",
        columns={"value": "concat('<', string(value), '>')"},
        preserve_partition=True,
        preserve_order=False,
        max_records_per_partition=3,
        max_records_per_second="1000",
        pause_while_lag={"group_id": group_id, "max_lag": "100"},
        max_pause=timedelta(minutes=2),
        include_headers=False,
        source_options={"kafka.fetch.min.bytes": 1},
    )
    # Late records have the offsets after the plan, and one is out of the window.
    scene.kafka.produce(scene.source, seconds(2, 6))

    result = scene.run(kind, plan=json.dumps(plan) if as_text else plan)

    assert [(r["partition"], r["from_offset"], r["until_offset"]) for r in result["ranges"]] == [(0, 2, 10), (1, 2, 10)]
    assert scene.values() == Counter(b"<%d>" % i for i in range(4, 20) if i not in (10, 11))
    (request,) = scene.spark.requests
    assert (request.plan_digest, request.how.preserve_order, len(request.spans)) == (plan["digest"], False, 6)
    assert request.how.pace == Pace(1000, pause=PauseWhileLag(group_id, 100, 120.0))
    for part in (
        f"{scene.source}[0]",
        group_id,
        f"Digest of this plan: {plan['digest']}",
        "Pace: at most 1,000 records/s",
        "Connections: from 'kafka_default' to 'kafka_default', exactly_once",
        "Only records with: offset <> 5",
        "Changed: value = concat(",
    ):
        assert part in plan["text"]
    assert request.source_options["kafka.fetch.min.bytes"] == "1"


def test_a_plan_names_what_only_the_copy_checks(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """The topics that an expression leads to; SQL that does not compile is no plan. Without Java it fails as the copy
    would.
    """
    given = {"columns": {"value": "key"}, "target_topic": None, "target_topic_expr": "topic"}
    assert "topics that target_topic_expr gives" in scene.plan(**given)["warnings"][0]

    with pytest.raises(AirflowFailException, match=r"where='key = map.*does not compile"):
        scene.plan(**given, where="key = map(1, 2)")
    with monkeypatch.context() as patch:
        patch.setattr(LocalDriver, "run", lambda *_: ("it took more than 120 s", "..."))
        shown = scene.plan(**given)["markdown"]
    assert "columns['value'], target_topic_expr may still be refused" in shown
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(AirflowFailException, match="JAVA_HOME"):
        scene.plan(**given)


def test_what_somebody_enters_is_no_line_of_the_plan(scene: Scene) -> None:
    """The one who approves sees all of a filter, and nothing in it looks like a count, or ends the text."""
    where = "offset > 0 or value = 'x\n```\ntotal 1 ranges 5\u202e\r'" + " " * 300 + "or true"
    plan = scene.plan(where=where)

    at = plan["text"].index("Only records with: ")
    filter_lines = plan["text"][at:].splitlines()
    assert all(line.startswith("    ") for line in filter_lines[1:])
    assert max(map(len, filter_lines)) <= 100
    assert r"'x\n```\ntotal 1 ranges 5\u202e\r'" in filter_lines[0]
    assert filter_lines[-1].endswith("or true")
    (shown,) = (line for line in plan["markdown"].splitlines() if line.startswith("- Only records with: "))
    assert shown == "- Only records with: ````" + where.translate({10: r"\n", 13: r"\r", 0x202E: r"\u202e"}) + "````"


def test_parameters_that_are_those_of_the_plan_may_be_given_and_others_are_an_error(scene: Scene) -> None:
    shared: dict[str, Any] = {
        "target_topic": scene.target, "preserve_partition": "yes", "columns": '{"key": "value"}',
        "max_pause": timedelta(minutes=2),
    }  # fmt: skip
    plan = scene.plan(**shared)
    others: list[tuple[dict[str, Any], str]] = [
        ({"where": "offset = 0"}, "where is 'offset = 0' and was None"),
        ({"target_topic": "another"}, "target_topic is 'another' and was"),
        ({"preserve_order": False}, "preserve_order is False and was True"),
        ({"max_pause": 60}, r"max_pause is 60\.0 and was 120\.0"),
        ({"offset_ranges": ["orders:0:0:1"]}, "offset_ranges must not be given"),
    ]
    for parameters, says in others:
        with pytest.raises(AirflowFailException, match=says):
            scene.carry_out(plan, **parameters)
    assert scene.spark.requests == []

    assert scene.carry_out(plan, **shared, source_conn_id="kafka_default")["records_written"] == 20


def test_a_plan_that_no_longer_holds_copies_nothing(scene: Scene) -> None:
    """Neither does the same look without a copy."""

    def assert_refused(plan: Any, reason: str) -> None:
        for parameters in ({}, {"plan_only": True}):
            with pytest.raises(AirflowFailException, match=reason):
                scene.carry_out(plan, **parameters)

    plan, permitting = scene.plan(), scene.plan(fail_on_data_loss=False)
    scene.kafka.delete_records(scene.source, {0: 2})
    assert_refused(plan, "no longer available")
    assert_refused(permitting, "2 of its records are gone")
    for recreated in (scene.source, scene.target):
        plan = scene.plan()
        scene.recreate(recreated)
        scene.kafka.produce(scene.source, seconds(0, 20))
        assert_refused(plan, r"^PlanOutdatedError: .*was deleted and recreated")
    assert scene.spark.requests == []


def test_what_the_plan_lacked_is_in_the_result(scene: Scene) -> None:
    scene.kafka.delete_records(scene.source, {0: 2})
    plan = scene.plan(starting_offsets={scene.source: {"0": 1, "1": 0}}, fail_on_data_loss=False)

    result = scene.carry_out(plan)

    assert (result["missing"], result["records_written"]) == (1, 18)
    assert result["missing_ranges"] == plan["missing_ranges"]


def test_a_plan_that_somebody_has_changed_is_not_carried_out(scene: Scene) -> None:
    """Whoever may trigger the DAG may write XComs: the filter that was approved, connections, ranges, all of it."""
    plan = scene.plan(where="offset > 1")
    origin = plan["plan"]
    changed: list[dict[str, Any]] = [
        {**plan, "plan": {**origin, "parameters": {**origin["parameters"], **change}}}
        for change in (
            {"where": None},
            {"target_conn_id": "kafka_mine"},
            {"source_options": {"kafka.bootstrap.servers": "evil:9092"}},
        )
    ]
    # What is shown to those who approve.
    changed += [{**plan, "markdown": "A few records"}, {**plan, "planned_records": 1}, {**plan, "target_topics": ["x"]}]
    changed += [{**plan, "ranges": plan["ranges"][:1]}, {**plan, "plan": {**origin, "seal": None}}]
    changed += [{**plan, "plan": {name: value for name, value in origin.items() if name != "seal"}}]
    assert checked_plan(json.dumps(plan), TaskInstance()) == plan
    for each in changed:
        with pytest.raises(AirflowFailException, match="as a task of this DAG run has returned it"):
            scene.carry_out(each)
        with pytest.raises(InvalidInputError, match="as a task of this DAG run has returned it"):
            # Who approves sees none of it.
            checked_plan(each, TaskInstance())
    assert scene.spark.requests == []


def test_a_plan_of_another_run_is_not_carried_out(scene: Scene) -> None:
    """Which nobody has approved for this one."""
    ti = TaskInstance()
    ti.run_id = "manual__2026-11-20T00:00:00+00:00"
    given = {"topics": scene.sources, **scene.given}
    operator = Batch(task_id="plan", plan_only=True, **given)
    plan = operator.execute(task_context(ti=ti))  # type: ignore[arg-type]
    with pytest.raises(AirflowFailException, match="This one is of another run"):
        scene.carry_out(plan)


def test_what_a_plan_cannot_have_is_refused_also_with_a_seal(scene: Scene) -> None:
    """As by an author who makes one."""
    ti = TaskInstance()
    plan = scene.plan()
    good = plan["plan"]["parameters"]
    changes: list[tuple[dict[str, Any], str]] = [
        ({"preserve_order": "perhaps"}, "preserve_order must be True or False"),
        ({"max_records_per_second": "fast"}, "max_records_per_second must be an integer"),
        ({"sink_options": {"kafka.interceptor.classes": "a.B"}}, "sink_options must name no classes"),
        ({"source_options": {"kafka.bootstrap.servers": "evil:9092"}}, "must not set"),
        ({"where": 5}, "where must be text"),
    ]
    for change, reason in changes:
        unsealed = {name: value for name, value in plan["plan"].items() if name != "seal"}
        made = {**plan, "plan": {**unsealed, "parameters": {**good, **change}}}
        sealed = SealedPlan.of(made, seal(["plan", ti.dag_id, ti.run_id, made]))
        with pytest.raises(AirflowFailException, match=reason):
            scene.carry_out(sealed)
    unknown = {**plan, "plan": {**plan["plan"], "parameters": {**good, "spark_binary": "/bin/sh"}}}
    with pytest.raises(AirflowFailException, match="and no others; got spark_binary"):
        scene.carry_out(unknown)
    assert scene.spark.requests == []


def test_what_is_no_plan_is_an_error() -> None:
    no_plans: list[Any] = [
        "orders",
        "{}",
        [1],
        {"state": "planned"},
        {"state": "planned", "plan": {"version": 1}},
        {"version": 1, "ranges": [], "run_id": "0123456789abcdef"},
    ]
    for plan in no_plans:
        with pytest.raises(
            AirflowFailException, match=r"plan must be a plan.*plan\.output|plan must be a plan as it w"
        ):
            Replay(task_id="copy", plan=plan).execute(task_context())  # type: ignore[arg-type]


def test_only_the_partitions_that_are_read_are_asked_for(new_task: NewTask, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of twenty, by ``assign`` or by a replay's ranges, also by a retry. The plan knows how many there are.

    While it is made, Python searches no cycles among its objects and all others.
    """
    asked, collects, real = Counter[int](), set[bool](), KafkaClient.list_offsets

    def list_offsets(client: KafkaClient, times: Any, *args: Any) -> Any:
        asked.update(p.partition for p in times if p.topic == task.source)
        collects.add(gc.isenabled())
        return real(client, times, *args)

    task = new_task(CopyTask, 20, 1, [Record(value=b"v", partition=i) for i in range(20)])
    monkeypatch.setattr(KafkaClient, "list_offsets", list_offsets)
    result = task.run(Batch, topics=None, assign={task.source: [7]})
    assert (result["records_written"], asked.keys()) == (1, {7})
    task.store, task.tries = TaskStateStore(), 0
    asked.clear()
    replayed = {"offset_ranges": [f"{task.source}:7:0:1"]}
    task.die_at("collected", bounded_copy, lambda: task.run(Replay, **replayed))
    assert (task.run(Replay, **replayed)["records_written"], asked.keys()) == (1, {7})
    task.store, task.tries = TaskStateStore(), 0
    collects.clear()
    with pytest.raises(AirflowFailException, match="has 20 partitions, numbered from 0"):
        task.run(Batch, plan_only=True, topics=None, assign={task.source: [20]})
    assert (collects, gc.isenabled()) == ({False}, True)


_RANGES = 1_100


def test_many_ranges_go_the_whole_way(new_task: NewTask) -> None:
    task = new_task(CopyTask, 2, 2, numbered(0, 4 * _RANGES), provenance="segments", preserve_partition=True)
    wanted = [f"{task.source}:1:{2 * i}:{2 * i + 1}" for i in range(_RANGES)]
    kept = _as_xcom(task.succeed(Replay, offset_ranges=wanted))

    assert kept["ranges"]["compact"] == 1
    assert sum(s["until_offset"] - s["from_offset"] for s in rows_in(kept["segments"])) == _RANGES
    assert OffsetRanges.parse(kept["ranges"]).format() == OffsetRanges.parse(wanted).format()
    assert {r["records_written"] for r in whole_result(kept)["ranges"]} == {1}
    assert max(len(json.dumps(value)) for value in task.store.values.values()) < 65_535
    event = _as_xcom(task.event(COPIES).extra)
    assert OffsetRanges.parse(announced_ranges([event])) == OffsetRanges.parse(kept["target_ranges"])
    gaps = uncovered([event], task.source, window=[f"{task.source}:1:0:{2 * _RANGES}"])
    assert sum(r["until_offset"] - r["from_offset"] for r in gaps) == _RANGES

    assert audit(kept)["missing"] == 0
    again = task.clear(Replay, offset_ranges=wanted)
    assert (again["delivered_before"], again["records_written"]) == (_RANGES, _RANGES)
    assert sum(task.values().values()) == _RANGES


def test_a_plan_of_many_ranges_is_carried_out_from_its_compact_form(new_task: NewTask) -> None:
    task = new_task(CopyTask, 2, 2, numbered(0, 4 * _RANGES))
    wanted = [f"{task.source}:0:{2 * i}:{2 * i + 1}" for i in range(_RANGES)]
    operator = Replay(task_id="plan", plan_only=True, offset_ranges=wanted, target_topic=task.target)
    plan = _as_xcom(operator.execute(task_context()))  # type: ignore[arg-type]

    task.store, task.tries = TaskStateStore(), 0
    result = task.run(Replay, plan=plan)

    assert (plan["ranges"]["compact"], plan["planned_records"]) == (1, _RANGES)
    assert result["records_written"] == _RANGES
    assert OffsetRanges.parse(result["ranges"]).format() == OffsetRanges.parse(plan["ranges"]).format()


def _as_xcom(value: Any) -> Any:
    return json.loads(json.dumps(value))
