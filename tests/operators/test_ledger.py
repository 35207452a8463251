"""Promises of :mod:`airflow_provider_kafka_spark.operators.ledger`: what a task leaves of its run, whatever its end."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import Asset, BaseHook

from airflow_provider_kafka_spark.core.ledger import STATE_KEY, Delivery, coverage
from airflow_provider_kafka_spark.coverage import uncovered
from airflow_provider_kafka_spark.operators.asset_events import COPIES
from airflow_provider_kafka_spark.operators.available_now import KafkaToKafkaAvailableNowOperator
from airflow_provider_kafka_spark.operators.batch import KafkaToKafkaBatchOperator
from airflow_provider_kafka_spark.operators.replay import ReplayOffsetRangesOperator
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.airflow_fakes import TaskStateStore, Try, task_context
from tests.bare_ranges import bare
from tests.in_process_jobs import InProcessSpark

pytestmark = [pytest.mark.broker, pytest.mark.spark]


def event_of(context: Any) -> dict[str, Any]:
    """What the ledger's event has."""
    extra: dict[str, Any] = context["outlet_events"][COPIES].extra
    return extra


def kinds(entry: Any) -> list[str]:
    assert isinstance(entry, dict)
    delivery = Delivery.parse(entry, is_active=entry["state"] == "running")
    assert delivery is not None
    return [
        f"{s.offsets.partition}:{s.offsets.from_offset}-{s.offsets.until_offset} {s.coverage.value}"
        for s in coverage([delivery])
    ]


def test_a_delivery_is_an_event_that_says_what_was_read(
    kafka: KafkaBroker, topic: TopicFactory, in_process_spark: InProcessSpark
) -> None:
    source, target = topic(2, suffix="source"), topic(suffix="target")
    kafka.produce(source, [Record(value=b"%d" % i, partition=i % 2) for i in range(10)])
    operator = ReplayOffsetRangesOperator(
        task_id="task", offset_ranges=[f"{source}:0:1:4", f"{source}:1:0:5"], target_topic=target
    )
    asset = Asset(f"kafka://{kafka.bootstrap_servers}/{target}")
    context = task_context(assets=[asset])

    result = operator.execute(context)  # type: ignore[arg-type]

    extra = event_of(context)
    # DAGs are scheduled by the topic.
    assert operator.outlets == [COPIES, asset]
    assert context["outlet_events"][asset].extra == extra
    assert {name: extra[name] for name in ("state", "run_id", "records_written", "offset_ranges", "target_ranges")} == {
        "state": "complete",
        "run_id": result["run_id"],
        "records_written": 8,
        "offset_ranges": [f"{source}:0:1:4", f"{source}:1:0:5"],
        "target_ranges": result["target_ranges"],
    }
    assert extra["bytes_written"] == result["bytes_written"] == 8
    assert (extra["source"], extra["filtered"], extra["missing_ranges"]) == (kafka.bootstrap_servers, False, [])
    assert extra["source_cluster_id"] == extra["target_cluster_id"] != ""
    assert (set(extra["source_topic_ids"]), set(extra["target_topic_ids"])) == ({source}, set(result["target_topics"]))
    assert bare(uncovered([extra], source, window=[f"{source}:0:0:5", f"{source}:1:0:5"])) == [
        {"topic": source, "partition": 0, "from_offset": 0, "until_offset": 1},
        {"topic": source, "partition": 0, "from_offset": 4, "until_offset": 5},
    ]


def test_the_connections_are_read_once_to_name_their_servers(
    kafka: KafkaBroker, topic: TopicFactory, in_process_spark: InProcessSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not again for the entry of the end: each time is a request to Airflow's API."""
    source, target, read = topic(suffix="source"), topic(suffix="target"), []
    kafka.produce(source, [Record(value=b"v")])
    get_connection = BaseHook.get_connection
    monkeypatch.setattr(BaseHook, "get_connection", lambda conn_id: read.append(conn_id) or get_connection(conn_id))
    operator = KafkaToKafkaBatchOperator(task_id="task", topics=[source], target_topic=target)

    operator.execute(task_context())  # type: ignore[arg-type]

    # The copy itself reads it, and the ledger.
    assert read.count("kafka_default") == 2


@pytest.mark.parametrize("layout", [{}, {"preserve_order": False, "max_records_per_partition": 4}])
def test_a_failed_run_leaves_what_it_has_committed_and_its_retry_covers_the_rest(
    kafka: KafkaBroker,
    topic: TopicFactory,
    in_process_spark: InProcessSpark,
    layout: dict[str, Any],
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A window of it is no gap: a replay would deliver the committed part twice."""
    source, target = topic(2, suffix="source"), topic(suffix="target", config={"max.message.bytes": "20000"})
    # Spark runs the task with the most records first.
    kafka.produce(source, [Record(value=b"%d" % i, partition=0) for i in range(12)])
    kafka.produce(
        source, [*(Record(value=b"v", partition=1) for _ in range(4)), Record(b"k", os.urandom(50_000), partition=1)]
    )
    store = TaskStateStore()
    caplog.set_level("INFO")

    def attempt(number: int) -> Any:
        operator = KafkaToKafkaBatchOperator(task_id="task", topics=[source], target_topic=target, **layout)
        context = task_context(store, ti=Try(try_number=number))
        operator.execute(context)  # type: ignore[arg-type]
        return context

    with pytest.raises(Exception, match=r"larger than max\.message\.bytes"):
        attempt(1)
    failed, printed = store.get(STATE_KEY), capsys.readouterr().out
    kafka.alter_topic(target, {"max.message.bytes": "1000000"})
    context = attempt(2)

    assert "> in the plan" in printed
    assert "# delivered, ! for a retry, or a clear" in caplog.text
    assert failed["state"] == "partial"
    assert failed["planned_ranges"] == [f"{source}:0:0:12", f"{source}:1:0:5"]
    assert "0:0-12 covered" in kinds(failed)
    assert kinds(failed)[-1].endswith("unfinished")
    assert uncovered([failed], source) == []
    assert kinds(store.get(STATE_KEY)) == ["0:0-12 covered", "1:0-5 covered"]
    assert kinds(event_of(context)) == ["0:0-12 covered", "1:0-5 covered"]
    # The bytes of the first try are not known.
    assert "bytes_written" not in event_of(context)


@pytest.mark.parametrize("provenance", ["headers", "segments"])
def test_a_clear_that_fails_at_once_has_not_delivered_its_plan(
    kafka: KafkaBroker,
    topic: TopicFactory,
    in_process_spark: InProcessSpark,
    monkeypatch: pytest.MonkeyPatch,
    provenance: str,
) -> None:
    """Although the run is finished: that was another plan. With segments it is known what that one delivered."""
    source, target, store = topic(suffix="source"), topic(suffix="target"), TaskStateStore()

    def attempt(clear_number: int) -> None:
        kafka.produce(source, [Record(value=b"%d" % i) for i in range(10)])
        operator = KafkaToKafkaBatchOperator(
            task_id="task", topics=[source], target_topic=target, provenance=provenance, preserve_partition=True
        )
        ti = Try(try_number=1 + clear_number, max_tries=1 + clear_number)
        operator.execute(task_context(store, clear_number=clear_number, ti=ti))  # type: ignore[arg-type]

    def stop(*_: object, **__: object) -> None:
        raise RuntimeError("stopped")

    attempt(0)
    monkeypatch.setattr("airflow_provider_kafka_spark.jobs.batch.find_remaining", stop)
    with pytest.raises(Exception, match="stopped"):
        attempt(1)

    failed = store.get(STATE_KEY)
    known = {"headers": ["0:0-20 unfinished"], "segments": ["0:0-10 covered", "0:10-20 unfinished"]}
    assert (failed["state"], kinds(failed)) == ("partial", known[provenance])


@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
def test_while_it_runs_its_plan_is_not_a_gap(
    kafka: KafkaBroker,
    topic: TopicFactory,
    in_process_spark: InProcessSpark,
    monkeypatch: pytest.MonkeyPatch,
    delivery: str,
) -> None:
    source, target = topic(suffix="source"), topic(suffix="target")
    kafka.produce(source, [Record(value=b"v")])
    store, seen = TaskStateStore(), []
    monkeypatch.setattr(KafkaToKafkaBatchOperator, "_collect", lambda *_: seen.append(store.get(STATE_KEY)) or 1 / 0)
    operator = KafkaToKafkaBatchOperator(task_id="task", topics=[source], target_topic=target, delivery=delivery)

    with pytest.raises(ZeroDivisionError):
        operator.execute(task_context(store))  # type: ignore[arg-type]

    assert kinds(seen[0]) == ["0:0-1 running"]
    # At least once commits no progress: what is in the target is not known.
    assert kinds(store.get(STATE_KEY)) == ["0:0-1 covered" if delivery == "exactly_once" else "0:0-1 unfinished"]


def test_what_a_filter_leaves_nothing_of_is_covered_and_triggers_nothing(
    kafka: KafkaBroker, topic: TopicFactory, in_process_spark: InProcessSpark
) -> None:
    source, target = topic(suffix="source"), topic(suffix="target")
    kafka.produce(source, [Record(key=b"a", value=b"v")])
    operator = KafkaToKafkaBatchOperator(task_id="task", topics=[source], target_topic=target, keys=["b"])
    context = task_context(assets=[Asset(f"kafka://{kafka.bootstrap_servers}/{target}")])

    operator.execute(context)  # type: ignore[arg-type]

    assert (event_of(context)["filtered"], kinds(event_of(context))) == (True, ["0:0-1 covered"])
    assert operator.outlets == [COPIES]


def test_what_was_lost_is_no_gap_and_triggers_nothing(
    kafka: KafkaBroker, topic: TopicFactory, in_process_spark: InProcessSpark
) -> None:
    """A replay of a gap would fail at it."""
    source, target = topic(suffix="source"), topic(suffix="target")
    kafka.produce(source, [Record(value=b"v") for _ in range(20)])
    kafka.delete_records(source, {0: 20})
    operator = ReplayOffsetRangesOperator(
        task_id="task", offset_ranges=[f"{source}:0:0:20"], target_topic=target, fail_on_data_loss=False
    )
    context = task_context()

    operator.execute(context)  # type: ignore[arg-type]

    assert kinds(event_of(context)) == ["0:0-20 lost"]
    assert operator.outlets == [COPIES]


def test_a_clear_that_reads_more_and_writes_nothing_covers_it(
    kafka: KafkaBroker, topic: TopicFactory, in_process_spark: InProcessSpark
) -> None:
    source, target, store = topic(suffix="source"), topic(suffix="target"), TaskStateStore()

    def attempt(clear_number: int) -> Any:
        kafka.produce(source, [Record(key=b"ab"[clear_number : clear_number + 1], value=b"v") for _ in range(10)])
        operator = KafkaToKafkaBatchOperator(task_id="task", topics=[source], target_topic=target, keys=["a"])
        ti = Try(try_number=1 + clear_number, max_tries=1 + clear_number)
        context = task_context(store, clear_number=clear_number, ti=ti)
        operator.execute(context)  # type: ignore[arg-type]
        for callback in operator.on_success_callback:  # type: ignore[union-attr]
            callback({"task": operator, **context})  # type: ignore[typeddict-item]
        return context

    attempt(0)

    assert kinds(event_of(attempt(1))) == ["0:0-20 covered"]


def test_a_failed_stream_leaves_the_batches_that_its_checkpoint_has_finished(
    kafka: KafkaBroker, topic: TopicFactory, in_process_spark: InProcessSpark, tmp_path: Path
) -> None:
    source, target = topic(suffix="source"), topic(suffix="target", config={"max.message.bytes": "20000"})
    kafka.produce(source, [*(Record(value=b"v") for _ in range(25)), Record(b"k", os.urandom(50_000))])
    store = TaskStateStore()

    def attempt(number: int) -> Any:
        operator = KafkaToKafkaAvailableNowOperator(
            task_id="task",
            topics=[source],
            target_topic=target,
            starting_offsets="earliest",
            checkpoint_location=str(tmp_path / "checkpoint"),
            max_offsets_per_trigger=10,
        )
        context = task_context(store, ti=Try(try_number=number))
        operator.execute(context)  # type: ignore[arg-type]
        return context

    for number in (1, 2):
        with pytest.raises(Exception, match=r"larger than max\.message\.bytes"):
            attempt(number)
        # The second try has only the rest in its plan.
        assert kinds(store.get(STATE_KEY)) == ["0:0-20 covered", "0:20-26 unfinished"]
    kafka.alter_topic(target, {"max.message.bytes": "1000000"})
    context = attempt(3)

    assert kinds(event_of(context)) == ["0:0-26 covered"]
