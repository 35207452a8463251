"""A real unclean election: the only replica in sync dies, one that lacks records leads, and others take their offsets.

What only this proves: that brokers answer of it what ``test_cut_logs`` and ``test_cut_targets`` take them to, where the
log is cut in a file. Sources or targets of all kinds of copies lose the records of one election.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_kafka_spark.testing.kafka_cluster import KafkaCluster
from airflow_provider_kafka_spark.testing.record import Record
from tests.airflow_fakes import TaskStateStore
from tests.in_process_jobs import InProcessSpark
from tests.operators.copy_task import Batch, CopyTask, Stream
from tests.waiting import until

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.long]

#: Who leads, who lacks what is written while it is dead, and who keeps what must not be lost.
LEADER, BEHIND, THIRD = 1, 2, 3
#: Records before the second broker dies, and until the first one does.
KEPT, LOST = 60, 100
OLD, NEW = (Counter({f"{text}{i}".encode(): 1 for i in range(n)}) for text, n in (("old", LOST), ("new", 90)))
FOREIGN = Counter({b"foreign": 200})


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    with KafkaCluster() as cluster:
        yield cluster


def new_topic(cluster: KafkaCluster, name: str, *, may_be_cut: bool) -> str:
    config = {"unclean.leader.election.enable": str(may_be_cut).lower(), "min.insync.replicas": "1"}
    cluster.create_topic(name, config=config)
    cluster.reassign(name, 0, [LEADER, BEHIND] if may_be_cut else [THIRD])
    cluster.move_leader(name, 0, LEADER if may_be_cut else THIRD)
    return name


def fill(cluster: KafkaCluster, topic: str, text: str, start: int, end: int) -> None:
    cluster.produce(topic, [Record(b"k", f"{text}{i}".encode()) for i in range(start, end)])


def run(task: CopyTask, kind: type, **parameters: Any) -> dict[str, Any]:
    if kind is Stream:
        task.store = TaskStateStore()
    return task.run(kind, **parameters)


def test_copies_over_an_unclean_election(
    cluster: KafkaCluster, connection: Callable[..., None], in_process_spark: InProcessSpark, tmp_path: Path
) -> None:
    connection("kafka_default", extra={"bootstrap.servers": cluster.bootstrap_servers})
    connection("spark_default", conn_type="spark", host="local[2]")
    cases: list[tuple[str, CopyTask, type]] = []
    for side, kind, provenance in product(("source", "target"), (Batch, Stream), ("headers", "segments")):
        name = f"{side}-{kind.__name__}-{provenance}"
        source = new_topic(cluster, f"{name}-s", may_be_cut=side == "source")
        target = new_topic(cluster, f"{name}-t", may_be_cut=side == "target")
        given = {"target_topic": target, "preserve_partition": True, "provenance": provenance}
        cases.append((side, CopyTask(cluster, in_process_spark, tmp_path / name, [source], given), kind))
        fill(cluster, source, "old", 0, KEPT)
        if kind is Stream:
            cases[-1][1].run(kind)
    cluster.kill(BEHIND)
    for side, task, kind in cases:
        fill(cluster, task.source, "old", KEPT, LOST)
        if kind is Batch:
            task.lose_report()
        else:
            run(task, kind)
            if side == "target":
                # Killed between the last records and the commit of the batch.
                (task.checkpoint / "generation-0" / "commits" / "1").unlink()
        assert task.values() == OLD
    cut = [task.source if side == "source" else task.target for side, task, _ in cases]
    cluster.kill(LEADER)
    cluster.start_node(BEHIND)
    until(lambda: all(cluster.leader(topic, 0) == BEHIND for topic in cut), "the other one leads", seconds=120)
    cluster.start_node(LEADER)
    for side, task, _ in cases:
        if side == "source":
            fill(cluster, task.source, "new", 0, len(NEW))
        else:
            cluster.produce(task.target, [Record(b"k", b"foreign")] * FOREIGN.total())

    for side, task, kind in cases:
        if side == "source":
            with pytest.raises(AirflowFailException, match=rf"DataLossError: .*cut at {KEPT} by an unclean leader"):
                run(task, kind)
            run(task, kind, fail_on_data_loss=False)
            # A batch copies all again, under a new run id; a stream what it had not read.
            again = Counter({b"old%d" % i: 1 for i in range(KEPT)}) if kind is Batch else Counter[bytes]()
            assert task.values() == OLD + NEW + again, task.source
        else:
            assert OLD - task.values() != Counter()
            run(task, kind)
            assert task.values() == OLD + FOREIGN, task.source
