"""A task that copies topics in the tests' own Spark, with its tries and clears; and rows that stand for a product."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG, Asset
from airflow.sdk.exceptions import AirflowFailException
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient

from airflow_provider_kafka_spark.core.errors import JobReportMissingError
from airflow_provider_kafka_spark.hooks.spark_job import SparkJobHook
from airflow_provider_kafka_spark.operators.audit import AuditReplayOperator
from airflow_provider_kafka_spark.operators.available_now import KafkaToKafkaAvailableNowOperator as Stream
from airflow_provider_kafka_spark.operators.batch import KafkaToKafkaBatchOperator as Batch
from airflow_provider_kafka_spark.operators.replay import ReplayOffsetRangesOperator as Replay
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.airflow_fakes import TaskStateStore, Try, task_context
from tests.in_process_jobs import InProcessSpark

KINDS = (Batch, Replay, Stream)


@dataclass
class CopyTask:
    """A task, and its tries.

    :param given: its parameters, as far as a try has no others.
    :param map_index: of a mapped task.
    :param run_id: of the DAG run.
    :param dag: that has the mapped task.
    :param assets: that Airflow knows.
    """

    kafka: KafkaBroker
    spark: InProcessSpark
    folder: Path
    sources: list[str]
    given: dict[str, Any]
    store: TaskStateStore = field(default_factory=TaskStateStore)
    tries: int = 0
    clears: int = 0
    operator: Any = None
    context: dict[str, Any] = field(default_factory=dict)
    map_index: int = -1
    dag: DAG | None = None
    assets: Sequence[Asset] = ()
    run_id: str = "manual__2026-11-20"
    #: When the DAG run was due.
    due: datetime | None = None

    def run(self, kind: type = Batch, **parameters: Any) -> dict[str, Any]:
        """The next try, as Airflow renders and executes it; a parameter that is None is not given. A replay has two
        ranges of each partition, and a plan nothing else.
        """
        given: dict[str, Any] = {"topics": self.sources, **self.given}
        if kind is Replay:
            given |= {"topics": None, "offset_ranges": list(self._halves())}
        if kind is Stream:
            given |= {"checkpoint_location": str(self.checkpoint), "starting_offsets": "earliest"}
        given = parameters if "plan" in parameters else {**given, **parameters}
        # Without provenance is a choice.
        given = {name: value for name, value in given.items() if value is not None or name == "provenance"}
        self.operator = kind(task_id="task", **given)
        self.operator.render_template_fields({})
        self.tries += 1
        tries = {"try_number": self.tries, "max_tries": 3 + self.clears}
        ti = Try(**tries, map_index=self.map_index, run_id=self.run_id)
        self.context = task_context(self.store, clear_number=self.clears, ti=ti, dag=self.dag, assets=self.assets)
        self.context["dag_run"].run_after = self.due
        return self.operator.execute(self.context)  # type: ignore[no-any-return]

    def succeed(self, kind: type = Batch, **parameters: Any) -> dict[str, Any]:
        """A try whose success the operator hears of."""
        result = self.run(kind, **parameters)
        for callback in self.operator.on_success_callback:
            callback({"task": self.operator, **self.context})
        return result

    def clear(self, kind: type = Batch, **parameters: Any) -> dict[str, Any]:
        """The first run, and then each time one more, which succeeds."""
        self.clears += self.tries > 0
        return self.succeed(kind, **parameters)

    def lose_report(self, kind: type = Batch, **parameters: Any) -> None:
        """A try whose job does all its work, and nobody hears of it."""
        real = SparkJobHook.run

        def lose(*arguments: Any) -> None:
            real(*arguments)
            raise JobReportMissingError("lost")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(SparkJobHook, "run", lose)
            with pytest.raises(JobReportMissingError, match="lost"):
                self.run(kind, **parameters)

    def die_at(self, step: str, place: Any = Batch, act: Callable[[], Any] | None = None) -> None:
        """A try that ends where a method is called, as if its worker or its driver had died.

        :param act: how the try is begun; :meth:`succeed` by default.
        """

        def die(*_: object, **__: object) -> None:
            raise RuntimeError("died here")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(place, step, die)
            with pytest.raises(Exception, match="died here"):
                (act or self.succeed)()

    def fail_at_large(self, act: Callable[[], Any] | None = None, commit_records: int = 10) -> Counter[bytes]:
        """A try that ends at a :func:`large` record, which the target refuses and takes afterwards.

        :param act: how the try is begun; :meth:`run` by default.
        :param commit_records: how many records a transaction has.
        :return: what the try has written.
        """
        self.kafka.alter_topic(self.target, {"max.message.bytes": "20000"})
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("airflow_provider_kafka_spark.jobs.write.COMMIT_RECORDS", commit_records)
            with pytest.raises(AirflowFailException, match=r"larger than max\.message\.bytes"):
                (act or self.run)()
        self.kafka.alter_topic(self.target, {"max.message.bytes": "1000000"})
        return self.values()

    def event(self, outlet: Any) -> Any:
        """What the last try announced."""
        return self.context["outlet_events"][outlet]

    def _halves(self) -> Iterator[str]:
        for source in self.sources:
            for number, (start, end) in self.kafka.offsets(source).items():
                middle = (start + end) // 2
                yield from (f"{source}:{number}:{start}:{middle}", f"{source}:{number}:{middle}:{end}")

    @property
    def source(self) -> str:
        """The only one, or the first."""
        return self.sources[0]

    @property
    def target(self) -> str:
        target: str = self.given["target_topic"]
        return target

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    def recreate(self, topic: str, partitions: int = 2) -> None:
        self.kafka.delete_topic(topic)
        self.kafka.create_topic(topic, partitions)

    def values(self, topic: str | None = None) -> Counter[bytes]:
        """How often each value is in a topic, by default the target."""
        return Counter(record.value or b"" for record in self.kafka.consume(topic or self.target))


#: Of :func:`new_task`.
NewTask = Callable[..., Any]


@pytest.fixture
def new_task(kafka: KafkaBroker, topic: TopicFactory, in_process_spark: InProcessSpark, tmp_path: Path) -> NewTask:
    """Make a task with a source and a target of its own: ``new_task(Scene, 2, 2, records, provenance=None)``.

    Its arguments are its class, the partitions of both topics, the records of the source and the task's parameters.
    """

    def make(
        kind: type[CopyTask] = CopyTask, source: int = 1, target: int = 1, records: Sequence[Record] = (), **given: Any
    ) -> CopyTask:
        sources = [topic(source, suffix="source")]
        kafka.produce(sources[0], list(records))
        given.setdefault("target_topic", topic(target, suffix="target"))
        return kind(kafka, in_process_spark, tmp_path, sources, given)

    return make


def numbered(first: int, last: int, **fields: Any) -> list[Record]:
    """Records of two partitions whose values are numbers."""
    return [Record(value=b"%d" % i, partition=i % 2, **fields) for i in range(first, last)]


def large(partition: int = 0) -> Record:
    """A record of 50 kB that does not compress."""
    return Record(b"large", os.urandom(50_000), partition=partition)


def execute(operator: Any, store: TaskStateStore | None = None, **context: Any) -> dict[str, Any]:
    """The result of a try of an operator."""
    result: dict[str, Any] = operator.execute(task_context(store, **context))
    return result


def once(first: int, last: int) -> Counter[bytes]:
    """The values of :func:`numbered` records."""
    return Counter(b"%d" % i for i in range(first, last))


def pace_groups(kafka: KafkaBroker, target: str) -> list[str]:
    """Groups by which drivers that write to a topic tell their tasks how fast they may be."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    groups = admin.list_consumer_groups(request_timeout=10).result(timeout=30).valid
    paces = [group.group_id for group in groups if group.group_id.endswith("-pace")]
    offsets = {
        group: admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(timeout=30)
        for group in paces
    }
    return [group for group in paces if target in [place.topic for place in offsets[group].topic_partitions]]


def audit(of: Any, **parameters: Any) -> dict[str, Any]:
    """The result of an audit."""
    return execute(AuditReplayOperator(task_id="audit", of=of, **parameters))


def covering(rows: list[tuple[Any, ...]], *options: Any) -> list[Any]:
    """Rows for ``parametrize`` that have each value of each option; all other combinations are for the long ring.

    :param options: the values of each column.
    """
    for column, values in enumerate(options):
        lacking = set(values) - {row[column] for row in rows}
        assert not lacking, f"no row has {lacking}"
    rest = [row for row in product(*options) if row not in rows]
    return [*rows, *(pytest.param(*row, marks=pytest.mark.long) for row in rest)]
