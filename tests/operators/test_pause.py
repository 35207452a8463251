"""Promises of a pace, which holds over the whole job, whatever its Spark tasks do; and of ``pause_while_lag``: nothing
is sent while a consumer group of the target is too far behind.
"""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Iterator
from typing import Any, NamedTuple
from uuid import uuid4

import confluent_kafka
import pytest
from airflow.sdk.exceptions import AirflowFailException
from confluent_kafka.admin import AdminClient

from airflow_provider_kafka_spark.clients.consumer_group import ConsumerGroup
from airflow_provider_kafka_spark.core.errors import PausedTooLongError
from airflow_provider_kafka_spark.core.offsets.offset_range import TopicPartition
from airflow_provider_kafka_spark.hooks.kafka import KafkaHook
from airflow_provider_kafka_spark.operators.asset_events import COPIES
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.airflow_fakes import task_context
from tests.operators.copy_task import Batch, CopyTask, NewTask, Stream, execute, pace_groups
from tests.waiting import until, until_quiet

pytestmark = [pytest.mark.broker, pytest.mark.spark]

RECORDS, MAX_LAG = 6_000, 500
WAIT_SECONDS = 60.0


class Scene(CopyTask):
    """A source with records, and a target of which a consumer group has committed offsets; the group has no members.
    The copy has a pace, so that the group does not fall far behind before the driver sees it.
    """

    group_id = ""
    threads: tuple[threading.Thread, ...] = ()

    def commit(self, offset: int) -> None:
        with KafkaHook() as hook:
            ConsumerGroup(hook, self.group_id).commit({TopicPartition(self.target, 0): offset})

    def end(self) -> int:
        return self.kafka.offsets(self.target)[0][1]

    def in_background(self, kind: type = Batch, **parameters: Any) -> tuple[threading.Thread, list[dict[str, Any]]]:
        results: list[dict[str, Any]] = []
        thread = threading.Thread(target=lambda: results.append(self.run(kind, **parameters)), daemon=True)
        thread.start()
        self.threads = (*self.threads, thread)
        return thread, results


@pytest.fixture
def scene(new_task: NewTask) -> Iterator[Scene]:
    group_id = f"billing-{uuid4().hex[:8]}"
    pause = {"group_id": group_id, "max_lag": MAX_LAG}
    found = new_task(Scene, max_records_per_second=1_000, pause_while_lag=pause)
    records = [Record(value=b"%d" % i) for i in range(RECORDS)]
    found.kafka.produce(found.source, records, {"batch.num.messages": 100, "linger.ms": 1_000})
    found.group_id = group_id
    found.commit(0)
    yield found
    # A test that fails leaves no copy that waits.
    found.commit(10 * RECORDS)
    for thread in found.threads:
        thread.join(WAIT_SECONDS)


@pytest.mark.parametrize(
    ("kind", "how"),
    [
        pytest.param(Stream, {"max_offsets_per_trigger": 5_000}, id="stream", marks=pytest.mark.long),
        pytest.param(
            Batch,
            {"max_records_per_partition": 100, "preserve_order": False, "delivery": "at_least_once"},
            id="short-tasks-at-least-once",
        ),
    ],
)
def test_nothing_is_sent_while_the_group_is_behind(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, kind: type, how: dict[str, Any]
) -> None:
    """And no transaction is open meanwhile, so the group can catch up."""
    # Otherwise batches of a hundred small records are put together.
    monkeypatch.setattr("airflow_provider_kafka_spark.jobs.write.LEAST_BYTES", 0)
    # The one of pytest loses what another thread writes while the test reads it.
    monkeypatch.setattr("sys.stderr", log := io.StringIO())
    copy, results = scene.in_background(kind, **how)

    def pauses() -> int:
        return log.getvalue().count(f"Paused for the consumer group '{scene.group_id}': its lag is ")

    until(lambda: pauses() >= 1, "it pauses")
    first = until_quiet(scene.end, MAX_LAG, 3.0)
    assert first < RECORDS
    # On a machine that stands still, the first batch of a stream has sent all when it learns of its pause.
    is_second = scene.values().total() >= how.get("max_offsets_per_trigger", RECORDS)
    with KafkaHook() as hook:
        state = hook.state([scene.target]).topic(scene.target).partitions[0]
    assert state.last_stable == state.high_watermark
    if not is_second:
        # Not below 80 % of the limit: it does not go on yet.
        scene.commit(first - MAX_LAG * 9 // 10)
        time.sleep(3.0)
        assert scene.end() == first
    assert copy.is_alive()
    deadline = time.monotonic() + 2 * WAIT_SECONDS
    while copy.is_alive() and time.monotonic() < deadline:
        scene.commit(scene.end())
        copy.join(0.2)

    assert [result["records_written"] for result in results] == [RECORDS]
    assert (results[0]["batches_passed"] > 0) is ("provenance" in how)
    assert (len(scene.values()), scene.values().total()) == (RECORDS, RECORDS)
    assert is_second or "Going on after a pause of " in log.getvalue()


def test_a_pause_that_lasts_too_long_ends_and_a_retry_goes_on(scene: Scene) -> None:
    with pytest.raises(PausedTooLongError, match=r"must catch up within max_pause=0:00:02"):
        scene.run(max_pause=2)
    written = scene.values().total()
    assert MAX_LAG < written < RECORDS
    scene.commit(10 * RECORDS)
    result = scene.run(max_pause=2)

    assert (result["records_written"], result["delivered_before"]) == (RECORDS, written)
    assert scene.values().total() == RECORDS
    assert pace_groups(scene.kafka, scene.target) == []


@pytest.mark.long
def test_only_the_driver_has_the_last_word(scene: Scene) -> None:
    """An earlier driver that wakes up, or anybody who may write the group, cannot stop the job."""
    copy, results = scene.in_background(pause_while_lag=None)
    deadline, paces = time.monotonic() + WAIT_SECONDS, list[str]()
    while not paces and time.monotonic() < deadline:
        paces = pace_groups(scene.kafka, scene.target)
    said = confluent_kafka.TopicPartition(scene.target, 0, 7, metadata="paused")
    request = confluent_kafka.ConsumerGroupTopicPartitions(paces[0], [said])
    admin = AdminClient({"bootstrap.servers": scene.kafka.bootstrap_servers})
    admin.alter_consumer_group_offsets([request])[paces[0]].result(timeout=30)
    copy.join(WAIT_SECONDS)

    assert [result["records_written"] for result in results] == [RECORDS]


def test_partitions_that_nobody_consumes_do_not_count(
    scene: Scene, topic: TopicFactory, capfd: pytest.CaptureFixture[str]
) -> None:
    scene.sources, scene.given["target_topic"] = [topic(2, suffix="wide")], topic(2, suffix="wide-target")
    scene.kafka.produce(scene.source, [Record(value=b"v", partition=1) for _ in range(2 * MAX_LAG)])
    scene.commit(0)

    assert scene.run(preserve_partition=True, max_pause=5)["records_written"] == 2 * MAX_LAG
    assert f"{scene.target}[1]: these partitions do not count" in capfd.readouterr().err


def test_the_marker_of_a_transaction_is_no_lag(scene: Scene, topic: TopicFactory) -> None:
    """A group that commits the offset after its last record never passes it."""
    scene.sources, scene.given["target_topic"] = [topic(3, suffix="wide")], topic(3, suffix="wide-target")
    scene.kafka.produce(scene.source, [Record(value=b"v", partition=i) for i in range(3)])
    scene.succeed(preserve_partition=True, pause_while_lag=None)
    with KafkaHook() as hook:
        ConsumerGroup(hook, scene.group_id).commit({TopicPartition(scene.target, i): 1 for i in range(3)})

    pause = {"group_id": scene.group_id, "max_lag": 2}
    scene.clear(on_rerun="copy_again", preserve_partition=True, pause_while_lag=pause, max_pause=5)

    assert scene.values().total() == 6
    # The ledger counts offsets.
    (lag,) = scene.event(COPIES).extra["log"]["groups"]
    assert lag == {"group_id": scene.group_id, "topic": scene.target, "side": "target", "behind": 3}


def test_a_group_that_consumes_nothing_is_an_error(scene: Scene) -> None:
    pause = {"group_id": f"nobody-{uuid4().hex[:8]}", "max_lag": 5}
    for target in ({}, {"target_topic": None, "target_topic_expr": f"'{scene.target}'"}):
        with pytest.raises(AirflowFailException, match="must name a consumer group that has committed offsets"):
            scene.run(pause_while_lag=pause, **target)
    assert scene.spark.requests == []


def test_bad_input() -> None:
    refused: list[tuple[dict[str, Any], str]] = [
        ({"pause_while_lag": {"max_lag": 5}}, "must have a group and a limit"),
        ({"pause_while_lag": {"group_id": " ", "max_lag": 5}}, r"\['group_id'\] must be the name"),
        ({"pause_while_lag": {"group_id": "billing", "max_lag": 0}}, r"\['max_lag'\] must be an integer of at least 1"),
        ({"pause_while_lag": "billing"}, "pause_while_lag must be JSON"),
        ({"pause_while_lag": {"group_id": "billing", "max_lag": 5}, "max_pause": 0}, "max_pause must be a number"),
    ]
    for parameters, message in refused:
        operator = Batch(task_id="task", topics=["a"], target_topic="b", **parameters)
        with pytest.raises(AirflowFailException, match=message):
            operator.execute(task_context())  # type: ignore[arg-type]


RATE = 2_000


class Look(NamedTuple):
    """What the end of a topic was at some moment between two."""

    asked: float
    answered: float
    end: int


class Meter:
    """Looks at the end of a topic until it is left, inside ``with``."""

    def __init__(self, kafka: KafkaBroker, topic: str) -> None:
        self._kafka, self._topic = kafka, topic
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.looks: list[Look] = []

    def __enter__(self) -> Meter:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(timeout=30)

    def _run(self) -> None:
        while not self._stop.wait(0.1):
            asked = time.monotonic()
            end = sum(end for _, end in self._kafka.offsets(self._topic).values())
            self.looks.append(Look(asked, time.monotonic(), end))

    def fastest(self, seconds: float) -> float:
        """The highest rate over so long that is certain, in offsets per second: a slow look makes it lower."""
        rates = [
            (later.end - first.end) / (later.answered - first.asked)
            for i, first in enumerate(self.looks)
            for later in self.looks[i:]
            if later.asked - first.answered >= seconds
        ]
        return max(rates)

    def duration(self) -> float:
        """From the first record to the last, in seconds."""
        last = self.looks[-1].end
        return next(look.asked for look in self.looks if look.end == last) - next(
            look.asked for look in self.looks if look.end > 0
        )


@pytest.mark.broker
@pytest.mark.spark
@pytest.mark.usefixtures("in_process_spark")
@pytest.mark.parametrize(
    ("counts", "parameters"),
    [
        pytest.param([2_000, 8_000, 2_000], {}, id="one-task-is-left-at-the-end"),
        # A record of ten bytes has eight more in its batch.
        pytest.param(
            [5_000, 5_000],
            {"provenance": None, "max_records_per_second": None, "max_bytes_per_second": RATE * 18},
            id="batches-by-bytes",
        ),
    ],
)
def test_the_whole_job_keeps_the_pace(
    kafka: KafkaBroker,
    topic: TopicFactory,
    counts: list[int],
    parameters: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Within a tenth, over any three seconds; and it does not stand still, however slow the machine."""
    # Otherwise batches of a hundred small records are read record by record.
    monkeypatch.setattr("airflow_provider_kafka_spark.jobs.write.LEAST_BYTES", 0)
    source, target = topic(len(counts), suffix="source"), topic(len(counts), suffix="target")
    kafka.produce(
        source,
        [Record(value=b"%010d" % i, partition=p) for p, count in enumerate(counts) for i in range(count)],
        {"batch.num.messages": 100, "linger.ms": 1_000, "compression.type": "none"},
    )
    given = {"max_records_per_second": RATE, "preserve_partition": True, **parameters}

    with Meter(kafka, target) as meter:
        result = execute(Batch(task_id="task", topics=[source], target_topic=target, **given))

    records = sum(counts)
    assert result["records_written"] == records
    assert (result["batches_passed"] > 0) == ("provenance" in parameters)
    assert meter.fastest(3.0) < RATE * 1.1 + 500
    assert meter.duration() < 3 * records / RATE + 10
    assert pace_groups(kafka, target) == []
