"""A stream's next run, where an unclean election has cut a log since its last one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_kafka_spark.core.errors import DataLossError
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, TopicPartition
from airflow_provider_kafka_spark.core.topics.broker_state import ClusterState, PartitionState, TopicState
from airflow_provider_kafka_spark.core.topics.log_ends import LogEnds
from airflow_provider_kafka_spark.core.topics.resolve import ReadRules
from tests.core.streams.test_stream_plan import _checkpoint, _cluster, _resolve

P = TopicPartition("o", 0)


def cut(at: int | None, end: int) -> ClusterState:
    """:param at: where it was cut; None if no broker knows."""
    return replace(_cluster(o=[(0, end, end)]), cut_at={} if at is None else {P: at})


@pytest.mark.parametrize(
    ("finished", "batch", "at", "end", "starts", "unfinished", "reason"),
    [
        pytest.param(5, None, 3, 9, 3, "", "the log was cut at 3 by an unclean leader election", id="filled-again"),
        pytest.param(5, None, 3, 4, 3, "", "the log was cut at 3", id="filled-in-part"),
        pytest.param(5, None, 3, 3, 3, "", "the log was cut at 3", id="not-filled"),
        pytest.param(2, 5, 3, 9, 3, "o:0:2:3", "an uncommitted batch was to read it up to 5", id="within-a-batch"),
        pytest.param(3, 5, 3, 9, 3, "", "an uncommitted batch was to read it up to 5", id="before-a-batch"),
        pytest.param(2, 5, None, 3, 3, "o:0:2:3", "the log ends at 3: it was cut short", id="nobody-knows"),
    ],
)
def test_what_follows_a_cut_is_not_what_was_read(
    finished: int, batch: int | None, at: int | None, end: int, starts: int, unfinished: str, reason: str
) -> None:
    """It is data loss; if that is permitted, a new generation reads from the cut on."""
    checkpoint, now = _checkpoint({P: finished}, None if batch is None else {P: batch}), cut(at, end)
    with pytest.raises(DataLossError, match=reason):
        _resolve(checkpoint, now)

    found = _resolve(checkpoint, now, ReadRules(fail_on_data_loss=False))

    assert (found.is_new, found.generation) == (True, 3)
    assert found.manifest.starting == {P: starts}
    assert ",".join(found.uncommitted.format()) == unfinished
    assert reason in found.resolved.missing[0].reason


@pytest.mark.parametrize(("finished", "batch"), [(3, None), (2, 3)])
def test_a_cut_behind_what_was_read_loses_nothing(finished: int, batch: int | None) -> None:
    found = _resolve(_checkpoint({P: finished}, None if batch is None else {P: batch}), cut(3, 9))

    assert (found.is_new, found.resolved.missing) == (False, ())
    assert found.resolved.ranges.format() == [f"o:0:{finished}:9"]


def test_how_far_a_log_had_reached_is_remembered() -> None:
    """With the epoch of its leader, as far as the broker says it; of two plans, the further one."""
    topic = TopicState("o", "id", {0: PartitionState(0, 9, 9, 4), 1: PartitionState(0, 9, 9)})
    now = replace(_cluster(), topics={"o": topic})
    ranges = [OffsetRange("o", 0, 0, 7), OffsetRange("o", 0, 7, 8), OffsetRange("o", 1, 0, 9)]

    reached = LogEnds.of(ranges, now)

    assert reached == LogEnds({P: 8}, {P: 4})
    assert LogEnds({P: 7}, {P: 3}).and_later(reached) == reached
    assert reached.and_later(LogEnds({P: 8}, {P: 5})) == reached
    assert _resolve(_checkpoint({P: 2}), cut(None, 9)).manifest.reached == LogEnds()


@pytest.mark.parametrize(
    ("epoch", "asked"), [(4, False), (None, False), (5, True), (3, True)], ids=["same", "unknown", "later", "earlier"]
)
def test_only_partitions_with_another_leader_are_asked(epoch: int | None, asked: bool) -> None:
    now = replace(_cluster(), topics={"o": TopicState("o", "id", {0: PartitionState(0, 9, 9, epoch)})})
    absent = [TopicPartition("gone", 0), TopicPartition("o", 7)]
    gone = LogEnds(dict.fromkeys(absent, 5), dict.fromkeys(absent, 1))

    assert LogEnds({P: 8}, {P: 4}).changed(now) == (LogEnds({P: 8}, {P: 4}) if asked else LogEnds())
    assert gone.changed(now) == LogEnds()
