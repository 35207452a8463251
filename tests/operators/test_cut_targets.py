"""A target's log is cut by an unclean election between a try and the next one, or while the job runs.

What only this proves: that no task takes for delivered what a target has acknowledged and lost. The log is cut in the
broker's own file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_kafka_spark.core.errors import DeliveryError
from airflow_provider_kafka_spark.jobs import batch
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from tests.in_process_jobs import InProcessSpark
from tests.operators.copy_task import Batch, CopyTask, Stream
from tests.raw_batches import cut_after

pytestmark = [pytest.mark.broker, pytest.mark.spark]

#: Records of a batch and of a transaction, and of all; and how many batches are left, with the markers.
SIZE, RECORDS, LEFT = 10, 100, 12


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    with KafkaBroker() as broker:
        yield broker


@pytest.fixture
def new(
    broker: KafkaBroker, connection: Callable[..., None], in_process_spark: InProcessSpark, tmp_path: Path
) -> Callable[..., CopyTask]:
    connection("kafka_default", extra={"bootstrap.servers": broker.bootstrap_servers})
    connection("spark_default", conn_type="spark", host="local[2]")

    def make(name: str, **parameters: Any) -> CopyTask:
        source, target = (broker.create_topic(f"{name}-{side}") for side in ("source", "target"))
        for i in range(0, RECORDS, SIZE):
            broker.produce(source, [Record(b"k", b"%d" % (i + j)) for j in range(SIZE)])
        given = {"target_topic": target, "preserve_partition": True, **parameters}
        return CopyTask(broker, in_process_spark, tmp_path / name, [source], given)

    return make


#: Of the driver, when its Spark tasks have ended.
_LAST_LOOK = "_raise_if_incomplete"
ALL = Counter(b"%d" % i for i in range(RECORDS))
FOREIGN = Counter({b"foreign": 2 * RECORDS})


def check(task: CopyTask, kind: type, act: str = "succeed") -> None:
    """What is gone is written again; where no header says what that is, all is, and the result says so."""
    left = task.values() - FOREIGN
    assert 0 < left.total() < RECORDS
    result = getattr(task, act)(kind)
    is_exact = task.given.get("provenance", "headers") == "headers"
    assert task.values() - FOREIGN == (ALL if is_exact else ALL + left), task.source
    assert kind is Stream or result["evidence"]["may_have_duplicates"] is not is_exact


def test_what_a_target_has_lost_is_written_again(
    broker: KafkaBroker, new: Callable[..., CopyTask], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a try that was killed, and after a success whose task is cleared."""
    monkeypatch.setattr("airflow_provider_kafka_spark.jobs.write.COMMIT_RECORDS", SIZE)
    killed = [
        (new("headers"), Batch),
        (new("segments", provenance="segments"), Batch),
        (new("stream"), Stream),
    ]
    # No record tells of it, so that nothing tells those of others from it.
    short = new("no-provenance", provenance=None)
    one_by_one = {"delivery": "at_least_once", "sink_options": {"kafka.batch.size": "1"}}
    cleared = [
        new("cleared", provenance="segments"),
        new("cleared-no-provenance", provenance=None),
        new("cleared-at-least-once", provenance=None, **one_by_one),
    ]
    for task, kind in (*killed, (short, Batch)):
        task.lose_report(kind)
        if kind is Stream:
            # Killed between the last records and the commit of the batch.
            (task.checkpoint / "generation-0" / "commits" / "0").unlink()
    for task in cleared:
        task.succeed()
    left = {task.target: LEFT for task in (*(task for task, _ in killed), short, *cleared)}
    # Without transactions there are no markers.
    cut_after(broker, {**left, cleared[-1].target: LEFT // 2})
    # Others write in the place of what is gone.
    for task in (*(task for task, _ in killed), cleared[0]):
        broker.produce(task.target, [Record(b"k", b"foreign")] * 2 * RECORDS)

    for task, kind in (*killed, (short, Batch)):
        check(task, kind)
    for task in cleared:
        check(task, Batch, "clear")


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({}, id="headers"),
        pytest.param({"provenance": "segments"}, id="segments", marks=pytest.mark.long),
        pytest.param(
            {"delivery": "at_least_once", "sink_options": {"kafka.batch.size": "1"}},
            id="at-least-once", marks=pytest.mark.long,
        ),
    ],
)  # fmt: skip
def test_a_target_that_is_cut_while_its_job_runs(
    broker: KafkaBroker,
    new: Callable[..., CopyTask],
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    given: dict[str, Any],
) -> None:
    """And filled again by others: the job fails, and its retry writes what is gone."""
    monkeypatch.setattr("airflow_provider_kafka_spark.jobs.write.COMMIT_RECORDS", SIZE)
    task, looks = new(f"running-{request.node.callspec.id}", **given), getattr(batch, _LAST_LOOK)

    def cut_first(*arguments: Any) -> None:
        cut_after(broker, {task.target: LEFT})
        broker.produce(task.target, [Record(b"k", b"foreign")] * 2 * RECORDS)
        looks(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(batch, _LAST_LOOK, cut_first)
        with pytest.raises(DeliveryError, match="another leader has cut"):
            task.run()
    check(task, Batch)


def test_a_target_that_is_cut_while_another_partition_is_written(
    broker: KafkaBroker, new: Callable[..., CopyTask], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a clear has found there is not written by this job, and is to be there at its end."""
    monkeypatch.setattr("airflow_provider_kafka_spark.jobs.write.COMMIT_RECORDS", SIZE)
    task, looks = new("found"), getattr(batch, _LAST_LOOK)
    task.succeed()
    for topic in (task.source, task.target):
        broker.add_partitions(topic, 2)
    broker.produce(task.source, [Record(b"k", b"more", partition=1)] * SIZE)

    def cut_first(*arguments: Any) -> None:
        cut_after(broker, {task.target: LEFT})
        broker.produce(task.target, [Record(b"k", b"foreign", partition=0)] * 2 * RECORDS)
        looks(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(batch, _LAST_LOOK, cut_first)
        with pytest.raises(DeliveryError, match=r"found-target\[0\] has not: another leader has cut"):
            task.clear()
    task.run()
    assert task.values() - FOREIGN == ALL + Counter({b"more": SIZE})
