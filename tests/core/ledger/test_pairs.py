"""Promises of :mod:`airflow_provider_kafka_spark.core.ledger.pairs`. ``coverage_cases.json`` has the rules.

Here histories of runs are drawn, of which each leaves what operators leave, and what the ledger says of them is
compared with what their source and targets have.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_kafka_spark.core.errors import InvalidInputError
from airflow_provider_kafka_spark.core.ledger.coverage import Coverage
from airflow_provider_kafka_spark.core.ledger.entry import Delivery
from airflow_provider_kafka_spark.core.ledger.pairs import Choice, pairs_of
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange
from tests.core.ledger.test_coverage import delivery

_BEGINNING = datetime(2026, 11, 1, tzinfo=timezone.utc)
#: An offset of the source in seven has a marker of a transaction, and no record.
_END, _MARKER = 42, 7
_RUNS = st.lists(
    st.tuples(
        st.sampled_from(["copy", "copy", "fail", "run", "clear", "retry", "filter", "recreate"]),
        st.sampled_from(["one", "two"]),
        st.integers(0, _END - 1),
        st.integers(1, 15),
        st.integers(0, 15),
    ),
    max_size=12,
)


@dataclass
class _World:
    """A source with one partition, and targets.

    :ivar has: of each target of now, how often it has the record of an offset.
    :ivar ids: how often each was recreated.
    :ivar left: what the runs have left, as the ledger reads it.
    :ivar last: of each target, run id, range and end of the delivered part of its last run.
    """

    has: dict[str, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    ids: Counter[str] = field(default_factory=Counter)
    left: list[Delivery] = field(default_factory=list)
    last: dict[str, tuple[str, tuple[int, int], int]] = field(default_factory=dict)

    def act(self, kind: str, target: str, start: int, size: int, part: int) -> None:
        number, end = len(self.left), min(start + size, _END)
        if kind == "recreate":
            self.ids[target] += 1
            self.has[target].clear()
            # Somebody has to look at the new one before the ledger can know it.
            kind, start, end = "copy", _END - 1, _END
        run_id = f"{number:016x}"
        if kind in ("clear", "retry"):
            if target not in self.last:
                return
            # The same run delivers what its last try has not.
            run_id, (start, end), _ = self.last[target]
        if kind == "filter":
            self._write(target, [o for o in range(start, end) if o % 2])
            self._leave(target, run_id, start, end, filtered=True)
            return
        whole = kind not in ("fail", "run")
        done = end if whole else min(start + part, end)
        written = self.last[target][2] if kind in ("clear", "retry") else start
        self._write(target, range(written, done))
        self.last[target] = (run_id, (start, end), done)
        self._leave(target, run_id, start, done, *(() if whole else (end,)), is_active=kind == "run")

    def _write(self, target: str, offsets: Any) -> None:
        self.has[target].update(o for o in offsets if o % _MARKER)

    def _leave(self, target: str, run_id: str, start: int, done: int, planned: int = 0, **others: Any) -> None:
        """What a worker leaves: it looks whether a marker follows what it was to read."""
        end = max(done, planned)
        plan = {"state": "partial", "planned_ranges": [f"orders:0:{start}:{planned}"]} if planned else {}
        self.left.append(
            delivery(
                run_id,
                f"orders:0:{start}:{done}",
                target_topics=[target],
                target_topic_ids={target: f"id-{self.ids[target]}"},
                empty_ranges=[f"orders:0:{end}:{end + 1}"] if end % _MARKER == 0 and end < _END else [],
                log={"at": _BEGINNING.isoformat(), "source": [f"orders:0:0:{_END}"], "target": []},
                at=_BEGINNING + timedelta(hours=len(self.left)),
                **plan,
                **others,
            )
        )


@given(_RUNS)
def test_what_the_ledger_says_is_what_source_and_targets_have(runs: list[Any]) -> None:
    world = _World()
    for run in runs:
        world.act(*run)

    pairs, _ = pairs_of(world.left, "orders")

    assert [pair.target_topic for pair in pairs] == sorted({d.target_topics[0] for d in world.left})
    for pair in pairs:
        stretches, has = pair.stretches(), world.has[pair.target_topic]
        assert [o for s in stretches for o in range(s.offsets.from_offset, s.offsets.until_offset)] == [*range(_END)]
        for stretch in stretches:
            records = [o for o in range(stretch.offsets.from_offset, stretch.offsets.until_offset) if o % _MARKER]
            counts = {has[o] for o in records}
            if stretch.coverage is Coverage.COVERED and not stretch.filtered:
                assert counts <= {1} or any(d.filtered for d in stretch.by)
                assert 0 not in counts
            if stretch.coverage is Coverage.DUPLICATED:
                assert all(count > 1 for count in counts)
            if stretch.coverage in (Coverage.MISSING, Coverage.UNSEEN):
                assert counts <= {0}
            if stretch.coverage is Coverage.EMPTY:
                assert not records


def test_a_choice_names_what_there_is() -> None:
    entries = [
        delivery("a", "orders:0:0:10", target_topics=["orders_copy"]),
        delivery("b", "orders:0:0:10", target_topics=["orders_stream"]),
        delivery("c", "orders:0:0:10", target="three:9092", target_cluster_id="three", target_topics=["orders_copy"]),
    ]
    pairs, _ = pairs_of(entries, "orders")

    assert [p.target_topic for p in Choice("orders", target="two").of(pairs)] == ["orders_copy", "orders_stream"]
    assert len(Choice("orders", source="broker-1:9092").of(pairs)) == 3
    assert str(Choice("orders", target="three:9092").one_of(pairs)) == "broker-1:9092/orders -> three:9092/orders_copy"
    assert Choice("orders", target_topic="anything").one_of([]) is None
    for choice, said in (
        (Choice("orders", target_topic="orders_cpy"), "orders_copy, orders_stream; got 'orders_cpy'. Did you mean"),
        (Choice("orders", source="uno:9092", is_option=True), "--source must be one of .* broker-1:9092, one; got"),
        (Choice("orders", target="two", target_topic="x"), "got 'x'"),
    ):
        with pytest.raises(InvalidInputError, match=said):
            choice.of(pairs)
    with pytest.raises(
        InvalidInputError, match="target_topic must be given where copies of 'orders' are several pairs"
    ):
        Choice("orders", target="two").one_of(pairs)
    assert "got 'ordres'. Did you mean 'orders'?" in str(Choice("ordres").unknown({"orders"}))
    assert "since today: none; got" in str(Choice("ordres").unknown((), " since today"))


def test_what_a_topic_is_now_may_be_known_from_its_cluster() -> None:
    """A target that does not exist has nothing."""
    old = delivery("a", "orders:0:0:10", target_topic_ids={"copy": "id-1"})

    def said(**now: Any) -> list[Coverage]:
        return [s.coverage for pair in pairs_of([old], "orders", **now)[0] for s in pair.stretches()]

    assert said(target_ids={("two", "copy"): "id-1"}) == [Coverage.COVERED]
    assert said(target_ids={("two", "copy"): "id-2"}) == [Coverage.MISSING]
    assert said(target_ids={("two", "copy"): None}) == [Coverage.MISSING]
    assert said(topic_id="another") == []
    (pair,), _ = pairs_of([old], "orders")
    assert [s.coverage for s in pair.stretches([OffsetRange("orders", 0, 5, 15)])] == [
        Coverage.COVERED,
        Coverage.MISSING,
    ]
