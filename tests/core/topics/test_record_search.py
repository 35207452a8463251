"""The first record at or after a moment, against a log that is drawn and a search through all of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_kafka_spark.core.topics import record_search
from airflow_provider_kafka_spark.core.topics.record_search import FoundRecord, find_first

LIMIT = 100_000
NEVER = 10**15


@dataclass(frozen=True)
class Log:
    """One partition.

    :param entries: of each offset in turn: its time in ms, and whether it is a record; a transaction's marker is none.
    """

    entries: tuple[tuple[int, bool], ...]
    reads: int = 5

    def broker_s_answer(self, epoch_ms: int) -> int | None:
        return next((i for i, (ms, _) in enumerate(self.entries) if ms >= epoch_ms), None)

    def first(self, epoch_ms: int) -> int | None:
        records = (i for i, (ms, is_record) in enumerate(self.entries) if is_record and epoch_ms <= ms <= LIMIT)
        return next(records, None)

    def search(self, epoch_ms: int) -> tuple[FoundRecord, list[int]]:
        """The answer, and where was read."""
        search, read = find_first(epoch_ms, self.broker_s_answer(epoch_ms), len(self.entries), LIMIT), []
        try:
            wanted = next(search)
            while True:
                read.append(wanted.position)
                places = (i for i in range(wanted.position, len(self.entries)) if self.entries[i][1])
                records = [(i, self.entries[i][0]) for i in islice(places, min(self.reads, wanted.count))]
                wanted = search.send(records)
        except StopIteration as answer:
            return answer.value, read


def entries(times: st.SearchStrategy[int]) -> st.SearchStrategy[tuple[tuple[int, bool], ...]]:
    return st.lists(st.tuples(times, st.booleans()), max_size=60).map(tuple)


LOGS = st.builds(Log, entries(st.sampled_from([*range(0, 100, 3), LIMIT + 5, NEVER])), st.integers(1, 7))


@pytest.fixture(params=[0, 3, 10_000], autouse=True, scope="module")
def walked(request: pytest.FixtureRequest) -> Iterator[int]:
    """Of logs as long as these, 10,000 records are all."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_search, "MOST_WALKED", request.param)
        yield request.param


@settings(max_examples=60)
@given(log=LOGS, more=entries(st.integers(0, 2_000)), epoch_ms=st.integers(0, 110))
def test_a_settled_answer_is_the_first_record_and_stays_it_while_the_log_grows(log, more, epoch_ms):
    found, _ = log.search(epoch_ms)
    if found.is_settled:
        assert found.offset == log.first(epoch_ms)
        assert replace(log, entries=log.entries + more).search(epoch_ms)[0] == found


@settings(max_examples=60)
@given(log=LOGS, epoch_ms=st.integers(0, 110))
def test_every_answer_is_a_record_of_a_credible_time_at_or_after_the_moment(log, epoch_ms):
    found, _ = log.search(epoch_ms)
    if found.offset is not None:
        ms, is_record = log.entries[found.offset]
        assert is_record
        assert epoch_ms <= ms <= LIMIT
    if found.ahead is not None:
        assert log.entries[found.ahead[0]] == (found.ahead[1], True)
        assert found.ahead[1] > LIMIT


@settings(max_examples=60)
@given(log=LOGS, ms=st.lists(st.integers(0, 100), max_size=60), epoch_ms=st.integers(0, 110))
def test_in_order_of_time_every_answer_is_the_first_record(log, ms, epoch_ms):
    """Whatever the times of markers are, and those that are not credible."""
    times = iter(sorted(ms))
    kept = [(at if not is_record or at > LIMIT else next(times, 100), is_record) for at, is_record in log.entries]
    log = replace(log, entries=tuple(kept))
    assert log.search(epoch_ms)[0].offset == log.first(epoch_ms)


@settings(max_examples=60)
@given(
    log=LOGS,
    moments=st.lists(st.integers(0, 110), min_size=2, max_size=6),
    passed=st.sampled_from([0, 2, record_search.MOST_PASSED]),
)
def test_a_search_by_halves_gives_answers_that_grow_with_the_moment(log, moments, passed, walked):
    if walked == 3:
        # A record that one of them finds at once may lie before what another one finds by halves.
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_search, "MOST_PASSED", passed)
        patch.setattr(record_search, "STEP", 2)
        ends = [log.search(at)[0].offset for at in sorted(moments)]
    numbers = [len(log.entries) if end is None else end for end in ends]
    assert numbers == sorted(numbers)


def test_a_long_log_is_read_at_few_places(walked):
    """The first marker is of now, as in a topic that a copy has filled with old records."""
    log = Log(tuple((NEVER, False) if i == 20 else (i, True) for i in range(900)))
    found, read = log.search(700)
    assert found == FoundRecord(700, is_settled=walked > 900)
    assert len(read) <= (walked + 900 // 5 if walked > 900 else 16)


def test_a_log_full_of_times_that_are_not_credible_is_not_read_to_its_end(walked):
    """Nor is what follows them left out."""
    never = Log(((NEVER, True),) * 40_000, reads=10_000)
    with_some = Log((*never.entries, *((i, True) for i in range(90_000))), reads=10_000)

    found, read = never.search(5)
    after, read_too = with_some.search(80_000)

    assert found == FoundRecord(None, ahead=found.ahead)
    assert after.offset == 120_000
    assert len(read) + len(read_too) < 600
