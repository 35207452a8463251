"""Promises of the audit of a past copy, on a real broker and a real Spark.

Jobs run in a Spark of this process, in place of ``spark-submit``: all else is as it is in production.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_kafka_spark.core.errors import AuditFindingError, DeliveryError, JobMemoryError
from airflow_provider_kafka_spark.core.offsets.provenance import PROVENANCE_HEADER
from airflow_provider_kafka_spark.core.wire.protocol import AuditJob
from airflow_provider_kafka_spark.hooks.spark_job import SparkJobHook
from airflow_provider_kafka_spark.jobs import audit, kafka_source
from airflow_provider_kafka_spark.operators.audit import AuditReplayOperator
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.airflow_fakes import TaskInstance, TaskStateStore
from tests.bare_ranges import bare
from tests.docs.examples.undo_a_replay import dag as undo_a_replay
from tests.operators.copy_task import Batch, CopyTask, NewTask, Replay, execute
from tests.operators.copy_task import audit as audited

pytestmark = [pytest.mark.broker, pytest.mark.spark]

COUNTS = ("once", "duplicated", "missing", "filtered", "unknown", "different")


class World(CopyTask):
    """A source of two partitions with ten records, 0, 2, ... in the first one, and an empty target of two. Copies and
    audits know nothing of each other.
    """

    def copy(self, **parameters: Any) -> dict[str, Any]:
        given = {"topics": [self.source], "target_topic": self.target, "preserve_partition": True, **parameters}
        return execute(Batch(task_id="copy", **given))

    def replay(self, ranges: Any, **parameters: Any) -> dict[str, Any]:
        given = {"target_topic": self.target, "preserve_partition": True, **parameters}
        return execute(Replay(task_id="replay", offset_ranges=ranges, **given))

    def audit(self, of: Any, **parameters: Any) -> dict[str, Any]:
        result = audited(of, **{"fail_on_finding": False, **parameters})
        assert json.loads(json.dumps(result)) == result
        assert {name: sum(r[name] for r in result["ranges"]) for name in COUNTS} == {n: result[n] for n in COUNTS}
        return result

    def copied(self) -> list[Record]:
        return self.kafka.consume(self.target)

    def rewrite(self, change: Callable[[Record], list[Record]], result: Any = None) -> dict[str, Any]:
        """Copy, unless there is a result, and replace the target's records by hand.

        :return: the result, with the new places.
        """
        result = result or self.copy()
        records = self.copied()
        ends = {number: end for number, (_, end) in self.kafka.offsets(self.target).items()}
        self.kafka.produce(self.target, [new._replace(offset=None) for r in records for new in change(r)])
        self.kafka.delete_records(self.target, ends)
        now = self.kafka.offsets(self.target)
        places = [
            {"topic": self.target, "partition": number, "from_offset": start, "until_offset": end}
            for number, (start, end) in now.items()
            if start < end
        ]
        return {**result, "target_ranges": places}


@pytest.fixture
def world(new_task: NewTask) -> Any:
    records = [Record(b"k%d" % i, b"%d" % i, (("h", b"1"), ("n", None)), partition=i % 2) for i in range(10)]
    return new_task(World, 2, 2, records)


def counts(result: dict[str, Any]) -> dict[str, int]:
    return {name: result[name] for name in COUNTS if result[name]}


def test_a_good_copy(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every record is there once, as it was; records of others lie between. The result may be text. The task is green
    only by a report of this very audit.
    """
    world.kafka.produce(world.target, [Record(value=b"other", partition=0)] * 3)
    copied = world.copy()
    world.kafka.produce(world.target, [Record(value=b"other", partition=1)] * 3)
    result = world.audit(json.dumps(copied), fail_on_finding=True)

    assert counts(result) == {"once": 10}
    assert result["state"] == "complete"
    assert result["run_ids"] == [copied["run_id"]]
    assert bare(result["ranges"]) == [
        {
            **dict.fromkeys(COUNTS, 0),
            "topic": world.source, "partition": partition, "from_offset": 0, "until_offset": 5, "once": 5,
        }
        for partition in (0, 1)
    ]  # fmt: skip
    assert (result["missing_ranges"], result["all_missing_ranges"], result["compared"]) == ([], True, True)
    assert (result["duplicated_records"], result["different_records"], result["extra_copies"]) == ([], [], 0)
    assert [(r["partition"], r["from_offset"]) for r in result["target_ranges"]] == [(0, 3), (1, 0)]
    assert result["warnings"] == []
    assert world.spark.jobs == ["batch", "audit"]
    request = world.spark.requests[1]
    assert isinstance(request, AuditJob)
    assert request.planned_offsets == 10 + sum(r["until_offset"] - r["from_offset"] for r in result["target_ranges"])
    run = SparkJobHook.run
    monkeypatch.setattr(SparkJobHook, "run", lambda *arguments: replace(run(*arguments), plan_digest="0" * 16))
    with pytest.raises(DeliveryError):
        world.audit(copied)


def test_a_record_for_which_memory_is_too_small_is_named_and_not_tried_a_third_time(world: World) -> None:
    """The JVM refuses what the filter asks for, and takes no memory for it. A record that Spark reads first has no name
    before the next try.
    """
    copied = world.copy(where="true", topics=None, assign={world.source: [0]})
    for first, place in ((2, rf"{world.source}\[0\]@2"), (0, "the first record of a part of the source")):
        where = f"offset < {first} or length(space(int(offset) + 2000000000)) > 0"
        copied["evidence"]["transform"]["where"] = where
        operator, task = AuditReplayOperator(task_id="audit", of=copied), TaskStateStore()

        with pytest.raises(JobMemoryError, match=rf"Out of memory near {place}.*: raise driver_memory"):
            execute(operator, task)
        with pytest.raises(AirflowFailException, match=rf"RepeatedMemoryError: .*{place}"):
            execute(operator, task)


def test_a_second_copy_by_hand(world: World) -> None:
    """Wherever it lies: in another partition, too, and beyond the place where the run wrote."""
    copied = world.copy()
    records = world.copied()
    again = [r for r in records if r.value in (b"0", b"3")]
    world.kafka.produce(world.target, [r._replace(offset=None, partition=1) for r in again])
    world.kafka.produce(world.target, [again[0]._replace(offset=None)])
    result = world.audit(copied)

    assert counts(result) == {"once": 8, "duplicated": 2}
    assert (result["state"], result["extra_copies"]) == ("findings", 3)
    assert result["duplicated_records"] == [f"{world.source}[0]@0", f"{world.source}[1]@1"]
    assert result["different"] == 0


@pytest.mark.long
def test_findings_of_a_copy_with_segments(world: World) -> None:
    """A record that another offset of the target has, one that is mapped twice, and one that is not mapped at all.
    Records of others are none of the copy's. What segments lack is replayed, and audited together with the first copy.
    """
    others = [Record(b"k", b"of somebody else", partition=number) for number in (0, 1)]
    world.kafka.produce(world.target, others)
    copied = world.copy(provenance="segments")
    world.kafka.produce(world.target, others)
    of_first = [s for s in copied["segments"] if s["partition"] == 0]
    (whole,) = of_first
    source, target = whole["from_offset"], whole["target_from_offset"]

    def segment(start: int, size: int, at: int) -> dict[str, Any]:
        place = {"from_offset": source + start, "until_offset": source + start + size}
        return {**whole, **place, "target_from_offset": target + at}

    of_second = [s for s in copied["segments"] if s["partition"] != 0]
    wrong = {**copied, "segments": [*of_second, segment(0, 2, 0), segment(1, 2, 2)]}

    good, result = world.audit(copied), world.audit(wrong)

    assert counts(good) == {"once": 10}
    assert any("later copies of the same records are not seen" in warning for warning in good["warnings"])
    # Source offset 1 is at 1 as well as at 2, where 2 is; 2 is at 3, where 3 is; 3 and 4 are nowhere.
    assert counts(result) == {"once": 7, "duplicated": 1, "missing": 2, "different": 2}
    assert [(r["from_offset"], r["until_offset"]) for r in result["missing_ranges"]] == [(source + 3, source + 5)]
    lost = {**copied, "segments": of_second}
    repaired = world.replay(world.audit(lost)["missing_ranges"])
    assert counts(world.audit([lost, repaired])) == {"once": 10}


def test_a_finding_fails_the_task_after_its_result_was_pushed(world: World) -> None:
    copied = world.rewrite(lambda r: [] if r.value == b"0" else [r, r] if r.value == b"1" else [r])
    ti = TaskInstance()
    with pytest.raises(
        AirflowFailException,
        match=f"{AuditFindingError.__name__}.* 8 once, 1 duplicated, 1 missing.*{world.source}.1.@0",
    ):
        execute(AuditReplayOperator(task_id="audit", of=copied), ti=ti)

    assert counts(ti.pushed["return_value"]) == {"once": 8, "duplicated": 1, "missing": 1}
    assert ti.pushed["missing_ranges"] == ti.pushed["return_value"]["missing_ranges"]


def test_what_a_copy_left_out_is_no_finding(world: World, kafka: KafkaBroker, topic: TopicFactory) -> None:
    """By ``where``; and what is within the offsets, and outside of an exact window by its own timestamp."""
    source = topic(suffix="times")
    noon = 1_795_000_000_000
    kafka.produce(
        source, [Record(value=b"v", timestamp=noon + t, partition=0) for t in (0, 9_000, 1_000, -5_000, 10_000)]
    )
    window = {"starting_timestamp": noon, "ending_timestamp": noon + 9_500, "exact_window": True}
    audited = world.audit(world.copy(topics=[source], where="offset <> 1", **window))

    assert counts(audited) == {"once": 2, "filtered": 2}
    assert audited["state"] == "complete"


def test_what_aged_out_of_the_source_is_not_compared(world: World) -> None:
    """The result says how many there were: what the target does not have of them is unknown."""
    copied = world.rewrite(lambda r: [] if r.value in (b"0", b"8") else [r])
    world.kafka.delete_records(world.source, {0: 2, 1: 5})
    result = world.audit(copied)

    assert counts(result) == {"once": 8, "unknown": 1, "missing": 1}
    assert result["not_compared"] == 6
    assert any("7 offsets have aged out of the source" in warning for warning in result["warnings"])


def test_what_an_earlier_try_had_finished_and_nobody_has_counted(world: World) -> None:
    """A record that is neither in the source any more nor in the target may have been there."""
    copied = world.rewrite(lambda r: [] if r.value == b"0" else [r])
    results = {key: value for key, value in copied.items() if key != "ranges"}
    finished = {**results, "ranges": [], "finished_before": copied["ranges"], "written_before": copied["target_ranges"]}
    world.kafka.delete_records(world.source, {0: 2})
    result = world.audit(finished)

    assert counts(result) == {"once": 9}
    assert result["state"] == "unknown"
    assert any("No result says how many records 2 offsets had" in warning for warning in result["warnings"])


def test_more_findings_than_a_result_holds(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first ones of each kind are named, and all are counted."""
    monkeypatch.setattr(audit, "MAX_MISSING_RANGES", 2)
    monkeypatch.setattr(audit, "MAX_SAMPLES", 1)
    copied = world.rewrite(lambda r: [r, r._replace(value=b"x")] if int(r.value or b"") % 4 > 1 else [])
    result = world.audit(copied)

    assert counts(result) == {"duplicated": 4, "missing": 6, "different": 4}
    assert [(r["partition"], r["from_offset"]) for r in result["missing_ranges"]] == [(0, 0), (0, 2)]
    assert not result["all_missing_ranges"]
    assert result["duplicated_records"] == result["different_records"] == [f"{world.source}[0]@1"]
    assert any("the first 2 ranges" in warning for warning in result["warnings"])


#: Of the first eight records.
CHANGES: list[Callable[[Record], Record]] = [
    lambda r: r._replace(value=b""),
    lambda r: r._replace(key=None),
    lambda r: r._replace(key=b"", value=(r.key or b"") + (r.value or b"")),
    lambda r: r._replace(timestamp=(r.timestamp or 0) + 1),
    lambda r: r._replace(headers=(("h", b"2"), *r.headers[1:])),
    lambda r: r._replace(headers=(r.headers[0], ("n", b""), r.headers[2])),
    lambda r: r._replace(headers=r.headers[1:]),
    lambda r: r._replace(headers=(r.headers[1], r.headers[0], r.headers[2])),
]


def test_records_that_differ(world: World) -> None:
    """In value, key, what is in which of them, timestamp, a header, a null header, a lost one, the order of headers."""
    changes = dict(enumerate(CHANGES))
    copied = world.rewrite(lambda r: [changes.get(int(r.value or b""), lambda same: same)(r)])
    result = world.audit(copied)

    assert counts(result) == {"once": 10, "different": 8}
    assert result["state"] == "findings"
    assert sorted(result["different_records"]) == [f"{world.source}[{p}]@{o}" for p in (0, 1) for o in range(4)]


def test_headers_that_only_look_like_ours(world: World) -> None:
    """Of another run, malformed, of another topic, outside of the ranges, or not the last one; and records that look
    like ours and were aborted, or are in a transaction that is open and began later.
    """
    copied = world.copy()
    run_id, source = copied["run_id"], world.source
    values = [
        f"{'0' * 16}|{source}|0|0|5", f"{run_id}|{source}|0", f"{run_id}|{source}|0|0", f"{run_id}|{source}|0|-1|5",
        f"{run_id}|{source}|0||5", f"{run_id}|other|0|0|5", f"{run_id}|{source}|7|0|5", f"{run_id}|{source}|0|5|5",
        f"{run_id}|{source}|0|{9 * 10**18}|5", f"{run_id}x|{source}|0|0|5", "", run_id,
    ]  # fmt: skip
    lookalikes = [Record(value=b"x", headers=((PROVENANCE_HEADER, v.encode()),), partition=0) for v in values]
    good = (PROVENANCE_HEADER, f"{run_id}|{source}|0|0|5".encode())
    lookalikes += [
        Record(value=b"x", headers=(good, ("after", b"1")), partition=0),
        Record(value=b"x", headers=((PROVENANCE_HEADER, None),), partition=0),
        Record(value=b"x", headers=(("other", good[1]),), partition=0),
    ]
    world.kafka.produce(world.target, lookalikes)
    world.kafka.produce_transaction(world.target, [r._replace(offset=None) for r in world.copied()], commit=False)

    with world.kafka.open_transaction(world.target, [Record(value=b"x", partition=0)]):
        assert counts(world.audit(copied)) == {"once": 10}


def test_many_ranges_and_what_is_missing_within_them(world: World, kafka: KafkaBroker, topic: TopicFactory) -> None:
    """More than are read one by one; missing records at both sides of a boundary are one range, of a gap two."""
    source = topic(suffix="many")
    kafka.produce(source, [Record(value=b"%d" % i, partition=0) for i in range(400)])
    copied = world.replay([f"{source}:0:{i}:{i + 3}" for i in range(0, 400, 5)])
    lost = (b"10", b"12", b"15", b"200", b"201", b"202")
    later = world.audit(world.rewrite(lambda r: [] if r.value in lost else [r], copied))

    assert (counts(later), len(later["ranges"])) == ({"once": 234, "missing": 6}, 80)
    assert [(r["from_offset"], r["until_offset"]) for r in later["missing_ranges"]] == [
        (10, 11), (12, 13), (15, 16), (200, 203),
    ]  # fmt: skip


def test_offsets_without_a_record(world: World, kafka: KafkaBroker, topic: TopicFactory) -> None:
    """Markers and aborted records of the source are neither read nor missed, and do not cut a missing range."""
    source = topic(suffix="gaps")
    for number in range(4):
        records = [Record(value=b"%d" % number, partition=0)] * 2
        kafka.produce_transaction(source, records, commit=number != 2)
    copied = world.copy(topics=[source])
    written = copied["target_ranges"]
    nowhere = world.audit({**copied, "target_ranges": [], "evidence": {**copied["evidence"], "target_ends": {
        world.target: {str(n): end for n, (_, end) in kafka.offsets(world.target).items()}
    }}})  # fmt: skip

    assert copied["gaps"] == 6
    assert written
    assert counts(nowhere) == {"missing": 6}
    assert [(r["from_offset"], r["until_offset"]) for r in nowhere["missing_ranges"]] == [(0, 11)]


def test_more_chunks_than_one(world: World, kafka: KafkaBroker, topic: TopicFactory) -> None:
    """What is missing over their boundaries is one range."""
    source, target = topic(suffix="long"), topic(suffix="longs-copy")
    kafka.produce(source, [Record(value=b"%d" % i, partition=0) for i in range(20_000)])
    copied = world.replay([f"{source}:0:100:20000"], target_topic=target)
    cut = world.audit(
        {**copied, "target_ranges": [{**copied["target_ranges"][0], "until_offset": 3_000}]}, read_to_end=False
    )

    assert counts(cut) == {"once": 3_000, "missing": 16_900}
    assert bare(cut["missing_ranges"]) == [
        {"topic": source, "partition": 0, "from_offset": 3_100, "until_offset": 20_000}
    ]


def test_targets_by_an_expression(world: World, topic: TopicFactory) -> None:
    """Nothing is known of where the targets began. What the copy changed by its options is no difference."""
    other = topic(2, suffix="other")
    world.kafka.produce(other, [Record(value=b"x")] * 3)
    expression = f"if(partition = 0, '{world.target}', '{other}')"
    options = {"include_headers": False, "preserve_timestamps": False}
    copied = world.copy(target_topic=None, target_topic_expr=expression, **options)

    assert copied["target_topics"] == sorted((world.target, other))
    assert counts(world.audit(copied, fail_on_finding=True)) == {"once": 10}


def test_by_the_public_reader(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Spark whose internal classes are not as known is slower, and finds the same."""
    copied = world.rewrite(lambda r: [] if r.value == b"0" else [r._replace(value=None)] if r.value == b"1" else [r])
    monkeypatch.setattr(kafka_source, "read_tasks", lambda *_: None)
    assert counts(world.audit(copied)) == {"once": 9, "missing": 1, "different": 1}


@pytest.mark.parametrize(
    "task_id", ["remove_the_wrong_replay", pytest.param("without_the_wrong_replay", marks=pytest.mark.long)]
)
def test_a_wrong_replay_is_undone_as_the_documentation_says(world: World, topic: TopicFactory, task_id: str) -> None:
    """Records of others stay, and so do those of another replay."""
    clean, wrong = topic(2, suffix="clean"), world.copy()
    right = world.replay([f"{world.source}:0:0:1"])
    world.kafka.produce(world.target, [Record(b"other", b"other", partition=1)])
    operator: Any = copy.copy(undo_a_replay.get_task(task_id))
    operator.topics = [world.target]
    operator.target_topic = clean if operator.target_topic == "orders_clean" else world.target
    operator.where = str(operator.where).replace("5c1fb7a0f6e24c36", wrong["run_id"])
    execute(operator)

    if operator.target_topic == clean:
        assert sorted(r.value or b"" for r in world.kafka.consume(clean)) == [b"0", b"other"]
        # Its header names the topic that it was copied from.
        assert right["run_id"].encode() not in (world.kafka.consume(clean)[0].headers[-1][1] or b"")
    else:
        tombstones = [r for r in world.copied() if r.value is None]
        assert sorted(r.key or b"" for r in tombstones) == [b"k%d" % i for i in range(10)]
        assert len(world.copied()) == 10 + 1 + 1 + 10
