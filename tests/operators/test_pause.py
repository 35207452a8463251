"""Promises of ``pause_while_lag``: nothing is sent while a consumer group of the target is too far behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import confluent_kafka
import pytest
from airflow.sdk.exceptions import AirflowFailException
from confluent_kafka.admin import AdminClient

from airflow_provider_kafka_spark.clients.consumer_group import ConsumerGroup
from airflow_provider_kafka_spark.core.errors import PausedTooLongError
from airflow_provider_kafka_spark.core.offset_range import TopicPartition
from airflow_provider_kafka_spark.hooks.kafka import KafkaHook
from airflow_provider_kafka_spark.operators.available_now import KafkaToKafkaAvailableNowOperator
from airflow_provider_kafka_spark.operators.batch import KafkaToKafkaBatchOperator
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.airflow_fakes import TaskStateStore, Try, task_context
from tests.in_process_jobs import InProcessSpark

pytestmark = [pytest.mark.broker, pytest.mark.spark]

RECORDS, MAX_LAG = 6_000, 500
WAIT_SECONDS = 60.0


class Consumers:
    """A consumer group of a topic: it has committed, and has no members."""

    def __init__(self, kafka: KafkaBroker, topic: str) -> None:
        self.kafka, self.topic, self.group_id = kafka, topic, f"billing-{uuid4().hex[:8]}"

    def commit(self, offset: int, partition: int = 0) -> None:
        with KafkaHook() as hook:
            ConsumerGroup(hook, self.group_id).commit({TopicPartition(self.topic, partition): offset})

    def end(self) -> int:
        return self.kafka.offsets(self.topic)[0][1]

    def wait_until_quiet(self) -> int:
        """The end of the topic, when it has grown beyond the limit and then not for three seconds."""
        deadline, seen, since = time.monotonic() + WAIT_SECONDS, 0, time.monotonic()
        while time.monotonic() < deadline:
            now = self.end()
            if now != seen:
                seen, since = now, time.monotonic()
            elif seen > MAX_LAG and time.monotonic() - since > 3.0:
                return seen
            time.sleep(0.1)
        raise AssertionError(f"The topic must stop to grow; it ends at {seen}")


@pytest.fixture
def topics(kafka: KafkaBroker, topic: TopicFactory) -> tuple[str, str]:
    source, target = topic(suffix="source"), topic(suffix="target")
    records = [Record(value=b"%d" % i) for i in range(RECORDS)]
    kafka.produce(source, records, {"batch.num.messages": 100, "linger.ms": 1_000})
    return source, target


@pytest.fixture
def consumers(kafka: KafkaBroker, topics: tuple[str, str]) -> Consumers:
    found = Consumers(kafka, topics[1])
    found.commit(0)
    return found


def paused(consumers: Consumers, **parameters: Any) -> dict[str, Any]:
    """With a pace, so that the group does not fall far behind before the driver sees it."""
    return {
        "target_topic": consumers.topic,
        "max_records_per_second": 1_000,
        "pause_while_lag": {"group_id": consumers.group_id, "max_lag": MAX_LAG},
        **parameters,
    }


def in_background(run: Callable[[], dict[str, Any]]) -> tuple[threading.Thread, list[dict[str, Any]]]:
    results: list[dict[str, Any]] = []
    thread = threading.Thread(target=lambda: results.append(run()), daemon=True)
    thread.start()
    return thread, results


@pytest.mark.parametrize(
    ("kind", "delivery"),
    [
        ("stream", "exactly_once"),
        ("short-tasks", "at_least_once"),
        ("batches", "exactly_once"),
        pytest.param("batches", "at_least_once", marks=pytest.mark.long),
        pytest.param("batch", "exactly_once", marks=pytest.mark.long),
        pytest.param("batch", "at_least_once", marks=pytest.mark.long),
        pytest.param("stream", "at_least_once", marks=pytest.mark.long),
        pytest.param("short-tasks", "exactly_once", marks=pytest.mark.long),
    ],
)
def test_nothing_is_sent_while_the_group_is_behind(
    kafka: KafkaBroker,
    topics: tuple[str, str],
    consumers: Consumers,
    in_process_spark: InProcessSpark,
    tmp_path: Any,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    delivery: str,
) -> None:
    """And no transaction is open meanwhile, so the group can catch up."""
    # Otherwise batches of a hundred small records are read record by record.
    monkeypatch.setattr("airflow_provider_kafka_spark.jobs.write.LEAST_BYTES", 0)
    given = paused(consumers, topics=[topics[0]], delivery=delivery)
    operator: Any
    if kind == "stream":
        checkpoint = {"checkpoint_location": str(tmp_path / "checkpoint"), "starting_offsets": "earliest"}
        operator = KafkaToKafkaAvailableNowOperator(task_id="task", max_offsets_per_trigger=700, **checkpoint, **given)
    else:
        how: dict[str, dict[str, Any]] = {
            "short-tasks": {"max_records_per_partition": 100, "preserve_order": False},
            "batches": {"provenance": "segments", "preserve_partition": True},
        }
        operator = KafkaToKafkaBatchOperator(task_id="task", **how.get(kind, {}), **given)
    copy, results = in_background(lambda: operator.execute(task_context()))

    first = consumers.wait_until_quiet()
    assert first < RECORDS
    with KafkaHook() as hook:
        state = hook.state([consumers.topic]).topic(consumers.topic).partitions[0]
    assert state.last_stable == state.high_watermark
    # Not below 80 % of the limit: it does not go on yet.
    consumers.commit(first - MAX_LAG * 9 // 10)
    time.sleep(3.0)
    assert consumers.end() == first
    assert copy.is_alive()
    deadline = time.monotonic() + 2 * WAIT_SECONDS
    while copy.is_alive() and time.monotonic() < deadline:
        consumers.commit(consumers.end())
        copy.join(0.2)

    assert [result["records_written"] for result in results] == [RECORDS]
    assert (results[0]["batches_passed"] > 0) is (kind == "batches")
    values = [record.value for record in kafka.consume(consumers.topic)]
    assert len(values) == len(set(values)) == RECORDS
    log = capfd.readouterr().err
    assert f"Paused for the consumer group '{consumers.group_id}': its lag is " in log
    assert "Going on after a pause of " in log


@pytest.mark.parametrize("kind", ["batch", pytest.param("stream", marks=pytest.mark.long)])
def test_a_pause_that_lasts_too_long_ends_and_a_retry_goes_on(
    kafka: KafkaBroker,
    topics: tuple[str, str],
    consumers: Consumers,
    in_process_spark: InProcessSpark,
    tmp_path: Any,
    kind: str,
) -> None:
    given, store = paused(consumers, topics=[topics[0]], max_pause=2), TaskStateStore()
    checkpoint = {"checkpoint_location": str(tmp_path / "checkpoint"), "starting_offsets": "earliest"}

    def attempt(number: int) -> dict[str, Any]:
        operator: Any
        if kind == "stream":
            operator = KafkaToKafkaAvailableNowOperator(task_id="task", **checkpoint, **given)
        else:
            operator = KafkaToKafkaBatchOperator(task_id="task", **given)
        context: Any = task_context(store, clear_number=0, ti=Try(try_number=number, max_tries=0))
        return operator.execute(context)

    with pytest.raises(PausedTooLongError, match=r"must catch up within max_pause=0:00:02"):
        attempt(1)
    written = len(kafka.consume(consumers.topic))
    assert MAX_LAG < written < RECORDS
    consumers.commit(10 * RECORDS)
    result = attempt(2)

    assert (result["records_written"], result["delivered_before"]) == (RECORDS, written)
    assert len(kafka.consume(consumers.topic)) == RECORDS
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    groups = admin.list_consumer_groups(request_timeout=10).result(timeout=30).valid
    assert [group.group_id for group in groups if group.group_id.endswith("-pace")] == []


def test_only_the_driver_has_the_last_word(
    kafka: KafkaBroker, topics: tuple[str, str], in_process_spark: InProcessSpark
) -> None:
    """An earlier driver that wakes up, or anybody who may write the group, cannot stop the job."""
    operator: Any = KafkaToKafkaBatchOperator(
        task_id="task", topics=[topics[0]], target_topic=topics[1], max_records_per_second=1_000
    )
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    copy, results = in_background(lambda: operator.execute(task_context()))
    deadline, paces = time.monotonic() + WAIT_SECONDS, list[str]()
    while not paces and time.monotonic() < deadline:
        groups = admin.list_consumer_groups(request_timeout=10).result(timeout=30).valid
        paces = [group.group_id for group in groups if group.group_id.endswith("-pace")]
    said = confluent_kafka.TopicPartition(topics[1], 0, 7, metadata="paused")
    request = confluent_kafka.ConsumerGroupTopicPartitions(paces[0], [said])
    admin.alter_consumer_group_offsets([request])[paces[0]].result(timeout=30)
    copy.join(WAIT_SECONDS)

    assert [result["records_written"] for result in results] == [RECORDS]


def test_partitions_that_nobody_consumes_do_not_count(
    kafka: KafkaBroker, topic: TopicFactory, in_process_spark: InProcessSpark, capfd: pytest.CaptureFixture[str]
) -> None:
    source, target = topic(2, suffix="source"), topic(2, suffix="target")
    kafka.produce(source, [Record(value=b"v", partition=1) for _ in range(2 * MAX_LAG)])
    consumers = Consumers(kafka, target)
    consumers.commit(0)
    operator = KafkaToKafkaBatchOperator(
        task_id="task", topics=[source], preserve_partition=True, **paused(consumers, max_pause=5)
    )
    context: Any = task_context()

    assert operator.execute(context)["records_written"] == 2 * MAX_LAG
    assert f"{target}[1]: these partitions do not count" in capfd.readouterr().err


def test_a_group_that_consumes_nothing_is_an_error(topics: tuple[str, str], in_process_spark: InProcessSpark) -> None:
    routed = {"target_topic": None, "target_topic_expr": f"'{topics[1]}'"}
    pause = {"group_id": f"nobody-{uuid4().hex[:8]}", "max_lag": 5}
    for target in ({"target_topic": topics[1]}, routed):
        operator = KafkaToKafkaBatchOperator(task_id="task", topics=[topics[0]], pause_while_lag=pause, **target)
        with pytest.raises(AirflowFailException, match="must name a consumer group that has committed offsets"):
            operator.execute(task_context())  # type: ignore[arg-type]
    assert in_process_spark.requests == []


def test_bad_input() -> None:
    refused: list[tuple[dict[str, Any], str]] = [
        ({"pause_while_lag": {"max_lag": 5}}, "must have a group and a limit"),
        ({"pause_while_lag": {"group_id": " ", "max_lag": 5}}, r"\['group_id'\] must be the name"),
        ({"pause_while_lag": {"group_id": "billing", "max_lag": 0}}, r"\['max_lag'\] must be an integer of at least 1"),
        ({"pause_while_lag": "billing"}, "pause_while_lag must be JSON"),
        ({"pause_while_lag": {"group_id": "billing", "max_lag": 5}, "max_pause": 0}, "max_pause must be a number"),
    ]
    for parameters, message in refused:
        operator = KafkaToKafkaBatchOperator(task_id="task", topics=["a"], target_topic="b", **parameters)
        with pytest.raises(AirflowFailException, match=message):
            operator.execute(task_context())  # type: ignore[arg-type]
