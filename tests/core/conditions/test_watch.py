"""Promises of :mod:`~airflow_provider_kafka_spark.core.conditions.watch`: every record announced once, on snapshots
without a broker.
"""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_kafka_spark.core.conditions.broker_snapshot import BrokerSnapshot
from airflow_provider_kafka_spark.core.conditions.watch import Watch, WatchState, announced_ranges
from airflow_provider_kafka_spark.core.errors import BoundError, ProtocolError
from airflow_provider_kafka_spark.core.offsets.offset_range import TopicPartition
from airflow_provider_kafka_spark.core.topics.broker_state import PartitionState
from airflow_provider_kafka_spark.core.topics.log_ends import Reached
from tests.core.conditions.snapshots import NOW, snapshot, state


def watch(**parameters: Any) -> Watch:
    return Watch.parse(**{"topics": ["orders"], **parameters})


def ranges(event: dict[str, Any] | None) -> list[str]:
    assert event is not None
    return ["{topic}:{partition}:{from_offset}:{until_offset}".format(**r) for r in event["ranges"]]


def evaluate(watching: Watch, before: WatchState | None, held: BrokerSnapshot) -> WatchState:
    """One look, with the state written down and read back as Airflow's store does."""
    after, _ = watching.evaluate(before, held, NOW)
    return WatchState.from_json(json.loads(json.dumps(after.to_json())))


def test_latest_begins_at_the_end_and_announces_what_comes_then() -> None:
    first = evaluate(watch(), None, snapshot({"orders": [state(0, 20), state(0, 5)]}))
    assert first.event() is None

    again = evaluate(watch(), first, snapshot({"orders": [state(0, 23), state(0, 5)]}))

    assert again.event() == {
        "version": 1,
        "number": 1,
        "ranges": [{"topic": "orders", "partition": 0, "from_offset": 20, "until_offset": 23}],
        "warnings": [],
    }


@pytest.mark.parametrize(
    ("since", "expected"),
    [
        pytest.param("earliest", ["orders:0:3:20", "orders:1:0:5"], id="earliest"),
        pytest.param({"orders": {"0": 15, "1": 5}}, ["orders:0:15:20"], id="offsets"),
        pytest.param(NOW - 1000, ["orders:0:18:20"], id="timestamp"),
        pytest.param("group:copy", ["orders:0:19:20", "orders:1:0:5"], id="group"),
    ],
)
def test_since_is_where_the_very_first_look_begins(since: object, expected: list[str]) -> None:
    at = NOW - 1000
    held = snapshot(
        {"orders": [state(3, 20), state(0, 5)]},
        first_at={("orders", 0, at): 18, ("orders", 1, at): None, ("orders", 0, 0): 3, ("orders", 1, 0): 0},
        committed={"copy": dict.fromkeys(snapshot({"orders": [state(0, 20)]}).partitions(["orders"]), 19)},
    )

    first = evaluate(watch(since=since), None, held)
    assert ranges(first.event()) == expected

    # From then on only the state counts.
    nothing = evaluate(watch(since=since), first.acknowledged(), snapshot({"orders": [state(3, 20), state(0, 5)]}))
    assert nothing.event() is None
    assert watch(since=since).query(first.acknowledged(), NOW).group_id is None


def test_consecutive_announcements_touch_and_never_overlap() -> None:
    acknowledged = None
    announced: list[str] = []
    for end in (4, 4, 9, 10):
        acknowledged = evaluate(watch(since="earliest"), acknowledged, snapshot({"orders": [state(0, end)]}))
        if acknowledged.pending:
            announced += ranges(acknowledged.event())
        acknowledged = acknowledged.acknowledged()

    assert announced == ["orders:0:0:4", "orders:0:4:9", "orders:0:9:10"]
    assert acknowledged is not None
    assert acknowledged.number == 3


def test_partitions_and_topics_that_were_added_count_from_their_beginning() -> None:
    first = evaluate(watch(topics=["orders", "later"]), None, snapshot({"orders": [state(0, 20)]}))

    after = evaluate(
        watch(topics=["orders", "later"]),
        first,
        snapshot({"orders": [state(0, 20), state(0, 3)], "later": [state(0, 2)]}),
    )

    assert ranges(after.event()) == ["later:0:0:2", "orders:1:0:3"]


def test_a_topic_that_is_watched_additionally_begins_at_since() -> None:
    """When an author adds a topic, what is in it already is not new."""
    first = evaluate(watch(), None, snapshot({"orders": [state(0, 20)]}))
    both = watch(topics=["orders", "payments"])

    after, notes = both.evaluate(first, snapshot({"orders": [state(0, 21)], "payments": [state(0, 500)]}), NOW)

    assert ranges(after.event()) == ["orders:0:20:21"]
    assert "has changed" in notes[0]
    later = evaluate(both, after.acknowledged(), snapshot({"orders": [state(0, 21)], "payments": [state(0, 501)]}))
    assert ranges(later.event()) == ["payments:0:500:501"]


@pytest.mark.parametrize(("end", "ids"), [(5, {"orders": "two"}), (50, {"orders": "two"}), (5, {})])
def test_a_topic_that_was_created_again_counts_from_its_beginning(end: int, ids: dict[str, str]) -> None:
    """Also if it is longer, where there are ids, and if it is shorter, where there are none."""
    first = evaluate(watch(), None, snapshot({"orders": [state(0, 20)]}, ids={"orders": "one"}))

    event = evaluate(watch(), first, snapshot({"orders": [state(0, end)]}, ids=ids)).event()

    assert ranges(event) == [f"orders:0:0:{end}"]
    assert event is not None
    assert "recreated" in event["warnings"][0]


@pytest.mark.parametrize(
    ("ends", "announced", "notes", "then"),
    [
        # An unclean election.
        ([15, 23], ["orders:1:20:23"], ["orders[0] was cut from 20 to 15"], ["orders:0:15:25", "orders:1:23:25"]),
        # A broker that was away does not know the second partition yet.
        ([23], ["orders:0:20:23"], [], ["orders:0:23:25", "orders:1:20:25"]),
    ],
)
def test_a_shorter_log_of_the_same_topic_is_not_announced_again(
    ends: list[int], announced: list[str], notes: list[str], then: list[str]
) -> None:
    def held(*ends: int) -> BrokerSnapshot:
        return snapshot({"orders": [state(0, end) for end in ends]}, ids={"orders": "one"})

    first = evaluate(watch(), None, held(20, 20))
    after = evaluate(watch(), first, held(*ends))
    later = evaluate(watch(), after.acknowledged(), held(25, 25))

    assert (ranges(after.event()), ranges(later.event())) == (announced, then)
    warnings = (after.event() or {})["warnings"]
    assert [note in warning for note, warning in zip(notes, warnings, strict=True)] == [True] * len(notes)


def test_a_log_that_was_cut_and_filled_again() -> None:
    """What the brokers say of the epoch of before counts, and is asked of no later epoch than the last."""
    first = evaluate(watch(), None, snapshot({"orders": [state(0, 20, epoch=4)]}, ids={"orders": "one"}))
    reached = Reached(TopicPartition("orders", 0), 20, 4)
    assert watch().query(first, NOW).reached == {reached}
    whole = evaluate(watch(), first, snapshot({"orders": [state(0, 20, epoch=5)]}, ids={"orders": "one"}))
    assert watch().query(whole, NOW).reached == {reached._replace(epoch=5)}

    filled = snapshot(
        {"orders": [state(0, 25, epoch=6)]}, ids={"orders": "one"}, cut_at={reached._replace(epoch=5): 15}
    )
    after = evaluate(watch(), whole, filled)

    assert ranges(after.event()) == ["orders:0:15:25"]
    assert "cut from 20 to 15" in (after.event() or {})["warnings"][0]
    assert watch().query(after.acknowledged(), NOW).reached == {Reached(TopicPartition("orders", 0), 25, 6)}


@pytest.mark.parametrize(
    ("held", "ids", "expected"),
    [
        ({"orders": []}, {"orders": "one"}, [(20, 4)]),
        ({}, {}, [(20, 4)]),
        ({"orders": [state(0, 20)]}, {"orders": "one"}, [(20, 4)]),
        # These records may be of a later leader.
        ({"orders": [state(0, 25)]}, {"orders": "one"}, []),
        ({"orders": [state(0, 0)]}, {"orders": "two"}, []),
    ],
    ids=["partition-away", "topic-away", "epoch-away", "more-records", "recreated"],
)
def test_an_epoch_that_nobody_says_for_a_while_is_kept_with_its_offset(
    held: dict[str, list[PartitionState]], ids: dict[str, str], expected: list[tuple[int, int]]
) -> None:
    """A log that is cut meanwhile is known by it; no other records are measured by it."""
    first = evaluate(watch(), None, snapshot({"orders": [state(0, 20, epoch=4)]}, ids={"orders": "one"}))

    after = evaluate(watch(), first, snapshot(held, ids=ids)).acknowledged()

    assert [(r.offset, r.epoch) for r in watch().query(after, NOW).reached] == expected


def test_a_topic_that_is_away_for_a_while_keeps_its_place() -> None:
    first = evaluate(watch(), None, snapshot({"orders": [state(0, 20)]}, ids={"orders": "one"}))
    away = evaluate(watch(), first, snapshot({}))

    back = evaluate(watch(), away, snapshot({"orders": [state(0, 25)]}, ids={"orders": "one"}))

    assert ranges(back.event()) == ["orders:0:20:25"]


def test_records_that_have_aged_out_are_named_in_the_announcement() -> None:
    first = evaluate(watch(), None, snapshot({"orders": [state(0, 20)]}))

    event = evaluate(watch(), first, snapshot({"orders": [state(30, 40)]})).event()

    assert ranges(event) == ["orders:0:30:40"]
    assert event is not None
    assert event["warnings"] == ["orders[0] 20 to 30 is missing: aged out: the log now starts at 30"]


@pytest.mark.parametrize("value", [{}, [], {"version": 2}, {"version": 1, "number": 1}, "text"])
def test_refuses_a_state_that_is_none_of_ours(value: Any) -> None:
    with pytest.raises(ProtocolError, match="asset state store"):
        WatchState.from_json(value)


def test_the_ranges_of_a_run_are_those_of_all_its_events() -> None:
    """Events that touch are united, and one that was made twice counts once."""

    def event(*texts: str) -> SimpleNamespace:
        parts = [text.split(":") for text in texts]
        payload = {
            "ranges": [
                {"topic": t, "partition": int(p), "from_offset": int(a), "until_offset": int(b)} for t, p, a, b in parts
            ]
        }
        return SimpleNamespace(extra={"from_trigger": True, "payload": payload})

    events = [event("orders:0:0:4"), event("orders:0:4:9", "orders:1:0:2"), event("orders:0:4:9", "orders:1:0:2")]

    assert ranges({"ranges": announced_ranges(events)}) == ["orders:0:0:9", "orders:1:0:2"]
    assert announced_ranges(e.extra for e in events) == announced_ranges(events)


def test_an_announced_range_says_of_which_topic_it_is() -> None:
    """Ranges of a topic that was recreated between two events are not united with those of the new one."""
    before = evaluate(watch(), None, snapshot({"orders": [state(0, 20)]}, ids={"orders": "old"}))
    old = evaluate(watch(), before, snapshot({"orders": [state(0, 23)]}, ids={"orders": "old"}))
    new = evaluate(watch(), old.acknowledged(), snapshot({"orders": [state(0, 22)]}, ids={"orders": "new"}))

    found = announced_ranges([{"payload": old.event()}, {"payload": new.event()}, {"payload": new.event()}])

    offsets = {"topic": "orders", "partition": 0}
    assert found == [
        {**offsets, "from_offset": 20, "until_offset": 23, "topic_id": "old"},
        {**offsets, "from_offset": 0, "until_offset": 22, "topic_id": "new"},
    ]


def test_the_ranges_of_our_operators_events_are_those_of_the_target() -> None:
    """Where a copy wrote, so that a DAG that is scheduled by the copied topic knows what to read."""

    def copied(*ranges: tuple[str, int, int, int]) -> SimpleNamespace:
        names = ("topic", "partition", "from_offset", "until_offset")
        target_ranges = [dict(zip(names, r, strict=True)) for r in ranges]
        return SimpleNamespace(
            extra={
                "run_id": "r",
                "offset_ranges": ["source:0:0:4"],
                "records_written": 4,
                "target_ranges": target_ranges,
            }
        )

    first = copied(("copy", 0, 0, 5), ("o.x", 2, 1, 3))
    second, nothing = copied(("copy", 0, 5, 12)), copied()

    assert ranges({"ranges": announced_ranges([first, second, nothing])}) == ["copy:0:0:12", "o.x:2:1:3"]
    assert announced_ranges([nothing]) == []


@pytest.mark.parametrize(
    "extra",
    [
        None,
        {"target_ranges": "orders:0:0:1"},
        {"payload": {}},
        # Airflow's API says so, whatever else the event has.
        {"target_ranges": ["orders:0:30:9000000"], "from_rest_api": True},
    ],
)
def test_an_event_of_anybody_else_is_refused(extra: object) -> None:
    with pytest.raises(BoundError, match="anything else update the asset"):
        announced_ranges([SimpleNamespace(extra=extra)])
