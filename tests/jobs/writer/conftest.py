"""The writer alone: a mark and slots as a driver commits them, and Spark in the tests' own process."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange
from airflow_provider_kafka_spark.core.offsets.pieces import Piece, cut
from airflow_provider_kafka_spark.core.wire.protocol import Transform
from airflow_provider_kafka_spark.core.wire.writer_messages import (
    Owner,
    Slot,
    TaskFailure,
    WriterSettings,
    task_text,
)
from airflow_provider_kafka_spark.jobs.kafka_rdd import read_tasks
from airflow_provider_kafka_spark.jobs.record_writer import TaskMonitor, WriteResult, run_writer
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class TaskFailedError(Exception):
    """A Spark task failed by name."""

    def __init__(self, failure: TaskFailure) -> None:
        super().__init__(failure.message)
        self.failure = failure


@dataclass
class WriterJob:
    """One Spark task, from the start of a topic, into another one: one piece, unless it is cut.

    :param source_broker: where the source is.
    :param broker: where the target is.
    """

    spark: SparkSession
    source_broker: KafkaBroker
    broker: KafkaBroker
    source: str
    target: str
    until: int
    prefix: str = field(default_factory=lambda: f"run-{uuid4().hex[:12]}-")
    options: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        span = OffsetRange(self.source, 0, 0, self.until)
        self.pieces: tuple[Piece, ...] = cut({span: 0}, [[span]], {})
        #: What Spark reads.
        self.spans = self.pieces[0].spans
        self.slot = Slot(f"{self.prefix}slot", self.target, 0)
        #: Of the pieces after the first one, by name.
        self.slots: dict[str, Slot] = {}
        self.settings = WriterSettings(
            run_id="0123456789abcdef",
            provenance_header="from",
            transform=Transform(topic=self.target, preserve_timestamps=False),
            target_ids={},
            columns=None,
            delivery_timeout_ms=30_000,
            stall_timeout_ms=120_000,
            commit_records=50,
            commit_ms=2_000,
            owner=Owner(f"{self.prefix}owner", self.target, 1, "mine"),
            id_prefix=f"{self.prefix}task-",
            delivered=False,
            pace=None,
            producer={"bootstrap.servers": self.broker.bootstrap_servers, "linger.ms": "5"},
        )

    @property
    def transactional_id(self) -> str:
        return f"{self.settings.id_prefix}{self.pieces[0].name}"

    @property
    def batch_consumer(self) -> dict[str, str]:
        """Settings of a consumer of batches."""
        return {
            "bootstrap.servers": self.source_broker.bootstrap_servers,
            "isolation.level": "read_committed",
            "auto.offset.reset": "none",
            "enable.auto.commit": "false",
            "fetch.max.wait.ms": "50",
        }

    def claim(self, number: int = 1, driver: str = "mine") -> None:
        """Commit the mark of a submission."""
        self._commit(f"{self.prefix}owner", 0, json.dumps({"number": number, "token": driver}))

    def open(self, name: str | None = None, position: int = 0) -> None:
        """Commit the slot, by default at the start of the piece."""
        self._commit(self.slot.group, position, f"{name or self.pieces[0].name}\n")

    def cut(self, offset: int) -> None:
        """Two pieces, each with a slot."""
        whole = OffsetRange(self.source, 0, 0, self.until)
        spans = [replace(whole, until_offset=offset), replace(whole, from_offset=offset)]
        self.pieces = cut({span: i for i, span in enumerate(spans)}, [[span] for span in spans], {})
        self.spans = tuple(spans)
        self.slots = {self.pieces[1].name: Slot(f"{self.prefix}slot-1", self.target, 0)}
        self.open()
        self._commit(f"{self.prefix}slot-1", offset, f"{self.pieces[1].name}\n")

    def change(self, **settings: Any) -> None:
        """Other settings, or other fields of the transformation."""
        changes = {name: settings.pop(name) for name in list(settings) if name in Transform.__dataclass_fields__}
        self.settings = replace(self.settings, transform=replace(self.settings.transform, **changes), **settings)

    def run(self, records: Callable[[Any], Any] = lambda records: records) -> WriteResult:
        """Run the writer.

        :param records: makes what is written of the records of the source.
        :raises TaskFailedError: by the failure that the driver learns of.
        """
        from py4j.protocol import Py4JJavaError

        context = self.spark.sparkContext
        group = f"writer-{uuid4()}"
        context.setJobGroup(group, "a test of the writer")
        options = {"kafka.bootstrap.servers": self.source_broker.bootstrap_servers, **self.options}
        source = read_tasks(self.spark, [self.spans], options, transaction_timeout_ms=4_000)
        texts = [task_text(self.pieces, {self.pieces[0].name: self.slot, **self.slots})]
        with TaskMonitor(context, group) as monitor:
            try:
                return run_writer(context, records(source), self.settings, texts, monitor)
            except Py4JJavaError as error:
                if monitor.failure is None:
                    raise
                raise TaskFailedError(monitor.failure) from error

    def failure(self, records: Callable[[Any], Any] = lambda records: records) -> TaskFailure:
        """The failure of a run."""
        with pytest.raises(TaskFailedError) as caught:
            self.run(records)
        return caught.value.failure

    def written(self) -> list[bytes | None]:
        """What a reader of committed records sees."""
        return [record.value for record in self.broker.consume(self.target)]

    def _commit(self, group: str, offset: int, metadata: str) -> None:
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap_servers})
        partition = TopicPartition(self.target, 0, offset, metadata=metadata)
        request = ConsumerGroupTopicPartitions(group, [partition])
        deadline = time.monotonic() + 30
        while True:
            (future,) = admin.alter_consumer_group_offsets([request]).values()
            errors = [p.error for p in future.result(30).topic_partitions if p.error]
            if not errors:
                return
            # A new broker makes the topic of committed offsets first.
            assert time.monotonic() < deadline, errors
            time.sleep(0.1)
