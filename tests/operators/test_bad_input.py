"""Every bad input gives one clear error before Spark starts, and leaves nothing.

Each row is run through the operator's own ``execute`` against a real broker, with a ``spark-submit`` that would record
that it was started.
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
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
from airflow_provider_kafka_spark.testing.kafka_broker import BrokerTls, KafkaBroker, Record
from airflow_provider_kafka_spark.toolchain.settings import CACHE_FOLDER, CLASS_ARCHIVE, MAVEN_REPOSITORY, Setting
from tests.airflow_fakes import TaskStateStore, task_context
from tests.child_processes import children_with
from tests.operators.conftest import RecordingSpark, Traces
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
    until_the_end: ExitStack


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


@pytest.fixture(scope="module")
def secured_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """At SSL its certificate is good for the address and not for ``localhost``, at SASL_SSL it has expired."""
    authority = CertificateAuthority()
    expired = authority.issue("broker", valid_until=datetime.now(timezone.utc) - timedelta(minutes=1))
    store = tmp_path_factory.mktemp("store") / "expired.pem"
    store.write_text(expired.plain_key_pem + expired.certificate_pem)
    tls = BrokerTls(authority.issue("broker", hosts=["127.0.0.1"]), authority.ca_pem)
    properties = {"listener.name.sasl_ssl.ssl.keystore.location": str(store)}
    with KafkaBroker(sasl_users={"copier": "s3cr3t-and-right"}, tls=tls, properties=properties) as broker:
        yield broker


@pytest.fixture
def world(
    kafka: KafkaBroker,
    topics: tuple[str, str],
    secured_broker: KafkaBroker,
    connection: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Iterator[World]:
    with socket.socket() as taken, ExitStack() as until_the_end:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        yield World(*topics, connection, monkeypatch, tmp_path, port, secured_broker, until_the_end)


def replay(ranges: Callable[[str], object], **more: Any) -> Make:
    """Arguments of a replay of what ``ranges`` makes of the source's name."""
    return lambda w: {"offset_ranges": ranges(w.source), "target_topic": w.target, **more}


def good_ranges(w: World) -> list[str]:
    return [f"{w.source}:1:0:10"]


def window(start: object, end: object, **more: Any) -> Make:
    """Arguments of a copy of a window of the source."""
    return lambda w: {
        "topics": [w.source],
        "starting_timestamp": start,
        "ending_timestamp": end,
        "target_topic": w.target,
        **more,
    }


def copy(**changes: Any) -> Make:
    """Arguments of a copy of the source's partition 1, with changes."""
    return lambda w: {"assign": {w.source: [1]}, "target_topic": w.target, **changes}


def replay_with(**changes: Any) -> Make:
    """Arguments of a good replay, with changes."""
    return lambda w: {"offset_ranges": good_ranges(w), "target_topic": w.target, **changes}


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
        "evidence": {**how, **(evidence or {})},
        **changes,
    }


def audit_of(evidence: dict[str, Any] | None = None, without: str | None = None, **changes: Any) -> Make:
    def make(w: World) -> Arguments:
        result = result_of_copy(w, evidence, **changes)
        return {"of": {name: value for name, value in result.items() if name != without}}

    return make


def audit_without_header(w: World) -> Arguments:
    transform = encode(Transform(topic=w.target, provenance=None))
    return {"of": result_of_copy(w, {"transform": transform})}


def audits_of_two_targets(w: World) -> Arguments:
    other = CopyEvidence(Transform(topic=w.source)).to_dict()
    ranges = [{"topic": w.source, "partition": 0, "from_offset": 10, "until_offset": 12, "records_read": 2}]
    ranges[0]["records_written"] = 2
    return {"of": [result_of_copy(w), result_of_copy(w, other, ranges=ranges, target_topics=[w.source])]}


def dictionary(**changes: object) -> Callable[[str], list[dict[str, object]]]:
    return lambda t: [{"topic": t, "partition": 1, "from_offset": 0, "until_offset": 10, **changes}]


def without_until(t: str) -> list[dict[str, object]]:
    return [{"topic": t, "partition": 1, "from_offset": 0}]


def target_of_too_few_partitions(w: World) -> Arguments:
    return {"offset_ranges": good_ranges(w), "target_topic": w.target, "preserve_partition": True}


def dead_broker(w: World) -> Arguments:
    w.connection("kafka_dead", extra={"bootstrap.servers": f"127.0.0.1:{w.closed_port}"})
    return {**replay_with()(w), "source_conn_id": "kafka_dead", "kafka_timeout": 2}


def dead_target_broker(w: World) -> Arguments:
    w.connection("kafka_dead", extra={"bootstrap.servers": f"127.0.0.1:{w.closed_port}"})
    return {**replay_with()(w), "target_conn_id": "kafka_dead", "kafka_timeout": 2}


def wrong_password(w: World) -> Arguments:
    extra = {**w.secured.sasl_client_config("copier"), "sasl.password": "s3cr3t-and-wrong"}
    w.connection("kafka_wrong", extra=extra)
    return {**replay_with()(w), "source_conn_id": "kafka_wrong"}


def unknown_authority(w: World) -> Arguments:
    w.connection("kafka_ca", extra={**w.secured.ssl_client_config(), "ssl.ca.pem": CertificateAuthority().ca_pem})
    return {**replay_with()(w), "source_conn_id": "kafka_ca"}


def expired_certificate(w: World) -> Arguments:
    w.connection("kafka_expired", extra=w.secured.sasl_client_config("copier", tls=True))
    return {**replay_with()(w), "source_conn_id": "kafka_expired"}


def certificate_of_another_host(w: World) -> Arguments:
    servers = w.secured.ssl_bootstrap_servers.replace("127.0.0.1", "localhost")
    w.connection("kafka_host", extra={**w.secured.ssl_client_config(), "bootstrap.servers": servers})
    return {**replay_with()(w), "source_conn_id": "kafka_host"}


def keytab_of_another(w: World) -> Arguments:
    names = [struct.pack(">H", len(name)) + name for name in (b"TEST.LOCAL", b"mallory")]
    entry = struct.pack(">H", 1) + b"".join(names) + struct.pack(">IIBHH", 1, 0, 1, 18, 32) + bytes(32)
    keytab = w.folder / "copier.keytab"
    keytab.write_bytes(b"\x05\x02" + struct.pack(">i", len(entry)) + entry)
    extra = {
        "bootstrap.servers": w.secured.sasl_bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.principal": "copier@TEST.LOCAL",
        "sasl.kerberos.keytab": str(keytab),
    }
    w.connection("kafka_keytab", extra=extra)
    return {**replay_with()(w), "source_conn_id": "kafka_keytab"}


def unreadable_file(w: World) -> Arguments:
    extra = w.secured.ssl_client_config()
    file = w.folder / "ca.crt"
    file.write_text(extra.pop("ssl.ca.pem"))
    file.chmod(0)
    w.connection("kafka_unreadable", extra={**extra, "ssl.ca.location": str(file)})
    w.until_the_end.enter_context(no_rights_of_root())
    return {**replay_with()(w), "source_conn_id": "kafka_unreadable"}


@contextmanager
def no_rights_of_root() -> Iterator[None]:
    """Root, too, reads in this thread only what the modes of files permit; it stays their owner."""
    libc = ctypes.CDLL(None, use_errno=True)
    # Of version 3: effective, permitted and inheritable, twice.
    header, had = struct.pack("Ii", 0x20080522, 0), ctypes.create_string_buffer(24)
    if libc.capget(header, had):
        raise OSError(ctypes.get_errno(), "capget")
    effective, *others = struct.unpack("6I", had.raw)
    reads_everything = 1 << 1 | 1 << 2  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
    if libc.capset(header, struct.pack("6I", effective & ~reads_everything, *others)):
        raise OSError(ctypes.get_errno(), "capset")
    try:
        yield
    finally:
        libc.capset(header, had)


def connection_without_servers(w: World) -> Arguments:
    w.connection("kafka_bare", extra={"client.id": "copy"})
    return {**replay_with()(w), "source_conn_id": "kafka_bare"}


def connection_of_a_list(w: World) -> Arguments:
    w.connection("kafka_list", extra='["broker-1:9092"]')
    return {**replay_with()(w), "source_conn_id": "kafka_list"}


def property_without_counterpart(w: World) -> Arguments:
    w.connection("kafka_odd", extra={"bootstrap.servers": "127.0.0.1:9", "plugin.library.paths": "monitoring"})
    return {**replay_with()(w), "source_conn_id": "kafka_odd"}


def no_java(w: World) -> Arguments:
    w.monkeypatch.setenv("JAVA_HOME", str(w.folder))
    return replay_with()(w)


def no_spark_submit(w: World) -> Arguments:
    return replay_with(spark_binary="spark3-submit")(w)


def no_connector_for_this_spark(w: World) -> Arguments:
    """A Spark whose version is not in the repository."""
    home, repository = w.folder / "future", w.folder / "repository"
    (home / "jars").mkdir(parents=True)
    (home / "jars/spark-core_2.13-9.9.9.jar").touch()
    repository.mkdir()
    w.monkeypatch.setenv("SPARK_HOME", str(home))
    w.monkeypatch.setenv(MAVEN_REPOSITORY.variable, repository.as_uri())
    w.monkeypatch.setenv(CACHE_FOLDER.variable, str(w.folder / "cache"))
    return replay_with()(w)


def setting(setting: Setting, value: str) -> Make:
    """Airflow's configuration with a wrong value."""

    def make(w: World) -> Arguments:
        w.monkeypatch.setenv(setting.variable, value)
        return replay_with()(w)

    return make


def empty_connector_folder(w: World) -> Arguments:
    (w.folder / "jars").mkdir()
    return replay_with(kafka_connector=str(w.folder / "jars"))(w)


def unreadable_jars(w: World) -> Arguments:
    # No file's mode stops root; a link that leads nowhere stops everybody.
    jar = w.folder / "jars/spark-sql-kafka-0-10_2.13-4.0.0.jar"
    jar.parent.mkdir()
    jar.symlink_to(w.folder / "gone.jar")
    return replay_with(kafka_connector=str(jar.parent))(w)


def mirror_by_plain_http(w: World) -> Arguments:
    w.monkeypatch.setenv(CACHE_FOLDER.variable, str(w.folder / "cache"))
    return setting(MAVEN_REPOSITORY, "http://user:s3cret@repo/maven2")(w)


def connector_that_others_may_write(w: World) -> Arguments:
    jar = w.folder / "jars/spark-sql-kafka-0-10_2.13-4.0.0.jar"
    jar.parent.mkdir()
    jar.touch()
    jar.parent.chmod(0o777)
    return replay_with(kafka_connector=str(jar.parent))(w)


def row(kind: type[KafkaSparkError], make: Make, *says: str, id: str) -> Any:
    """One bad input: the error, the arguments, and what the message must say; ``{source}`` and so on are filled in."""
    return pytest.param(kind, make, says, id=id)


ROWS = [
    # Audits
    row(AuditInputError, lambda _: {"of": "no result"}, "of must be the result", "dag_id.task_id", id="audit-of-text"),
    row(AuditInputError, lambda _: {"of": 7}, "of must be the result", "got int", id="audit-of-a-number"),
    row(AuditInputError, lambda _: {"of": None}, "of must be the result", "got NoneType", id="audit-of-nothing"),
    row(AuditInputError, lambda _: {"of": []}, "at least one copy", "empty list", id="audit-of-an-empty-list"),
    row(AuditInputError, lambda _: {"of": ["a"]}, "must be an object", "got str", id="audit-of-a-list-of-texts"),
    row(AuditInputError, audit_of(version=2), "must have version 1", id="audit-of-another-version"),
    row(AuditInputError, audit_of(without="run_id"), "must have version 1, run_id", "'evidence'", id="audit-no-run-id"),
    row(AuditInputError, audit_of(without="evidence"), "the key 'evidence'", "earlier version", id="audit-no-evidence"),
    row(AuditInputError, audit_of(state="planned"), "plan_only=True", "copied nothing", id="audit-of-a-plan"),
    row(AuditInputError, audit_of(run_id="../../x"), "16 hexadecimal digits", "'../../x'", id="audit-run-id-as-path"),
    row(AuditInputError, audit_of(ranges=[{}]), "as its task returned it", id="audit-of-broken-ranges"),
    row(AuditInputError, audit_of(ranges=7), "as its task returned it", id="audit-of-no-ranges"),
    row(AuditInputError, audit_of(target_topics=["a b"]), "as its task returned it", "'a b'", id="audit-bad-topic"),
    row(AuditInputError, audit_of({"transform": {"where": 1}}), "as its task", "unknown", id="audit-bad-evidence"),
    row(AuditInputError, audit_of({"version": 9}), "must be of version 1", "got 9", id="audit-later-evidence"),
    row(
        AuditInputError, audit_without_header, "provenance='headers'", "run 0123456789abcdef",
        id="audit-without-header",
    ),
    row(AuditInputError, audits_of_two_targets, "must have the same target", "one by one", id="audits-of-two-targets"),
    row(
        AuditInputError, audit_of({"target_cluster_id": "another"}), "connection of the target must lead", "id another",
        id="audit-of-another-cluster",
    ),
    row(
        TopicRecreatedError, audit_of(target_topics=["nowhere"]), "The target topic 'nowhere' must still exist",
        id="audit-of-a-deleted-target",
    ),
    row(
        OptionError, lambda w: {"of": result_of_copy(w), "source_options": {"startingOffsets": "1"}},
        "startingOffsets", id="audit-with-offsets",
    ),
    row(
        InvalidInputError, lambda w: {"of": result_of_copy(w), "source_conn_id": " "}, "source_conn_id must be",
        id="audit-blank-connection",
    ),
    # Ranges
    row(
        OffsetRangeError, replay(dictionary(from_offset=-5)), "from_offset must be an integer from 0", "got -5",
        "{source}[1]", id="range-negative",
    ),
    row(
        OffsetRangeError, replay(dictionary(until_offset=-1)), "until_offset must be an integer", "got -1",
        "Spark's -1 and -2 are not offsets", id="range-latest",
    ),
    row(
        OffsetRangeError, replay(lambda t: [f"{t}:1:-5:10"]), "'topic:partition:from:until'", "{source}:1:-5:10",
        id="range-negative-in-text",
    ),
    row(
        OffsetRangeError, replay(dictionary(from_offset=9, until_offset=3)), "must not be reversed",
        "from_offset=9, until_offset=3", "{source}[1]", "Swap", id="range-reversed",
    ),
    row(
        OffsetRangeError, replay(dictionary(from_offset="3")), "must be an integer", "got '3' of type str",
        "{source}[1]", id="range-text",
    ),
    row(
        OffsetRangeError, replay(dictionary(until_offset=None)), "must be an integer", "got None", "{source}[1]",
        id="range-null",
    ),
    row(
        OffsetRangeError, replay(dictionary(from_offset=1.0)), "must be an integer", "got 1.0 of type float",
        id="range-float",
    ),
    row(
        OffsetRangeError, replay(dictionary(partition=True)), "partition must be an integer", "got True of type bool",
        id="range-boolean",
    ),
    row(
        OffsetRangeError, replay(without_until), "must have exactly the keys", "missing ['until_offset']",
        id="range-without-a-key",
    ),
    row(
        OffsetRangeError, replay(dictionary(topic="or ders")), "A topic name must be", "got 'or ders'",
        id="range-topic-name",
    ),
    row(
        OffsetRangeError, replay(lambda t: [f"{t}:1:0:5", f"{t}:1:0:5"]), "'{source}:1:0:5' is given twice",
        "Name each range once", id="range-duplicate",
    ),
    row(
        OffsetRangeError, replay(lambda t: [f"{t}:1:0:5", f"{t}:1:4:9"]), "{source}:1:0:5", "{source}:1:4:9", "overlap",
        "merge_overlaps=True", id="range-overlapping",
    ),
    row(
        OffsetRangeError, replay(lambda t: f"{t}:1:0:5"), "must be a list", "got '{source}:1:0:5'",
        id="range-not-a-list",
    ),
    row(
        OffsetRangeError, replay_with(offset_ranges="[{'topic': 'orders'}]"), "must be a list, or a JSON list",
        "params.ranges | tojson", id="range-rendered-as-python",
    ),
    row(
        OffsetRangeError, replay_with(offset_ranges="orders:0:1:2"), "must be a list, or a JSON list",
        "params.ranges | tojson", id="range-as-text",
    ),
    row(OffsetRangeError, replay_with(offset_ranges=None), "exactly one of", "got neither", id="range-nothing-at-all"),
    row(
        UnknownTopicError, replay(lambda t: [f"{t}-x:0:0:5"]), "'{source}-x' does not exist", "'kafka_default'",
        "correct the name", id="range-unknown-topic",
    ),
    row(
        UnknownTopicError, replay(lambda t: [f"{t}:2:0:5"]), "{source}[2] does not exist", "has 2 partitions",
        "'kafka_default'", id="range-unknown-partition",
    ),
    row(
        PlanError, replay(lambda t: [f"{t}:1:5:11"]), "must not lie beyond the log", "got 11 for {source}[1]",
        "ends at 10", "Correct the offset", id="range-beyond-the-log",
    ),
    row(
        DataLossError, replay(lambda t: [f"{t}:0:5:20"]), "{source}[0] 5 to 10", "aged out", "log now starts at 10",
        "fail_on_data_loss=False", id="range-aged-out",
    ),
    # Selections and bounds
    row(
        InvalidInputError, lambda w: {"target_topic": w.target}, "exactly one of topics", "got none of them",
        id="selection-none",
    ),
    row(
        InvalidInputError, lambda w: {"topics": [w.source], "topic_pattern": ".*", "target_topic": w.target},
        "exactly one of topics", "topics and topic_pattern", id="selection-two",
    ),
    row(
        InvalidInputError, lambda w: {"topics": {w.source: 1}, "target_topic": w.target}, "topics must be a list",
        "'{source}'", id="selection-mapping",
    ),
    row(
        InvalidInputError, lambda w: {"topic_pattern": "or(ders", "target_topic": w.target}, "regular expression",
        "'or(ders'", id="selection-bad-pattern",
    ),
    row(
        UnknownTopicError, lambda w: {"topics": [w.source[:-1]], "target_topic": w.target}, "does not exist",
        "Did you mean '{source}'", id="selection-unknown-topic",
    ),
    row(
        UnknownTopicError, lambda w: {"topic_pattern": "bad-input-source", "target_topic": w.target}, "matches none",
        "whole name", id="selection-pattern-of-no-topic",
    ),
    row(
        UnknownTopicError, lambda w: {"assign": {w.source: [0, 7]}, "target_topic": w.target},
        "{source}[7] does not exist", id="selection-unknown-partition",
    ),
    row(
        BoundError, copy(starting_offsets="latest"), "starting_offsets='latest' would copy nothing", "Use 'earliest'",
        id="bound-start-at-latest",
    ),
    row(
        BoundError, copy(starting_offsets="erliest"), "starting_offsets must be 'earliest'", "'erliest'",
        id="bound-misspelt",
    ),
    row(
        BoundError, lambda w: copy(starting_offsets={w.source: {"1": None}})(w), "integer offset", "{source}[1]",
        "got None", id="bound-null",
    ),
    row(
        BoundError, lambda w: copy(starting_offsets={w.source: {"1": 8}}, ending_offsets={w.source: {"1": 3}})(w),
        "{source}[1] would start at 8 and end at 3", id="bound-reversed",
    ),
    row(
        PlanError, lambda w: copy(ending_offsets={w.source: {"1": 99}})(w), "beyond the log", "got 99 for {source}[1]",
        "ends at 10", id="bound-beyond-the-log",
    ),
    row(
        DataLossError,
        lambda w: {"topics": [w.source], "starting_offsets": {w.source: {"0": 3, "1": 0}}, "target_topic": w.target},
        "{source}[0] 3 to 10", "aged out", id="bound-aged-out",
    ),
    # Windows
    row(
        BoundError, window("2026-11-20T10:00:00", "2026-11-20T11:00:00Z"), "starting_timestamp must have a time zone",
        "naive '2026-11-20T10:00:00'", "Add 'Z'", id="window-naive",
    ),
    row(BoundError, window(datetime(2026, 11, 20), None), "must have a time zone", "naive", id="window-naive-datetime"),
    row(
        BoundError, window(NOON, datetime.now(timezone.utc) + timedelta(days=1)),
        "ending_timestamp must not lie in the future", "now it is", "Wait", id="window-future",
    ),
    row(
        BoundError, window(1_795_165_200, None), "must be in milliseconds", "got 1795165200", "multiply by 1000",
        id="window-seconds",
    ),
    row(BoundError, window(NOON.timestamp(), None), "epoch milliseconds", "of type float", id="window-float"),
    row(BoundError, window("yesterday", None), "must be ISO 8601", "got 'yesterday'", id="window-text"),
    row(
        BoundError, window(NOON, NOON), "zero width", "both are 2026-11-20T12:00:00.000Z", "CronDataIntervalTimetable",
        id="window-of-zero-width",
    ),
    row(
        BoundError, window(NOON, NOON - timedelta(hours=1)), "must not be reversed", "2026-11-20T12:00",
        "2026-11-20T11:00", id="window-reversed",
    ),
    row(
        BoundError, window("", ""), "gave ''", "no data interval", "CronDataIntervalTimetable",
        id="window-of-a-run-without-data-interval",
    ),
    row(
        BoundError, window("None", "None"), "gave 'None'", "no data interval", "CronTriggerTimetable",
        id="window-rendered-none",
    ),
    row(
        BoundError, window(NOON, None, starting_offsets={"t": {"0": 1}}), "starting_timestamp and starting_offsets",
        "contradict", "give one of the two", id="window-and-offsets",
    ),
    row(BoundError, copy(exact_window=True), "exact_window=True needs", "got neither", id="window-exact-without-one"),
    # Targets
    row(
        TargetError, lambda w: {"offset_ranges": good_ranges(w)}, "exactly one of target_topic", "got neither",
        id="target-none",
    ),
    row(
        TargetError, replay_with(target_topic_expr="topic"), "exactly one of target_topic", "target_topic_expr='topic'",
        id="target-both",
    ),
    row(
        TargetError, replay_with(topic_map={"a": "b"}), "exactly one of target_topic", "topic_map={{'a': 'b'}}",
        id="target-and-map",
    ),
    row(
        TargetError, replay_with(target_topic=None, topic_map={"other": "b"}), "must have a target for each source",
        "none for '{source}'", "Add it", id="target-unmapped",
    ),
    row(
        TargetError, replay_with(target_topic=None, topic_map={"a": "b c"}), "such as {{'orders': 'orders_v2'}}",
        "got 'b c'", id="target-map-of-no-name",
    ),
    row(
        OptionError, replay_with(target_topic=None, target_topic_expr="topic", create_target_topics=True),
        "create_target_topics=True needs names", "target_topic_expr", "Pass target_topic or topic_map",
        id="target-creation-by-expression",
    ),
    row(
        OptionError, replay_with(new_topic_partitions=3), "new_topic_partitions=3", "Pass both, or neither",
        id="target-partitions-of-nothing",
    ),
    row(
        OptionError, replay_with(on_refused_config="ignore"), "on_refused_config must be one of", "got 'ignore'",
        id="target-on-refused-config",
    ),
    row(
        TargetError, replay_with(target_topic="bad-input-nowhere"), "'bad-input-nowhere' does not exist",
        "'kafka_default'", "Create it", id="target-missing",
    ),
    row(
        TargetError, target_of_too_few_partitions, "at least 2 partitions", "'{target}'", "has 1", "Add partitions",
        id="target-too-few-partitions",
    ),
    row(
        TargetError, lambda w: {"offset_ranges": good_ranges(w), "target_topic": w.source}, "'{source}' is also read",
        "allow_same_topic=True", id="target-is-the-source",
    ),
    row(
        InvalidInputError, replay_with(columns={"timestamp": "now()"}),
        "columns may set key, value, headers, partition", "['timestamp']", id="target-unknown-column",
    ),
    row(
        InvalidInputError, replay_with(preserve_partition=True, columns={"partition": "0"}), "contradict",
        "give one of the two", id="target-partition-twice",
    ),
    row(
        InvalidInputError, replay_with(target_topic=["orders"]), "target_topic must be text", "got ['orders']",
        "template", id="target-not-text",
    ),
    row(
        InvalidInputError, replay_with(where=["true"]), "where must be text that is not blank", "got ['true']",
        "template", id="where-not-text",
    ),
    row(
        ExpressionError, replay_with(where="uper(topic) = 'A'"), "where must call", "uper() is not one of them",
        "Did you mean upper()?", id="where-misspelt-function",
    ),
    row(
        ExpressionError, replay_with(columns={"value": "lenght(value)"}), "columns['value'] must call", "lenght()",
        "Did you mean length()?", id="columns-misspelt-function",
    ),
    row(
        InvalidInputError, replay_with(columns=["key"]), "columns must map columns to SQL", "got ['key']",
        id="columns-not-a-mapping",
    ),
    row(
        InvalidInputError, replay_with(columns={"key": None}), "columns must map columns to SQL", "got {{'key': None}}",
        id="columns-null",
    ),
    # Options
    row(
        OptionError, replay_with(source_options={"kafka.max.pol.records": 5}),
        "source_options has no option 'kafka.max.pol.records'", "Did you mean 'kafka.max.poll.records'",
        id="option-misspelt-source",
    ),
    row(
        OptionError, replay_with(sink_options={"kafka.interceptor.classes": "com.example.Sent"}),
        "must name no classes", "allow_client_classes", id="option-names-a-class",
    ),
    row(
        OptionError, replay_with(sink_options={"kafka.linger": 5}), "sink_options has no option 'kafka.linger'",
        "Did you mean 'kafka.linger.ms'", id="option-misspelt-sink",
    ),
    row(
        OptionError, replay_with(sink_options={"compression.type": "lz4"}),
        "sink_options has no option 'compression.type'", "kafka.compression.type", id="option-without-prefix",
    ),
    row(
        OptionError, replay_with(source_options={"kafka.enable.auto.commit": True}),
        "must not set 'kafka.enable.auto.commit'", "Spark refuses it", id="option-refused-by-spark",
    ),
    row(
        OptionError, replay_with(source_options={"maxOffsetsPerTrigger": 5}), "must not set 'maxOffsetsPerTrigger'",
        "Spark ignores it in a batch", id="option-ignored-by-spark",
    ),
    row(
        OptionError, replay_with(source_options={"failOnDataLoss": False}), "must not set 'failOnDataLoss'",
        "use fail_on_data_loss", id="option-of-ours",
    ),
    row(
        OptionError, replay_with(source_options={"minPartitions": 8}), "must not set 'minPartitions'",
        "max_records_per_partition", id="option-that-loses-order",
    ),
    row(
        OptionError, replay_with(sink_options={"kafka.acks": 1}), "must not set 'kafka.acks'", "delivered",
        id="option-that-loses-records",
    ),
    row(
        OptionError, replay_with(sink_options={"kafka.sasl.jaas.config": "s3cr3t"}),
        "must not set 'kafka.sasl.jaas.config'", "the Airflow connection sets it", id="option-with-a-login",
    ),
    row(
        OptionError, replay_with(isolation_level="committed"), "isolation_level must be one of", "got 'committed'",
        id="option-isolation-level",
    ),
    row(
        OptionError, replay_with(delivery="exactly_one"), "delivery must be 'exactly_once' or",
        "got 'exactly_one'. Did you mean 'exactly_once'?", id="option-delivery",
    ),
    row(
        OptionError, replay_with(delivery=True), "delivery must be 'exactly_once' or 'at_least_once'; got True.",
        id="option-delivery-as-a-flag",
    ),
    row(
        OptionError, replay_with(sink_options={"kafka.transactional.id": "x"}), "must not set 'kafka.transactional.id'",
        "run and task", id="option-transactional-id",
    ),
    row(
        OptionError, replay_with(max_records_per_partition=10), "max_records_per_partition=10", "preserve_order=False",
        id="option-split-against-order",
    ),
    row(
        OptionError, replay_with(conf={"spark.speculation": "true"}), "conf must not set spark.speculation='true'",
        "Leave it out", id="option-speculation",
    ),
    row(
        OptionError, replay_with(conf={"spark.task.maxFailures": "4"}, delivery="at_least_once"),
        "conf must not set spark.task.maxFailures='4'", id="option-task-attempts",
    ),
    row(
        OptionError, replay_with(conf=["spark.speculation"]), "conf must map", "got ['spark.speculation']",
        id="option-conf-not-a-mapping",
    ),
    row(
        OptionError, replay_with(deploy_mode="Cluster"), "deploy_mode must be 'client' or 'cluster'", "got 'Cluster'",
        id="option-deploy-mode",
    ),
    row(
        OptionError, replay_with(repositories="https://me:hunter2@maven.example.com/repository"),
        "repositories must have no password", "spark.jars.ivySettings", id="option-repositories-password",
    ),
    row(
        OptionError, replay_with(kafka_timeout=0), "kafka_timeout must be a number of seconds greater than 0", "got 0",
        id="option-timeout",
    ),
    row(
        OptionError, replay_with(progress_seconds="soon"), "progress_seconds must be a number", "got 'soon'",
        id="option-progress",
    ),
    # Connections and brokers
    row(
        InvalidInputError, replay_with(source_conn_id=None), "source_conn_id must be text", "got None",
        id="connection-none",
    ),
    row(
        ConnectionConfigError, connection_of_a_list, "'kafka_list'", "JSON object", "got a list",
        id="connection-of-a-list",
    ),
    row(
        ConnectionConfigError, replay_with(source_conn_id="nowhere"), "Kafka connection 'nowhere' does not exist",
        "AIRFLOW_CONN_NOWHERE", id="connection-missing",
    ),
    row(
        ConnectionConfigError, replay_with(target_conn_id="nowhere"), "Kafka connection 'nowhere' does not exist",
        id="connection-of-the-target-missing",
    ),
    row(
        ConnectionConfigError, connection_without_servers, "'kafka_bare'", "bootstrap.servers", "Add it",
        id="connection-without-servers",
    ),
    row(
        ConnectionConfigError, property_without_counterpart, "'kafka_odd' sets 'plugin.library.paths'",
        "no counterpart", id="connection-not-translatable",
    ),
    row(
        ConnectionConfigError, replay_with(spark_conn_id="nowhere"), "Spark connection 'nowhere' does not exist",
        "AIRFLOW_CONN_NOWHERE", id="connection-of-spark-missing",
    ),
    row(
        BrokerUnavailableError, dead_broker, "127.0.0.1:{closed_port}", "'kafka_dead'", "Check that the brokers are up",
        id="broker-down",
    ),
    row(
        BrokerUnavailableError, dead_target_broker, "127.0.0.1:{closed_port}", "'kafka_dead'",
        id="broker-of-the-target-down",
    ),
    row(
        BrokerAuthenticationError, wrong_password, "refused the user or the password", "'kafka_wrong'", "sasl.password",
        id="broker-wrong-credentials",
    ),
    row(
        BrokerTlsError, unknown_authority, "signed by an unknown authority (CA)", "'kafka_ca'", "ssl.ca.location",
        id="broker-of-an-unknown-authority",
    ),
    row(
        BrokerTlsError, expired_certificate, "certificate that the broker shows", "has expired", "'kafka_expired'",
        "Renew it on the broker", id="broker-with-an-expired-certificate",
    ),
    row(
        BrokerTlsError, certificate_of_another_host, "for another host name", "localhost", "'kafka_host'",
        "advertised.listeners", id="broker-with-a-certificate-of-another-host",
    ),
    row(
        ConnectionConfigError, keytab_of_another, "'kafka_keytab' must hold keys of 'copier@TEST.LOCAL'",
        "{folder}/copier.keytab has none of them", "Compare sasl.kerberos.principal with `klist -k",
        id="connection-with-a-keytab-of-another",
    ),
    row(
        ConnectionConfigError, unreadable_file, "ssl.ca.location of connection 'kafka_unreadable'",
        "{folder}/ca.crt: Permission denied", f"user {os.geteuid()}", "the permission",
        id="connection-with-an-unreadable-file",
    ),
    # Spark
    row(JavaNotFoundError, no_java, "Java 17 or newer", "JAVA_HOME='{folder}'", "Install one", id="no-java"),
    row(
        SparkSubmitNotFoundError, no_spark_submit, "'spark3-submit'", "SPARK_HOME", "kafka-spark[spark4]",
        id="no-spark-submit",
    ),
    row(
        JarError, no_connector_for_this_spark, "spark-sql-kafka-0-10_2.13:9.9.9", MAVEN_REPOSITORY.variable,
        id="no-connector-for-this-spark",
    ),
    row(
        OptionError, setting(CACHE_FOLDER, "cache"), "[kafka_spark] cache_folder", "absolute path", "got 'cache'",
        id="cache-folder-relative",
    ),
    row(
        OptionError, setting(CLASS_ARCHIVE, "maybe"), "[kafka_spark] class_archive", "True or False", "got 'maybe'",
        id="class-archive-neither-on-nor-off",
    ),
    row(
        OptionError, mirror_by_plain_http, "[kafka_spark] maven_repository",
        "an https or file URL", "[kafka_spark] maven_http_hosts", "got the scheme 'http'",
        id="maven-repository-by-plain-http",
    ),
    row(
        JarError, connector_that_others_may_write, "kafka_connector", "{folder}/jars must belong to this user",
        "mode 0777", "chmod go-w {folder}/jars", id="connector-that-others-may-write",
    ),
    row(
        JarError, empty_connector_folder, "kafka_connector", "{folder}/jars", "Maven coordinate",
        id="empty-connector-folder",
    ),
    row(
        JarError, unreadable_jars, "must be readable", "{folder}/jars/spark-sql-kafka", "permissions",
        id="unreadable-jars",
    ),
    row(
        ReportLocationError, replay_with(deploy_mode="cluster"), "report_location", "got none", "'spark_default'",
        id="cluster-mode-without-report-location",
    ),
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
    assert store.values == {}


def test_a_good_input_reaches_spark(kafka: KafkaBroker, world: World, recording_spark: RecordingSpark) -> None:
    """The proof that the table above would notice a start of Spark."""
    with pytest.raises(JobReportMissingError):
        operator_of(replay_with()(world)).execute(task_context())  # type: ignore[arg-type]

    assert [request.ranges for request in recording_spark.requests] == [(f"{world.source}:1:0:10",)]


def operator_of(arguments: Arguments) -> SparkJobOperator:
    if "of" in arguments:
        return AuditReplayOperator(task_id="task", **arguments)
    if "offset_ranges" in arguments:
        return ReplayOffsetRangesOperator(task_id="task", **arguments)
    return KafkaToKafkaBatchOperator(task_id="task", **arguments)
