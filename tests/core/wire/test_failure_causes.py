from __future__ import annotations

import re
import time
from dataclasses import fields
from typing import Any

import pytest

from airflow_provider_kafka_spark.core.errors import BrokerAuthorizationError, ExpressionError, JobFailedError
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRanges
from airflow_provider_kafka_spark.core.records.trace import Trace
from airflow_provider_kafka_spark.core.wire.failure_causes import find_cause
from airflow_provider_kafka_spark.core.wire.protocol import History, JobRequest, StreamJob, StreamRequest, Transform
from tests.core.job_requests import job_request

#: An error and words of its advice; below it what Spark and Kafka throw.
_TEXTS = r"""
JarError: documentation on managed Kafka
  config.ConfigException: Class software.amazon.msk.auth.iam.IAMClientCallbackHandler could not be found.
JarError: kafka_connector
  org.apache.spark.sql.AnalysisException: Failed to find data source: kafka. Please deploy
JarError: jars
  java.lang.NoClassDefFoundError: org/apache/kafka/common/serialization/ByteArraySerializer
BrokerError: delivery='at_least_once'
  common.errors.UnsupportedVersionException: Attempting to use transactions with a broker which does not support them
ExpressionError: try_cast
  SparkNumberFormatException: [CAST_INVALID_INPUT] The value 'x' of the type "STRING" cannot be cast
  SparkIllegalArgumentException: [INVALID_URL] The url is invalid: x. SQLSTATE: 22P02
ExpressionError: too deep
  java.lang.StackOverflowError
ExpressionError: columns['partition']
  java.lang.IllegalArgumentException: Invalid partition: -1. Partition number should always be non-negative
DataLossError: fail_on_data_loss=False
  IllegalStateException: Cannot fetch offset 5. Some data may have been lost because they are not available any more
  IllegalStateException: [KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE] Some data may have been lost. SQLSTATE: 22000
DataLossError: retention
  org.apache.kafka.clients.consumer.OffsetOutOfRangeException: Fetch position
DataLossError: unclean leader election
  org.apache.kafka.clients.consumer.LogTruncationException: Truncated partitions detected
TargetError: too few partitions
  TimeoutException: Partition 7 of topic copy-3 with partition count 3 is not present in metadata after 60000 ms.
TargetError: max.message.bytes
  RecordTooLargeException: The message is 9000000 bytes, which is larger than 8388608, the value of the max.request.size
TargetError: message.timestamp
  org.apache.kafka.common.errors.InvalidTimestampException: Timestamp 1 of message is out of range
TargetError: compacted
  org.apache.kafka.common.InvalidRecordException: One or more records have been rejected
BrokerUnavailableError: did not answer
  org.apache.kafka.common.errors.TimeoutException: Topic copy-3 not present in metadata after 60000 ms.
BrokerUnavailableError: did not answer in time. A retry continues
  org.apache.kafka.common.errors.TimeoutException: Timeout of 60000ms expired before the position for partition o-1
BrokerAuthenticationError: credentials
  SaslAuthenticationException: Authentication failed: Invalid username or password
BrokerAuthenticationError: listener
  SslAuthenticationException: SSL handshake failed
JobMemoryError: driver_memory with a local master
  java.lang.OutOfMemoryError: Java heap space
BrokerAuthorizationError: WRITE
  TopicAuthorizationException: Not authorized to access topics: [copy]
RunTakenOverError: Nothing is written twice
  ProducerFencedException: There is a newer producer
ExpressionError: timestamp is beyond
  java.lang.ArithmeticException: long overflow\n\tat SparkDateTimeUtils.millisToMicros(SparkDateTimeUtils.scala:100)
"""
_KNOWN = [
    (text.strip().replace(r"\n\t", "\n\t"), *heading.split(": ", 1))
    for heading, *texts in (block.splitlines() for block in re.split(r"\n(?=\S)", _TEXTS.strip()))
    for text in texts
]


@pytest.mark.parametrize(("text", "name", "advice"), _KNOWN)
def test_names_a_known_failure(text: str, name: str, advice: str) -> None:
    trace = (
        f"org.apache.spark.SparkException: Job aborted\n\tat org.apache.spark.X\nCaused by: {text}\n\tat java.Thread"
    )
    failure = find_cause(trace)

    assert type(failure).__name__ == name
    assert text.splitlines()[0][:100] in str(failure)
    assert "Job aborted" in str(failure)
    assert advice in str(failure)


@pytest.mark.parametrize(
    "value",
    [
        "Some data may have been lost",
        "1\nCaused by: org.apache.kafka.clients.consumer.OffsetOutOfRangeException: Some data may have been lost",
        "org.apache.kafka.common.errors.TopicAuthorizationException: Not authorized to access topics: [copy]",
        "Failed to find data source: kafka",
        "Not authorized to access topics: [" * 10_000,
        "\n'" * 100_000,
        "Some data may have been lost " + "A" * 1_000_000,
    ],
    ids=["data-loss", "line-break", "permission", "jar", "unclosed-brackets", "many-lines", "huge"],
)
@pytest.mark.parametrize("kind", ["[CAST_INVALID_INPUT] The value", "[INVALID_URL] The url is invalid:"])
def test_a_record_that_is_quoted_does_not_decide_the_cause(value: str, kind: str) -> None:
    """Such advice as fail_on_data_loss=False would be its author's, and a huge one would fill the log."""
    text = f"{kind} '{value}' is malformed. SQLSTATE: 22018\n== SQL (line 1, position 1) ==\nint(string(value))"
    began = time.process_time()
    failure = find_cause(f"{text}\nCaused by: org.apache.spark.SparkNumberFormatException: {text}")
    assert type(failure) is ExpressionError
    assert time.process_time() - began < 2
    assert len(str(failure)) < 3_000


def test_control_characters_of_a_record_are_escaped() -> None:
    """A terminal would obey them."""
    failure = find_cause("[CAST_INVALID_INPUT] The value '\x1b[2J\x9b31m\u202e\x00' of the type")
    assert r"'\x1b[2J\x9b31m\u202e\x00'" in str(failure)


_TOPIC = "org.apache.kafka.common.errors.TopicAuthorizationException: Not authorized to access topics: [{}]"
_CLUSTER = "org.apache.kafka.common.errors.ClusterAuthorizationException: Cluster authorization failed."
_GROUP = "org.apache.kafka.common.errors.GroupAuthorizationException: Not authorized to access group: mine"


def request(
    *, is_retry: bool = False, topic_expr: str | None = None, stream: bool = False, **transform: Any
) -> JobRequest:
    topic = None if topic_expr is not None else "copy"
    planned = OffsetRanges.parse(["orders:0:0:10", "returns:0:0:10"])
    copy = job_request(
        ranges=OffsetRanges() if stream else planned,
        transform=Transform(topic=topic, topic_expr=topic_expr, **transform),
        history=History(has_begun=is_retry),
    )
    order = StreamRequest("id", planned, {}, "{}", "file:/c", "", -1, "file:/lock", "file:/number", "task")
    return StreamJob(**{f.name: getattr(copy, f.name) for f in fields(copy)}, stream=order) if stream else copy


_READS = "The login of the source needs READ on {}"
_WRITES = "The login of the target needs WRITE on {}"
_BY_EXPRESSION = "concat(topic, '_copy')"


@pytest.mark.parametrize(
    ("said", "asked", "needs"),
    [
        (_TOPIC.format("orders"), request(), _READS.format("topic 'orders'.")),
        (_TOPIC.format("orders"), request(stream=True), _READS.format("topic 'orders'.")),
        (_TOPIC.format("orders, returns"), request(), "topic 'orders'. " + _READS.format("topic 'returns'.")),
        (_TOPIC.format("copy"), request(), _WRITES.format("topic 'copy'. If it has that, it needs READ too: a Spark")),
        (_TOPIC.format("copy"), request(is_retry=True), _WRITES.format("topic 'copy', and READ, since this is a")),
        # Nothing is read back.
        (_TOPIC.format("copy"), request(is_retry=True, provenance=Trace.NOTHING), _WRITES.format("topic 'copy'.")),
        (_TOPIC.format("orders_copy"), request(topic_expr=_BY_EXPRESSION), _WRITES.format("topic 'orders_copy'.")),
        (_CLUSTER, request(), _WRITES.format("topic 'copy'.")),
        (_CLUSTER, request(topic_expr=_BY_EXPRESSION), "WRITE on every topic that target_topic_expr leads to"),
        (_GROUP, request(), _READS.format("group 'mine'.")),
        (_TOPIC.format("t"), None, "READ (if it is the source's) or WRITE (if it is the target's) on topic 't'"),
    ],
)
def test_a_lacking_permission_is_named(said: str, asked: JobRequest | None, needs: str) -> None:
    """Kafka's client names the topic; whose login needs which operation on it follows from what the job was to do."""
    failure = find_cause(f"org.apache.spark.SparkException: Job aborted\nCaused by: {said}\n", asked)

    assert type(failure) is BrokerAuthorizationError
    assert said in str(failure)
    assert needs in str(failure)
    assert "documentation on permissions" not in str(failure)


def test_an_unknown_failure_may_be_retried() -> None:
    failure = find_cause("java.lang.RuntimeException: disk full\n\tat java.Thread")

    assert type(failure) is JobFailedError
    assert str(failure) == "java.lang.RuntimeException: disk full"
    assert JobFailedError.retriable


def test_the_message_has_no_stack() -> None:
    causes = "\n".join(f"Caused by: cause {i}\n\tat frame.{i}\n\t... 12 more" for i in range(5))

    message = str(find_cause(f"first line\n\nsecond {'x' * 5000}\nthird line\n{causes}\nCaused by: cause 4"))

    assert message.startswith("first line | second xxx")
    assert message.endswith(" | cause 4")
    assert "frame" not in message
    assert "third line" not in message
    assert len(message) < 1_300


@pytest.mark.parametrize("text", ["", "\n\n", "\tat java.Thread\n"])
def test_a_failure_without_words_is_a_failure(text: str) -> None:
    assert str(find_cause(text)) == "no message"


@pytest.mark.parametrize(
    "text",
    [
        "[Errno 111] Connection refused",
        "[Errno 104] Connection reset by peer",
        "[Errno 32] Broken pipe",
        "Answer from Java side is empty",
        "An error occurred while calling o47.count",
        "Py4JJavaError",
    ],
)
def test_a_jvm_that_is_gone_is_named(text: str) -> None:
    """Of its end Python learns no more than this."""
    failure = find_cause(text)

    assert type(failure) is JobFailedError
    assert str(failure).startswith(f"{text} -- The driver's JVM ended while the job ran")


@pytest.mark.parametrize(
    "text",
    [
        "An error occurred while calling o47.count.\n: java.net.ConnectException: Connection refused",
        "Job aborted\nCaused by: java.net.SocketException: Broken pipe",
    ],
)
def test_what_java_says_of_connections_is_not_the_end_of_its_jvm(text: str) -> None:
    assert "JVM" not in str(find_cause(text))
