from __future__ import annotations

import pytest
from hypothesis import given, settings

from airflow_provider_kafka_spark.core.errors import ProtocolError
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, OffsetRanges
from airflow_provider_kafka_spark.core.streams.batch_notes import BatchNote, FinishedBatches
from airflow_provider_kafka_spark.core.wire.protocol import JobReport, RangeReport
from tests.dataclass_values import values_of


@settings(max_examples=10)
@given(values_of(BatchNote))
def test_a_note_reads_back(note: BatchNote) -> None:
    assert BatchNote.from_json(note.to_json()) == note
    with pytest.raises(ProtocolError):
        BatchNote.from_json(note.to_json()[:-10])


def _note(owner: str, start: int) -> BatchNote:
    """Of ten records, which are at ten times their offsets in the target."""
    counts = RangeReport(OffsetRange("orders", 0, start, start + 10), 10, 10)
    target = OffsetRange("copy", 0, 10 * start, 10 * start + 91)
    return BatchNote(owner, JobReport("id", "", (counts,), ("copy",), "", "", 1.0, target_ranges=(target,)))


def test_what_other_tasks_have_finished_is_not_of_this_one() -> None:
    """Nor is what no note tells of. What others have written in between is in no range of the target."""
    owners = {0: "a", 1: "a", 2: "b", 3: "a", 5: "b"}
    notes = {number: _note(owner, 10 * number) for number, owner in owners.items()}

    found = FinishedBatches.of(notes, "a", OffsetRanges.parse(["orders:0:0:60"]))

    assert found.ranges.format() == ["orders:0:0:20", "orders:0:30:40"]
    assert [r.format() for r in found.target_ranges()] == ["copy:0:0:191", "copy:0:300:391"]
    assert found.unknown.format() == ["orders:0:40:50"]
