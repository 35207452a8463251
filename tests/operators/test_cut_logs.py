"""A source's log is cut by an unclean election and filled again between two tries: what stands at the offsets that were
read or planned before are other records. Its topic id is the same.

What only this proves: that no task takes them for those that it has copied. The log is cut in the broker's own file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_kafka_spark.core.wire.protocol import JobReport
from airflow_provider_kafka_spark.hooks.spark_job import SparkJobHook
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from tests.airflow_fakes import TaskStateStore
from tests.in_process_jobs import InProcessSpark
from tests.operators.copy_task import Batch, CopyTask, Stream
from tests.raw_batches import cut_after

pytestmark = [pytest.mark.broker, pytest.mark.spark]

#: Offsets of a batch, and of those that are left.
SIZE, LEFT = 10, 60


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    with KafkaBroker() as broker:
        yield broker


@dataclass
class Case:
    """A task that has read or planned 100 records, and what it has to do then.

    :param then: how many records are put at the end of the log that was cut to 60.
    """

    task: CopyTask
    kind: type
    then: int

    def fill(self, text: str, end: int, start: int = 0) -> None:
        # A batch is sent when it is full, however slow the machine is.
        whole = {"batch.num.messages": SIZE, "linger.ms": 10_000}
        for i in range(start, end, SIZE):
            records = [Record(b"k", f"{text}{i + j}".encode()) for j in range(SIZE)]
            self.task.kafka.produce(self.task.source, records, whole)

    def run(self, **parameters: Any) -> dict[str, Any]:
        """A retry of a batch; the next run of a stream."""
        if self.kind is Stream:
            self.task.store = TaskStateStore()
        return self.task.run(self.kind, **parameters)

    def run_after(self, act: Callable[[], Any]) -> None:
        """A run, and what happens when its plan is made."""
        run = SparkJobHook.run

        def act_first(*arguments: Any) -> JobReport:
            act()
            return run(*arguments)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(SparkJobHook, "run", act_first)
            self.run()

    def check(self) -> None:
        """Red first, with a name and a way out. Then all is there that the source has, and each record that is read
        again is there once more only where it was copied under another run.
        """
        with pytest.raises(AirflowFailException, match=r"DataLossError: .*was cut at 60 by an unclean leader election"):
            self.run()
        lost = self.run(fail_on_data_loss=False)
        now, copied = self.task.values(self.task.source), self.task.values()
        again = self.run(fail_on_data_loss=False)

        assert "was cut at 60" in str(lost)
        assert now - copied == Counter()
        old = {f"old{i}".encode(): 1 for i in range(100)}
        twice = Counter({v: 1 for v in now if v in old}) if self.kind is Batch else Counter[bytes]()
        assert copied == Counter(old) + Counter({v: 1 for v in now if v not in old}) + twice
        assert self.task.values() == copied
        assert again["records_read"] == 0 or self.kind is Batch


@pytest.fixture
def case(
    broker: KafkaBroker, connection: Callable[..., None], in_process_spark: InProcessSpark, tmp_path: Path
) -> Callable[..., Case]:
    connection("kafka_default", extra={"bootstrap.servers": broker.bootstrap_servers})
    connection("spark_default", conn_type="spark", host="local[2]")

    def make(name: str, kind: type, then: int, **parameters: Any) -> Case:
        source, target = (broker.create_topic(f"{name}-{side}") for side in ("source", "target"))
        given = {"target_topic": target, "preserve_partition": True, **parameters}
        return Case(CopyTask(broker, in_process_spark, tmp_path / name, [source], given), kind, then)

    return make


def test_other_records_at_the_same_offsets(broker: KafkaBroker, case: Callable[..., Case]) -> None:
    cases = [
        case("stream", Stream, 90),
        case("short-stream", Stream, 30),
        case("stream-with-segments", Stream, 90, provenance="segments"),
        case("batch", Batch, 90),
        case("batch-with-segments", Batch, 90, provenance="segments"),
        # Killed between the last records and the commit of a batch that goes up to 100.
        case("killed-stream", Stream, 90),
        case("killed-stream-of-a-short-log", Stream, 0),
    ]
    # Half of it has come between the plan and Spark's start.
    ahead = case("stream-ahead-of-its-plan", Stream, 90)
    ahead.fill("old", 50)
    ahead.run_after(lambda: ahead.fill("old", 100, 50))
    for c in cases:
        is_killed = "killed" in c.task.source
        c.fill("old", 30 if is_killed else 100)
        if c.kind is Batch:
            c.task.lose_report()
        else:
            c.run()
        if is_killed:
            c.fill("old", 100, 30)
            c.run()
            (c.task.checkpoint / "generation-0" / "commits" / "1").unlink()
    running, run = case("running-batch", Batch, 90), SparkJobHook.run
    running.fill("old", 100)
    cases += [ahead, running]

    def run_and_cut(*arguments: Any) -> JobReport:
        report = run(*arguments)
        cut_after(broker, {c.task.source: LEFT // SIZE for c in cases})
        for c in cases:
            c.fill("new", c.then)
        return report

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SparkJobHook, "run", run_and_cut)
        with pytest.raises(AirflowFailException, match=r"DataLossError: .*running-batch-source\[0\] was cut at 60"):
            running.run()
    for c in cases:
        c.check()
