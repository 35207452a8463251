"""Promises of :mod:`airflow_provider_kafka_spark.operators.ledger`: what a task leaves of its run, whatever its end."""

from __future__ import annotations

import re
from typing import Any

import pytest
from airflow.sdk import Asset, BaseHook

from airflow_provider_kafka_spark.core.ledger.coverage import coverage
from airflow_provider_kafka_spark.core.ledger.entry import STATE_KEY, Delivery
from airflow_provider_kafka_spark.coverage import uncovered
from airflow_provider_kafka_spark.jobs import batch
from airflow_provider_kafka_spark.operators import bounded_copy
from airflow_provider_kafka_spark.operators.asset_events import COPIES
from airflow_provider_kafka_spark.testing.kafka_broker import Record
from tests.airflow_fakes import TaskStateStore
from tests.operators.copy_task import CopyTask, NewTask, Replay, Stream, large

pytestmark = [pytest.mark.broker, pytest.mark.spark]


class Scene(CopyTask):
    """A source and a target, of which a part of the tests has assets."""

    @property
    def topic_asset(self) -> Asset:
        return Asset(f"kafka://{self.kafka.bootstrap_servers}/{self.target}")

    @property
    def entry(self) -> dict[str, Any]:
        """What the ledger's event of the last try has."""
        extra: dict[str, Any] = self.event(COPIES).extra
        return extra

    @property
    def left(self) -> dict[str, Any]:
        """What a task that has failed, or still runs, has left in its state."""
        found: dict[str, Any] = self.store.get(STATE_KEY)
        return found

    def produce(self, count: int, partition: int = 0, key: bytes | None = None) -> None:
        self.kafka.produce(self.source, [Record(key, b"%d" % i, partition=partition) for i in range(count)])


def kinds(entry: Any) -> list[str]:
    assert isinstance(entry, dict)
    delivery = Delivery.parse(entry, is_active=entry["state"] == "running")
    assert delivery is not None
    return [
        f"{s.offsets.partition}:{s.offsets.from_offset}-{s.offsets.until_offset} {s.coverage.value}"
        for s in coverage([delivery])
    ]


@pytest.fixture
def scene(new_task: NewTask) -> Any:
    found = new_task(Scene, 2, 2)
    found.assets = [found.topic_asset]
    return found


def test_the_connections_are_read_once_to_name_their_servers(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not again for the entry of the end: each time is a request to Airflow's API."""
    scene.produce(1)
    get_connection, read = BaseHook.get_connection, list[str]()
    monkeypatch.setattr(BaseHook, "get_connection", lambda conn_id: read.append(conn_id) or get_connection(conn_id))

    scene.run()

    # The copy itself reads it, and the ledger.
    assert read.count("kafka_default") == 2


def test_a_failed_run_leaves_what_it_has_committed_and_its_retry_covers_the_rest(
    scene: Scene, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """A window of it is no gap: a replay would deliver the committed part twice."""
    # Spark runs the tasks with the most records first. Their progress is in several groups.
    scene.produce(12)
    scene.produce(4, 1)
    scene.kafka.produce(scene.source, [large(1)])
    scene.given |= {"preserve_order": False, "max_records_per_partition": 4}
    caplog.set_level("INFO")
    scene.fail_at_large()
    failed, printed = scene.left, capsys.readouterr().out
    scene.run()

    assert "> in the plan" in printed
    assert "# delivered, ! for a retry, or a clear" in caplog.text
    assert failed["state"] == "partial"
    assert failed["planned_ranges"] == [f"{scene.source}:0:0:12", f"{scene.source}:1:0:5"]
    assert "0:0-12 covered" in kinds(failed)
    assert kinds(failed)[-1].endswith("failed")
    assert uncovered([failed], scene.source) == []
    assert kinds(scene.left) == kinds(scene.entry) == ["0:0-12 covered", "1:0-5 covered"]
    # The bytes of the first try are not known.
    assert "bytes_written" not in scene.entry


def test_a_clear_that_fails_at_once_has_not_delivered_its_plan(scene: Scene) -> None:
    """Although the run is finished: that was another plan. With segments it is known what that one delivered."""
    given = {"provenance": "segments", "preserve_partition": True}
    scene.produce(10)
    scene.clear(**given)
    scene.produce(10)
    scene.die_at("find_remaining", batch, lambda: scene.clear(**given))

    assert (scene.left["state"], kinds(scene.left)) == ("partial", ["0:0-10 covered", "0:10-20 failed"])


@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
def test_while_it_runs_its_plan_is_not_a_gap(scene: Scene, monkeypatch: pytest.MonkeyPatch, delivery: str) -> None:
    scene.produce(1)

    def look(*_: object) -> None:
        assert kinds(scene.left) == ["0:0-1 unfinished"]
        raise RuntimeError("stopped")

    monkeypatch.setattr(bounded_copy, "collected", look)
    with pytest.raises(RuntimeError, match="stopped"):
        scene.run(delivery=delivery)

    # At least once commits no progress: what is in the target is not known.
    assert kinds(scene.left) == ["0:0-1 covered" if delivery == "exactly_once" else "0:0-1 failed"]


@pytest.mark.long
def test_a_failed_stream_leaves_the_batches_that_its_checkpoint_has_finished(scene: Scene) -> None:
    given: dict[str, Any] = {"kind": Stream, "max_offsets_per_trigger": 10}
    scene.produce(25)
    scene.kafka.produce(scene.source, [large()])
    for _ in range(2):
        scene.fail_at_large(lambda: scene.run(**given))
        # The second try has only the rest in its plan.
        assert kinds(scene.left) == ["0:0-20 covered", "0:20-26 failed"]

    scene.run(**given)

    assert kinds(scene.entry) == ["0:0-26 covered"]


def test_markers_between_announced_ranges_are_not_missing(scene: Scene) -> None:
    """Copies that are scheduled by what arrives read what was announced; the offsets between hold no record."""
    entries, ends = [], [0]
    for number in range(3):
        scene.kafka.produce_transaction(scene.source, [Record(None, b"%d" % i, partition=0) for i in range(5)])
        # What is announced ends before the marker of its transaction.
        ends.append(scene.kafka.offsets(scene.source)[0][1])
        scene.store, scene.run_id = TaskStateStore(), f"run-{number}"
        scene.run(Replay, offset_ranges=[f"{scene.source}:0:{ends[-2]}:{ends[-1] - 1}"])
        entries.append(scene.entry)
        assert scene.entry["empty_ranges"] == [f"{scene.source}:0:{6 * number + 5}:{6 * number + 6}"]

    assert uncovered(entries, scene.source) == []
    assert uncovered(entries, scene.source, window=[f"{scene.source}:0:0:18"]) == []
    assert entries[-1]["log"]["source"] == [f"{scene.source}:0:0:18"]
    # The run's own records are there after the look.
    assert sum(int(text.split(":")[3]) for text in entries[-1]["log"]["target"]) >= 15
    assert "log" not in scene.event(scene.topic_asset).extra
    # Runs of one expression are told from others.
    by_row = {"target_topic": None, "target_topic_expr": f"if(offset >= 0, '{scene.target}', null)"}
    scene.store, scene.run_id = TaskStateStore(), "by-row"
    scene.run(Replay, offset_ranges=[f"{scene.source}:0:0:2"], **by_row)
    assert re.fullmatch("[0-9a-f]{16}", scene.entry["target_expr"])
    assert not any("target_expr" in entry for entry in entries)
