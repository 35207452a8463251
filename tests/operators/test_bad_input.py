"""Every kind of check that ``execute`` makes gives one clear error before Spark starts, and leaves nothing.

Which values a rule refuses is in the tests of the rule. Each row is run through the operator's own ``execute`` against
a real broker, with a ``spark-submit`` that would record that it was started.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_kafka_spark.core.codec import encode
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


def audit_of(evidence: dict[str, Any] | None = None, without: str | None = None, **changes: Any) -> Make:
    def make(w: World) -> Arguments:
        result = result_of_copy(w, evidence, **changes)
        return {"of": {name: value for name, value in result.items() if name != without}}

    return make


def audit_with(**parameters: Any) -> Make:
    return lambda w: {"of": result_of_copy(w), **parameters}


def audit_without(provenance: Any) -> Make:
    """Of a copy whose result does not say where its records are."""

    def make(w: World) -> Arguments:
        return audit_of({"transform": encode(Transform(topic=w.target, provenance=provenance))})(w)

    return make


def audits_of_two_targets(w: World) -> Arguments:
    other = CopyEvidence(Transform(topic=w.source)).to_dict()
    ranges = [{"topic": w.source, "partition": 0, "from_offset": 10, "until_offset": 12, "records_read": 2}]
    ranges[0]["records_written"] = 2
    return {"of": [result_of_copy(w), result_of_copy(w, other, ranges=ranges, target_topics=[w.source])]}


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


def relative_cache(w: World) -> Arguments:
    w.monkeypatch.setenv(CACHE_FOLDER.variable, "cache")
    return replay()(w)


def connector_that_others_may_write(w: World) -> Arguments:
    jar = w.folder / "jars/spark-sql-kafka-0-10_2.13-4.0.0.jar"
    jar.parent.mkdir()
    jar.touch()
    jar.parent.chmod(0o777)
    return replay(kafka_connector=str(jar.parent))(w)


def row(kind: type[KafkaSparkError], make: Make, *says: str) -> Any:
    """One bad input: the error, the arguments, and what the message must say; ``{source}`` and so on are filled in."""
    return pytest.param(kind, make, says, id=f"{kind.__name__}-{says[-1]}")


NOWHERE = "nowhere"
ROWS = [
    # Audits
    row(AuditInputError, lambda _: {"of": "no result"}, "of must be the result", "dag_id.task_id"),
    row(AuditInputError, lambda _: {"of": 7}, "of must be the result", "got int"),
    row(AuditInputError, lambda _: {"of": []}, "at least one copy", "empty list"),
    row(AuditInputError, lambda _: {"of": ["a"]}, "must be an object", "got str"),
    row(AuditInputError, audit_of(version=2), "must have version 1"),
    row(AuditInputError, audit_of(without="evidence"), "the key 'evidence'", "earlier version"),
    row(AuditInputError, audit_of(state="planned"), "plan_only=True", "copied nothing"),
    row(AuditInputError, audit_of(run_id="../../x"), "16 hexadecimal digits", "'../../x'"),
    row(AuditInputError, audit_of(ranges=[{}]), "as its task returned it"),
    row(AuditInputError, audit_of(target_topics=["a b"]), "as its task returned it", "'a b'"),
    row(AuditInputError, audit_of({"transform": {"where": 1}}), "as its task", "unknown"),
    row(AuditInputError, audit_of({"version": 9}), "must be of version 2", "got 9"),
    row(AuditInputError, audit_without(None), "provenance='headers'", "run 0123456789abcdef"),
    row(AuditInputError, audit_without("segments"), "with segments in its result"),
    row(AuditInputError, audits_of_two_targets, "must have the same target", "one by one"),
    row(AuditInputError, audit_of({"target_cluster_id": "x"}), "connection of the target must lead", "id x"),
    row(TopicRecreatedError, audit_of(target_topics=[NOWHERE]), "The target topic 'nowhere' must still exist"),
    row(OptionError, audit_with(source_options={"startingOffsets": "1"}), "startingOffsets"),
    row(InvalidInputError, audit_with(source_conn_id=" "), "source_conn_id must be"),
    # Ranges
    row(OffsetRangeError, replay(offset_ranges=["{source}:1:-5:10"]), "topic:partition:from:until", "{source}:1:-5:10"),
    row(OffsetRangeError, replay(offset_ranges=["{source}:1:0:5", "{source}:1:4:9"]), "overlap", "merge_overlaps=True"),
    row(OffsetRangeError, replay(offset_ranges="[{'topic': 'x'}]"), "a list, or a JSON list", "params.ranges | tojson"),
    row(OffsetRangeError, replay(offset_ranges=None), "exactly one of", "got neither"),
    row(UnknownTopicError, replay(offset_ranges=["{source}-x:0:0:5"]), "'{source}-x' does not exist", "kafka_default"),
    row(UnknownTopicError, replay(offset_ranges=["{source}:2:0:5"]), "{source}[2] does not exist", "has 2 partitions"),
    row(PlanError, replay(offset_ranges=["{source}:1:5:11"]), "beyond the log", "got 11 for {source}[1]", "ends at 10"),
    row(DataLossError, replay(offset_ranges=["{source}:0:5:20"]), "{source}[0] 5 to 10", "aged out", "fail_on_data_lo"),
    # Selections and bounds
    row(InvalidInputError, copy(assign=None), "exactly one of topics", "got none of them"),
    row(InvalidInputError, copy(assign=None, topics={"a": 1}), "topics must be a list"),
    row(InvalidInputError, copy(assign=None, topic_pattern="or(ders"), "regular expression", "'or(ders'"),
    row(UnknownTopicError, copy(assign=None, topic_pattern="bad-input-source"), "matches none", "whole name"),
    row(UnknownTopicError, lambda w: copy(assign={w.source[:-1]: [0]})(w), "Did you mean '{source}'"),
    row(UnknownTopicError, copy(assign={SOURCE: [0, 7]}), "{source}[7] does not exist"),
    row(BoundError, copy(starting_offsets="erliest"), "starting_offsets must be 'earliest'", "'erliest'"),
    row(
        BoundError, copy(starting_offsets={SOURCE: {"1": 8}}, ending_offsets={SOURCE: {"1": 3}}),
        "{source}[1] would start at 8 and end at 3",
    ),
    row(PlanError, copy(ending_offsets={SOURCE: {"1": 99}}), "beyond the log", "got 99 for {source}[1]"),
    row(
        DataLossError, copy(assign=None, topics=[SOURCE], starting_offsets={SOURCE: {"0": 3, "1": 0}}),
        "{source}[0] 3 to 10", "aged out",
    ),
    # Windows
    row(BoundError, window("2026-11-20T10:00:00", NOON), "starting_timestamp must have a time zone", "Add 'Z'"),
    row(BoundError, window(NOON, datetime.now(timezone.utc) + timedelta(days=1)), "must not lie in the future", "Wait"),
    row(BoundError, window(NOON, NOON), "zero width", "CronDataIntervalTimetable"),
    row(BoundError, window("", ""), "gave ''", "no data interval"),
    row(BoundError, window("None", "None"), "gave 'None'", "no data interval", "CronTriggerTimetable"),
    row(BoundError, window(NOON, None, starting_offsets={"t": {"0": 1}}), "contradict", "give one of the two"),
    row(BoundError, copy(exact_window=True), "exact_window=True needs", "got neither"),
    # Targets
    row(TargetError, copy(target_topic=None), "exactly one of target_topic", "got neither"),
    row(TargetError, replay(target_topic=None, topic_map={"other": "b"}), "a target for each", "none for '{source}'"),
    row(
        OptionError, replay(target_topic=None, target_topic_expr="topic", create_target_topics=True),
        "create_target_topics=True needs names", "Pass target_topic or topic_map",
    ),
    row(TargetError, replay(target_topic="bad-input-nowhere"), "does not exist", "Create it"),
    row(TargetError, replay(preserve_partition=True), "at least 2 partitions", "has 1", "Add partitions"),
    row(TargetError, lambda w: replay(target_topic=w.source)(w), "'{source}' is also read", "allow_same_topic"),
    row(InvalidInputError, replay(columns={"timestamp": "now()"}), "columns may set key, value, headers, partition"),
    row(InvalidInputError, replay(preserve_partition=True, columns={"partition": "0"}), "contradict"),
    row(InvalidInputError, replay(target_topic=["orders"]), "target_topic must be text", "got ['orders']"),
    row(ExpressionError, replay(where="uper(topic) = 'A'"), "where must call", "Did you mean upper()?"),
    # Options
    row(OptionError, replay(source_options={"kafka.max.pol.records": 5}), "has no option", "Did you mean"),
    row(OptionError, replay(sink_options={"kafka.interceptor.classes": "com.example.Sent"}), "allow_client_classes"),
    row(OptionError, replay(sink_options={"kafka.acks": 1}), "must not set 'kafka.acks'", "delivered"),
    row(OptionError, replay(sink_options={"kafka.sasl.jaas.config": "s3cr3t"}), "the Airflow connection sets it"),
    row(OptionError, replay(isolation_level="committed"), "isolation_level must be one of", "got 'committed'"),
    row(OptionError, replay(delivery="exactly_one"), "got 'exactly_one'. Did you mean 'exactly_once'?"),
    row(OptionError, replay(max_records_per_partition=10), "max_records_per_partition=10", "preserve_order=False"),
    row(OptionError, replay(conf={"spark.speculation": "true"}), "conf must not set spark.speculation='true'"),
    row(
        OptionError, replay(conf={"spark.task.maxFailures": "4"}, delivery="at_least_once"),
        "conf must not set spark.task.maxFailures='4'",
    ),
    row(OptionError, replay(conf=["spark.speculation"]), "conf must map", "got ['spark.speculation']"),
    row(OptionError, replay(deploy_mode="Cluster"), "deploy_mode must be 'client' or 'cluster'", "got 'Cluster'"),
    row(OptionError, replay(repositories="https://me:hunter2@maven.example.com"), "repositories must have no password"),
    row(OptionError, replay(kafka_timeout=0), "kafka_timeout must be a number of seconds greater than 0", "got 0"),
    # Connections and brokers
    row(ConnectionConfigError, replay(source_conn_id=NOWHERE), "'nowhere' does not exist", "AIRFLOW_CONN_NOWHERE"),
    row(ConnectionConfigError, replay(target_conn_id=NOWHERE), "Kafka connection 'nowhere' does not exist"),
    row(ConnectionConfigError, replay(spark_conn_id=NOWHERE), "Spark connection 'nowhere' does not exist"),
    row(ConnectionConfigError, connected("kafka_list", lambda _: '["broker-1:9092"]'), "JSON object", "got a list"),
    row(ConnectionConfigError, connected("kafka_bare", lambda _: {"client.id": "x"}), "bootstrap.servers", "Add it"),
    row(BrokerUnavailableError, connected("kafka_dead", _closed, kafka_timeout=2), "127.0.0.1:{closed_port}", "are up"),
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
    row(OptionError, relative_cache, "[kafka_spark] cache_folder", "absolute path", "got 'cache'"),
    row(JarError, connector_that_others_may_write, "jars must belong to this user", "chmod go-w {folder}/jars"),
    row(ReportLocationError, replay(deploy_mode="cluster"), "report_location", "got none", "'spark_default'"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "make", "says"), ROWS)
def test_bad_input(
    kafka: KafkaBroker,
    world: World,
    recording_spark: RecordingSpark,
    traces: Traces,
    caplog: pytest.LogCaptureFixture,
    kind: type[KafkaSparkError],
    make: Make,
    says: tuple[str, ...],
) -> None:
    """One error, of its own class, that says what was expected, got, where and what to do; no Spark, record, file or
    memory of it.
    """
    operator, store = operator_of(make(world)), TaskStateStore()
    before = kafka.offsets(world.target), kafka.offsets(world.source)

    began = time.monotonic()
    with pytest.raises(KafkaSparkError if kind.retriable else AirflowFailException) as raised:
        operator.execute(task_context(store))  # type: ignore[arg-type]

    assert time.monotonic() - began < 30
    message = str(raised.value)
    if kind.retriable:
        assert type(raised.value) is kind
    else:
        assert type(raised.value.__cause__) is kind
        assert message.startswith(f"{kind.__name__}: ")
    wanted = [fragment.format_map(vars(world)) for fragment in says]
    assert [fragment for fragment in wanted if fragment not in message] == [], message
    assert "s3cr3t" not in message + caplog.text
    assert recording_spark.requests == []
    assert (traces.files, traces.processes, children_with("py4j.GatewayServer")) == ([], [], [])
    assert (kafka.offsets(world.target), kafka.offsets(world.source)) == before
    assert has_submitted_nothing(store)


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
