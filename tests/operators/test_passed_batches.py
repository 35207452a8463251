"""Promises of a copy that passes record batches on, with every other option that it can meet."""

from __future__ import annotations

import gzip
import os
from collections import Counter
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_kafka_spark.core.errors import BrokerUnavailableError
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRanges
from airflow_provider_kafka_spark.jobs.run_ownership import RunOwnership
from airflow_provider_kafka_spark.operators import proof
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.operators.copy_task import CopyTask, NewTask, Replay, Stream, large, once
from tests.raw_batches import log_of, make_strange, raw_batches

pytestmark = [pytest.mark.broker, pytest.mark.spark]

PASSES = "Passes the source's record batches on as they are; small ones are put together."


def numbered(first: int, last: int, partitions: int = 2) -> list[Record]:
    return [Record(b"k%d" % i, b"%d" % i, (("h", None),), partition=i % partitions) for i in range(first, last)]


def produce(kafka: KafkaBroker, topic: str, records: list[Record], in_batch: int = 20) -> None:
    """Batches of so many records."""
    kafka.produce(topic, records, {"batch.num.messages": in_batch, "linger.ms": 1_000})


def assert_mapped(kafka: KafkaBroker, result: dict[str, Any]) -> None:
    """Each record that the result counts, or that earlier tries of a stream have finished, is where segments say."""
    segments = result["segments"]
    names = {name for s in segments for name in (s["topic"], s["target_topic"])}
    at = {(name, r.partition, r.offset): r._replace(offset=None) for name in names for r in kafka.consume(name)}
    mapped = [
        (
            (s["topic"], s["partition"], s["from_offset"] + i),
            (s["target_topic"], s["target_partition"], s["target_from_offset"] + i),
        )
        for s in segments
        for i in range(s["until_offset"] - s["from_offset"])
    ]
    assert [at[source] for source, _ in mapped] == [at[target] for _, target in mapped]
    finished = OffsetRanges.parse(result.get("finished_before", ())).total
    assert len(dict(mapped)) == len(mapped) == result["records_written"] + finished


@pytest.fixture
def task(new_task: NewTask, monkeypatch: pytest.MonkeyPatch) -> Any:
    # Otherwise small batches are put together.
    monkeypatch.setattr("airflow_provider_kafka_spark.jobs.write.LEAST_BYTES", 0)
    found = new_task(CopyTask, 2, 2, provenance="segments", preserve_partition=True)
    produce(found.kafka, found.source, numbered(0, 400))
    return found


def test_an_uncommitted_batch_of_a_stream_is_written_again_at_least_once(task: CopyTask) -> None:
    """As a whole, with a warning: nothing tells what of it is there."""
    refused = large(1)
    produce(task.kafka, task.source, [refused])
    before = task.fail_at_large(lambda: task.run(Stream, delivery="at_least_once"), 50)

    result = task.run(Stream, delivery="at_least_once")

    assert before.total() > 0
    assert task.values() == once(0, 400) + Counter([refused.value or b""]) + before
    assert_mapped(task.kafka, result)
    assert result["evidence"]["may_have_duplicates"]
    assert any("is written again" in warning for warning in result["warnings"])


def test_two_plans_in_turn(task: CopyTask) -> None:
    """The short one has succeeded; the long one has delivered a part, which the success of the short one after it does
    not make unknown.
    """
    short = {"ending_offsets": {task.source: {"0": 200, "1": 200}}}
    refused = large(1)
    produce(task.kafka, task.source, numbered(400, 500))
    produce(task.kafka, task.source, [refused])
    task.clear(**short)
    part = task.fail_at_large(task.clear, 50)
    again = task.clear(**short)
    left = task.values()
    whole = task.clear()

    assert 400 < part.total() == left.total()
    assert task.values() == once(0, 500) + Counter([refused.value or b""])
    assert whole["delivered_before"] == part.total()
    for result in (again, whole):
        assert_mapped(task.kafka, result)
        assert not result["evidence"]["may_have_duplicates"]


def test_a_plan_says_which_way_it_takes(task: CopyTask) -> None:
    """The task that carries it out takes the same."""
    plan = task.run(plan_only=True)
    result = task.run(Replay, plan=plan)

    assert PASSES in plan["text"]
    assert result["batches_passed"] > 0
    assert_mapped(task.kafka, result)


@pytest.mark.parametrize(
    ("config", "given", "text", "warned"),
    [
        pytest.param(
            {"compression.type": "gzip"},
            {},
            "Copies records as bytes, in new batches, because of compression.type=gzip of ",
            False,
            id="as-bytes",
        ),
        pytest.param(
            {},
            {"sink_options": {"kafka.partitioner.ignore.keys": "true"}},
            "with Spark's Kafka source, because of kafka.partitioner.ignore.keys in sink_options",
            True,
            id="by-the-source",
        ),
    ],
)
def test_no_batch_is_passed_on_where_something_is_in_the_way(
    task: CopyTask, config: dict[str, str], given: dict[str, Any], text: str, warned: bool
) -> None:
    """The plan says so; and the result, where even as bytes it was not possible."""
    if config:
        task.kafka.alter_topic(task.target, config)

    plan = task.run(plan_only=True, **given)
    result = task.run(**given)

    assert text in plan["text"]
    assert (result["batches_passed"], task.values()) == (0, once(0, 400))
    assert any(w.startswith("reader='source': Spark's Kafka source read") for w in result["warnings"]) is warned
    assert_mapped(task.kafka, result)


@pytest.mark.parametrize(
    ("stored", "given", "is_kept"),
    [
        ("gzip", {}, True),
        ("uncompressed", {}, True),
        ("gzip", {"sink_options": {"kafka.compression.type": "zstd"}}, False),
    ],
)
def test_a_target_with_a_compression_of_its_own(
    new_task: NewTask, stored: str, given: dict[str, Any], *, is_kept: bool
) -> None:
    """Batches are compressed as its broker stores them; otherwise it writes each record anew, and a result warns."""
    task = new_task(CopyTask, 1, 1, provenance=None)
    records = [Record(b"k", b"%d" % i, (("name", b"v"),), 10_000 + i) for i in range(20)]
    produce(task.kafka, task.source, records)
    first = -5 if is_kept else 5
    make_strange(log_of(task.kafka, task.source), first_time=first, names={b"name": b"\xff\xfe\x00e"})
    task.kafka.alter_topic(task.target, {"compression.type": stored})
    result = task.run(**given)

    (copied,) = raw_batches(task.kafka, task.target)
    content = gzip.decompress(copied.payload[4:]) if stored == "gzip" else copied.payload
    assert content.count(b"\xff\xfe\x00e") == (20 if is_kept else 0)
    assert int.from_bytes(copied.times[4:12], "big", signed=True) == first
    assert any("write each record of" in warning for warning in result["warnings"]) is not is_kept


def test_a_timestamp_that_a_target_with_another_compression_refuses(new_task: NewTask) -> None:
    """Its broker answers with an error of no name."""
    task = new_task(CopyTask, 1, 1, provenance=None)
    produce(task.kafka, task.source, numbered(0, 5, 1))
    make_strange(log_of(task.kafka, task.source), first_time=-5, names={})
    task.kafka.alter_topic(task.target, {"compression.type": "gzip"})

    with pytest.raises(AirflowFailException, match=r"TargetError.* \(gzip\) anew.*refuse a timestamp below -1\. Leave"):
        task.run(sink_options={"kafka.compression.type": "zstd"})


def test_a_target_that_takes_only_small_batches(task: CopyTask) -> None:
    """Larger ones go as bytes, the others are passed on."""
    produce(task.kafka, task.source, [Record(b"k", os.urandom(500), partition=0) for _ in range(20)])
    produce(task.kafka, task.source, numbered(400, 440))
    task.kafka.alter_topic(task.target, {"max.message.bytes": "5000"})

    result = task.run(sink_options={"kafka.batch.size": 4_000})

    assert result["records_written"] == 460
    assert result["batches_passed"] > 0
    assert_mapped(task.kafka, result)


def test_a_broker_that_does_not_answer_the_worker_is_no_verdict(
    task: CopyTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything was delivered, and the retry writes nothing: without headers it could not find what is there."""

    def silent(*_: object, **__: object) -> None:
        raise BrokerUnavailableError("nobody answers")

    with monkeypatch.context() as patched:
        # The job itself asks by other clients.
        patched.setattr(proof, "check_delivery", silent)
        with pytest.raises(BrokerUnavailableError):
            task.run(provenance=None)
    result = task.run(provenance=None)

    assert task.values() == once(0, 400)
    assert (result["records_written"], result["delivered_before"]) == (400, 400)
    assert not any("written again" in warning for warning in result["warnings"])


@pytest.mark.long
def test_a_batch_without_a_partition_of_the_one_before(
    task: CopyTask, monkeypatch: pytest.MonkeyPatch, topic: TopicFactory
) -> None:
    """Its driver dies before it has opened the batch: the retry finds the other partition's progress all the same."""
    task.sources = [topic(2, suffix="other-source")]
    produce(task.kafka, task.source, [Record(b"k", b"0", partition=0)])
    produce(task.kafka, task.source, [Record(b"k", b"%d" % i, partition=1) for i in range(1, 200)])
    opened = RunOwnership.open
    partitions: list[list[int]] = []

    def open_once(self: RunOwnership, decision: Any, pieces: Any) -> Any:
        partitions.append([piece.partition for piece in pieces])
        if len(partitions) == 2:
            raise RuntimeError("died")
        return opened(self, decision, pieces)

    monkeypatch.setattr(RunOwnership, "open", open_once)
    given: dict[str, Any] = {"kind": Stream, "max_offsets_per_trigger": 100}
    with pytest.raises(Exception, match="died"):
        task.run(**given)
    result = task.run(**given)

    assert partitions[:2] == [[0, 1], [1]]
    assert task.values() == once(0, 200)
    assert not any("written again" in warning for warning in result["warnings"])
