"""Promises of the operators from ``execute`` to the target, on a real broker and by real ``spark-submit``."""

from __future__ import annotations

import json
import threading
from collections import Counter
from typing import Any

import pytest
from airflow.sdk import Asset
from airflow.sdk.bases.operator import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_kafka_spark.core.errors import JobKilledError, JobReportMissingError
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRanges
from airflow_provider_kafka_spark.core.offsets.provenance import PROVENANCE_HEADER, Provenance
from airflow_provider_kafka_spark.core.wire.evidence import CopyEvidence
from airflow_provider_kafka_spark.operators import kafka_to_kafka
from airflow_provider_kafka_spark.operators.kafka_to_kafka import KafkaToKafkaOperator
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.airflow_fakes import TaskStateStore, task_context
from tests.operators.conftest import RecordingSpark, Traces
from tests.operators.copy_task import Batch, Replay, execute
from tests.waiting import until


def provenances(kafka: KafkaBroker, target: str) -> list[Provenance]:
    """Where each record of the target came from."""
    headers = [dict(record.headers)[PROVENANCE_HEADER] for record in kafka.consume(target)]
    return [Provenance.parse(value or b"") for value in headers]


@pytest.mark.broker
@pytest.mark.spark
def test_a_green_task(kafka: KafkaBroker, topic: TopicFactory, traces: Traces) -> None:
    """All is delivered and counted (the form of a result is with its rules); the link, the asset event and the memory
    are there, and no file or process is.
    """
    source, target = topic(2, suffix="source"), topic(2, suffix="target")
    kafka.produce(source, [Record(b"k%d" % i, b"v%d" % i, (("h", b"1"),), partition=i % 2) for i in range(100)])
    asset, store = Asset(f"kafka-topic://{target}"), TaskStateStore()
    context: Any = task_context(store)
    operator = Replay(
        task_id="task",
        offset_ranges=[f"{source}:1:0:10", {"topic": source, "partition": 0, "from_offset": 20, "until_offset": 50}],
        target_topic=target,
        where="string(key) != 'k1'",
        outlets=[asset],
    )

    result = operator.execute(context)

    assert json.loads(json.dumps(result)) == result
    run_id, application_id = result["run_id"], result["application_id"]
    # Two Spark tasks write to both partitions. If one commits before the other begins, its marker lies in between.
    ends = {record.partition: (record.offset or 0) + 1 for record in kafka.consume(target)}
    assert OffsetRanges.parse(result["ranges"]).format() == [f"{source}:0:20:50", f"{source}:1:0:10"]
    assert [(r["records_read"], r["records_written"]) for r in result["ranges"]] == [(30, 30), (10, 9)]
    assert OffsetRanges.parse(result["target_ranges"]).format() == [f"{target}:{p}:0:{ends[p]}" for p in (0, 1)]
    assert (result["records_read"], result["records_written"], result["delivered_before"]) == (40, 39, 0)
    assert (result["gaps"], result["duplicates"], result["missing"], result["missing_ranges"]) == (0, 0, 0, [])
    written = kafka.consume(target)
    assert result["bytes_written"] == sum(len(record.key or b"") + len(record.value or b"") for record in written)
    assert (result["target_topics"], result["batches_passed"], result["warnings"]) == ([target], 0, [])
    assert result["source_topic_ids"].keys() == {source}
    evidence = CopyEvidence.from_dict(result["evidence"])
    assert (evidence.transform.topic, evidence.transform.where) == (target, operator.where)
    assert evidence.target_ends == {target: {0: 0, 1: 0}}
    assert evidence.target_ids.keys() == {target}
    assert len(run_id) == 16
    assert application_id.startswith("local-")
    assert result["spark_version"].startswith("4.")
    assert 0 < result["seconds"] < 120

    expected = {(0, offset) for offset in range(20, 50)} | {(1, offset) for offset in range(1, 10)}
    came_from = provenances(kafka, target)
    assert sorted((p.partition, p.offset) for p in came_from) == sorted(expected)
    assert {p.run_id for p in came_from} == {run_id}

    expected_extra = {
        "run_id": run_id,
        "records_written": 39,
        "offset_ranges": [f"{source}:0:20:50", f"{source}:1:0:10"],
        "target_ranges": result["target_ranges"],
        "filtered": True,
    }
    assert context["outlet_events"][asset].extra.items() >= expected_extra.items()
    assert "_link_SparkApplicationLink" not in context["ti"].pushed
    assert store.values["kafka_spark_run"]["value"]["result"]["run_id"] == run_id
    assert (traces.files, traces.processes) == ([], [])


@pytest.mark.broker
def test_plan_only_starts_nothing(
    kafka: KafkaBroker, topic: TopicFactory, recording_spark: RecordingSpark, traces: Traces
) -> None:
    """``plan_only`` returns what would be read, with aged-out offsets if they are permitted, and starts no Spark."""
    source, target = topic(2, suffix="source"), topic(suffix="target")
    kafka.produce(source, [Record(value=b"v", partition=0) for _ in range(30)])
    kafka.delete_records(source, {0: 10})
    given: dict[str, Any] = {"starting_offsets": {source: {"0": 4, "1": -2}}, "fail_on_data_loss": False}
    operator = Batch(task_id="task", topics=[source], target_topic=target, plan_only=True, **given)

    result = execute(operator)

    assert json.loads(json.dumps(result)) == result
    assert OffsetRanges.parse(result["ranges"]).format() == [f"{source}:0:10:30", f"{source}:1:0:0"]
    assert [r["planned_records"] for r in result["ranges"]] == [20, 0]
    (missing,) = result["missing_ranges"]
    assert (missing["from_offset"], missing["until_offset"], result["missing"]) == (4, 10, 6)
    assert "aged out" in missing["reason"]
    assert (result["state"], result["planned_records"], result["spark_partitions"]) == ("planned", 20, 1)
    assert (result["target_topics"], result["warnings"]) == ([target], ["PLAN ONLY: nothing was copied"])
    # Airflow makes an event of each outlet that is left.
    assert operator.outlets == []
    assert recording_spark.requests == []
    assert traces.files == []
    assert kafka.consume(target) == []


@pytest.mark.broker
def test_a_retry_uses_the_first_plan(
    kafka: KafkaBroker, topic: TopicFactory, recording_spark: RecordingSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records that arrive between two tries wait for the next run; a clear takes them in. What may have been delivered
    is searched for. The offsets mean other records in a topic of the same name: a retry copies none of it. Only a retry
    waits for brokers that do not listen, since its job may have outlived a restart of them.
    """
    connected, waits = kafka_to_kafka.connected, list[bool]()

    def connect(*arguments: Any, waits_for_start: bool) -> Any:
        waits.append(waits_for_start)
        return connected(*arguments, waits_for_start=waits_for_start)

    monkeypatch.setattr(kafka_to_kafka, "connected", connect)
    source, target = topic(suffix="source"), topic(suffix="target")
    kafka.produce(source, [Record(value=b"v") for _ in range(10)])
    kafka.produce(target, [Record(value=b"old") for _ in range(3)])
    store = TaskStateStore()

    def copy(clear_number: int = 0) -> None:
        execute(Batch(task_id="task", topics=[source], target_topic=target), store, clear_number=clear_number)

    with pytest.raises(JobReportMissingError):
        copy()
    kafka.produce(source, [Record(value=b"later") for _ in range(5)])
    kafka.produce(target, [Record(value=b"perhaps ours") for _ in range(2)])
    for clear_number in (0, 1):
        with pytest.raises(JobReportMissingError):
            copy(clear_number)

    first, retry, cleared = recording_spark.requests
    assert first.ranges.format() == retry.ranges.format() == [f"{source}:0:0:10"]
    assert cleared.ranges.format() == [f"{source}:0:0:15"]
    assert first.run_id == retry.run_id == cleared.run_id
    assert [request.history.is_retry for request in (first, retry, cleared)] == [False, True, True]
    assert retry.history.target_starts == cleared.history.target_starts == {target: {"0": 3}}
    assert waits == [False, True, False]
    kafka.delete_topic(source)
    kafka.create_topic(source)
    kafka.produce(source, [Record(value=b"other") for _ in range(20)])
    with pytest.raises(AirflowFailException, match=r"DataLossError: .*deleted and recreated.*Clear the task"):
        copy(clear_number=1)
    assert len(recording_spark.requests) == 3


@pytest.mark.broker
@pytest.mark.spark
def test_a_killed_task_fails_and_its_next_try_completes_it(
    kafka: KafkaBroker, topic: TopicFactory, traces: Traces
) -> None:
    """A kill in the middle ends every process and fails the task; then only what is missing is written, and each offset
    is there once.
    """
    records = 2_000
    source, target = topic(2, suffix="source"), topic(3, suffix="target")
    kafka.produce(source, [Record(b"k%d" % i, b"v%d" % i, partition=i % 2) for i in range(records)])
    store = TaskStateStore()

    given: dict[str, Any] = {"task_id": "task", "topics": [source], "target_topic": target}
    # Seven seconds, so that there is a middle to be killed in.
    killed = Batch(max_records_per_second=records // 7, **given)

    def kill_in_the_middle() -> None:
        until(lambda: kafka.consume(target), "records are there", 90)
        killed.on_kill()

    killer = threading.Thread(target=kill_in_the_middle)
    killer.start()
    with pytest.raises(JobKilledError, match="The task was killed"):
        execute(killed, store)
    killer.join()

    assert (traces.files, traces.processes) == ([], [])
    delivered = len(kafka.consume(target))
    assert 0 < delivered < records

    result = execute(Batch(**given), store)

    counted = Counter((p.partition, p.offset) for p in provenances(kafka, target))
    assert counted == Counter((p, offset) for p in range(2) for offset in range(records // 2))
    # The broker may have been completing the last commit while the target was read here.
    assert delivered <= result["delivered_before"] < records == result["records_written"]
    assert (traces.files, traces.processes) == ([], [])


@pytest.mark.broker
@pytest.mark.spark
def test_a_driver_that_dies_without_a_report(kafka: KafkaBroker, topic: TopicFactory, traces: Traces) -> None:
    """Without a report nothing is taken for delivered, however spark-submit ended; the error shows its last words and
    may be retried.
    """
    source, target = topic(suffix="source"), topic(suffix="target")
    kafka.produce(source, [Record(value=b"v")])

    with pytest.raises(JobReportMissingError, match="spark-submit ended with") as raised:
        execute(Batch(task_id="task", topics=[source], target_topic=target, driver_memory="1"))

    assert "memory" in str(raised.value)
    assert raised.value.retriable
    assert (traces.files, traces.processes) == ([], [])


@pytest.mark.parametrize("operator", [Batch, Replay])
def test_parameters_are_those_of_an_airflow_operator(operator: type[KafkaToKafkaOperator]) -> None:
    """Nothing is checked or changed before rendering: templates and outputs of other tasks may stand in every field. A
    misspelt parameter is an error when the DAG is parsed, and none hides one of Airflow's attributes or methods.
    """
    fields = {name: "{{ " + name + " }}" for name in operator.template_fields}
    task = operator(task_id="task", **fields)  # type: ignore[arg-type]

    assert {name: getattr(task, name) for name in operator.template_fields} == fields
    with pytest.raises(TypeError, match="Did you mean 'target_topic'"):
        operator(task_id="task", target_topik="t")
    ours = set(vars(task)) - set(vars(BaseOperator(task_id="plain")))
    assert {name for name in ours if hasattr(BaseOperator, name)} == set()
