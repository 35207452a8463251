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


def test_what_a_target_has_lost_is_written_again(
    broker: KafkaBroker, new: Callable[..., CopyTask], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a killed try and of a running job; with headers each record is there once, and otherwise the result says that
    it may not be.
    """
    monkeypatch.setattr("airflow_provider_kafka_spark.jobs.write.COMMIT_RECORDS", SIZE)
    killed = [
        (new("headers"), Batch),
        (new("segments", provenance="segments"), Batch),
        (new("stream"), Stream),
    ]
    # No record tells of it, so that nothing tells those of others from it.
    short = new("no-provenance", provenance=None)
    cleared = new("cleared", provenance="segments")
    single = {"delivery": "at_least_once", "sink_options": {"kafka.batch.size": "1"}}
    running = [new("running"), new("running-segments", provenance="segments"), new("running-at-least-once", **single)]
    for task, kind in (*killed, (short, Batch)):
        task.lose_report(kind)
        if kind is Stream:
            # Killed between the last records and the commit of the batch.
            (task.checkpoint / "generation-0" / "commits" / "0").unlink()
    cleared.succeed()
    looks, depth = getattr(batch, _LAST_LOOK), []

    def cut_first(*arguments: Any) -> None:
        depth.append(0)
        if len(depth) < len(running):
            # Others have written all too when the logs are cut.
            with pytest.raises(DeliveryError, match="another leader has cut"):
                running[len(depth)].run()
        else:
            cut_after(
                broker, dict.fromkeys((t.target for t in (*(t for t, _ in killed), short, cleared, *running)), LEFT)
            )
        looks(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(batch, _LAST_LOOK, cut_first)
        with pytest.raises(DeliveryError, match="another leader has cut"):
            running[0].run()
    # Others write in the place of what is gone.
    foreign = Counter({b"foreign": 2 * RECORDS})
    for task, _ in killed:
        broker.produce(task.target, [Record(b"k", b"foreign")] * 2 * RECORDS)

    for task, kind in (*killed, (short, Batch), (cleared, Batch), *((t, Batch) for t in running)):
        left = task.values() - foreign
        assert 0 < left.total() < RECORDS
        result = (task.clear if task is cleared else task.succeed)(kind)
        is_exact = task.given.get("provenance", "headers") == "headers"
        assert task.values() - foreign == (ALL if is_exact else ALL + left), task.source
        assert is_exact or "cut the log" in str(result["warnings"])
