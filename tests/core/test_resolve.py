from __future__ import annotations

import re
from typing import Any

import pytest

from airflow_provider_kafka_spark.core.bounds import (
    AtOffset,
    AtTimestamp,
    Bound,
    Earliest,
    Latest,
    RequestedOffset,
    TimeWindow,
    parse_bound,
)
from airflow_provider_kafka_spark.core.broker_state import ClusterState, PartitionState, Selection, TopicState
from airflow_provider_kafka_spark.core.errors import BoundError, DataLossError, PlanError, UnknownTopicError
from airflow_provider_kafka_spark.core.offset_range import OffsetRanges, TopicPartition
from airflow_provider_kafka_spark.core.resolve import (
    ReadRules,
    ResolvedRanges,
    check_window,
    older_than_window,
    resolve_replay,
    resolve_window,
    timestamps_in,
)

_T1, _T2 = 1_795_165_200_000, 1_795_168_800_000
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


@pytest.mark.parametrize(
    ("starting", "ending", "log", "found", "expected"),
    [
        pytest.param(Earliest(), Latest(), (0, 100, 100), {}, "o:0:0:100", id="whole-log"),
        pytest.param(Earliest(), Latest(), (40, 100, 100), {}, "o:0:40:100", id="earliest-is-what-retention-left"),
        pytest.param(Earliest(), Latest(), (0, 0, 0), {}, "o:0:0:0", id="never-written"),
        pytest.param(Earliest(), Latest(), (70, 70, 70), {}, "o:0:70:70", id="all-aged-out-from-earliest"),
        pytest.param(Earliest(), AtOffset(30), (0, 100, 100), {}, "o:0:0:30", id="earliest-to-offset"),
        pytest.param(Earliest(), AtTimestamp(_T2), (0, 100, 100), {_T2: 30}, "o:0:0:30", id="earliest-to-time"),
        pytest.param(AtOffset(10), Latest(), (0, 100, 100), {}, "o:0:10:100", id="offset-to-latest"),
        pytest.param(AtOffset(10), AtOffset(20), (0, 100, 100), {}, "o:0:10:20", id="offset-to-offset"),
        pytest.param(AtOffset(10), AtOffset(20), (10, 100, 100), {}, "o:0:10:20", id="offset-is-the-first-left"),
        pytest.param(AtOffset(20), AtOffset(20), (0, 100, 100), {}, "o:0:20:20", id="offsets-equal"),
        pytest.param(AtOffset(100), Latest(), (0, 100, 100), {}, "o:0:100:100", id="start-at-the-end-of-the-log"),
        pytest.param(AtOffset(0), AtOffset(100), (0, 100, 100), {}, "o:0:0:100", id="end-at-the-end-of-the-log"),
        pytest.param(AtOffset(10), AtTimestamp(_T2), (0, 100, 100), {_T2: 30}, "o:0:10:30", id="offset-to-time"),
        pytest.param(
            AtTimestamp(_T1), AtTimestamp(_T2), (0, 100, 100), {_T1: 20, _T2: 70}, "o:0:20:70", id="time-to-time"
        ),
        pytest.param(
            AtTimestamp(_T1), AtTimestamp(_T2), (0, 100, 100), {_T1: 0, _T2: 70}, "o:0:0:70", id="from-the-first-record"
        ),
        pytest.param(
            AtTimestamp(_T1), AtTimestamp(_T2), (0, 100, 100), {_T1: 70, _T2: 70}, "o:0:70:70", id="empty-window"
        ),
        pytest.param(
            AtTimestamp(_T1),
            AtTimestamp(_T2),
            (0, 100, 100),
            {_T1: None, _T2: None},
            "o:0:100:100",
            id="idle-since-before-the-window",
        ),
        pytest.param(
            AtTimestamp(_T1),
            AtTimestamp(_T2),
            (40, 100, 100),
            {0: 40, _T1: 41, _T2: 70},
            "o:0:41:70",
            id="one-older-record-left-shows-that-the-window-is-whole",
        ),
        pytest.param(
            AtTimestamp(_T1),
            AtTimestamp(_T2),
            (40, 100, 100),
            {0: 42, _T1: 43, _T2: 70},
            "o:0:43:70",
            id="one-older-record-left-behind-a-gap",
        ),
        pytest.param(
            AtTimestamp(_T1),
            AtTimestamp(_T2),
            (40, 100, 100),
            {0: 40, _T1: None, _T2: None},
            "o:0:100:100",
            id="only-older-records-left",
        ),
        pytest.param(Earliest(), AtOffset(40), (40, 100, 100), {}, "o:0:40:40", id="earliest-to-the-log-start"),
        pytest.param(Earliest(), AtOffset(0), (40, 100, 100), {}, "o:0:0:0", id="earliest-to-0-requests-nothing"),
        pytest.param(AtTimestamp(_T1), Latest(), (0, 100, 100), {_T1: 20}, "o:0:20:100", id="time-to-latest"),
        pytest.param(AtTimestamp(_T1), AtOffset(50), (0, 100, 100), {_T1: 20}, "o:0:20:50", id="time-to-offset"),
        pytest.param(
            AtTimestamp(_T1), AtOffset(10), (0, 100, 100), {_T1: 20}, "o:0:10:10", id="time-behind-the-end-offset"
        ),
    ],
)
def test_resolves_requested_bounds(
    starting: RequestedOffset, ending: RequestedOffset, log: Log, found: Found, expected: str
) -> None:
    """Each pair of requested bounds becomes exactly these offsets, and nothing is missing."""
    resolved = _resolve(starting, ending, _cluster(log, found=found))

    assert resolved.ranges.format() == [expected]
    assert resolved.missing == ()
    assert resolved.warnings == ()


def test_an_idle_partition_is_an_empty_range_beside_the_others() -> None:
    """A partition without records in the window neither fails the copy nor vanishes from the plan."""
    cluster = ClusterState(
        "cluster",
        "kafka_default",
        _T2,
        {"o": TopicState("o", None, {0: PartitionState(0, 100, 100), 1: PartitionState(0, 7, 7)})},
        {
            (TopicPartition("o", 0), _T1): 10,
            (TopicPartition("o", 0), _T2): 20,
            (TopicPartition("o", 1), _T1): None,
            (TopicPartition("o", 1), _T2): None,
        },
    )

    resolved = _resolve(AtTimestamp(_T1), AtTimestamp(_T2), cluster)

    assert resolved.ranges.format() == ["o:0:10:20", "o:1:7:7"]


_AGED_OUT = [
    pytest.param(AtOffset(10), AtOffset(60), (40, 100, 100), {}, "o:0:40:60", ["o:0:10:40"], id="offset-partly"),
    pytest.param(AtOffset(39), AtOffset(60), (40, 100, 100), {}, "o:0:40:60", ["o:0:39:40"], id="offset-by-one"),
    pytest.param(AtOffset(10), AtOffset(30), (40, 100, 100), {}, "o:0:30:30", ["o:0:10:30"], id="offset-wholly"),
    pytest.param(AtOffset(0), Latest(), (40, 40, 40), {}, "o:0:40:40", ["o:0:0:40"], id="offset-of-an-emptied-log"),
    pytest.param(Earliest(), AtOffset(30), (40, 100, 100), {}, "o:0:30:30", ["o:0:0:30"], id="earliest-to-an-aged-end"),
    pytest.param(
        Earliest(), AtOffset(39), (40, 40, 40), {}, "o:0:39:39", ["o:0:0:39"], id="earliest-of-an-emptied-log"
    ),
    # By time nobody knows how much is gone: an empty range stands for it.
    pytest.param(
        AtTimestamp(_T1),
        AtTimestamp(_T2),
        (40, 100, 100),
        {0: 40, _T1: 40, _T2: 70},
        "o:0:40:70",
        ["o:0:40:40"],
        id="time-at-the-first-record-left",
    ),
    pytest.param(
        AtTimestamp(_T1),
        AtTimestamp(_T2),
        (40, 100, 100),
        {0: 42, _T1: 42, _T2: 70},
        "o:0:42:70",
        ["o:0:42:42"],
        id="time-at-the-first-record-left-behind-a-gap",
    ),
    pytest.param(
        AtTimestamp(_T1),
        AtTimestamp(_T2),
        (40, 100, 100),
        {0: 40, _T1: 40, _T2: 40},
        "o:0:40:40",
        ["o:0:40:40"],
        id="window-wholly-before-the-first-record-left",
    ),
    pytest.param(
        AtTimestamp(_T1),
        Latest(),
        (40, 100, 100),
        {0: 40, _T1: 40},
        "o:0:40:100",
        ["o:0:40:40"],
        id="time-to-latest",
    ),
    pytest.param(
        AtTimestamp(_T1),
        AtOffset(30),
        (40, 100, 100),
        {0: 40, _T1: 40},
        "o:0:30:30",
        ["o:0:30:30"],
        id="time-to-an-aged-end",
    ),
    pytest.param(
        AtTimestamp(_T1),
        AtTimestamp(_T2),
        (1, 9, 9),
        {0: 1, _T1: 1, _T2: 5},
        "o:0:1:5",
        ["o:0:1:1"],
        id="one-deleted",
    ),
    pytest.param(
        AtTimestamp(_T1),
        AtTimestamp(_T2),
        (40, 40, 40),
        {0: None, _T1: None, _T2: None},
        "o:0:40:40",
        ["o:0:40:40"],
        id="time-of-an-emptied-log",
    ),
    pytest.param(
        AtTimestamp(_T1),
        AtTimestamp(_T2),
        (40, 100, 100),
        {_T1: 41, _T2: 70},
        "o:0:41:70",
        ["o:0:41:41"],
        id="first-record-left-not-asked-for",
    ),
]


@pytest.mark.parametrize(("starting", "ending", "log", "found", "_range", "gone"), _AGED_OUT)
def test_aged_out_records_are_an_error(
    starting: RequestedOffset, ending: RequestedOffset, log: Log, found: Found, _range: str, gone: list[str]
) -> None:
    """Requested records that retention deleted fail the plan: where, which offsets, where the log starts, what would
    permit it.
    """
    with pytest.raises(DataLossError) as error:
        _resolve(starting, ending, _cluster(log, found=found))

    _, _, first, end = gone[0].split(":")
    for fragment in (f"o[0] {first} to {end}", "aged out", f"log now starts at {log[0]}", "fail_on_data_loss=False"):
        assert fragment in str(error.value)


@pytest.mark.parametrize(("starting", "ending", "log", "found", "expected", "gone"), _AGED_OUT)
def test_permitted_loss_keeps_the_gap(
    starting: RequestedOffset, ending: RequestedOffset, log: Log, found: Found, expected: str, gone: list[str]
) -> None:
    """With fail_on_data_loss=False what is left is read, and what is not stays on record with its reason."""
    resolved = _resolve(starting, ending, _cluster(log, found=found), _PERMISSIVE)

    assert resolved.ranges.format() == [expected]
    assert _missing(resolved) == gone
    assert "aged out" in resolved.missing[0].reason


def test_an_aged_out_time_says_that_the_loss_is_not_certain() -> None:
    """Nobody knows what timestamps deleted records had; the reason says so and names the moment."""
    cluster = _cluster((40, 100, 100), found={0: 40, _T1: 40})

    (gone,) = _resolve(AtTimestamp(_T1), Latest(), cluster, _PERMISSIVE).missing

    assert "may have aged out" in gone.reason
    assert "2026-11-20T09:00:00.000Z" in gone.reason


_HOUR = 3_600_000
_UNLIMITED = {"retention.bytes": "-1"}
#: The window starts an hour before now.
_RETENTION = [
    pytest.param({**_UNLIMITED, "retention.ms": str(2 * _HOUR)}, False, id="young-enough"),
    pytest.param({**_UNLIMITED, "retention.ms": str(_HOUR)}, False, id="just-young-enough"),
    pytest.param({**_UNLIMITED, "retention.ms": str(_HOUR - 1)}, True, id="too-old-by-a-millisecond"),
    pytest.param({**_UNLIMITED, "retention.ms": "0"}, True, id="too-old"),
    pytest.param({**_UNLIMITED, "retention.ms": "-1"}, True, id="infinite-retention"),
    pytest.param({"retention.bytes": "1000000", "retention.ms": str(2 * _HOUR)}, True, id="size-limited"),
    pytest.param({"retention.bytes": "1000000", "retention.ms": "-1"}, True, id="size-limited-without-a-time"),
    pytest.param({"retention.bytes": "0", "retention.ms": "-1"}, True, id="size-limited-to-nothing"),
    pytest.param({}, True, id="config-unknown"),
    pytest.param({"retention.ms": "-1"}, True, id="size-unknown"),
    pytest.param(_UNLIMITED, True, id="time-unknown"),
    pytest.param({**_UNLIMITED, "retention.ms": ""}, True, id="time-no-number"),
]


@pytest.mark.parametrize(("config", "suspected"), _RETENTION)
@pytest.mark.parametrize(
    ("log", "found", "expected"),
    [
        pytest.param((40, 100, 100), {0: 40, _T1: 40, _T2: 70}, "o:0:40:70", id="no-older-record-left"),
        pytest.param((40, 40, 40), {0: None, _T1: None, _T2: None}, "o:0:40:40", id="quiet-partition"),
    ],
)
def test_the_topics_retention_shows_whether_a_time_may_have_aged_out(
    log: Log, found: Found, expected: str, config: dict[str, str], suspected: bool
) -> None:
    """Retention explains a log without older records only by time; where it is off, somebody deleted records."""
    cluster = _cluster(log, found=found, config=config)

    resolved = _resolve(AtTimestamp(_T1), AtTimestamp(_T2), cluster, _PERMISSIVE)

    start = expected.split(":")[2]
    assert resolved.ranges.format() == [expected]
    assert _missing(resolved) == ([f"o:0:{start}:{start}"] if suspected else [])
    unproven = [text for text in resolved.warnings if "DeleteRecords" in text]
    assert [text.count("o[0]") for text in unproven] == ([] if suspected else [1])


@pytest.mark.parametrize(("config", "_suspected"), _RETENTION)
@pytest.mark.parametrize(
    ("log", "found"),
    [
        pytest.param((40, 100, 100), {0: 40, _T1: 41, _T2: 70}, id="older-record-left"),
        pytest.param((40, 100, 100), {0: 40, _T1: None, _T2: None}, id="quiet-partition-with-older-records"),
        pytest.param((0, 100, 100), {0: 0, _T1: 0, _T2: 70}, id="nothing-was-ever-deleted"),
        pytest.param((0, 0, 0), {0: None, _T1: None, _T2: None}, id="never-written"),
    ],
)
def test_no_retention_is_suspected_where_the_log_shows_that_nothing_is_gone(
    log: Log, found: Found, config: dict[str, str], _suspected: bool
) -> None:
    """An older record that is left, or a log that starts at 0, is proof whatever the topic's configuration."""
    resolved = _resolve(AtTimestamp(_T1), AtTimestamp(_T2), _cluster(log, found=found, config=config))

    assert resolved.missing == ()
    assert not [text for text in resolved.warnings if "DeleteRecords" in text]


def test_a_suspected_loss_counts_no_offsets() -> None:
    """Nobody knows how many records are gone, so the gap must not be shown as so many."""
    cluster = _cluster((40, 100, 100), found={0: 40, _T1: 40})

    (gone,) = _resolve(AtTimestamp(_T1), Latest(), cluster, _PERMISSIVE).missing

    assert gone.offset_range.is_empty


_RECORDS_IN_NEITHER = "late records of this window that arrive before the next one's first record will be in neither"


@pytest.mark.parametrize(
    ("starting", "found", "expected", "warned"),
    [
        pytest.param(AtTimestamp(_T1), {_T1: 20, _T2: None}, "o:0:20:100", True, id="no-record-behind"),
        pytest.param(Earliest(), {_T2: None}, "o:0:0:100", True, id="no-record-behind-from-earliest"),
        pytest.param(AtTimestamp(_T1), {_T1: 20, _T2: 99}, "o:0:20:99", False, id="one-record-behind"),
        pytest.param(AtTimestamp(_T1), {_T1: None, _T2: None}, "o:0:100:100", False, id="idle"),
    ],
)
def test_a_window_without_a_record_behind_it_warns_of_late_ones(
    starting: RequestedOffset, found: Found, expected: str, warned: bool
) -> None:
    """Until a record after the window has arrived, the end of the log is where the window is cut."""
    resolved = _resolve(starting, AtTimestamp(_T2), _cluster((0, 100, 100), found=found))

    assert resolved.ranges.format() == [expected]
    assert [_RECORDS_IN_NEITHER in warning and "o[0]" in warning for warning in resolved.warnings] == [True] * warned


def test_the_warning_of_late_records_is_one_for_all_partitions() -> None:
    """A topic of many partitions gives one warning of bounded length."""
    cluster = _cluster(*[(0, 100, 100)] * 11, found={_T1: 20, _T2: None})

    (warning,) = _resolve(AtTimestamp(_T1), AtTimestamp(_T2), cluster).warnings

    assert "o[7], and 3 more" in warning


@pytest.mark.parametrize(
    ("count", "more"), [pytest.param(8, [], id="all-fit"), pytest.param(11, ["and 3 more"], id="three-hidden")]
)
def test_names_up_to_eight_partitions_that_lost_records(count: int, more: list[str]) -> None:
    """A topic of many partitions gives a message of bounded length, which says what it leaves out."""
    with pytest.raises(DataLossError) as error:
        _resolve(AtOffset(0), Latest(), _cluster(*[(40, 100, 100)] * count))

    assert "o[7] 0 to 40" in str(error.value)
    assert "o[8]" not in str(error.value)
    assert re.findall(r"and \d+ more", str(error.value)) == more


_BEYOND = [
    pytest.param(Earliest(), AtOffset(101), (0, 100, 100), {}, ["101", "o[0]", "ends at 100", "recreated"], id="end"),
    pytest.param(AtOffset(101), Latest(), (0, 100, 100), {}, ["101", "o[0]", "ends at 100"], id="start"),
    pytest.param(AtOffset(101), AtOffset(200), (0, 100, 100), {}, ["200", "ends at 100"], id="both"),
    pytest.param(Earliest(), AtOffset(2**63), (0, 100, 100), {}, ["9223372036854775808"], id="beyond-int64"),
    pytest.param(
        Earliest(),
        AtOffset(95),
        (0, 90, 100),
        {},
        ["o[0]", "95", "open transaction", "from 90 on", "isolation_level='read_uncommitted'"],
        id="end-beyond-last-stable",
    ),
    pytest.param(AtOffset(95), Latest(), (0, 90, 100), {}, ["95", "open transaction"], id="start-beyond-last-stable"),
    pytest.param(
        AtTimestamp(_T1),
        AtTimestamp(_T2),
        (0, 90, 100),
        {_T1: 10, _T2: 95},
        ["95", "open transaction"],
        id="time-beyond-last-stable",
    ),
    pytest.param(
        AtTimestamp(_T1),
        AtTimestamp(_T2),
        (0, 90, 100),
        {_T1: 10, _T2: None},
        ["100", "open transaction"],
        id="window-that-reaches-the-log-end-beyond-last-stable",
    ),
]


@pytest.mark.parametrize(("starting", "ending", "log", "found", "fragments"), _BEYOND)
def test_refuses_offsets_that_cannot_be_read(
    starting: RequestedOffset, ending: RequestedOffset, log: Log, found: Found, fragments: list[str]
) -> None:
    """Beyond the log, or hidden by an open transaction: a plan error with the offsets and what to do, whatever loss is
    permitted.
    """
    for rules in (_STRICT, _PERMISSIVE):
        with pytest.raises(PlanError) as error:
            _resolve(starting, ending, _cluster(log, found=found), rules)
        assert not isinstance(error.value, DataLossError)
        # A transaction ends, and then a retry finds everything.
        assert error.value.retriable == ("open transaction" in fragments)
        for fragment in fragments:
            assert fragment in str(error.value)


@pytest.mark.parametrize(
    ("ending", "found"),
    [
        pytest.param(AtOffset(90), {}, id="offset"),
        pytest.param(AtTimestamp(_T2), {_T2: 90}, id="time"),
    ],
)
def test_an_end_at_the_last_stable_offset_can_be_read(ending: RequestedOffset, found: Found) -> None:
    """The last stable offset is exclusive, like every end."""
    assert _resolve(Earliest(), ending, _cluster((0, 90, 100), found=found)).ranges.format() == ["o:0:0:90"]


@pytest.mark.parametrize(
    ("starting", "ending", "found", "expected"),
    [
        pytest.param(Earliest(), Latest(), {}, "o:0:0:100", id="latest"),
        pytest.param(Earliest(), AtOffset(95), {}, "o:0:0:95", id="offset"),
        pytest.param(AtOffset(95), Latest(), {}, "o:0:95:100", id="start"),
        pytest.param(AtTimestamp(_T1), AtTimestamp(_T2), {_T1: 10, _T2: 95}, "o:0:10:95", id="time"),
    ],
)
def test_read_uncommitted_reads_to_the_end_of_the_log(
    starting: RequestedOffset, ending: RequestedOffset, found: Found, expected: str
) -> None:
    """A reader that also takes aborted records sees all of an open transaction, and there is no warning."""
    resolved = _resolve(starting, ending, _cluster((0, 90, 100), found=found), _UNCOMMITTED)

    assert resolved.ranges.format() == [expected]
    assert resolved.warnings == ()


def test_latest_stops_before_an_open_transaction_and_says_so() -> None:
    """What cannot be read yet is no error for ``latest``, and is not passed over in silence."""
    resolved = _resolve(Earliest(), Latest(), _cluster((0, 90, 1_100), (0, 50, 50)))

    assert resolved.ranges.format() == ["o:0:0:90", "o:1:0:50"]
    (warning,) = resolved.warnings
    assert "o[0]" in warning
    assert "hides the last 1,010 offsets" in warning
    assert "90" in warning


@pytest.mark.parametrize("rules", [pytest.param(_STRICT, id="committed"), pytest.param(_UNCOMMITTED, id="uncommitted")])
@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param({_T1: 20, _T2: 105}, "o:0:20:105", id="end"),
        pytest.param({_T1: 103, _T2: 105}, "o:0:103:105", id="both"),
    ],
)
def test_late_records_that_arrive_while_the_broker_is_asked_are_copied(
    rules: ReadRules, found: Found, expected: str
) -> None:
    """The log's end is asked for first, so a first record beyond it has just arrived, and what lies before it belongs
    to the window.
    """
    resolved = _resolve(AtTimestamp(_T1), AtTimestamp(_T2), _cluster((0, 106, 100), found=found), rules)

    assert resolved.ranges.format() == [expected]
    assert resolved.missing == ()


@pytest.mark.parametrize("rules", [pytest.param(_STRICT, id="committed"), pytest.param(_UNCOMMITTED, id="uncommitted")])
def test_a_last_stable_offset_beyond_the_log_is_cut_at_its_end(rules: ReadRules) -> None:
    """Asked for after the high watermark, it may be ahead of it; nothing is hidden then."""
    resolved = _resolve(Earliest(), Latest(), _cluster((0, 105, 100)), rules)

    assert resolved.ranges.format() == ["o:0:0:100"]
    assert resolved.warnings == ()
    with pytest.raises(PlanError, match="must not lie beyond the log; got 103"):
        _resolve(Earliest(), AtOffset(103), _cluster((0, 105, 100)), rules)


@pytest.mark.parametrize(
    ("starting", "ending", "found", "fragments"),
    [
        pytest.param(AtOffset(60), AtOffset(50), {}, ["o[0]", "start at 60", "end at 50"], id="offsets"),
        pytest.param(
            AtOffset(60), AtTimestamp(_T2), {_T2: 50}, ["o[0]", "start at 60", "end at 50"], id="offset-and-time"
        ),
        pytest.param(Earliest(), Earliest(), {}, ["cannot end at the earliest", "o[0]"], id="end-at-earliest"),
    ],
)
def test_refuses_a_start_after_the_end(
    starting: RequestedOffset, ending: RequestedOffset, found: Found, fragments: list[str]
) -> None:
    """The error for reversed bounds names the partition and both offsets."""
    with pytest.raises(BoundError) as error:
        _resolve(starting, ending, _cluster((0, 100, 100), found=found))

    for fragment in fragments:
        assert fragment in str(error.value)


def test_reversed_bounds_are_no_data_loss() -> None:
    """Invalid bounds are an error, even if their offsets have aged out."""
    with pytest.raises(BoundError, match="start at 30 and end at 20"):
        _resolve(AtOffset(30), AtOffset(20), _cluster((40, 100, 100)))


@pytest.mark.parametrize("side", ["starting_offsets", "ending_offsets"])
def test_offsets_of_a_partition_that_is_not_read_are_an_error(side: str) -> None:
    """They would have no effect; the message names them and what is read."""
    stray: dict[str, Any] = {"o": {"0": 1, "7": 1}, "p": {"0": 1}}
    starting = parse_bound(stray if side == "starting_offsets" else "earliest", "start")
    ending = parse_bound(stray if side == "ending_offsets" else "latest", "end")

    with pytest.raises(BoundError) as error:
        resolve_window(Selection(topics=["o"]), starting, ending, _cluster((0, 9, 9)), _STRICT)

    for fragment in (side, "o[7], p[0]", "o[0]", "topics or assign"):
        assert fragment in str(error.value)


def test_every_partition_that_is_read_must_have_its_offsets() -> None:
    """A partition that was added since the DAG was written is not read from a guess."""
    with pytest.raises(BoundError, match=r"o\[1\] is missing"):
        resolve_window(
            Selection(topics=["o"]),
            parse_bound({"o": {"0": 1}}, "start"),
            parse_bound("latest", "end"),
            _cluster((0, 9, 9), (0, 9, 9)),
            _STRICT,
        )


def test_each_partition_has_its_own_bounds() -> None:
    """Offsets, Spark's -2 and Spark's -1 may stand side by side."""
    resolved = resolve_window(
        Selection(assign={"o": [0, 2]}),
        parse_bound({"o": {"0": 5, "2": -2}}, "start"),
        parse_bound({"o": {"0": -1, "2": 8}}, "end"),
        _cluster((0, 9, 9), (0, 9, 9), (3, 9, 9)),
        _STRICT,
    )

    assert resolved.ranges.format() == ["o:0:5:9", "o:2:3:8"]


@pytest.mark.parametrize(
    "selection",
    [
        pytest.param(Selection(topics=["nowhere"]), id="topic"),
        pytest.param(Selection(pattern="nowhere.*"), id="pattern"),
        pytest.param(Selection(assign={"o": [1]}), id="partition"),
    ],
)
def test_refuses_to_read_what_does_not_exist(selection: Selection) -> None:
    """An unknown topic or partition is an error, not an empty copy."""
    with pytest.raises(UnknownTopicError):
        resolve_window(
            selection, Bound.everywhere(Earliest()), Bound.everywhere(Latest()), _cluster((0, 9, 9)), _STRICT
        )


@pytest.mark.parametrize(
    ("wanted", "log", "expected"),
    [
        pytest.param(["o:0:0:100"], (0, 100, 100), ["o:0:0:100"], id="whole-log"),
        pytest.param(["o:0:40:41"], (40, 100, 100), ["o:0:40:41"], id="first-record-left"),
        pytest.param(["o:0:10:20", "o:0:20:30"], (0, 100, 100), ["o:0:10:20", "o:0:20:30"], id="touching-stay-apart"),
        pytest.param(["o:0:100:100"], (0, 100, 100), ["o:0:100:100"], id="empty-at-the-end"),
        pytest.param(["o:0:5:5"], (40, 100, 100), ["o:0:5:5"], id="empty-range-loses-nothing"),
    ],
)
def test_replays_exactly_what_is_wanted(wanted: list[str], log: Log, expected: list[str]) -> None:
    """Ranges that the log holds stay as they are."""
    resolved = resolve_replay(OffsetRanges.parse(wanted), _cluster(log), _STRICT)

    assert resolved.ranges.format() == expected
    assert resolved.missing == ()


_REPLAY_AGED_OUT = [
    pytest.param(["o:0:10:60"], ["o:0:40:60"], ["o:0:10:40"], id="partly"),
    pytest.param(["o:0:39:41"], ["o:0:40:41"], ["o:0:39:40"], id="by-one"),
    pytest.param(["o:0:10:30"], ["o:0:30:30"], ["o:0:10:30"], id="wholly"),
    pytest.param(["o:0:10:40"], ["o:0:40:40"], ["o:0:10:40"], id="up-to-the-log-start"),
    pytest.param(
        ["o:0:0:10", "o:0:10:10", "o:0:35:50"],
        ["o:0:10:10", "o:0:40:50"],
        ["o:0:0:10", "o:0:35:40"],
        id="two-become-the-same-empty-range",
    ),
]


@pytest.mark.parametrize(("wanted", "_ranges", "gone"), _REPLAY_AGED_OUT)
def test_a_replay_of_aged_out_offsets_is_an_error(wanted: list[str], _ranges: list[str], gone: list[str]) -> None:
    """A replay that cannot be whole is refused, with the offsets that are gone."""
    with pytest.raises(DataLossError) as error:
        resolve_replay(OffsetRanges.parse(wanted), _cluster((40, 100, 100)), _STRICT)

    for text in gone:
        _, _, first, end = text.split(":")
        assert f"o[0] {first} to {end}: aged out: the log now starts at 40" in str(error.value)
    assert "fail_on_data_loss=False" in str(error.value)


@pytest.mark.parametrize(("wanted", "expected", "gone"), _REPLAY_AGED_OUT)
def test_a_permitted_replay_keeps_the_gap(wanted: list[str], expected: list[str], gone: list[str]) -> None:
    """What is left is replayed, what is gone is named, and together they are what was wanted."""
    ranges = OffsetRanges.parse(wanted)
    resolved = resolve_replay(ranges, _cluster((40, 100, 100)), _PERMISSIVE)

    assert resolved.ranges.format() == expected
    assert _missing(resolved) == gone
    assert resolved.ranges.merge(m.offset_range for m in resolved.missing) == ranges.merge()


@pytest.mark.parametrize(
    ("wanted", "error_class", "fragments"),
    [
        pytest.param("o:0:50:101", PlanError, ["101", "o[0]", "ends at 100"], id="end-beyond-the-log"),
        pytest.param("o:0:500:500", PlanError, ["500", "ends at 100"], id="empty-beyond-the-log"),
        pytest.param("o:0:50:91", PlanError, ["91", "open transaction", "from 90 on"], id="beyond-last-stable"),
        pytest.param("o:1:0:1", UnknownTopicError, ["o[1] does not exist", "1 partitions"], id="unknown-partition"),
        pytest.param("p:0:0:1", UnknownTopicError, ["'p' does not exist"], id="unknown-topic"),
    ],
)
def test_a_replay_refuses_what_the_log_does_not_hold(
    wanted: str, error_class: type[Exception], fragments: list[str]
) -> None:
    """Beyond the log, hidden or unknown: an error, whatever loss is permitted."""
    for rules in (_STRICT, _PERMISSIVE):
        with pytest.raises(error_class) as error:
            resolve_replay(OffsetRanges.parse([wanted]), _cluster((0, 90, 100)), rules)
        for fragment in fragments:
            assert fragment in str(error.value)


def test_a_replay_without_commit_reads_beyond_the_last_stable_offset() -> None:
    """``read_uncommitted`` reads what an open transaction hides from others."""
    resolved = resolve_replay(OffsetRanges.parse(["o:0:85:100"]), _cluster((0, 90, 100)), _UNCOMMITTED)

    assert resolved.ranges.format() == ["o:0:85:100"]


def test_an_end_in_the_future_is_an_error() -> None:
    """Records that arrive until then would be missing from a finished copy; the message shows both moments and what to
    do.
    """
    with pytest.raises(BoundError) as error:
        check_window(TimeWindow(_T1, _T2), _T2 - 1)

    for fragment in (
        "ending_timestamp must not lie in the future",
        "got 2026-11-20T10:00:00.000Z",
        "now it is 2026-11-20T09:59:59.999Z",
        "a schedule with a data interval",
        "leave ending_timestamp out",
    ):
        assert fragment in str(error.value)


@pytest.mark.parametrize(
    "window",
    [
        pytest.param(TimeWindow(_T1, _T2), id="ends-now"),
        pytest.param(TimeWindow(None, _T1), id="ended"),
        pytest.param(TimeWindow(_T1, None), id="open-end"),
        pytest.param(TimeWindow(_T2, None), id="starts-now"),
        pytest.param(TimeWindow(None, None), id="no-window"),
    ],
)
def test_a_window_that_has_closed_is_taken(window: TimeWindow) -> None:
    """The end is exclusive, so a window may end this very millisecond; one without an end reads what is there."""
    check_window(window, _T2)


@pytest.mark.parametrize(
    ("window", "shown"),
    [
        pytest.param(TimeWindow(_T2 + 1, None), "2026-11-20T10:00:00.001Z", id="by-a-millisecond"),
        pytest.param(TimeWindow(20_261_120_090_000, None), "2612-01-19T16:54:50.000Z", id="digits-of-a-date"),
        pytest.param(TimeWindow(_T2 + 1, _T2 + 2), "2026-11-20T10:00:00.001Z", id="with-an-end"),
    ],
)
def test_a_start_in_the_future_is_an_error(window: TimeWindow, shown: str) -> None:
    """``starting_timestamp='20261120090000'`` is read as the year 2612, and would copy nothing in silence."""
    with pytest.raises(BoundError) as error:
        check_window(window, _T2)

    for fragment in (
        "starting_timestamp must not lie in the future",
        shown,
        "2026-11-20T10:00:00.000Z",
        "milliseconds",
    ):
        assert fragment in str(error.value)


def test_lists_each_timestamp_to_ask_for_once() -> None:
    """One request to the broker per timestamp, shared by all partitions, and one for the first record that is left."""
    starting = Bound(AtTimestamp(_T2), {TopicPartition("o", 0): AtTimestamp(_T1), TopicPartition("o", 1): AtOffset(3)})
    ending = Bound(None, {TopicPartition("o", 0): AtTimestamp(_T2), TopicPartition("o", 1): Latest()})

    assert timestamps_in(starting, ending) == (0, _T1, _T2)


def test_words_and_offsets_need_no_timestamps() -> None:
    """They cost no request to the broker."""
    ending = Bound(Latest(), {TopicPartition("o", 0): AtOffset(3)})

    assert timestamps_in(Bound.everywhere(Earliest()), ending) == ()


def test_records_from_before_a_window_are_a_warning() -> None:
    """Which is out of order by more than producers' clocks are."""
    window = TimeWindow(_T1, _T2)
    assert older_than_window({TopicPartition("o", 0): _T1 - 1_000, TopicPartition("o", 1): _T1}, window) == []
    (warning,) = older_than_window({TopicPartition("o", i): _T1 - i * 60_000 for i in range(3)}, window)
    assert "of 2 of the partitions" in warning
    assert "2026-11-20T08:58:00.000Z in o[2]" in warning
    assert "exact_window=True" in warning
