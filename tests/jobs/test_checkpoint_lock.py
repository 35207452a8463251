from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.sql import SparkSession

from airflow_provider_kafka_spark.core.errors import CheckpointError, CheckpointInUseError
from airflow_provider_kafka_spark.core.streams.checkpoint import Lock
from airflow_provider_kafka_spark.jobs import checkpoint_lock as lock_module
from airflow_provider_kafka_spark.jobs import hadoop_files
from airflow_provider_kafka_spark.jobs.checkpoint_lock import checkpoint_lock
from tests.waiting import until

pytestmark = pytest.mark.spark

_OWNER = "task 'copy' of DAG 'orders', run 'manual'"
_OTHER = Lock("task 'copy' of DAG 'orders', run 'scheduled'", "local-2", 3)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "checkpoint" / "lock.json"


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock beats every 20 ms, in place of every 2 s."""
    monkeypatch.setattr(lock_module, "BEAT_SECONDS", 0.02)


def test_names_its_owner_and_changes_while_it_is_held(spark: SparkSession, file: Path, quick: None) -> None:
    """The task's run and the application. By its changes others see that its owner lives; it is a whole lock at every
    moment, and the same owner cannot hold it twice. At the end nothing of it is left.
    """
    seen: set[int] = set()

    def beats() -> bool:
        lock = Lock.parse(file.read_text())
        assert lock is not None
        assert (lock.owner, lock.application_id) == (_OWNER, spark.sparkContext.applicationId)
        seen.add(lock.beat)
        return len(seen) >= 3

    with checkpoint_lock(spark, f"file://{file}", _OWNER, None):
        until(beats)
        with pytest.raises(CheckpointInUseError), checkpoint_lock(spark, f"file://{file}", _OWNER, None):
            pytest.fail("two hold it")

    assert list(file.parent.iterdir()) == []


def test_is_released_when_the_run_fails(spark: SparkSession, file: Path) -> None:
    """The next run need not wait until it is seen to be stale."""
    with pytest.raises(ZeroDivisionError), checkpoint_lock(spark, f"file://{file}", _OWNER, None):
        _ = 1 / 0

    assert not file.exists()


@pytest.mark.parametrize("seen", [None, 3], ids=["none-was-seen", "another-was-seen"])
def test_is_refused_while_another_run_holds_it(spark: SparkSession, file: Path, seen: int | None) -> None:
    """The holder is named, and its lock is left alone; a retry may find it free. So it is if the lock has changed since
    it was watched: its owner woke up, or another run has taken it over.
    """
    held = replace(_OTHER, beat=4).format()
    hadoop_files.create(spark, f"file://{file}", held)

    with (
        pytest.raises(CheckpointInUseError, match="run 'scheduled'") as raised,
        checkpoint_lock(spark, f"file://{file}", _OWNER, None if seen is None else replace(_OTHER, beat=seen).format()),
    ):
        pytest.fail("two hold it")

    assert raised.value.retriable
    assert file.read_text() == held


@pytest.mark.parametrize(
    "stale",
    [
        pytest.param(_OTHER.format(), id="whole"),
        pytest.param(_OTHER.format()[:20], id="half"),
        pytest.param("", id="empty"),
        pytest.param(None, id="gone-meanwhile"),
    ],
)
def test_the_lock_of_a_dead_run_is_taken_over(spark: SparkSession, file: Path, stale: str | None) -> None:
    """Whatever it left."""
    if stale is not None:
        hadoop_files.create(spark, f"file://{file}", stale)

    with checkpoint_lock(spark, f"file://{file}", _OWNER, _OTHER.format() if stale is None else stale):
        lock = Lock.parse(file.read_text())
        assert lock is not None
        assert lock.owner == _OWNER


def test_a_place_that_cannot_be_written_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    """Not one of another run's: it is named, and a retry would not help."""
    (tmp_path / "checkpoint").write_text("")

    with (
        pytest.raises(CheckpointError, match="must be a folder that the Spark driver can write") as raised,
        checkpoint_lock(spark, f"file://{tmp_path}/checkpoint/lock.json", _OWNER, None),
    ):
        pytest.fail("it has no lock")

    assert not raised.value.retriable


@pytest.mark.parametrize(
    "taken_by",
    [
        pytest.param(_OTHER.format(), id="another-run"),
        pytest.param(None, id="deleted"),
        pytest.param("{", id="no-lock-any-more"),
    ],
)
def test_the_loss_of_the_lock_ends_the_process(
    spark: SparkSession, file: Path, quick: None, monkeypatch: pytest.MonkeyPatch, taken_by: str | None
) -> None:
    """At once, and with a code of its own: nothing that it still wrote would be accounted for."""
    exits: list[int] = []
    monkeypatch.setattr("os._exit", exits.append)

    with checkpoint_lock(spark, f"file://{file}", _OWNER, None):

        def is_lost() -> bool:
            # As often as it takes, since a beat may come between.
            if taken_by is None:
                file.unlink(missing_ok=True)
            else:
                replacement = file.with_name("replacement")
                replacement.write_text(taken_by)
                replacement.rename(file)
            return bool(exits)

        until(is_lost)

    assert set(exits) == {75}


def test_the_lock_of_another_run_is_not_released(
    spark: SparkSession, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver that wakes up at its very end leaves the lock to the run that took it over."""
    # Before a beat, which would end this process.
    monkeypatch.setattr(lock_module, "BEAT_SECONDS", 3600)
    with checkpoint_lock(spark, f"file://{file}", _OWNER, None):
        file.write_text(_OTHER.format())

    assert file.read_text() == _OTHER.format()


def test_a_beat_that_fails_is_logged_and_tried_again(
    spark: SparkSession,
    file: Path,
    quick: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The store may be away for a moment, and the run lives on."""
    whole, failed = hadoop_files.overwrite, threading.Event()

    def fail_once(*arguments: object) -> None:
        if not failed.is_set():
            failed.set()
            raise OSError("away for a moment")
        whole(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(hadoop_files, "overwrite", fail_once)
    with checkpoint_lock(spark, f"file://{file}", _OWNER, None):
        until(lambda: '"beat": 2' in file.read_text())

    assert "cannot be renewed: away for a moment" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("step", "error"), [("delete", OSError("away")), ("read", Py4JNetworkError("the JVM is gone"))]
)
def test_a_lock_that_cannot_be_released_does_not_hide_how_the_run_ended(
    spark: SparkSession,
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    step: str,
    error: Exception,
) -> None:
    """The task must raise the failure of the copy."""

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(hadoop_files, step, fail)
    with pytest.raises(ZeroDivisionError), checkpoint_lock(spark, f"file://{file}", _OWNER, None):
        _ = 1 / 0

    assert f"cannot be deleted: {error}" in capsys.readouterr().err


@pytest.fixture
def short_lease(quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of three seconds, in place of 20."""
    monkeypatch.setattr(lock_module, "LEASE_SECONDS", 3.0)
    monkeypatch.setattr(lock_module, "LEASE_CHECK_SECONDS", 0.02)


@pytest.mark.parametrize("store", ["fails", "hangs"])
def test_a_run_that_cannot_renew_its_lock_ends(
    spark: SparkSession,
    file: Path,
    short_lease: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    store: str,
) -> None:
    """Before another run takes it for dead and writes beside it."""
    exits: list[int] = []
    is_back = threading.Event()

    def be_away(*_: object) -> None:
        if store == "hangs":
            is_back.wait(30)
        raise OSError("away")

    monkeypatch.setattr("os._exit", exits.append)
    with checkpoint_lock(spark, f"file://{file}", _OWNER, None):
        until(lambda: '"beat": 2' in file.read_text())
        assert not exits
        monkeypatch.setattr(hadoop_files, "overwrite", be_away)
        until(lambda: bool(exits))
        is_back.set()

    assert set(exits) == {75}
    assert "could not be renewed for 3 s" in capsys.readouterr().err


def test_a_run_that_renews_its_lock_outlives_the_lease(
    spark: SparkSession, file: Path, short_lease: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long it takes."""
    exits: list[int] = []
    monkeypatch.setattr("os._exit", exits.append)

    with checkpoint_lock(spark, f"file://{file}", _OWNER, None):
        # As many renewals as it takes to be older than the lease, however slow the machine is.
        began, first = time.monotonic(), file.read_text()
        until(lambda: time.monotonic() - began > 1.2 * lock_module.LEASE_SECONDS and file.read_text() != first)

    assert not exits
