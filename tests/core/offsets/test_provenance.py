from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_kafka_spark.core.offsets.provenance import PROVENANCE_HEADER, Provenance, fields_sql

_RUN_IDS = st.text("0123456789abcdef", min_size=16, max_size=16)
_TOPICS = st.text("abcXYZ019._-", min_size=1, max_size=249)
_OFFSETS = st.integers(0, 2**63 - 1)


@given(st.builds(Provenance, _RUN_IDS, _TOPICS, st.integers(0, 2**31 - 1), _OFFSETS, st.integers(-1, 2**53)))
def test_a_header_reads_back(provenance: Provenance) -> None:
    assert Provenance.parse(provenance.format()) == provenance


def test_the_header_is_text_that_any_consumer_can_read() -> None:
    """The form is public: others will take it apart without this package."""
    assert Provenance("0123456789abcdef", "orders.eu", 3, 42, 1_795_165_200_000).format() == (
        b"0123456789abcdef|orders.eu|3|42|1795165200000"
    )


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(b"run|orders|0|1", id="too-few"),
        pytest.param(b"run|orders|0|1|2|3", id="too-many"),
        pytest.param(b"run|orders|0|1.5|2", id="offset-a-fraction"),
        pytest.param(b"run|orders|0|1|", id="no-timestamp"),
        pytest.param(b"\xff\xfe", id="no-utf-8"),
    ],
)
def test_refuses_a_header_of_somebody_else(value: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the text is Python's own
        Provenance.parse(value)


def test_reading_names_the_header_and_the_run() -> None:
    """With the separator: another run whose id starts alike is not ours."""
    sql = fields_sql("0123456789abcdef")
    assert f"'{PROVENANCE_HEADER}'" in sql
    assert "'0123456789abcdef|'" in sql
