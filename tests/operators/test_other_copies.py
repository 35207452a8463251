"""A run that waited does not copy again what another run has copied meanwhile: the promises of "Runs that waited"."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Any

import pytest
from airflow.sdk.api.datamodels._generated import AssetEventResponse, AssetResponse
from airflow.sdk.exceptions import AirflowFailException
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import AssetEventsResult, GetAssetEventByAsset

from airflow_provider_kafka_spark.core.ledger.coverage import Coverage
from airflow_provider_kafka_spark.core.ledger.entry import deliveries_of_event
from airflow_provider_kafka_spark.core.ledger.pairs import pairs_of
from airflow_provider_kafka_spark.operators import other_copies
from airflow_provider_kafka_spark.operators.asset_events import COPIES
from airflow_provider_kafka_spark.testing.kafka_broker import Record
from tests.airflow_fakes import TaskStateStore
from tests.operators.copy_task import CopyTask, NewTask, Replay, Stream, large, numbered

pytestmark = [pytest.mark.broker, pytest.mark.spark]

_DUE = datetime(2026, 11, 20, tzinfo=timezone.utc)


@dataclass
class Ledger:
    """Airflow's asset events, as its API gives them to a task.

    :ivar asked: what was asked for.
    """

    extras: list[dict[str, Any]] = field(default_factory=list)
    dag_id: str = "replay"
    run_id: str = "manual__replay"
    asked: list[object] = field(default_factory=list)

    def add(self, task: CopyTask) -> None:
        self.extras.append(json.loads(json.dumps(task.event(COPIES).extra)))

    def send(self, message: object) -> AssetEventsResult:
        self.asked.append(message)
        asset = AssetResponse(name=COPIES.name, uri=COPIES.uri, group="asset")
        by = {"source_dag_id": self.dag_id, "source_run_id": self.run_id, "source_task_id": "replay"}
        events = [
            AssetEventResponse(id=i, timestamp=_DUE, extra=extra, asset=asset, created_dagruns=[], **by)
            for i, extra in enumerate(self.extras)
        ]
        return AssetEventsResult(asset_events=events)


@pytest.fixture
def ledger(monkeypatch: pytest.MonkeyPatch) -> Ledger:
    found = Ledger()
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", found, raising=False)
    return found


@pytest.fixture
def waits(new_task: NewTask) -> CopyTask:
    """A run that was due before the other one has copied."""
    task: CopyTask = new_task(CopyTask, 2, 2, numbered(0, 20))
    task.due = _DUE
    return task


def _other(waits: CopyTask, ledger: Ledger, until: int = 4, kind: type = Replay, **given: Any) -> None:
    """Another run copies the first offsets of each partition, and a stream all."""
    other = replace(waits, store=TaskStateStore(), run_id="manual__replay", due=None, given={**waits.given, **given})
    ranges = [f"{waits.source}:{p}:0:{until}" for p in range(2)]
    other.succeed(kind, **({"offset_ranges": ranges} if kind is Replay else {}))
    ledger.add(other)


def test_what_a_stream_has_copied_is_found(waits: CopyTask, ledger: Ledger) -> None:
    _other(waits, ledger, kind=Stream)
    waits.kafka.produce(waits.source, numbered(20, 22))

    assert waits.succeed()["records_read"] == 2
    assert set(waits.values().values()) == {1}


def test_only_what_is_left_is_copied(waits: CopyTask, ledger: Ledger) -> None:
    """By the first try, its retry, and a clear. The ledger has each offset once."""
    waits.kafka.produce(waits.source, [large(1)])
    _other(waits, ledger)

    waits.fail_at_large(commit_records=2)
    result = waits.succeed()

    assert set(waits.values().values()) == {1}
    assert len(waits.values()) == 21
    assert (result["records_read"], result["gaps"]) == (13, 0)
    said = "8 of 21 offsets are in the target already: since this run was due, replay / manual__replay / replay has"
    assert said in " ".join(result["warnings"])
    asked = next(message for message in ledger.asked if isinstance(message, GetAssetEventByAsset))
    assert (asked.name, asked.after, asked.ascending, asked.limit) == (COPIES.name, _DUE, False, 1_000)
    extras = [*ledger.extras, waits.event(COPIES).extra]
    found = [d for extra in extras for d in deliveries_of_event(extra)[0]]
    (pair,) = pairs_of(found)[0]
    assert {s.coverage for s in pair.stretches()} == {Coverage.COVERED}
    assert waits.clear()["delivered_before"] == 13
    assert set(waits.values().values()) == {1}


def test_what_was_left_out_is_copied_if_the_target_was_deleted_since(waits: CopyTask, ledger: Ledger) -> None:
    """Also where the retry itself creates it anew."""
    waits.given["create_target_topics"] = True
    waits.kafka.produce(waits.source, [large(1)])
    _other(waits, ledger)
    waits.fail_at_large(commit_records=2)
    waits.kafka.delete_topic(waits.target)

    assert waits.succeed()["records_written"] == 21
    assert set(waits.values().values()) == {1}
    assert len(waits.values()) == 21


def test_records_that_cannot_be_read_are_not_copied_once_more(
    waits: CopyTask, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """confluent-kafka cannot read a header whose name is not UTF-8: what it has may be that of the other run."""
    _other(waits, ledger)
    monkeypatch.setattr(other_copies, "headers_of", lambda _: None)

    with pytest.raises(AirflowFailException, match=r"AlreadyDeliveredError: .*8 records there have a header whose"):
        waits.run()
    assert len(waits.values()) == 8


def test_a_run_of_which_nothing_is_left_starts_no_spark(waits: CopyTask, ledger: Ledger) -> None:
    waits.kafka.produce_transaction(waits.source, [Record(value=b"in-a-transaction", partition=0)])
    _other(waits, ledger, until=10)
    requests = len(waits.spark.requests)

    result = waits.succeed(Replay, offset_ranges=[f"{waits.source}:{p}:0:10" for p in range(2)])

    assert (result["records_written"], len(waits.spark.requests)) == (0, requests)
    # Of a marker nothing tells whether it was a record that the target lacks: it is read.
    assert waits.clear(Replay, offset_ranges=[f"{waits.source}:0:0:12"])["gaps"] == 1
    assert set(waits.values().values()) == {1}


def _claims_more(_: CopyTask, ledger: Ledger) -> None:
    (entry,) = ledger.extras
    entry["offset_ranges"] = [text.replace(":0:4", ":0:10") for text in entry["offset_ranges"]]


def _of_another_run(_: CopyTask, ledger: Ledger) -> None:
    (entry,) = ledger.extras
    entry["run_id"] = "f" * 16


def _lost(waits: CopyTask, _: Ledger) -> None:
    ends = waits.kafka.offsets(waits.target).items()
    waits.kafka.delete_records(waits.target, {number: end for number, (_, end) in ends})


def _of_this_run(waits: CopyTask, ledger: Ledger) -> None:
    ledger.dag_id, ledger.run_id = "dag", waits.run_id


def _unreadable(_: CopyTask, ledger: Ledger) -> None:
    ledger.send = lambda _: 1 / 0  # type: ignore[method-assign,assignment]


@pytest.mark.parametrize(
    ("change", "copied"),
    [(_claims_more, 12), (_of_another_run, 20), (_lost, 20), (_of_this_run, 20), (_unreadable, 20)],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_what_the_target_does_not_prove_is_copied(
    waits: CopyTask, ledger: Ledger, change: Callable[[CopyTask, Ledger], None], copied: int
) -> None:
    """Whatever the ledger says: whoever may edit it makes no task skip a record."""
    _other(waits, ledger)
    change(waits, ledger)

    assert waits.succeed()["records_written"] == copied


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"on_rerun": "fail"}, "replay / manual__replay / replay has copied 8 offsets.* permits no second copy"),
        ({"provenance": None}, "without provenance='headers'"),
        ({"on_rerun": "copy_again"}, None),
        ({"include_headers": False}, None),
        ({"plan_only": True}, None),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else None,
)
def test_what_cannot_be_left_out_is_refused_or_copied_again(
    waits: CopyTask, ledger: Ledger, given: dict[str, Any], said: str | None
) -> None:
    """A copy of another form is another one."""
    _other(waits, ledger, **{name: value for name, value in given.items() if name == "provenance"})

    if said is None:
        result = waits.succeed(**given)
        assert result.get("planned_records", result.get("records_written")) == 20
        return
    with pytest.raises(AirflowFailException, match=f"AlreadyDeliveredError: .*{said}"):
        waits.run(**given)
    ledger.extras.clear()
    _other(waits, ledger)
    waits.kafka.alter_topic(waits.target, {"cleanup.policy": "compact"})
    with pytest.raises(AirflowFailException, match=r"is compacted|permits no second copy"):
        waits.run(**{**given, "provenance": "headers"})
