"""Reading records: the first one at or after a moment, those at the edges of ranges, and how many there are."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import confluent_kafka
import pytest

from airflow_provider_kafka_spark.clients import next_messages, record_reader, record_reads
from airflow_provider_kafka_spark.clients.edge_timestamps import edge_timestamps
from airflow_provider_kafka_spark.clients.empty_offsets import empty_beginnings
from airflow_provider_kafka_spark.core.errors import BrokerError, BrokerUnavailableError
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, OffsetRanges, TopicPartition
from airflow_provider_kafka_spark.core.offsets.spans import SMALL_GAP_OFFSETS
from airflow_provider_kafka_spark.core.topics import record_search
from airflow_provider_kafka_spark.core.topics.broker_state import ClusterState
from airflow_provider_kafka_spark.hooks.kafka import KafkaHook
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory

pytestmark = pytest.mark.broker

NOON = 1_700_000_000_000
#: What a producer that writes microseconds says.
IN_MICROSECONDS = NOON * 1_000
_TAKES_ANY_TIME = {"message.timestamp.after.max.ms": str(2**63 - 1)}


@pytest.fixture(params=[10, 10_000], ids=["by-halves", "one-after-the-other"])
def _walked(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_search, "MOST_WALKED", request.param)


def state(name: str, *moments: int) -> ClusterState:
    with KafkaHook() as hook:
        return hook.state([name], moments)


def records(moments: Sequence[int], partition: int = 0) -> list[Record]:
    return [Record(value=b"v", partition=partition, timestamp=NOON + at) for at in moments]


@pytest.mark.usefixtures("_walked")
def test_a_marker_has_the_time_of_now_and_is_no_record(kafka: KafkaBroker, topic: TopicFactory) -> None:
    """As in a topic that was filled with old records by transactions: markers are at offsets 2,000 and 4,001."""
    name = topic(3)
    for i in range(2):
        kafka.produce_transaction(name, records(range(i * 2_000, (i + 1) * 2_000)))
    # Nothing but a marker.
    kafka.produce_transaction(name, [*records([5], 1)])
    kafka.delete_records(name, {1: 1})

    found = state(name, NOON + 2_500, NOON + 4_000)

    p, only_a_marker, empty = (TopicPartition(name, i) for i in range(3))
    assert found.first_at == {
        (p, NOON + 2_500): 2_501,
        (p, NOON + 4_000): None,
        (only_a_marker, NOON + 2_500): None,
        (only_a_marker, NOON + 4_000): None,
        (empty, NOON + 2_500): None,
        (empty, NOON + 4_000): None,
    }
    assert not found.ahead


def test_a_log_that_was_cut_since_its_end_was_asked_ends_a_search(kafka: KafkaBroker, topic: TopicFactory) -> None:
    """The client then reads from the log's start, where nothing was asked for."""
    name = topic()
    kafka.produce(name, records(range(3)))
    p = TopicPartition(name, 0)

    with KafkaHook() as hook, pytest.raises(BrokerUnavailableError, match=r"must reach to offset 500.*was cut"):
        record_reads.run_searches(hook, {(p, 0): record_search.sample([500], 1)}, {p: 1_000}, record_reads.raise_error)
    holes, ends = OffsetRanges([OffsetRange(name, 0, 500, 1_000)]), {p: 1_000}
    with KafkaHook() as hook:
        for within, said in ((30.0, f"reading {name}"), (0.0, "must be read in time")):
            with pytest.raises(BrokerError, match=said):
                empty_beginnings(hook, holes, ends, read_committed=True, within=within)
        # Of a log that begins later, nothing is known to be empty.
        kafka.delete_records(name, {0: 2})
        with pytest.raises(BrokerError, match=f"reading {name}"):
            empty_beginnings(hook, OffsetRanges([OffsetRange(name, 0, 0, 2)]), {p: 3}, read_committed=True)


@pytest.mark.usefixtures("_walked")
def test_a_time_in_the_future_is_passed_over_and_named(
    kafka: KafkaBroker, topic: TopicFactory, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search that takes long says so before it goes on."""
    monkeypatch.setattr(record_reads, "SAID_AFTER", 1)
    name = topic(config=_TAKES_ANY_TIME)
    kafka.produce(name, [*records(range(3)), Record(value=b"v", timestamp=IN_MICROSECONDS), *records(range(3, 600))])

    found = state(name, NOON + 2, NOON + 500, NOON + 600)

    p = TopicPartition(name, 0)
    assert found.first_at == {(p, NOON + 2): 2, (p, NOON + 500): 501, (p, NOON + 600): None}
    assert found.ahead == {p: (3, IN_MICROSECONDS)}
    # Another search would find the same as long as the log only grows, or could find another.
    assert found.unsettled == {(p, NOON + 500), (p, NOON + 600)}
    assert f"Records of 1 partitions, such as {p}, are searched by their timestamps" in capsys.readouterr().out


def test_what_a_topic_permits_is_credible(kafka: KafkaBroker, topic: TopicFactory) -> None:
    name = topic(config={"message.timestamp.after.max.ms": str(86_400_000)})
    with KafkaHook() as hook:
        now = hook.state([name]).now_ms
    kafka.produce(name, [Record(value=b"v", timestamp=now + 7_200_000)])

    found = state(name, now)

    assert list(found.first_at.values()) == [0]
    assert not found.unsettled


def test_a_record_that_cannot_be_unpacked_is_left_out_with_a_warning(
    kafka: KafkaBroker, topic: TopicFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    """A few KB on the broker may be more than a client unpacks. It must not stop every copy of its topic, since the job
    can leave it out.
    """
    name, now = topic(2), int(time.time() * 1000)
    large = Record(value=bytes(110_000_000), timestamp=now - 5_000, partition=0)
    kafka.produce(name, [large], {"compression.type": "zstd", "message.max.bytes": 200_000_000})
    kafka.produce(name, [Record(value=b"v", timestamp=now - age, partition=p) for p, age in ((0, 1_000), (1, 0))])
    ranges = OffsetRanges([OffsetRange(name, 0, 0, 2), OffsetRange(name, 1, 0, 1)])

    assert edge_timestamps(KafkaHook(), ranges) == {name: (now - 1_000, now)}

    assert capsys.readouterr().out.count(f"The timestamp of {name}[0]@0 is not compared") == 1


def test_all_partitions_are_read_at_once_and_a_seek_is_only_for_a_long_gap(
    kafka: KafkaBroker, topic: TopicFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred ranges that end with a marker, in as many partitions, and ranges of one partition that are near and far
    away: one consumer, one assignment, and one seek.
    """
    calls: Counter[str] = Counter()

    class CountingConsumer(confluent_kafka.Consumer):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            calls["made"] += 1
            super().__init__(*args, **kwargs)

        def assign(self, *args: Any, **kwargs: Any) -> None:
            calls["assigned"] += 1
            super().assign(*args, **kwargs)

        def incremental_assign(self, partitions: Any) -> None:
            calls["sought"] += len(partitions)
            super().incremental_assign(partitions)

        def incremental_unassign(self, partitions: Any) -> None:
            calls["left"] += 1
            super().incremental_unassign(partitions)

    many, one = topic(100, suffix="many"), topic(suffix="one")
    kafka.produce_transaction(many, [Record(value=b"v", partition=i % 100) for i in range(300)])
    kafka.produce_transaction(one, [Record(value=b"v") for _ in range(9)])  # and a marker at 9
    kafka.produce(one, [Record(value=b"v") for _ in range(2 * SMALL_GAP_OFFSETS + 50)])
    far = 2 * SMALL_GAP_OFFSETS
    ranges = OffsetRanges(
        [
            *(OffsetRange(many, i, 0, 4) for i in range(100)),
            *(OffsetRange(one, 0, start, start + 3) for start in (0, 3, 7, 20, far, far + 20)),
        ]
    )
    monkeypatch.setattr(confluent_kafka, "Consumer", CountingConsumer)

    with KafkaHook(timeout=20) as hook:
        counts = hook.count_records(ranges)

    assert list(counts.values()) == [*[3] * 100, 3, 3, 2, 3, 3, 3]
    calls.pop("left")
    assert calls == {"made": 1, "assigned": 1, "sought": 1}

    # The first and the last record of each: partitions that were read are left many at once.
    edge_timestamps(KafkaHook(timeout=20), OffsetRanges(OffsetRange(many, i, 0, 3) for i in range(100)))

    assert 0 < calls["left"] < 50


def test_topics_that_are_read_one_after_the_other_are_not_waited_for(
    kafka: KafkaBroker, topic: TopicFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client looks for a topic that is new to it once a second."""
    waits, take = Counter[str](), next_messages.next_messages

    def counted(consumer: Any, seconds: float, *args: Any) -> Any:
        found = take(consumer, min(seconds, 0.1), *args)
        waits["without" if not found else "with"] += 1
        return found

    for reader in (record_reads, record_reader):
        monkeypatch.setattr(reader, "next_messages", counted)
    monkeypatch.setattr(record_reads, "_AT_ONCE", 1)
    monkeypatch.setattr(record_reader, "AT_ONCE", 1)
    names = sorted(topic(suffix=str(i)) for i in range(5))
    for name in names:
        kafka.produce(name, records([7]))
    ranges = OffsetRanges(OffsetRange(name, 0, 0, 1) for name in names)

    with KafkaHook(timeout=20) as hook:
        assert edge_timestamps(hook, ranges) == dict.fromkeys(names, (NOON + 7, NOON + 7))
        assert hook.count_records(ranges) == dict.fromkeys(ranges, 1)

    # Some eight for each topic but the first ones.
    assert waits["with"] >= 10
    assert waits["without"] < 20
