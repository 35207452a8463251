"""What another task's result says is taken for what it was made of, and for nothing else: topics are recreated between
the two tasks.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_kafka_spark.core.audits.audit import plan_audit
from airflow_provider_kafka_spark.core.audits.audit_result import result_of_audit
from airflow_provider_kafka_spark.core.audits.past_copy import parse_results
from airflow_provider_kafka_spark.core.conditions.watch import Watch
from airflow_provider_kafka_spark.core.copies.plan import make_plan
from airflow_provider_kafka_spark.core.copies.target import Target
from airflow_provider_kafka_spark.core.copies.verification import result_of_run
from airflow_provider_kafka_spark.core.errors import TopicRecreatedError
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, OffsetRanges
from airflow_provider_kafka_spark.core.offsets.segments import Segment
from airflow_provider_kafka_spark.core.records.trace import Trace
from airflow_provider_kafka_spark.core.topics.broker_state import ClusterState
from airflow_provider_kafka_spark.core.topics.resolve import ReadRules, resolve_replay
from airflow_provider_kafka_spark.core.wire.evidence import CopyEvidence
from airflow_provider_kafka_spark.core.wire.protocol import AuditCounts, AuditReport, JobReport, RangeReport, Transform
from airflow_provider_kafka_spark.coverage import main, uncovered
from airflow_provider_kafka_spark.hooks.kafka import KafkaHook
from airflow_provider_kafka_spark.operators.audit import planned_audit
from airflow_provider_kafka_spark.operators.ledger import TaskLedger
from airflow_provider_kafka_spark.sensors.offsets import KafkaNewRecordsSensor, KafkaTimestampReachedSensor
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from airflow_provider_kafka_spark.triggers.new_records import announced_ranges
from tests.airflow_fakes import TaskInstance, task_context
from tests.operators.conftest import RecordingSpark
from tests.operators.copy_task import Batch, Replay, execute
from tests.test_coverage_command import Api, event
from tests.test_coverage_command import api as api

pytestmark = pytest.mark.broker


class World:
    """A source with ten records, and what the results of tasks say of it."""

    def __init__(self, kafka: KafkaBroker, source: str, target: str, elsewhere: str) -> None:
        self.kafka, self.source, self.target, self.elsewhere = kafka, source, target, elsewhere
        kafka.produce(source, [Record(b"k", b"%d" % i) for i in range(10)])

    @property
    def now(self) -> ClusterState:
        with KafkaHook() as hook:
            return hook.state([self.source, self.target])

    def recreate(self, name: str) -> None:
        """With more records than before: nothing but its id tells it from the one before."""
        self.kafka.delete_topic(name)
        self.kafka.create_topic(name)
        self.kafka.produce(name, [Record(b"k", b"other")] * 20)

    def copied(self, provenance: str = "headers") -> dict[str, Any]:
        """The result of a copy of all; its records are in the target."""
        self.kafka.produce(self.target, [Record(b"k", b"%d" % i) for i in range(10)])
        now, rules = self.now, ReadRules()
        read = OffsetRange(self.source, 0, 0, 10)
        plan = make_plan(resolve_replay(OffsetRanges([read]), now, rules), now, now, Target(self.target))
        written = replace(read, topic=self.target)
        report = JobReport(
            run_id="a" * 16,
            plan_digest=plan.digest,
            ranges=(RangeReport(read, 10, 10),),
            target_topics=(self.target,),
            target_ids=plan.target_ids,
            target_ranges=(written,),
            segments=None if provenance == "headers" else (Segment(read, written),),
            application_id="local-1",
            spark_version="4.0.0",
            seconds=1.0,
        )
        evidence = CopyEvidence(
            Transform(topic=self.target, provenance=Trace(provenance)),
            source_cluster_id=plan.source_cluster_id,
            target_cluster_id=plan.target_cluster_id,
            target_ids=plan.target_ids,
        )
        return {**result_of_run(report, plan), "evidence": evidence.to_dict()}

    def entry(self, result: dict[str, Any]) -> dict[str, Any]:
        """The extra of the copy's asset event."""
        parameters: Any = SimpleNamespace(source_conn_id="kafka_default", target_connection="kafka_default")
        return TaskLedger(task_context(), "copy", parameters).complete(result)  # type: ignore[arg-type]

    def replay(self, ranges: Any, **parameters: Any) -> dict[str, Any]:
        """The plan of a replay; the ranges as a template renders them."""
        given = {"offset_ranges": json.dumps(ranges), "target_topic": self.elsewhere, **parameters}
        return execute(Replay(task_id="replay", plan_only=True, **given))


@pytest.fixture
def world(kafka: KafkaBroker, topic: TopicFactory, recording_spark: RecordingSpark) -> World:
    return World(kafka, topic(suffix="source"), topic(suffix="target"), topic(suffix="elsewhere"))


def _missing_of_an_audit(world: World) -> Any:
    past = parse_results(world.copied())
    plan = plan_audit(past, world.now, world.now)
    counts = tuple(AuditCounts(r, missing=10) for r in past.ranges)
    report = JobReport(past.run_ids[0], plan.digest, (), (), application_id="", spark_version="", seconds=0.0)
    return result_of_audit(report, AuditReport(counts, tuple(past.ranges)), plan)["missing_ranges"]


def _found_by_a_sensor(world: World) -> Any:
    sensor = KafkaNewRecordsSensor(task_id="sensor", topics=[world.source], since="earliest", poke_interval=1)
    found = sensor.poke(task_context())  # type: ignore[arg-type]
    return getattr(found, "xcom_value", None)


def _announced_by_a_watcher(world: World) -> Any:
    from airflow_provider_kafka_spark.clients.broker_poll import fetch_snapshot

    watch = Watch.parse(topics=[world.source], since="earliest")
    with KafkaHook() as hook:
        state, _ = watch.evaluate(None, fetch_snapshot(hook, [watch.query(None, 0)]), 0)
    return announced_ranges([{"payload": state.event()}])


#: Of each field of a result that ``offset_ranges`` takes: how a task makes it.
RANGES: dict[str, Callable[[World], Any]] = {
    "result": World.copied,
    "plan": lambda world: world.replay([f"{world.source}:0:0:10"]),
    "missing-ranges-of-an-audit": _missing_of_an_audit,
    "sensor": _found_by_a_sensor,
    "event-of-a-watcher": _announced_by_a_watcher,
    "uncovered": lambda world: uncovered(
        [{**world.entry(world.copied()), "offset_ranges": [f"{world.source}:0:0:1"]}],
        world.source,
        window=[f"{world.source}:0:0:10"],
    ),
}
#: Likewise, of the target.
TARGET_RANGES: dict[str, Callable[[World], Any]] = {
    "target-ranges": lambda world: world.copied()["target_ranges"],
    "event-of-a-copy": lambda world: announced_ranges([world.entry(world.copied())]),
}


@pytest.mark.parametrize("field", [*RANGES, *TARGET_RANGES])
def test_ranges_are_of_the_topic_that_had_them(world: World, field: str) -> None:
    """Of one that was recreated since, none of them is left, and nothing is read that is at their offsets now."""
    given, read = {**RANGES, **TARGET_RANGES}[field](world), world.source if field in RANGES else world.target
    (planned,) = world.replay(given)["ranges"]
    assert (planned["topic"], planned["until_offset"]) == (read, 10)
    world.recreate(read)

    with pytest.raises(AirflowFailException, match=rf"DataLossError: .*{read}.* has another id"):
        world.replay(given)

    permitted = world.replay(given, fail_on_data_loss=False)
    assert (permitted["planned_records"], permitted["missing"]) == (0, planned["planned_records"])
    # What is lost is not read by the next task either.
    with pytest.raises(AirflowFailException, match=r"DataLossError: .* has another id"):
        world.replay(permitted["missing_ranges"])


def test_a_result_of_an_older_version_is_taken_with_a_warning(world: World) -> None:
    """It says what is not checked; ranges that an author has written are no such result."""
    result = world.copied()
    older = [{name: value for name, value in r.items() if name != "topic_id"} for r in result["ranges"]]
    bare = [{name: older[0][name] for name in ("topic", "partition", "from_offset", "until_offset")}]

    found = [world.replay(given)["warnings"] for given in ({**result, "ranges": bare}, older, bare)]

    assert [sum(f"not checked whether {world.source!r} was" in w for w in of) for of in found] == [1, 1, 0]


def test_ranges_of_two_topics_of_one_name_are_refused(world: World) -> None:
    """They may overlap, and some of them are gone."""
    old = world.copied()["ranges"]
    world.recreate(world.source)
    ranges = [*old, *world.copied()["ranges"]]

    with pytest.raises(AirflowFailException, match="must have one topic_id"):
        world.replay(ranges)


@pytest.mark.parametrize("provenance", ["headers", "segments"])
@pytest.mark.parametrize("side", ["source", "target"])
def test_an_audit_compares_no_other_topics(world: World, provenance: str, side: str) -> None:
    past = parse_results(world.copied(provenance))
    with KafkaHook() as hook:
        assert not [w for w in planned_audit(past, hook, hook, read_to_end=True).warnings if "not checked" in w]
        world.recreate(getattr(world, side))
        with pytest.raises(TopicRecreatedError, match=f"The {side} topic"):
            planned_audit(past, hook, hook, read_to_end=True)


def test_an_audit_of_an_older_result_says_what_is_not_checked(world: World) -> None:
    result = world.copied()
    past = parse_results({**result, "source_topic_ids": {}, "evidence": {**result["evidence"], "target_ids": {}}})

    with KafkaHook() as hook:
        warnings = planned_audit(past, hook, hook, read_to_end=True).warnings

    for name in (world.source, world.target):
        assert any(f"not checked whether {name!r} was" in w for w in warnings)


@pytest.mark.parametrize("read", ["source", "target"])
def test_a_sensor_does_not_count_from_the_offsets_of_another_topic(world: World, read: str) -> None:
    """Whether it gets the whole result or its ranges."""
    result = world.copied()
    name, since = getattr(world, read), result if read == "source" else result["target_ranges"]
    world.recreate(name)

    sensor = KafkaNewRecordsSensor(task_id="sensor", topics=[name], since=since, poke_interval=1)
    with pytest.raises(AirflowFailException, match=r"DataLossError: .*deleted and recreated"):
        sensor.poke(task_context())  # type: ignore[arg-type]


def test_offsets_of_another_topic_bound_no_copy(world: World) -> None:
    """Those that a sensor has returned, and those that it has pushed, which are a later start."""
    ti = TaskInstance()
    common: dict[str, Any] = {"topics": [world.source], "poke_interval": 1}
    KafkaNewRecordsSensor(task_id="new", since="earliest", **common).poke(task_context(ti=ti))  # type: ignore[arg-type]
    reached = KafkaTimestampReachedSensor(task_id="reached", timestamp=10**12, **common)
    end: Any = reached.poke(task_context())  # type: ignore[arg-type]

    def plan(**bounds: Any) -> dict[str, Any]:
        given = {"topics": [world.source], "target_topic": world.elsewhere, "plan_only": True, **bounds}
        return execute(Batch(task_id="copy", **given))

    assert plan(ending_offsets=end.xcom_value)["planned_records"] == 0
    assert plan(starting_offsets=json.dumps(ti.pushed["offsets"]))["planned_records"] == 0
    world.recreate(world.source)

    for name, offsets in (("ending_offsets", end.xcom_value), ("starting_offsets", ti.pushed["offsets"])):
        with pytest.raises(AirflowFailException, match=f"DataLossError: {name} must be of the topics as they are now"):
            plan(**{name: offsets})
    again = KafkaNewRecordsSensor(task_id="new", since=ti.pushed["offsets"], **common)
    with pytest.raises(AirflowFailException, match=r"DataLossError: .*deleted and recreated"):
        again.poke(task_context())  # type: ignore[arg-type]


def test_what_went_to_a_target_that_was_recreated_is_not_covered(world: World) -> None:
    """Once a later copy names the new one."""
    old = world.entry(world.copied())
    assert uncovered([old], world.source, window=[f"{world.source}:0:0:10"]) == []
    world.recreate(world.target)
    new = {**world.entry(world.copied()), "offset_ranges": [f"{world.source}:0:0:4"]}

    (gap,) = uncovered([old, new], world.source, window=[f"{world.source}:0:0:10"])

    assert (gap["from_offset"], gap["until_offset"]) == (4, 10)
    assert gap["topic_id"] == world.now.topic(world.source).topic_id


def test_the_command_asks_which_target_is_there_now(world: World, api: Api, capsys: pytest.CaptureFixture[str]) -> None:
    """Before any other copy names the new one, and after it was deleted."""
    api.events = [{**event(1), "extra": world.entry(world.copied())}]
    given = [world.source, "--source-conn-id", "kafka_default", "--target-conn-id", "kafka_default"]
    assert main(given) == 0

    world.recreate(world.target)

    assert main(given[:3]) == 0
    assert main(given) == 1
    world.kafka.delete_topic(world.target)
    assert main(given) == 1
    assert f"{world.source}:0:0:10" in capsys.readouterr().out
