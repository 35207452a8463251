"""Every kind of check that ``execute`` makes gives one clear error before Spark starts, and leaves nothing.

Which values a rule refuses is in the tests of the rule. Each row is run through the operator's own ``execute`` against
a real broker, with a ``spark-submit`` that would record that it was started.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_kafka_spark.core.errors import (
    AuditInputError,
    BoundError,
    BrokerAuthenticationError,
    BrokerTlsError,
    BrokerUnavailableError,
    ConnectionConfigError,
    DataLossError,
    ExpressionError,
    InvalidInputError,
    JarError,
    JavaNotFoundError,
    JobReportMissingError,
    KafkaSparkError,
    OffsetRangeError,
    OptionError,
    PlanError,
    ReportLocationError,
    SparkSubmitNotFoundError,
    TargetError,
    TopicRecreatedError,
    UnknownTopicError,
)
from airflow_provider_kafka_spark.core.evidence import CopyEvidence
from airflow_provider_kafka_spark.core.protocol import Transform
from airflow_provider_kafka_spark.operators.audit import AuditReplayOperator
from airflow_provider_kafka_spark.operators.batch import KafkaToKafkaBatchOperator
from airflow_provider_kafka_spark.operators.replay import ReplayOffsetRangesOperator
from airflow_provider_kafka_spark.operators.spark_job import SparkJobOperator
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from airflow_provider_kafka_spark.toolchain.settings import CACHE_FOLDER, MAVEN_REPOSITORY
from tests.airflow_fakes import TaskStateStore, task_context
from tests.child_processes import children_with
from tests.operators.conftest import RecordingSpark, Traces, has_submitted_nothing
from tests.services.certificates import CertificateAuthority

pytestmark = pytest.mark.broker

NOON = datetime(2026, 11, 20, 12, tzinfo=timezone.utc)


@dataclass(frozen=True)
class World:
    """What every row finds: a source of two partitions (30 and 10 records, the first 10 of partition 0 aged out) and an
    empty target of one.
    """

    source: str
    target: str
    connection: Callable[..., None]
    monkeypatch: pytest.MonkeyPatch
    folder: Path
    closed_port: int
    secured: KafkaBroker


Arguments = dict[str, Any]
Make = Callable[[World], Arguments]


@pytest.fixture(scope="module")
def topics(kafka_broker: KafkaBroker) -> Iterator[tuple[str, str]]:
    """Made once: no row writes to them."""
    suffix = uuid4().hex[:8]
    source = kafka_broker.create_topic(f"bad-input-source-{suffix}", 2)
    target = kafka_broker.create_topic(f"bad-input-target-{suffix}", 1)
    kafka_broker.produce(source, [Record(b"k", b"v", partition=0) for _ in range(30)])
    kafka_broker.produce(source, [Record(b"k", b"v", partition=1) for _ in range(10)])
    kafka_broker.delete_records(source, {0: 10})
    yield source, target
    kafka_broker.delete_topic(source)
    kafka_broker.delete_topic(target)


@pytest.fixture
def world(
    kafka: KafkaBroker,
    topics: tuple[str, str],
    secured_broker: KafkaBroker,
    connection: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Iterator[World]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield World(*topics, connection, monkeypatch, tmp_path, taken.getsockname()[1], secured_broker)


def replay(**changes: Any) -> Make:
    """Arguments of a good replay, with changes; ``{source}`` in a range is filled in."""

    def make(w: World) -> Arguments:
        ranges = changes.get("offset_ranges", ["{source}:1:0:10"])
        given = [each.format(source=w.source) for each in ranges] if isinstance(ranges, list) else ranges
        return {"target_topic": w.target, **changes, "offset_ranges": given}

    return make


def copy(**changes: Any) -> Make:
    """Arguments of a copy of the source's partition 1, with changes; ``SOURCE`` is the source."""

    def make(w: World) -> Arguments:
        given = {"assign": {SOURCE: [1]}, "target_topic": w.target, **changes}
        return {name: value for name, value in _of(w, given).items() if value is not None}

    return make


SOURCE = "the source"


def _of(w: World, value: Any) -> Any:
    if isinstance(value, dict):
        return {_of(w, name): _of(w, each) for name, each in value.items()}
    if isinstance(value, list):
        return [_of(w, each) for each in value]
    return w.source if value == SOURCE else value


def window(start: object, end: object, **more: Any) -> Make:
    return copy(starting_timestamp=start, ending_timestamp=end, **more)


def result_of_copy(w: World, evidence: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """What a good copy returned, with changes."""
    ranges = [{"topic": w.source, "partition": 1, "from_offset": 0, "until_offset": 10, "records_read": 10}]
    ranges[0]["records_written"] = 10
    how = CopyEvidence(Transform(topic=w.target)).to_dict()
    return {
        "version": 1,
        "run_id": "0123456789abcdef",
        "ranges": ranges,
        "target_topics": [w.target],
        "target_ranges": [],
        "records_written": 10,
        "evidence": {**how, **(evidence or {})},
        **changes,
    }


def audit_of(evidence: dict[str, Any] | None = None, **changes: Any) -> Make:
    return lambda w: {"of": result_of_copy(w, evidence, **changes)}


def audit_with(**parameters: Any) -> Make:
    return lambda w: {"of": result_of_copy(w), **parameters}


def connected(conn_id: str, extra: Callable[[World], Any], **changes: Any) -> Make:
    """A good replay with a connection of this name."""

    def make(w: World) -> Arguments:
        w.connection(conn_id, extra=extra(w))
        return replay(**{"source_conn_id": conn_id, **changes})(w)

    return make


def _closed(w: World) -> dict[str, Any]:
    return {"bootstrap.servers": f"127.0.0.1:{w.closed_port}"}


def _wrong_password(w: World) -> dict[str, Any]:
    return {**w.secured.sasl_client_config("copier"), "sasl.password": "s3cr3t-and-wrong"}


def _unknown_authority(w: World) -> dict[str, Any]:
    extra = w.secured.sasl_client_config("copier", tls=True)
    return {**extra, "ssl.ca.pem": CertificateAuthority().ca_pem}


def no_java(w: World) -> Arguments:
    w.monkeypatch.setenv("JAVA_HOME", str(w.folder))
    return replay()(w)


def no_connector_for_this_spark(w: World) -> Arguments:
    """A Spark whose version is not in the repository."""
    home, repository = w.folder / "future", w.folder / "repository"
    (home / "jars").mkdir(parents=True)
    (home / "jars/spark-core_2.13-9.9.9.jar").touch()
    repository.mkdir()
    w.monkeypatch.setenv("SPARK_HOME", str(home))
    w.monkeypatch.setenv(MAVEN_REPOSITORY.variable, repository.as_uri())
    w.monkeypatch.setenv(CACHE_FOLDER.variable, str(w.folder / "cache"))
    return replay()(w)


Row = tuple[type[KafkaSparkError], Make, tuple[str, ...]]


def row(kind: type[KafkaSparkError], make: Make, *says: str) -> Row:
    """One bad input: the error, the arguments, and what the message must say; ``{source}`` and so on are filled in."""
    return kind, make, says


NOWHERE = "nowhere"
ROWS: list[Row] = [
    # Audits
    row(AuditInputError, lambda _: {"of": "no result"}, "of must be the result", "dag_id.task_id"),
    row(AuditInputError, audit_of({"target_cluster_id": "x"}), "connection of the target must lead", "id x"),
    row(TopicRecreatedError, audit_of(target_topics=[NOWHERE]), "The target topic 'nowhere' must still exist"),
    row(OptionError, audit_with(source_options={"startingOffsets": "1"}), "startingOffsets"),
    row(InvalidInputError, audit_with(source_conn_id=" "), "source_conn_id must be"),
    # Ranges
    row(OffsetRangeError, replay(offset_ranges=["{source}:1:0:5", "{source}:1:4:9"]), "overlap", "merge_overlaps=True"),
    row(OffsetRangeError, replay(offset_ranges="[{'topic': 'x'}]"), "a list, or a JSON list", "params.ranges | tojson"),
    row(OffsetRangeError, replay(offset_ranges=None), "exactly one of", "got neither"),
    row(UnknownTopicError, replay(offset_ranges=["{source}-x:0:0:5"]), "'{source}-x' does not exist", "kafka_default"),
    row(PlanError, replay(offset_ranges=["{source}:1:5:11"]), "beyond the log", "got 11 for {source}[1]", "ends at 10"),
    row(DataLossError, replay(offset_ranges=["{source}:0:5:20"]), "{source}[0] 5 to 10", "aged out", "fail_on_data_lo"),
    # Selections and bounds
    row(InvalidInputError, copy(assign=None), "exactly one of topics", "got none of them"),
    row(BoundError, copy(starting_offsets="erliest"), "starting_offsets must be 'earliest'", "'erliest'"),
    row(
        DataLossError, copy(assign=None, topics=[SOURCE], starting_offsets={SOURCE: {"0": 3, "1": 0}}),
        "{source}[0] 3 to 10", "aged out",
    ),
    # Windows
    row(BoundError, window(NOON, datetime.now(timezone.utc) + timedelta(days=1)), "must not lie in the future", "Wait"),
    row(BoundError, window("None", "None"), "gave 'None'", "no data interval", "CronTriggerTimetable"),
    row(BoundError, copy(exact_window=True), "exact_window=True needs", "got neither"),
    # Targets
    row(TargetError, copy(target_topic=None), "exactly one of target_topic", "got neither"),
    row(TargetError, replay(target_topic="bad-input-nowhere"), "does not exist", "Create it"),
    row(InvalidInputError, replay(columns={"timestamp": "now()"}), "columns may set key, value, headers, partition"),
    row(InvalidInputError, replay(preserve_partition=True, columns={"partition": "0"}), "contradict"),
    row(InvalidInputError, replay(target_topic=["orders"]), "target_topic must be text", "got ['orders']"),
    row(ExpressionError, replay(where="uper(topic) = 'A'"), "where must call", "Did you mean upper()?"),
    # Options
    row(OptionError, replay(sink_options={"kafka.interceptor.classes": "com.example.Sent"}), "allow_client_classes"),
    row(OptionError, replay(sink_options={"kafka.acks": 1}), "must not set 'kafka.acks'", "delivered"),
    row(OptionError, replay(sink_options={"kafka.sasl.jaas.config": "s3cr3t"}), "the Airflow connection sets it"),
    row(OptionError, replay(max_records_per_partition=10), "max_records_per_partition=10", "preserve_order=False"),
    row(
        OptionError, replay(conf={"spark.task.maxFailures": "4"}, delivery="at_least_once"),
        "conf must not set spark.task.maxFailures='4'",
    ),
    row(OptionError, replay(repositories="https://me:hunter2@maven.example.com"), "repositories must have no password"),
    # Connections and brokers
    row(ConnectionConfigError, replay(source_conn_id=NOWHERE), "'nowhere' does not exist", "AIRFLOW_CONN_NOWHERE"),
    row(ConnectionConfigError, replay(spark_conn_id=NOWHERE), "Spark connection 'nowhere' does not exist"),
    row(ConnectionConfigError, connected("kafka_list", lambda _: '["broker-1:9092"]'), "JSON object", "got a list"),
    row(
        BrokerUnavailableError,
        connected("kafka_dead", _closed, source_conn_id="kafka_default", target_conn_id="kafka_dead", kafka_timeout=2),
        "127.0.0.1:{closed_port}", "'kafka_dead'",
    ),
    row(BrokerAuthenticationError, connected("kafka_wrong", _wrong_password), "refused the user", "sasl.password"),
    row(BrokerTlsError, connected("kafka_ca", _unknown_authority), "an unknown authority (CA)", "ssl.ca.location"),
    # Spark
    row(JavaNotFoundError, no_java, "Java 17 or newer", "JAVA_HOME='{folder}'", "Install one"),
    row(SparkSubmitNotFoundError, replay(spark_binary="spark3-submit"), "SPARK_HOME", "kafka-spark[spark4]"),
    row(JarError, no_connector_for_this_spark, "spark-sql-kafka-0-10_2.13:9.9.9", MAVEN_REPOSITORY.variable),
    row(ReportLocationError, replay(deploy_mode="cluster"), "report_location", "got none", "'spark_default'"),
]  # fmt: skip


def test_bad_input(
    kafka: KafkaBroker,
    world: World,
    recording_spark: RecordingSpark,
    traces: Traces,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One error for each, of its own class, that says what was expected, got, where and what to do; no Spark, record,
    file or memory of it.
    """
    before = kafka.offsets(world.target), kafka.offsets(world.source)
    for kind, make, says in ROWS:
        store, began = TaskStateStore(), time.monotonic()
        with pytest.MonkeyPatch.context() as patch:
            operator = operator_of(make(replace(world, monkeypatch=patch)))
            with pytest.raises(KafkaSparkError if kind.retriable else AirflowFailException) as raised:
                operator.execute(task_context(store))  # type: ignore[arg-type]

        assert time.monotonic() - began < 30
        message = str(raised.value)
        if kind.retriable:
            assert type(raised.value) is kind, message
        else:
            assert type(raised.value.__cause__) is kind, message
            assert message.startswith(f"{kind.__name__}: ")
        wanted = [fragment.format_map(vars(world)) for fragment in says]
        assert [fragment for fragment in wanted if fragment not in message] == [], message
        assert "s3cr3t" not in message + caplog.text
        assert has_submitted_nothing(store), message
    assert recording_spark.requests == []
    assert (traces.files, traces.processes, children_with("py4j.GatewayServer")) == ([], [], [])
    assert (kafka.offsets(world.target), kafka.offsets(world.source)) == before


def test_a_good_input_reaches_spark(kafka: KafkaBroker, world: World, recording_spark: RecordingSpark) -> None:
    """The proof that the table above would notice a start of Spark."""
    with pytest.raises(JobReportMissingError):
        operator_of(replay()(world)).execute(task_context())  # type: ignore[arg-type]

    assert [request.ranges for request in recording_spark.requests] == [(f"{world.source}:1:0:10",)]


def operator_of(arguments: Arguments) -> SparkJobOperator:
    if "of" in arguments:
        return AuditReplayOperator(task_id="task", **arguments)
    if "offset_ranges" in arguments:
        return ReplayOffsetRangesOperator(task_id="task", **arguments)
    return KafkaToKafkaBatchOperator(task_id="task", **arguments)
