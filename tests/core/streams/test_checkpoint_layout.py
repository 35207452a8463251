from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_kafka_spark.core.streams.checkpoint_layout import (
    BEAT_SECONDS,
    LEASE_SECONDS,
    STALE_SECONDS,
    Lock,
)

_LOCK = Lock("task 'copy' of DAG 'orders', run 'manual'", "local-1", 7)


@given(st.builds(Lock, st.text(), st.text(), st.integers()))
def test_a_lock_reads_back(lock: Lock) -> None:
    """What one run writes is what another sees."""
    assert Lock.parse(lock.format()) == lock


def test_a_beat_changes_the_text() -> None:
    """That is how others see that the owner lives."""
    assert Lock("a", "b", 1).format() != Lock("a", "b", 2).format()


@given(st.integers(0, len(_LOCK.format()) - 1))
def test_half_a_lock_is_none(length: int) -> None:
    """A reader may meet a writer, and must not fail for it."""
    assert Lock.parse(_LOCK.format()[:length]) is None


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("null", id="null"),
        pytest.param("[1, 2, 3]", id="list"),
        pytest.param('{"owner": "a", "application_id": "b"}', id="without-beat"),
        pytest.param('{"owner": "a", "application_id": "b", "beat": 1, "more": 1}', id="unknown-key"),
        pytest.param('{"owner": 5, "application_id": "b", "beat": 1}', id="owner-a-number"),
        pytest.param('{"owner": "a", "application_id": null, "beat": 1}', id="application-null"),
        pytest.param("[" * 100_000, id="too-deep"),
    ],
)
def test_what_is_no_lock_is_none(text: str) -> None:
    """Whatever else lies there names no owner."""
    assert Lock.parse(text) is None


def test_names_owner_and_application() -> None:
    """In a message, both are needed to find the run."""
    assert str(_LOCK) == "task 'copy' of DAG 'orders', run 'manual' (application local-1)"


def test_an_owner_that_others_wrote_stays_on_one_line() -> None:
    """A lock may be anybody's text, and it is named in logs that are read line by line."""
    text = str(Lock("me\nERROR forged\u2028" + "x" * 4000, "local-1", 0))

    assert text.startswith("me?ERROR forged?x")
    assert len(text) <= 500


def test_a_run_ends_before_its_lock_is_taken_over() -> None:
    """Several beats may fail; and a JVM takes some seconds to end."""
    assert 5 * BEAT_SECONDS <= LEASE_SECONDS <= STALE_SECONDS - 10
