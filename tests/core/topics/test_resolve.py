from __future__ import annotations

import re
from contextlib import nullcontext
from typing import Any

import pytest

from airflow_provider_kafka_spark.core.errors import BoundError, DataLossError, PlanError, UnknownTopicError
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRanges, TopicPartition
from airflow_provider_kafka_spark.core.topics.bounds import (
    AtOffset,
    AtTimestamp,
    Bound,
    Earliest,
    Latest,
    RequestedOffset,
    TimeWindow,
    check_samples,
    check_window,
    iso,
    older_than_window,
    parse_bound,
)
from airflow_provider_kafka_spark.core.topics.broker_state import ClusterState, PartitionState, Selection, TopicState
from airflow_provider_kafka_spark.core.topics.resolve import (
    ReadRules,
    ResolvedRanges,
    resolve_replay,
    resolve_window,
    timestamps_in,
)
from tests.core.refusals import refuses

_T1, _T2 = 1_795_165_200_000, 1_795_168_800_000
_FROM, _UNTIL = AtTimestamp(_T1), AtTimestamp(_T2)
_STRICT = ReadRules()
_PERMISSIVE = ReadRules(fail_on_data_loss=False)
_UNCOMMITTED = ReadRules(read_committed=False)

#: The log of a partition: log start, last stable offset, high watermark.
Log = tuple[int, int, int]
Found = dict[int, int | None]


def _cluster(*logs: Log, found: Found | None = None, config: dict[str, str] | None = None) -> ClusterState:
    """One topic ``o`` with a partition for each log, asked at ``_T2``; ``found`` holds for all of them.

    ``found[0]`` is the first record that is left.
    """
    partitions = {i: PartitionState(*log) for i, log in enumerate(logs)}
    return ClusterState(
        "cluster",
        "kafka_default",
        _T2,
        {"o": TopicState("o", "id-1", partitions, config or {})},
        {(TopicPartition("o", i), ms): offset for i in partitions for ms, offset in (found or {}).items()},
    )


def _resolve(
    starting: RequestedOffset, ending: RequestedOffset, cluster: ClusterState, rules: ReadRules = _STRICT
) -> ResolvedRanges:
    return resolve_window(Selection(topics=["o"]), Bound.everywhere(starting), Bound.everywhere(ending), cluster, rules)


def _missing(resolved: ResolvedRanges) -> list[str]:
    return [m.offset_range.format() for m in resolved.missing]


_WHOLE, _AGED = (0, 100, 100), (40, 100, 100)


@pytest.mark.parametrize(
    ("starting", "ending", "log", "found", "expected"),
    [
        pytest.param(Earliest(), Latest(), _WHOLE, {}, "o:0:0:100", id="whole-log"),
        pytest.param(Earliest(), Latest(), _AGED, {}, "o:0:40:100", id="earliest-is-what-retention-left"),
        pytest.param(Earliest(), Latest(), (70, 70, 70), {}, "o:0:70:70", id="all-aged-out-from-earliest"),
        pytest.param(Earliest(), AtOffset(0), _AGED, {}, "o:0:0:0", id="earliest-to-0-requests-nothing"),
        pytest.param(Earliest(), AtOffset(90), (0, 90, 100), {}, "o:0:0:90", id="offset-at-the-last-stable"),
        pytest.param(Earliest(), _UNTIL, (0, 90, 100), {_T2: 90}, "o:0:0:90", id="time-at-the-last-stable"),
        pytest.param(AtOffset(10), AtOffset(20), (10, 100, 100), {}, "o:0:10:20", id="offset-is-the-first-left"),
        pytest.param(_FROM, _UNTIL, _WHOLE, {_T1: 20, _T2: 70}, "o:0:20:70", id="time-to-time"),
        pytest.param(_FROM, _UNTIL, _WHOLE, {_T1: None, _T2: None}, "o:0:100:100", id="idle-since-before-the-window"),
        # One older record that is left shows that the window is whole.
        pytest.param(_FROM, _UNTIL, _AGED, {0: 40, _T1: 41, _T2: 70}, "o:0:41:70", id="older-record-left"),
        pytest.param(_FROM, _UNTIL, _AGED, {0: 40, _T1: None, _T2: None}, "o:0:100:100", id="only-older-records-left"),
        pytest.param(_FROM, AtOffset(10), _WHOLE, {_T1: 20}, "o:0:10:10", id="time-after-the-end-offset"),
    ],
)
def test_resolves_requested_bounds(
    starting: RequestedOffset, ending: RequestedOffset, log: Log, found: Found, expected: str
) -> None:
    resolved = _resolve(starting, ending, _cluster(log, found=found))

    assert resolved == ResolvedRanges(OffsetRanges.parse([expected]))


@pytest.mark.parametrize(
    ("starting", "ending", "log", "found", "left", "gone"),
    [
        pytest.param(AtOffset(10), AtOffset(60), _AGED, {}, "o:0:40:60", "o:0:10:40", id="offset-partly"),
        pytest.param(AtOffset(10), AtOffset(30), _AGED, {}, "o:0:30:30", "o:0:10:30", id="offset-wholly"),
        pytest.param(Earliest(), AtOffset(30), _AGED, {}, "o:0:30:30", "o:0:0:30", id="earliest-to-an-aged-end"),
        # By time nobody knows how much is gone: an empty range stands for it.
        pytest.param(_FROM, _UNTIL, _AGED, {0: 40, _T1: 40, _T2: 70}, "o:0:40:70", "o:0:40:40", id="time-first-left"),
        pytest.param(_FROM, _UNTIL, _AGED, {0: 42, _T1: 42, _T2: 70}, "o:0:42:70", "o:0:42:42", id="time-after-a-gap"),
        pytest.param(_FROM, AtOffset(30), _AGED, {0: 40, _T1: 40}, "o:0:30:30", "o:0:30:30", id="time-to-an-aged-end"),
        pytest.param(
            _FROM, _UNTIL, (40, 40, 40), dict.fromkeys((0, _T1, _T2)), "o:0:40:40", "o:0:40:40", id="time-emptied-log"
        ),
        pytest.param(_FROM, _UNTIL, _AGED, {_T1: 41, _T2: 70}, "o:0:41:70", "o:0:41:41", id="first-left-not-asked-for"),
    ],
)
def test_aged_out_records_are_an_error_unless_their_loss_is_permitted(
    starting: RequestedOffset, ending: RequestedOffset, log: Log, found: Found, left: str, gone: str
) -> None:
    """If it is permitted, what is left is read, and what is not stays on record with its reason."""
    _, _, first, end = gone.split(":")
    cluster = _cluster(log, found=found)
    with refuses(DataLossError, f"o[0] {first} to {end}", f"log now starts at {log[0]}", "fail_on_data_loss=False"):
        _resolve(starting, ending, cluster)

    resolved = _resolve(starting, ending, cluster, _PERMISSIVE)
    assert (resolved.ranges.format(), _missing(resolved)) == ([left], [gone])
    # Nobody knows what timestamps deleted records had.
    by_time = isinstance(starting, AtTimestamp)
    assert resolved.missing[0].reason.startswith("may have aged out" if by_time else "aged out")
    assert ("no record before 2026-11-20T09:00:00.000Z" in resolved.missing[0].reason) is by_time


_HOUR = 3_600_000
_UNLIMITED = {"retention.bytes": "-1"}


@pytest.mark.parametrize(
    ("config", "suspected"),
    [
        # The window starts an hour before now.
        pytest.param({**_UNLIMITED, "retention.ms": str(_HOUR)}, False, id="just-young-enough"),
        pytest.param({**_UNLIMITED, "retention.ms": str(_HOUR - 1)}, True, id="too-old-by-a-millisecond"),
        pytest.param({**_UNLIMITED, "retention.ms": "-1"}, True, id="infinite-retention"),
        pytest.param({"retention.bytes": "1000000", "retention.ms": str(2 * _HOUR)}, True, id="size-limited"),
        pytest.param({"retention.ms": str(_HOUR)}, True, id="size-unknown"),
        pytest.param(_UNLIMITED, True, id="time-unknown"),
    ],
)
def test_the_topics_retention_shows_whether_a_time_may_have_aged_out(config: dict[str, str], suspected: bool) -> None:
    """Retention explains a log without older records only by time; where it is off, somebody deleted records. An older
    record that is left, or a log that starts at 0, is proof whatever the topic's configuration.
    """

    def resolve(log: Log, found: Found, rules: ReadRules) -> ResolvedRanges:
        resolved = _resolve(_FROM, _UNTIL, _cluster(log, found=found, config=config), rules)
        unproven = [text for text in resolved.warnings if "DeleteRecords" in text]
        assert [text.count("o[0]") for text in unproven] == ([] if resolved.missing or rules is _STRICT else [1])
        return resolved

    for no_older, found in [(_AGED, {0: 40, _T1: 40, _T2: 70}), ((40, 40, 40), {0: None, _T1: None, _T2: None})]:
        assert _missing(resolve(no_older, found, _PERMISSIVE)) == (["o:0:40:40"] if suspected else [])
    for whole, found in [
        (_AGED, {0: 40, _T1: 41, _T2: 70}),
        (_AGED, {0: 40, _T1: None, _T2: None}),
        (_WHOLE, {0: 0, _T1: 0, _T2: 70}),
        ((0, 0, 0), {0: None, _T1: None, _T2: None}),
    ]:
        assert resolve(whole, found, _STRICT).missing == ()


@pytest.mark.parametrize(
    ("found", "expected", "warned"),
    [
        pytest.param({_T1: 20, _T2: None}, "o:0:20:100", True, id="no-record-after"),
        pytest.param({_T1: 20, _T2: 99}, "o:0:20:99", False, id="one-record-after"),
        pytest.param({_T1: None, _T2: None}, "o:0:100:100", False, id="idle"),
    ],
)
def test_a_window_without_a_record_after_it_warns_of_late_ones(found: Found, expected: str, warned: bool) -> None:
    """Until a record after the window has arrived, the end of the log is where the window is cut."""
    resolved = _resolve(_FROM, _UNTIL, _cluster(_WHOLE, found=found))

    assert resolved.ranges.format() == [expected]
    assert ["will be in the next one" in text and "o[0]" in text for text in resolved.warnings] == [True] * warned


@pytest.mark.parametrize(
    ("count", "more"), [pytest.param(8, [], id="all-fit"), pytest.param(11, ["and 3 more"], id="three-hidden")]
)
def test_names_up_to_eight_partitions(count: int, more: list[str]) -> None:
    (warning,) = _resolve(_FROM, _UNTIL, _cluster(*[_WHOLE] * count, found={_T1: 20, _T2: None})).warnings
    with refuses(DataLossError, "o[7] 0 to 40") as lost:
        _resolve(AtOffset(0), Latest(), _cluster(*[_AGED] * count))

    for text in (warning, str(lost.value)):
        assert ("o[7]" in text, "o[8]" in text, re.findall(r"and \d+ more", text)) == (True, False, more)


@pytest.mark.parametrize(
    ("starting", "ending", "log", "found", "fragments"),
    [
        pytest.param(Earliest(), AtOffset(101), _WHOLE, {}, ["101", "o[0]", "ends at 100", "recreated"], id="end"),
        pytest.param(
            Earliest(),
            AtOffset(91),
            (0, 90, 100),
            {},
            ["o[0]", "91", "open transaction", "from 90 on", "isolation_level='read_uncommitted'"],
            id="end-beyond-last-stable",
        ),
        pytest.param(_FROM, _UNTIL, (0, 90, 100), {_T1: 10, _T2: 95}, ["95", "open transaction"], id="time-beyond"),
    ],
)
def test_refuses_offsets_that_cannot_be_read(
    starting: RequestedOffset, ending: RequestedOffset, log: Log, found: Found, fragments: list[str]
) -> None:
    for rules in (_STRICT, _PERMISSIVE):
        with refuses(PlanError, *fragments) as error:
            _resolve(starting, ending, _cluster(log, found=found), rules)
        assert not isinstance(error.value, DataLossError)
        # A transaction ends, and then a retry finds everything.
        assert error.value.retriable == ("open transaction" in fragments)


@pytest.mark.parametrize(
    ("starting", "ending", "found", "expected"),
    [
        pytest.param(Earliest(), AtOffset(95), {}, "o:0:0:95", id="offset"),
        pytest.param(_FROM, _UNTIL, {_T1: 10, _T2: 95}, "o:0:10:95", id="time"),
    ],
)
def test_read_uncommitted_reads_to_the_end_of_the_log(
    starting: RequestedOffset, ending: RequestedOffset, found: Found, expected: str
) -> None:
    resolved = _resolve(starting, ending, _cluster((0, 90, 100), found=found), _UNCOMMITTED)

    assert resolved == ResolvedRanges(OffsetRanges.parse([expected]))


def test_latest_stops_before_an_open_transaction_and_says_so() -> None:
    resolved = _resolve(Earliest(), Latest(), _cluster((0, 90, 1_100), (50, 50, 50)))

    # An idle partition neither fails the copy nor vanishes from the plan.
    assert resolved.ranges.format() == ["o:0:0:90", "o:1:50:50"]
    assert resolved.warnings == (
        "o[0]: an open transaction hides the last 1,010 offsets; the copy ends at the last stable offset 90.",
    )


def test_open_transactions_of_many_partitions_are_one_warning() -> None:
    resolved = _resolve(Earliest(), Latest(), _cluster(*[(0, 90, 100)] * 1_000, (0, 100, 100)))

    (warning,) = resolved.warnings
    assert "hide the last offsets of 1,000 partitions" in warning
    assert warning.endswith(" o[9] (10 after 90), and 990 more.")


@pytest.mark.parametrize("rules", [pytest.param(_STRICT, id="committed"), pytest.param(_UNCOMMITTED, id="uncommitted")])
def test_the_log_may_grow_while_the_broker_is_asked(rules: ReadRules) -> None:
    """The log's end is asked for first. A first record beyond it has just arrived, and what lies before it belongs to
    the window; a last stable offset beyond it hides nothing.
    """
    for start in (20, 103):
        resolved = _resolve(_FROM, _UNTIL, _cluster((0, 106, 100), found={_T1: start, _T2: 105}), rules)
        assert (resolved.ranges.format(), resolved.missing) == ([f"o:0:{start}:105"], ())

    assert _resolve(Earliest(), Latest(), _cluster((0, 105, 100)), rules) == ResolvedRanges(
        OffsetRanges.parse(["o:0:0:100"])
    )
    with pytest.raises(PlanError, match="must not lie beyond the log; got 103"):
        _resolve(Earliest(), AtOffset(103), _cluster((0, 105, 100)), rules)


@pytest.mark.parametrize(
    ("starting", "ending", "says"),
    [
        pytest.param(AtOffset(60), AtOffset(50), "o[0] would start at 60 and end at 50", id="offsets"),
        pytest.param(Earliest(), Earliest(), "cannot end at the earliest offset; got Earliest() for o[0]", id="end"),
    ],
)
def test_refuses_a_start_after_the_end(starting: RequestedOffset, ending: RequestedOffset, says: str) -> None:
    with refuses(BoundError, says):
        _resolve(starting, ending, _cluster(_AGED))


@pytest.mark.parametrize("side", ["starting_offsets", "ending_offsets"])
def test_offsets_of_a_partition_that_is_not_read_are_an_error(side: str) -> None:
    stray: dict[str, Any] = {"o": {"0": 1, "7": 1}, "p": {"0": 1}}
    starting = parse_bound(stray if side == "starting_offsets" else "earliest", "start")
    ending = parse_bound(stray if side == "ending_offsets" else "latest", "end")

    with refuses(BoundError, side, "o[7], p[0]", "o[0]", "topics or assign"):
        resolve_window(Selection(topics=["o"]), starting, ending, _cluster((0, 9, 9)), _STRICT)


def test_each_partition_has_its_own_bounds() -> None:
    """A partition that was added since the DAG was written is not read from a guess."""
    cluster = _cluster((0, 9, 9), (0, 9, 9), (3, 9, 9))
    starting, ending = parse_bound({"o": {"0": 5, "2": -2}}, "start"), parse_bound({"o": {"0": -1, "2": 8}}, "end")

    resolved = resolve_window(Selection(assign={"o": [0, 2]}), starting, ending, cluster, _STRICT)

    assert resolved.ranges.format() == ["o:0:5:9", "o:2:3:8"]
    with pytest.raises(BoundError, match=r"o\[1\] is missing"):
        resolve_window(Selection(topics=["o"]), starting, ending, cluster, _STRICT)


@pytest.mark.parametrize(
    ("wanted", "log", "rules"),
    [
        pytest.param(["o:0:10:20", "o:0:20:30"], _WHOLE, _STRICT, id="touching-stay-apart"),
        pytest.param(["o:0:5:5"], _AGED, _STRICT, id="empty-range-loses-nothing"),
        pytest.param(["o:0:85:100"], (0, 90, 100), _UNCOMMITTED, id="what-a-transaction-hides-from-others"),
    ],
)
def test_replays_exactly_what_is_wanted(wanted: list[str], log: Log, rules: ReadRules) -> None:
    ranges = OffsetRanges.parse(wanted)

    assert resolve_replay(ranges, _cluster(log), rules) == ResolvedRanges(ranges)


def test_a_replay_of_aged_out_offsets_is_an_error_unless_the_loss_is_permitted() -> None:
    """If it is permitted, what is left and what is named as gone are together what was wanted."""
    ranges, gone = OffsetRanges.parse(["o:0:0:10", "o:0:10:10", "o:0:35:50"]), ["o:0:0:10", "o:0:35:40"]
    lost = [f"{r}: aged out: the log now starts at 40" for r in OffsetRanges.parse(gone)]
    with refuses(DataLossError, *lost, "fail_on_data_loss=False"):
        resolve_replay(ranges, _cluster(_AGED), _STRICT)

    resolved = resolve_replay(ranges, _cluster(_AGED), _PERMISSIVE)
    assert (resolved.ranges.format(), _missing(resolved)) == (["o:0:10:10", "o:0:40:50"], gone)
    assert resolved.ranges.merge(m.offset_range for m in resolved.missing) == ranges.merge()


@pytest.mark.parametrize(
    ("window", "now_ms", "fragments"),
    [
        pytest.param(
            TimeWindow(_T1, _T2),
            _T2 - 1,
            [
                "ending_timestamp must not lie in the future",
                "got 2026-11-20T10:00:00.000Z",
                "now it is 2026-11-20T09:59:59.999Z",
                "a schedule with a data interval",
                "leave ending_timestamp out",
            ],
            id="end",
        ),
        pytest.param(TimeWindow(_T2 + 1, None), _T2, ["got 2026-11-20T10:00:00.001Z"], id="start-by-a-millisecond"),
    ],
)
def test_a_window_in_the_future_is_an_error(window: TimeWindow, now_ms: int, fragments: list[str]) -> None:
    """Records that arrive until then would be missing from a finished copy."""
    with refuses(BoundError, *fragments):
        check_window(window, now_ms)


def test_a_window_that_has_closed_is_taken() -> None:
    """The end is exclusive, so a window may end this very millisecond; one without an end reads what is there."""
    for start, end in [(_T1, _T2), (None, _T1), (_T1, None), (_T2, None), (None, None)]:
        check_window(TimeWindow(start, end), _T2)


def test_lists_each_timestamp_to_ask_for_once() -> None:
    """One request to the broker per timestamp, shared by all partitions, and one for the first record that is left."""
    starting = Bound(AtTimestamp(_T2), {TopicPartition("o", 0): AtTimestamp(_T1), TopicPartition("o", 1): AtOffset(3)})
    ending = Bound(None, {TopicPartition("o", 0): AtTimestamp(_T2), TopicPartition("o", 1): Latest()})

    assert timestamps_in(starting, ending) == (0, _T1, _T2)
    # Words and offsets cost no request.
    assert timestamps_in(Bound.everywhere(Earliest()), Bound(Latest(), {TopicPartition("o", 0): AtOffset(3)})) == ()


def test_records_from_before_a_window_are_a_warning() -> None:
    """Which is out of order by more than producers' clocks are."""
    window = TimeWindow(_T1, _T2)
    few = {TopicPartition("o", 0): [_T1 - 1_000], TopicPartition("o", 1): [_T1, _T1 + 1], TopicPartition("o", 2): []}
    assert older_than_window(few, window) == []
    (warning,) = older_than_window({TopicPartition("o", i): [_T1 + 1, _T1 - i * 60_000] for i in range(3)}, window)
    assert "of 2 of the partitions" in warning
    assert "2026-11-20T08:58:00.000Z in o[2]" in warning
    assert "exact_window=True" in warning


@pytest.mark.parametrize(
    ("inside", "outside", "is_refused"), [(0, 20, True), (2, 20, True), (3, 29, False), (0, 19, False), (9, 0, False)]
)
@pytest.mark.parametrize(("time", "shown"), [(_T2, iso(_T2)), (_T2 * 1000, f"{_T2 * 1000:,} ms")])
def test_far_more_records_outside_of_a_window_than_inside_are_refused(
    inside: int, outside: int, is_refused: bool, time: int, shown: str
) -> None:
    """The end is exclusive. Few records say nothing. A producer may write microseconds."""
    samples = {TopicPartition("o", 0): [_T1] * inside, TopicPartition("o", 1): [time] * outside}
    says = "exact_window=False copies them all", f"{outside} have not, such as one of {shown}"
    with refuses(PlanError, *says) if is_refused else nullcontext():
        check_samples(samples, TimeWindow(_T1, _T2))


@pytest.mark.parametrize(
    ("wanted", "error", "fragments"),
    [
        pytest.param("o:0:50:91", PlanError, ["91", "open transaction", "from 90 on"], id="beyond-last-stable"),
        pytest.param("p:0:0:1", UnknownTopicError, ["'p' does not exist"], id="unknown-topic"),
    ],
)
def test_a_replay_refuses_what_the_log_does_not_hold(wanted: str, error: type[Exception], fragments: list[str]) -> None:
    for rules in (_STRICT, _PERMISSIVE):
        with refuses(error, *fragments):
            resolve_replay(OffsetRanges.parse([wanted]), _cluster((0, 90, 100)), rules)
