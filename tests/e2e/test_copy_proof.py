"""The comparison of source and target sees every kind of difference: a proof that cannot fail proves nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_kafka_spark.core.offsets.provenance import PROVENANCE_HEADER, Provenance
from airflow_provider_kafka_spark.testing.broker_client import Record
from tests.copy_proof import prove_copy, provenance_of

RUN = "run1"
SOURCE = [
    Record(b"k%d" % i, b"v%d" % i if i != 2 else None, (("h", b"x"), ("h", None)), 1_000 + i, 0, i) for i in range(5)
]
RESULT: dict[str, Any] = {
    "run_id": RUN,
    "ranges": [
        {"topic": "orders", "partition": 0, "from_offset": 1, "until_offset": 3},
        {"topic": "orders", "partition": 0, "from_offset": 4, "until_offset": 5},
    ],
}


def copy_of(record: Record, run_id: str = RUN, **changes: Any) -> Record:
    provenance = Provenance(run_id, "orders", record.partition or 0, record.offset or 0, record.timestamp or 0)
    copy = record._replace(
        headers=(*record.headers, (PROVENANCE_HEADER, provenance.format())), timestamp=9_999, offset=77
    )
    return copy._replace(**changes)


COMPLETE = [copy_of(SOURCE[i]) for i in (1, 2, 4)]


def prove(target: list[Record], keep: Callable[[Record], bool] = lambda _: True) -> tuple[int, int, int, int, bool]:
    (proof,) = prove_copy(RESULT, {"orders": SOURCE}, target, keep)
    return proof.expected, proof.once, proof.identical, proof.unexpected, proof.holds


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        pytest.param(COMPLETE, (3, 3, 3, 0, True), id="complete"),
        pytest.param([*COMPLETE, copy_of(SOURCE[1], "run2")], (3, 3, 3, 0, True), id="another-run-beside-it"),
        pytest.param([*COMPLETE, SOURCE[0]], (3, 3, 3, 0, True), id="a-record-that-nobody-copied"),
        pytest.param([], (3, 0, 0, 0, False), id="nothing"),
        pytest.param(COMPLETE[1:], (3, 2, 2, 0, False), id="one-missing"),
        pytest.param([*COMPLETE, COMPLETE[0]], (3, 2, 2, 0, False), id="one-twice"),
        pytest.param([*COMPLETE, copy_of(SOURCE[3])], (3, 3, 3, 1, False), id="one-between-the-ranges"),
        pytest.param([*COMPLETE[:2], copy_of(SOURCE[4], value=b"V4")], (3, 3, 2, 0, False), id="another-value"),
        pytest.param([*COMPLETE[:2], copy_of(SOURCE[4], key=None)], (3, 3, 2, 0, False), id="a-lost-key"),
        pytest.param(
            [COMPLETE[0], copy_of(SOURCE[2], value=b""), COMPLETE[2]], (3, 3, 2, 0, False), id="empty-for-null"
        ),
        pytest.param(
            [*COMPLETE[:2], copy_of(SOURCE[4], headers=COMPLETE[2].headers[1:])], (3, 3, 2, 0, False), id="lost-header"
        ),
        pytest.param([*COMPLETE[:2], copy_of(SOURCE[4]._replace(timestamp=5))], (3, 3, 2, 0, False), id="other-time"),
    ],
)
def test_it_sees_every_difference(target: list[Record], expected: tuple[int, int, int, int, bool]) -> None:
    assert prove(target) == expected


def test_it_wants_only_what_passes_the_filter() -> None:
    assert prove([COMPLETE[0], COMPLETE[2]], lambda r: r.value is not None) == (2, 2, 2, 0, True)
    assert prove(COMPLETE, lambda r: r.value is not None) == (2, 2, 2, 1, False)


def test_a_record_without_our_header_comes_from_nowhere() -> None:
    assert provenance_of(SOURCE[0]) is None
    assert provenance_of(Record()) is None
