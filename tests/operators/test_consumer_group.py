"""Promises of :class:`~airflow_provider_kafka_spark.operators.consumer_group.TranslateGroupOffsetsOperator`."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from typing import Any
from uuid import uuid4

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_kafka_spark.clients import group_translation
from airflow_provider_kafka_spark.clients.consumer_group import ConsumerGroup
from airflow_provider_kafka_spark.core.errors import (
    ConsumerGroupActiveError,
    GroupOffsetsError,
    InvalidInputError,
    KafkaSparkError,
    OptionError,
    TargetError,
    TargetRecreatedError,
    UnknownTopicError,
)
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, TopicPartition
from airflow_provider_kafka_spark.core.offsets.provenance import PROVENANCE_HEADER, Provenance
from airflow_provider_kafka_spark.core.offsets.segments import Segment
from airflow_provider_kafka_spark.core.topics.group_move import PLAN_ONLY
from airflow_provider_kafka_spark.hooks.kafka import KafkaHook
from airflow_provider_kafka_spark.operators import consumer_group
from airflow_provider_kafka_spark.operators.consumer_group import TranslateGroupOffsetsOperator
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.operators.copy_task import Batch, execute
from tests.raw_batches import log_of, make_strange

pytestmark = pytest.mark.broker


class Scene:
    """A source, its copy, and a group that has consumed a part of the source."""

    def __init__(self, kafka: KafkaBroker, source: str, target: str) -> None:
        self.kafka, self.source, self.target = kafka, source, target
        self.group = f"group-{uuid4().hex[:8]}"

    def produce(self, counts: Mapping[int, int]) -> None:
        """So many records in each partition of the source."""
        self.kafka.produce(self.source, [Record(b"k", b"v", partition=p) for p, n in counts.items() for _ in range(n)])

    def copied(self, *places: tuple[int, int], partition: int = 0) -> None:
        """The target gets, in this order, copies of the source's records at these partitions and offsets."""
        records = [
            Record(
                b"%d" % p,
                b"%d" % o,
                headers=(("own", b"1"), (PROVENANCE_HEADER, Provenance("run", self.source, p, o, 0).format())),
                partition=partition,
            )
            for p, o in places
        ]
        self.kafka.produce(self.target, records)

    def commit(self, offsets: Mapping[int, int], *, topic: str = "", group: str = "") -> None:
        with KafkaHook(timeout=20) as hook:
            ConsumerGroup(hook, group or self.group).move(
                {TopicPartition(topic or self.source, p): o for p, o in offsets.items()}
            )

    def ready(self, count: int, consumed: int, lacks: Collection[int] = ()) -> None:
        """So many records in partition 0, all but some of them copied, and some consumed."""
        self.produce({0: count})
        self.copied(*[(0, o) for o in range(count) if o not in lacks])
        self.commit({0: consumed, 1: 0})

    def translate(self, **parameters: Any) -> dict[str, Any]:
        given = {"group_id": self.group, "topic_map": {self.source: self.target}, "kafka_timeout": 20, **parameters}
        operator = TranslateGroupOffsetsOperator(task_id="translate", **given)
        operator.render_template_fields({})
        return execute(operator)

    def committed(self, group: str = "") -> dict[int, int]:
        return self.kafka.committed(group or self.group, self.target)

    def read_on(self) -> list[tuple[int, int]]:
        """What the group's consumers get on the target: the places on the source, in order."""
        committed = self.committed()
        return [
            (origin.partition, origin.offset)
            for record in self.kafka.consume(self.target)
            if record.headers and (record.offset or 0) >= committed[record.partition or 0]
            for origin in [Provenance.parse(record.headers[-1][1] or b"")]
        ]


@pytest.fixture
def scene(kafka: KafkaBroker, topic: TopicFactory) -> Scene:
    return Scene(kafka, topic(2, suffix="source"), topic(2, suffix="target"))


@pytest.mark.spark
@pytest.mark.usefixtures("in_process_spark")
def test_a_group_goes_on_at_the_copy_where_it_stopped_at_the_source(scene: Scene) -> None:
    """After real copies, the second of which continues the first. The source was written in transactions, one of them
    aborted, so its offsets have gaps.
    """
    keys = [b"key-%d" % i for i in range(12)]
    for number in range(6):
        records = [Record(key, b"%d" % number, partition=i % 2) for i, key in enumerate(keys)]
        scene.kafka.produce_transaction(scene.source, records, commit=number != 4)
        if number == 2:
            _copy(scene, {})
            middle = {str(p): end for p, (_, end) in scene.kafka.offsets(scene.source).items()}
    _copy(scene, middle)
    scene.commit({0: 16, 1: 23})

    result = scene.translate()

    expected = {
        (r.partition, r.offset)
        for r in scene.kafka.consume(scene.source)
        if (r.offset or 0) >= (16, 23)[r.partition or 0]
    }
    seen = scene.read_on()
    assert expected <= set(seen)
    assert len(seen) == len(expected) + result["seen_again"]
    assert (result["state"], result["missing"], result["warnings"]) == ("committed", 0, [])


@pytest.mark.spark
@pytest.mark.usefixtures("in_process_spark")
def test_segments_say_where_records_without_headers_are(scene: Scene) -> None:
    """Two copies, the second of which continues the first, with records of others before, between and after them, which
    claim to be copies of what the group has not consumed. Segments alone are no proof: the target is read.
    """
    results, claims = [], ((PROVENANCE_HEADER, Provenance("0" * 16, scene.source, 0, 9, 0).format()),)
    for part in range(2):
        values = [b"%d" % i for i in range(part * 10, part * 10 + 10)]
        scene.kafka.produce(scene.source, [Record(b"k", v, partition=int(v) % 2) for v in values])
        scene.kafka.produce(scene.target, [Record(b"k", b"other", claims, partition=p) for p in (0, 1)])
        starting = {str(p): 5 * part for p in (0, 1)}
        results.append(_copy(scene, starting, preserve_partition=True, provenance="segments"))
    scene.kafka.produce(scene.target, [Record(b"k", b"other", partition=p) for p in (0, 1)])
    scene.commit({0: 3, 1: 7})

    for of in (results, json.dumps(results), [{"segments": r["segments"], "run_id": r["run_id"]} for r in results]):
        moved = scene.translate(of=of)

        assert (moved["state"], moved["missing"], moved["seen_again"]) == ("committed", 0, 0)
        committed = scene.committed()
        seen = {r.value for r in scene.kafka.consume(scene.target) if (r.offset or 0) >= committed[r.partition or 0]}
        assert seen == {b"other", *(b"%d" % (2 * i) for i in range(3, 10)), *(b"%d" % (2 * i + 1) for i in (7, 8, 9))}
    # With the first record of the second copy: the group has not consumed 3 to 5.
    (second,) = (s for s in results[1]["segments"] if s["partition"] == 0)
    scene.kafka.delete_records(scene.target, {0: second["target_from_offset"] + 1})
    with pytest.raises(AirflowFailException, match=r"3 records that the group .* has not consumed are not in the tar"):
        scene.translate(of=results)


def _copy(scene: Scene, starting: dict[str, int], **parameters: Any) -> dict[str, Any]:
    given = {"starting_offsets": {scene.source: starting} if starting else "earliest", **parameters}
    return execute(Batch(task_id="copy", topics=[scene.source], target_topic=scene.target, **given))


def test_only_the_tail_of_a_long_target_is_read(scene: Scene) -> None:
    """As much as the group has not consumed, and not the 20,000 records before."""
    scene.ready(20_100, 20_000)

    result = scene.translate()

    assert result["partitions"][0]["new"] == 20_000
    assert result["records_read"] == 1_000


def test_records_of_others_after_the_copies_are_not_skipped(scene: Scene) -> None:
    """Producers write to the target already. What the group passes over is in a warning."""
    others = [Record(value=b"new", partition=0)] * 3
    scene.kafka.produce(scene.target, others)
    scene.ready(5, 5)
    scene.kafka.produce(scene.target, others)

    result = scene.translate()

    place = result["partitions"][0]
    assert (place["at"], place["new"], place["seen_again"]) == ("end", 8, 0)
    (passed,) = [w for w in result["warnings"] if "no copy has written" in w]
    assert "at least 3 records" in passed


def test_a_forged_or_broken_header_is_no_copy(scene: Scene) -> None:
    """Only the last header counts; one of another topic, or that cannot be read, is of others. So is a record whose
    header has a name that Python's client cannot read.
    """
    scene.kafka.produce(scene.target, [Record(headers=(("name", b"v"),), partition=0)])
    make_strange(log_of(scene.kafka, scene.target), names={b"name": b"\xff\xfe\x00e"})
    forged = Provenance("run", scene.source, 0, 2, 0).format()
    for value in (b"\xff\xfe", b"a|b|c", b"run|%s|-5|2|0" % scene.source.encode(), b"run|other|0|2|0"):
        scene.kafka.produce(scene.target, [Record(headers=((PROVENANCE_HEADER, value),), partition=0)])
    scene.kafka.produce(scene.target, [Record(headers=((PROVENANCE_HEADER, forged), ("own", b"1")), partition=0)])
    scene.ready(3, 2)

    assert scene.translate()["partitions"][0]["new"] == 8


def test_a_plan_commits_nothing_and_a_move_says_where_the_group_was(scene: Scene) -> None:
    scene.ready(6, 4)
    other = f"{scene.group}-v2"
    scene.commit({0: 3}, topic=scene.target, group=other)

    plan = scene.translate(target_group_id=other, plan_only="true")
    before = scene.committed(other)
    result = scene.translate(target_group_id=other)

    assert (plan["state"], plan["warnings"][-1]) == ("planned", PLAN_ONLY)
    assert before == {0: 3}
    assert plan["partitions"] == result["partitions"]
    assert result["warnings"] == [
        f"The group {other!r} has offsets on the target already, which are replaced: {scene.target}[0] from 3 to 4"
    ]
    assert [(p["old"], p["new"]) for p in result["partitions"]] == [(3, 4), (None, 0)]
    assert scene.committed(other) == {0: 4, 1: 0}
    assert scene.committed() == {}
    assert scene.translate(target_group_id=other)["partitions"][0]["old"] == 4


def test_a_group_that_consumes_at_the_target_is_not_moved_back(scene: Scene) -> None:
    """As by a DAG that runs again after the cut over. An offset beyond the end is none."""
    scene.ready(6, 4)
    scene.translate()
    scene.commit({0: 6, 1: 99}, topic=scene.target)

    again = scene.translate()
    kept = scene.committed()
    back = scene.translate(move_back="true")

    assert [(p["old"], p["new"], p["at"], p["seen_again"]) for p in again["partitions"]] == [
        (6, 6, "ahead", 0),
        (99, 0, "start", 0),
    ]
    assert f"stays there: {scene.target}[0] at 6. move_back=True" in again["warnings"][0]
    assert kept == {0: 6, 1: 0}
    assert back["partitions"][0]["new"] == 4
    assert scene.committed() == {0: 4, 1: 0}


def test_a_partition_without_a_commit_counts_as_not_consumed(scene: Scene) -> None:
    scene.produce({0: 3, 1: 3})
    scene.copied((0, 0), (0, 1), (1, 0), (0, 2), (1, 1), (1, 2))
    scene.commit({0: 3})

    result = scene.translate()

    assert result["partitions"][0]["new"] == 2
    assert result["seen_again"] == 1
    assert [s["committed"] for s in result["sources"]] == [3, None]
    assert f"'{scene.source}[1]'" in result["warnings"][0]


def test_what_the_target_lacks_is_an_error_or_counted(scene: Scene) -> None:
    """Not copied yet, and filtered out or aged out of the target."""
    scene.ready(10, 3, lacks=(4, 9))

    plan = scene.translate(plan_only=True)
    with pytest.raises(
        AirflowFailException, match=r"DataLossError: 2 records .* are not in the target: .*4 to 5;.*9 to 10"
    ):
        scene.translate()
    assert scene.committed() == {}
    result = scene.translate(fail_on_data_loss="false")

    assert plan["missing"] == result["missing"] == 2
    assert any("2 records" in w for w in result["warnings"])
    assert scene.committed()[0] == 3


def test_what_aged_out_of_the_source_is_found_in_the_target(scene: Scene) -> None:
    """The copy is all that is left of it."""
    scene.ready(8, 2)
    scene.kafka.delete_records(scene.source, {0: 6})

    result = scene.translate()

    assert result["partitions"][0]["new"] == 2
    assert result["missing"] == 0
    assert any("no longer" in w for w in result["warnings"])


def test_an_active_group_gets_nothing(scene: Scene) -> None:
    """A plan says it in a warning, as it does of one that still consumes the source."""
    scene.ready(3, 1)
    other, member = f"{scene.group}-v2", scene.kafka.group_member
    with member(other, scene.target), member(scene.group, scene.source):
        with pytest.raises(ConsumerGroupActiveError, match=f"{other}.*must be EMPTY or not exist.*STABLE"):
            scene.translate(target_group_id=other)
        plan = scene.translate(target_group_id=other, plan_only=True)

    assert plan["partitions"][0]["new"] == 1
    assert any("refused" in w for w in plan["warnings"])
    assert any("STABLE on the source: what it consumes from now on is seen again" in w for w in plan["warnings"])
    assert scene.committed(other) == {}


def test_a_target_that_is_recreated_while_it_is_read_is_noticed(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.ready(3, 1)

    def translate(*arguments: Any) -> None:
        group_translation.translate(*arguments)
        scene.kafka.delete_topic(scene.target)
        scene.kafka.create_topic(scene.target, 2)

    monkeypatch.setattr(consumer_group, "translate", translate)
    with pytest.raises(TargetRecreatedError):
        scene.translate()
    assert scene.committed() == {}


def test_results_of_an_earlier_target_do_not_hide_those_of_the_new_one(scene: Scene) -> None:
    """The first target had the records in the order of the source, and the new one has the first half last."""

    def result_of(*segments: tuple[int, int]) -> dict[str, Any]:
        with KafkaHook() as hook:
            now = hook.state([scene.source, scene.target])
        source_id, target_id = (now.topic(name).topic_id for name in (scene.source, scene.target))
        found = [
            Segment(OffsetRange(scene.source, 0, at, at + 5), OffsetRange(scene.target, 0, to, to + 5))
            for at, to in segments
        ]
        return {
            "segments": [segment.to_dict() for segment in found],
            "source_topic_ids": {scene.source: source_id},
            "evidence": {"target_ids": {scene.target: target_id}, "source_cluster_id": now.cluster_id},
        }

    scene.produce({0: 10})
    scene.commit({0: 5, 1: 0})
    old = result_of((0, 0), (5, 5))
    scene.kafka.delete_topic(scene.target)
    scene.kafka.create_topic(scene.target, 2)
    scene.kafka.produce(scene.target, [Record(b"k", b"v", partition=0)] * 10)
    new = result_of((5, 0), (0, 5))

    moved = scene.translate(of=[old, new])

    assert [p["new"] for p in moved["partitions"]] == [0, 0]
    assert [w for w in moved["warnings"] if "left out" in w and f"{scene.target!r} has another id" in w]
    with pytest.raises(AirflowFailException, match="none was found"):
        scene.translate(of=old)
    # Nor do those of an earlier source lead to the records of this one.
    scene.kafka.delete_topic(scene.source)
    scene.kafka.create_topic(scene.source, 2)
    scene.produce({0: 10})
    scene.commit({0: 5, 1: 0})
    with pytest.raises(AirflowFailException, match="none was found"):
        scene.translate(of=[new])


def test_topics_are_those_that_the_group_has_committed(scene: Scene, topic: TopicFactory) -> None:
    """As far as the map has them. All may have one target; a later run does not take the target for a source."""
    more, never = topic(1, suffix="more"), topic(1, suffix="never")
    scene.produce({0: 2})
    scene.kafka.produce(more, [Record(b"k", b"v")] * 2)
    scene.copied((0, 0), (0, 1))
    header = ((PROVENANCE_HEADER, Provenance("run", more, 0, 1, 0).format()),)
    scene.kafka.produce(scene.target, [Record(headers=header, partition=0)])
    scene.commit({0: 2, 1: 0})
    scene.commit({0: 1}, topic=more)

    of_map = scene.translate(topic_map={scene.source: scene.target, never: scene.target}, plan_only=True)
    both = scene.translate(topic_map=None, target_topic=scene.target)
    again = scene.translate(topic_map=None, target_topic=scene.target)

    assert of_map["topics"] == {scene.source: scene.target}
    assert both["topics"] == {scene.source: scene.target, more: scene.target}
    assert (both["partitions"][0]["new"], again["partitions"][0]["old"]) == (2, 2)


def _without_provenance(scene: Scene) -> dict[str, Any]:
    scene.kafka.produce(scene.target, [Record(value=b"other", partition=0)])
    return {}


def _beyond_the_end(scene: Scene) -> dict[str, Any]:
    scene.commit({0: 50})
    return {}


BAD: list[tuple[type[KafkaSparkError], Callable[[Scene], dict[str, Any]], str]] = [
    (GroupOffsetsError, lambda _: {"group_id": "nobody"}, "does not exist, or its offsets have expired"),
    (GroupOffsetsError, lambda s: {"topics": [s.target], "topic_map": {s.target: "x"}}, "it has none"),
    (UnknownTopicError, lambda _: {"topics": ["nowhere"]}, "nowhere"),
    (TargetError, lambda _: {"topic_map": None}, "another topic than its source"),
    (TargetError, lambda _: {"target_topic": "x"}, "at most one of"),
    (TargetError, lambda s: {"topic_map": {s.source: "nowhere"}}, "does not exist"),
    (TargetError, lambda s: {"topics": [s.source], "topic_map": {"x": "y"}}, "has none for"),
    (InvalidInputError, lambda _: {"topic_map": "{"}, "must be JSON"),
    (TargetError, lambda _: {"topic_map": None, "target_topic": 7}, "got 7"),
    (OptionError, lambda _: {"plan_only": "{{ 'maybe' }}"}, "plan_only must be"),
    (InvalidInputError, lambda _: {"of": {"records_written": 3}}, "1 of 1 have no segments"),
    (InvalidInputError, lambda _: {"of": "{"}, "of must be the result of a copy"),
    (InvalidInputError, lambda _: {"of": {"segments": [{}]}}, "reading it failed"),
    (GroupOffsetsError, _without_provenance, "provenance='headers', or that the segments"),
    (GroupOffsetsError, _beyond_the_end, "at or before the end"),
]


def test_bad_input(scene: Scene) -> None:
    """One error of its own class, and nothing is committed."""
    scene.produce({0: 3})
    scene.commit({0: 1})
    for kind, make, says in BAD:
        with pytest.raises(AirflowFailException) as raised:
            scene.translate(**make(scene))

        assert str(raised.value).startswith(f"{kind.__name__}: ") or isinstance(raised.value.__context__, kind)
        assert says in str(raised.value)
        assert scene.committed() == {}
