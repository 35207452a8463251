"""Promises of :mod:`~airflow_provider_kafka_spark.core.topics.group_offsets`, on targets written in any order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_kafka_spark.core.offsets.offset_range import TopicPartition
from airflow_provider_kafka_spark.core.offsets.provenance import SourcePlace
from airflow_provider_kafka_spark.core.topics.broker_state import PartitionState
from airflow_provider_kafka_spark.core.topics.group_offsets import GroupTranslation, SourcePosition

#: Of one target partition: source partition and offset of each record, None for one of others, "gap" for no record.
Log = list[tuple[int, int] | str | None]


@st.composite
def logs(draw: st.DrawFn) -> tuple[list[Log], dict[int, set[int]]]:
    """Targets with copies of a part of the source, some of them twice, and the source's records."""
    source = {p: draw(st.sets(st.integers(0, 9))) for p in range(2)}
    copies: list[tuple[int, int]] = [(p, o) for p, offsets in source.items() for o in sorted(offsets)]
    records: list[tuple[int, int] | str | None] = [*copies, *draw(st.lists(st.sampled_from([None, "gap", *copies])))]
    order = draw(st.permutations(records)) if draw(st.booleans()) else records
    targets: list[Log] = [[], []]
    for record in order:
        number = draw(st.integers(0, 2))
        # The third one has lost it.
        if number < 2:
            targets[number].append(record)
    return targets, source


def translated(
    targets: list[Log], source: dict[int, set[int]], group: dict[int, int | None], block: int
) -> GroupTranslation:
    ends = {p: max(offsets, default=-1) + 1 for p, offsets in source.items()}
    sources = [SourcePosition(TopicPartition("s", p), c and min(c, ends[p]), 0, ends[p]) for p, c in group.items()]
    states = {n: PartitionState(0, len(log), len(log)) for n, log in enumerate(targets)}
    translation = GroupTranslation("t", states, sources, block)
    while True:
        blocks = translation.next_blocks()
        for b in blocks:
            log = targets[b.partition]
            read = [(o, log[o]) for o in range(b.from_offset, b.until_offset) if log[o] != "gap"]
            translation.add_block(
                b, [(o, None if r is None else SourcePlace("s", int(r[0]), int(r[1]))) for o, r in read]
            )
        for r in translation.doubtful():
            translation.add_source(r, [o for o in sorted(source[r.partition]) if r.from_offset <= o < r.until_offset])
        if not blocks:
            return translation


@given(logs(), st.fixed_dictionaries({p: st.none() | st.integers(0, 10) for p in range(2)}), st.integers(1, 7))
def test_nothing_that_was_not_consumed_is_skipped(
    world: tuple[list[Log], dict[int, set[int]]], group: dict[int, int | None], block: int
) -> None:
    """Whatever the order, and what is not found is named; the counts are right."""
    targets, source = world
    translation = translated(targets, source, group, block)

    positions = {p.partition.partition: p for p in translation.positions()}
    unconsumed = {(p, o) for p, offsets in source.items() for o in offsets if o >= (group[p] or 0)}
    after = [r for n, log in enumerate(targets) for r in log[positions[n].offset :]]
    there, gone = translation.missing()
    missing = {(r.partition, o) for r in there for o in range(r.from_offset, r.until_offset)}
    assert unconsumed == missing | (unconsumed & set(after))
    assert missing == unconsumed - {r for log in targets for r in log}
    assert gone == []
    for n, log in enumerate(targets):
        at = positions[n].offset
        ours = [i for i, r in enumerate(log) if isinstance(r, tuple)]
        consumed = [i for i in ours if log[i] not in unconsumed]
        if positions[n].at == "record":
            assert log[at] in unconsumed
            assert positions[n].seen_again == sum(i > at for i in consumed)
        else:
            assert at == (ours[-1] + 1 if ours else 0)
