"""Every kind of check that ``execute`` makes gives one clear error before Spark starts, and leaves nothing.

Which values a rule refuses is in the tests of the rule. Each row is run through the operator's own ``execute`` against
a real broker, with a ``spark-submit`` that would record that it was started.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
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
    CheckpointError,
    ConnectionConfigError,
    ConnectionNotFoundError,
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
from airflow_provider_kafka_spark.core.wire.evidence import CopyEvidence
from airflow_provider_kafka_spark.core.wire.protocol import Transform
from airflow_provider_kafka_spark.operators.audit import AuditReplayOperator as Audit
from airflow_provider_kafka_spark.operators.spark_job import SparkJobOperator
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from airflow_provider_kafka_spark.toolchain.settings import CACHE_FOLDER, MAVEN_REPOSITORY
from tests.airflow_fakes import TaskStateStore, task_context
from tests.child_processes import children_with
from tests.operators.conftest import RecordingSpark, Traces, has_submitted_nothing
from tests.operators.copy_task import Batch, Replay, Stream
from tests.services.certificates import CertificateAuthority

pytestmark = pytest.mark.broker

NOON = datetime(2026, 11, 20, 12, tzinfo=timezone.utc)
NOWHERE = "nowhere"


@pytest.fixture(scope="module")
def topics(kafka_broker: KafkaBroker) -> Iterator[dict[str, str]]:
    """What every row finds: a source of two partitions (30 and 10 records, the first 10 of partition 0 aged out) and an
    empty target of one. No row writes to them.
    """
    source, target = (f"bad-input-{name}-{uuid4().hex[:8]}" for name in ("source", "target"))
    kafka_broker.create_topic(source, 2)
    kafka_broker.create_topic(target, 1)
    kafka_broker.produce(source, [Record(b"k", b"v", partition=int(i >= 30)) for i in range(40)])
    kafka_broker.delete_records(source, {0: 10})
    yield {"source": source, "target": target}
    kafka_broker.delete_topic(source)
    kafka_broker.delete_topic(target)


@pytest.fixture
def names(
    kafka: KafkaBroker,
    topics: dict[str, str],
    secured_broker: KafkaBroker,
    closed_port: int,
    connection: Callable[..., None],
    tmp_path: Path,
) -> dict[str, str]:
    """What stands in braces in a row. There are connections that lead nowhere or are refused, and a Spark whose version
    is not in the repository.
    """
    (tmp_path / "future/jars").mkdir(parents=True)
    (tmp_path / "future/jars/spark-core_2.13-9.9.9.jar").touch()
    (tmp_path / "repository").mkdir()
    login = secured_broker.sasl_client_config("copier")
    by_tls = secured_broker.sasl_client_config("copier", tls=True)
    closed = f"127.0.0.1:{closed_port}"
    connection("kafka_list", extra='["broker-1:9092"]')
    connection("kafka_dead", extra={"bootstrap.servers": closed})
    connection("kafka_wrong", extra={**login, "sasl.password": "s3cr3t-and-wrong"})
    connection("kafka_ca", extra={**by_tls, "ssl.ca.pem": CertificateAuthority().ca_pem})
    return {**topics, "closed": closed, "folder": str(tmp_path)}


def filled(value: Any, names: Mapping[str, str]) -> Any:
    """With the names in place of what stands in braces."""
    if isinstance(value, dict):
        return {filled(name, names): filled(each, names) for name, each in value.items()}
    if isinstance(value, list):
        return [filled(each, names) for each in value]
    return re.sub(r"\{(\w+)\}", lambda found: names[found[1]], value) if isinstance(value, str) else value


def result_of_copy(evidence: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """What a good copy returned, with changes."""
    counted = {"topic": "{source}", "partition": 1, "from_offset": 0, "until_offset": 10, "records_read": 10}
    return {
        "version": 1,
        "run_id": "0123456789abcdef",
        "ranges": [{**counted, "records_written": 10}],
        "target_topics": ["{target}"],
        "target_ranges": [],
        "records_written": 10,
        "evidence": {**CopyEvidence(Transform(topic="{target}")).to_dict(), **(evidence or {})},
        **changes,
    }


#: Parameters of each operator that are good; a row changes them, and one that is None is not given.
GOOD: dict[type[SparkJobOperator], dict[str, Any]] = {
    Audit: {"of": result_of_copy()},
    Batch: {"assign": {"{source}": [1]}, "target_topic": "{target}"},
    Replay: {"offset_ranges": ["{source}:1:0:10"], "target_topic": "{target}"},
    Stream: {
        "topics": ["{source}"], "target_topic": "{target}", "checkpoint_location": "{folder}/checkpoint",
        "starting_offsets": "earliest",
    },
}  # fmt: skip
Row = tuple[type[KafkaSparkError], type[SparkJobOperator], dict[str, Any], tuple[str, ...]]
#: The error, the operator, what is changed, and what the message must say. Names in capitals are of the environment.
ROWS: list[Row] = [
    (AuditInputError, Audit, {"of": "no result"}, ("of must be the result", "dag_id.task_id")),
    (AuditInputError, Audit, {"of": result_of_copy({"target_cluster_id": "x"})}, ("connection of the target", "id x")),
    (
        TopicRecreatedError, Audit, {"of": result_of_copy(target_topics=[NOWHERE])},
        ("The target topic 'nowhere' must still exist",),
    ),
    (OptionError, Audit, {"source_options": {"startingOffsets": "1"}}, ("startingOffsets",)),
    (InvalidInputError, Audit, {"source_conn_id": " "}, ("source_conn_id must be",)),
    # Ranges
    (
        OffsetRangeError, Replay, {"offset_ranges": ["{source}:1:0:5", "{source}:1:4:9"]},
        ("overlap", "merge_overlaps=True"),
    ),
    (
        OffsetRangeError, Replay, {"offset_ranges": "[{'topic': 'x'}]"},
        ("a list, or a JSON list", "params.ranges | tojson"),
    ),
    (OffsetRangeError, Replay, {"offset_ranges": None}, ("exactly one of", "got neither")),
    (
        UnknownTopicError, Replay, {"offset_ranges": ["{source}-x:0:0:5"]},
        ("'{source}-x' does not exist", "kafka_default"),
    ),
    (
        PlanError, Replay, {"offset_ranges": ["{source}:1:5:11"]},
        ("beyond the log", "got 11 for {source}[1]", "ends at 10"),
    ),
    (
        DataLossError, Replay, {"offset_ranges": ["{source}:0:5:20"]},
        ("{source}[0] 5 to 10", "aged out", "fail_on_data_lo"),
    ),
    # Selections, bounds and windows
    (InvalidInputError, Batch, {"assign": None}, ("exactly one of topics", "got none of them")),
    (BoundError, Batch, {"starting_offsets": "erliest"}, ("starting_offsets must be 'earliest'", "'erliest'")),
    (
        DataLossError, Batch,
        {"assign": None, "topics": ["{source}"], "starting_offsets": {"{source}": {"0": 3, "1": 0}}},
        ("{source}[0] 3 to 10", "aged out"),
    ),
    (
        BoundError, Batch,
        {"starting_timestamp": NOON, "ending_timestamp": datetime.now(timezone.utc) + timedelta(days=1)},
        ("must not lie in the future", "Wait"),
    ),
    (
        BoundError, Batch, {"starting_timestamp": "None", "ending_timestamp": "None"},
        ("gave 'None'", "no data interval", "CronTriggerTimetable"),
    ),
    (BoundError, Batch, {"exact_window": True}, ("exact_window=True needs", "got neither")),
    # Targets
    (TargetError, Batch, {"target_topic": None}, ("exactly one of target_topic", "got neither")),
    (TargetError, Replay, {"target_topic": "bad-input-nowhere"}, ("does not exist", "Create it")),
    (InvalidInputError, Replay, {"columns": {"timestamp": "now()"}}, ("columns may set key, value, headers",)),
    (InvalidInputError, Replay, {"preserve_partition": True, "columns": {"partition": "0"}}, ("contradict",)),
    (InvalidInputError, Replay, {"reader": "batches", "where": "true"}, ("where needs them as rows", "Drop one of")),
    (OptionError, Replay, {"reader": "batch"}, ("reader must be 'source', 'batches' or None",)),
    (InvalidInputError, Replay, {"target_topic": ["orders"]}, ("target_topic must be text", "got ['orders']")),
    (ExpressionError, Replay, {"where": "uper(topic) = 'A'"}, ("where must call", "Did you mean upper()?")),
    (ExpressionError, Batch, {"where": "statu = 'A'", "plan_only": True}, ("'statu' is not one of them", "$.statu")),
    # Options
    (
        OptionError, Replay, {"sink_options": {"kafka.interceptor.classes": "com.example.Sent"}},
        ("allow_client_classes",),
    ),
    (OptionError, Replay, {"sink_options": {"kafka.acks": 1}}, ("must not set 'kafka.acks'", "delivered")),
    (OptionError, Replay, {"max_records_per_partition": 10}, ("max_records_per_partition=10", "preserve_order=False")),
    (
        OptionError, Replay, {"conf": {"spark.task.maxFailures": "4"}, "delivery": "at_least_once"},
        ("conf must not set spark.task.maxFailures='4'",),
    ),
    (
        OptionError, Replay, {"repositories": "https://me:hunter2@maven.example.com"},
        ("repositories must have no password",),
    ),
    # Streams
    (CheckpointError, Stream, {"checkpoint_location": "checkpoints/orders"}, ("must be an absolute path or a URI",)),
    (CheckpointError, Stream, {"checkpoint_location": "/proc/self/x"}, ("/proc/self/x' must be",)),
    (BoundError, Stream, {"reset_checkpoint_to": {"t": {"0": None}}}, ("integer offset >= 0",)),
    (InvalidInputError, Stream, {"commit_group_id": 7}, ("commit_group_id must be the name",)),
    (OptionError, Stream, {"source_options": {"minOffsetsPerTrigger": 5}}, ("a tail unread",)),
    (UnknownTopicError, Stream, {"topics": [NOWHERE]}, ("'nowhere' does not exist",)),
    (BoundError, Stream, {"starting_offsets": {NOWHERE: {"0": 1}}}, ("must name only partitions that are read",)),
    (OptionError, Stream, {"on_rerun": "copy_again"}, ("on_rerun of a stream must be 'missing_only'",)),
    # Connections and brokers
    (ConnectionNotFoundError, Replay, {"source_conn_id": NOWHERE}, ("'nowhere' does not", "AIRFLOW_CONN_NOWHERE")),
    (ConnectionNotFoundError, Replay, {"spark_conn_id": NOWHERE}, ("Spark connection 'nowhere' does not exist",)),
    (ConnectionConfigError, Replay, {"source_conn_id": "kafka_list"}, ("JSON object", "got a list")),
    (BrokerUnavailableError, Replay, {"target_conn_id": "kafka_dead", "kafka_timeout": 2}, ("{closed}", "kafka_dead")),
    (BrokerAuthenticationError, Replay, {"source_conn_id": "kafka_wrong"}, ("refused the user", "sasl.password")),
    (BrokerTlsError, Replay, {"source_conn_id": "kafka_ca"}, ("an unknown authority (CA)", "ssl.ca.location")),
    # Spark
    (JavaNotFoundError, Replay, {"JAVA_HOME": "{folder}"}, ("Java 17 or newer", "JAVA_HOME='{folder}'", "Install one")),
    (SparkSubmitNotFoundError, Replay, {"spark_binary": "spark3-submit"}, ("SPARK_HOME", "kafka-spark[spark4]")),
    (
        JarError, Replay,
        {
            "SPARK_HOME": "{folder}/future", MAVEN_REPOSITORY.variable: "file://{folder}/repository",
            CACHE_FOLDER.variable: "{folder}/cache",
        },
        ("spark-sql-kafka-0-10_2.13:9.9.9", MAVEN_REPOSITORY.variable),
    ),
    (ReportLocationError, Replay, {"deploy_mode": "cluster"}, ("report_location", "got none", "'spark_default'")),
    (
        ReportLocationError, Replay, {"deploy_mode": "cluster", "report_location": "s3a://user:s3cr3t@bucket"},
        ("report_location must have no password",),
    ),
]  # fmt: skip


def execute(
    kind: type[SparkJobOperator], changes: dict[str, Any], names: dict[str, str], store: TaskStateStore
) -> None:
    given = filled({**GOOD[kind], **changes}, names)
    with pytest.MonkeyPatch.context() as patch:
        for variable in [name for name in given if name.isupper()]:
            patch.setenv(variable, given.pop(variable))
        given = {name: value for name, value in given.items() if value is not None}
        kind(task_id="task", **given).execute(task_context(store))


def test_bad_input(
    kafka: KafkaBroker,
    names: dict[str, str],
    recording_spark: RecordingSpark,
    traces: Traces,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One error for each, of its own class, that says what was expected, got, where and what to do; no Spark, record,
    file or memory of it.
    """
    before = kafka.offsets(names["target"]), kafka.offsets(names["source"])
    for error, kind, changes, says in ROWS:
        store, began = TaskStateStore(), time.monotonic()
        with pytest.raises(KafkaSparkError if error.retriable else AirflowFailException) as raised:
            execute(kind, changes, names, store)

        assert time.monotonic() - began < 30
        message = str(raised.value)
        if error.retriable:
            assert type(raised.value) is error, message
        else:
            assert type(raised.value.__context__) is error, message
            assert message.startswith(f"{error.__name__}: ")
        assert [fragment for fragment in filled([*says], names) if fragment not in message] == [], message
        assert "s3cr3t" not in message + caplog.text
        assert has_submitted_nothing(store), message
    assert recording_spark.requests == []
    assert not Path(names["folder"], "checkpoint").exists()
    assert (traces.files, traces.processes, children_with("py4j.GatewayServer")) == ([], [], [])
    assert (kafka.offsets(names["target"]), kafka.offsets(names["source"])) == before


def test_a_good_input_reaches_spark(names: dict[str, str], recording_spark: RecordingSpark) -> None:
    """The proof that the table above would notice a start of Spark."""
    with pytest.raises(JobReportMissingError):
        execute(Replay, {}, names, TaskStateStore())

    assert [request.ranges.format() for request in recording_spark.requests] == [[f"{names['source']}:1:0:10"]]
