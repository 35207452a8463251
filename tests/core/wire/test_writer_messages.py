from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_kafka_spark.core.errors import ProtocolError
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange
from airflow_provider_kafka_spark.core.offsets.pieces import Piece, PlannedPart
from airflow_provider_kafka_spark.core.wire.writer_messages import (
    Slot,
    TargetSpan,
    TaskFailure,
    TaskReport,
    WriterSettings,
    piece_text,
)
from tests.dataclass_values import values_of

_PIECE = Piece(
    "orders-id-0-5-40",
    (OffsetRange("orders", 0, 5, 20), OffsetRange("orders", 0, 30, 40)),
    (PlannedPart(5, 20, 0), PlannedPart(30, 35, 1), PlannedPart(36, 40, 2)),
)


def test_a_report_as_a_task_writes_it() -> None:
    """The text is that of ``TaskReport.java``."""
    text = (
        '{"version":1,"piece":"a","ranges":[[0,3,2,1,0]],'
        '"targets":[{"topic":"copy","partition":0,"first":5,"last":6}],"targets_unknown":false,"resumed_at":null,'
        '"changed":2,"first_changed":"orders[0]@7","outside":4,"batches_passed":3,"bytes_written":70,'
        '"records_as_bytes":4,"segments":[[0,2,5]],"segments_unknown":true}'
    )

    assert TaskReport.from_json(text) == TaskReport(
        "a",
        ((0, 3, 2, 1, 0),),
        (TargetSpan("copy", 0, 5, 6),),
        False,
        None,
        changed=2,
        first_changed="orders[0]@7",
        outside=4,
        batches_passed=3,
        bytes_written=70,
        records_as_bytes=4,
        segments=((0, 2, 5),),
        segments_unknown=True,
    )


@settings(max_examples=5)
@given(values_of(WriterSettings, producer=st.just({"sasl.jaas.config": "hunter2"})))
def test_settings_show_no_secret(settings: WriterSettings) -> None:
    assert "hunter2" not in repr(settings)


def test_a_piece_says_what_is_copied_and_where_its_progress_is() -> None:
    """The ranges with their index in the plan, and the end of what is read, which is beyond a gap."""
    slot = Slot("group", "copy", 3)

    assert json.loads(piece_text(_PIECE, slot)) == {
        "version": 1,
        "name": "orders-id-0-5-40",
        "topic": "orders",
        "partition": 0,
        "ranges": [[5, 20, 0], [30, 35, 1], [36, 40, 2]],
        "until": 40,
        "slot": {"group": "group", "topic": "copy", "partition": 3},
    }
    assert json.loads(piece_text(_PIECE, None))["slot"] is None


@pytest.mark.parametrize("kind", [TaskReport, TaskFailure])
@pytest.mark.parametrize("text", ["", "{}", '{"version": 2}', '{"version": 1, "more": 1}'])
def test_what_another_version_wrote_is_refused(kind: type[TaskReport | TaskFailure], text: str) -> None:
    """A report with a count that is not known could prove a delivery that did not happen."""
    with pytest.raises(ProtocolError, match="of a Spark task must"):
        kind.from_json(text)
