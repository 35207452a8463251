"""The causes of failures in Spark's Kafka connector, and what to do about them. No I/O.

The messages are Spark's and Kafka's own (KafkaExceptions, KafkaDataConsumer, the clients' error classes), read in 4.0.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from airflow_provider_kafka_spark.core.errors import (
    BrokerAuthenticationError,
    BrokerAuthorizationError,
    BrokerError,
    BrokerUnavailableError,
    DataLossError,
    ExpressionError,
    JarError,
    JobFailedError,
    JobMemoryError,
    KafkaSparkError,
    RunTakenOverError,
    TargetError,
)
from airflow_provider_kafka_spark.core.shown_text import shown_lines
from airflow_provider_kafka_spark.core.wire.protocol import CopyJob, JobRequest

#: Messages of Kafka's Java client about a missing permission. They name topics and groups, but not the operation.
_REFUSED_TOPICS = re.compile(r"Not authorized to access topics: \[([^\]\n]*)\]")
_REFUSED_GROUP = re.compile(r"Not authorized to access group: (\S+)")
#: The error in Python when its JVM is gone. Java's own errors about a connection have more lines.
_NO_JVM = (
    r"\A(\[Errno \d+\] (Connection refused|Connection reset by peer|Broken pipe)|Answer from Java side is empty"
    r"|An error occurred while calling [^\s:]+|Py4J\w*Error)\s*\Z"
)
#: What to do where a JVM of the job has no memory left.
MORE_MEMORY = (
    "raise driver_memory with a local master, and executor_memory otherwise (1 GB each by default). A batch of "
    "compressed records is unpacked as a whole, and may be many times as large as in the log."
)
OUT_OF_MEMORY = f"The job ran out of memory: {MORE_MEMORY}"
#: Spark's error classes for expressions that fail on data. Except for lost data, they are in class 22 of the SQL
#: standard.
_DATA_EXCEPTION = (
    r"\[(CAST_INVALID_INPUT|CAST_OVERFLOW|INVALID_ARRAY_INDEX|DIVIDE_BY_ZERO|ARITHMETIC_OVERFLOW"
    r"|USER_RAISED_EXCEPTION)|SQLSTATE: 22(?!000)\w{3}"
)
#: Limits for an error, which may quote megabytes of a record: lines, and characters of each line.
_MAX_LINES, _LONGEST_LINE = 600, 4_000
#: (pattern, error, what to do). The first match is the cause. Patterns of errors that quote records
#: come first: a record may contain the words of any other.
_CAUSES: Sequence[tuple[str, type[KafkaSparkError], str]] = (
    (
        _NO_JVM,
        JobFailedError,
        "The driver's JVM ended while the job ran: it crashed, was killed, or the machine had no memory left for it. "
        "Look at the driver's log above and at the machine's; driver_memory bounds its heap.",
    ),
    (
        _DATA_EXCEPTION,
        ExpressionError,
        "An expression in where, columns or target_topic_expr fails on the data of a record, and would fail again: "
        "use try_cast, get or coalesce, or leave such records out with where.",
    ),
    (
        r"\bjava\.lang\.OutOfMemoryError\b",
        JobMemoryError,
        OUT_OF_MEMORY,
    ),
    (
        r"ProducerFencedException|InvalidProducerEpochException",
        RunTakenOverError,
        "A later try of this run writes in its place, so brokers take nothing more from this one. Nothing is written "
        "twice.",
    ),
    (
        r"Some data may have been lost|OffsetOutOfRangeException|LogTruncationException|offset.{0,40}out of range",
        DataLossError,
        "Offsets of the plan vanished while the job ran: retention deleted them, the topic was recreated, or an "
        "unclean leader election cut its log. Compare the plan with the topic's present offsets; "
        "fail_on_data_loss=False copies what is left.",
    ),
    (
        r"Partition \d+ of topic \S+ with partition count \d+ is not present in metadata after",
        TargetError,
        "The target topic has too few partitions for preserve_partition or columns['partition']. Part of the records "
        "was written.",
    ),
    (
        r"not present in metadata after",
        BrokerUnavailableError,
        "The target's brokers did not return the topic's metadata in time: they did not answer, refused the login, "
        "or the topic was deleted meanwhile. Part of the records may be written.",
    ),
    (
        r"RecordTooLargeException|larger than .{0,40}max\.request\.size|MESSAGE_TOO_LARGE",
        TargetError,
        "A record is larger than the target takes: raise max.message.bytes of the target topic, and "
        "kafka.max.request.size in sink_options.",
    ),
    (
        r"InvalidTimestampException|INVALID_TIMESTAMP",
        TargetError,
        "The target refuses the record's timestamp: look at its message.timestamp.* settings.",
    ),
    (
        r"InvalidRecordException|One or more records have been rejected",
        TargetError,
        "The target refuses a record; a compacted topic takes none without a key.",
    ),
    (
        # Kafka's Java client: "Invalid value <class> for configuration ...: Class <class> could not be found."
        r"(Class (software\.amazon\.msk|com\.google\.cloud\.hosted\.kafka)\.\S+ could not be found"
        r"|ClassNotFoundException: (software\.amazon\.msk|com\.google\.cloud\.hosted\.kafka)\.)",
        JarError,
        "Spark does not have the login handler of the managed Kafka: add its jar to the image or the class path of the "
        "cluster (kafka_connector='provided'), or to jars; the documentation on managed Kafka has the names.",
    ),
    (
        r"common\.errors\.UnsupportedVersionException",
        BrokerError,
        "The brokers do not know a request of the job, such as those of transactions, which some managed services "
        "lack: pass delivery='at_least_once', which needs none.",
    ),
    (
        r"SaslAuthenticationException|SslAuthenticationException|Authentication failed|SSL handshake failed",
        BrokerAuthenticationError,
        "The brokers refused the job's login, although the worker could log in: check that the driver and executors "
        "reach the same listener with the same credentials.",
    ),
    (
        r"AuthorizationException|Not authorized to access",
        BrokerAuthorizationError,
        "A login lacks a permission; the documentation on permissions lists what is needed.",
    ),
    (
        r"kafka\.common\.errors\.(Timeout|Disconnect|Network)\w*Exception|has passed since batch creation",
        BrokerUnavailableError,
        "Brokers did not answer in time. A retry continues from what was committed; if brokers are slow rather than "
        "away, raise kafka.request.timeout.ms and kafka.delivery.timeout.ms.",
    ),
    (
        r"Failed to find data source: kafka|ClassNotFoundException: .{0,60}kafka010|NoClassDefFoundError: "
        r"org/apache/kafka",
        JarError,
        "Spark has no Kafka connector of its own version on its class path: leave kafka_connector out to have it "
        "fetched, or name its jars.",
    ),
    (
        r"StackOverflowError",
        ExpressionError,
        "An expression in where, columns or target_topic_expr is too deep, or a regular expression in it needs too "
        "much stack for the value of a record: simplify it, or leave such records out with where.",
    ),
    (
        r"Invalid partition: -\d",
        ExpressionError,
        "columns['partition'] gave a negative number: use pmod in it.",
    ),
    (
        r"long overflow[\s\S]{0,400}millisToMicros",
        ExpressionError,
        "A record's timestamp is beyond what Spark SQL can hold (year 294247). Without where, columns, reject_when and "
        "target_topic_expr such records are copied as they are.",
    ),
)


def find_cause(error_text: str, request: JobRequest | None = None) -> KafkaSparkError:
    """The error that a failure is.

    :param error_text: the message and stack trace of what Spark threw.
    :param request: of the job, used to name a missing permission.
    """
    error_text = shown_lines(error_text, _MAX_LINES, _LONGEST_LINE)
    summary = _summary(error_text)
    for pattern, error, advice in _CAUSES:
        if re.search(pattern, error_text, re.IGNORECASE):
            lacking = _lacking_permissions(error_text, request) if error is BrokerAuthorizationError else ""
            return error(f"{summary} -- {lacking or advice}")
    return JobFailedError(summary)


def _lacking_permissions(error_text: str, request: JobRequest | None) -> str:
    """The permissions that the logins need, as sentences; empty if they are unknown."""
    topics = {topic.strip() for found in _REFUSED_TOPICS.findall(error_text) for topic in found.split(",")}
    required_acls = [_required_acls_on_topic(topic, request) for topic in sorted(topics) if topic]
    required_acls += [
        f"The login of the source needs READ on group {group!r}." for group in _REFUSED_GROUP.findall(error_text)[:1]
    ]
    if not required_acls and "ClusterAuthorizationException" in error_text:
        targets = request.transform.targets if request is not None else ()
        required_acls = [
            f"The login of the target needs WRITE on topic {' and '.join(map(repr, targets[:5]))}."
            if targets
            else "The login of the target needs WRITE on every topic that target_topic_expr leads to.",
            (
                "(Brokers refuse an idempotent producer as a whole, in the name of the cluster, while it may write to "
                "no topic at all.)"
            ),
        ]
    return " ".join(required_acls)


def _required_acls_on_topic(topic: str, request: JobRequest | None) -> str:
    if request is None:
        return f"A login needs READ (if it is the source's) or WRITE (if it is the target's) on topic {topic!r}."
    is_source = any(r.topic == topic for r in request.planned_source)
    is_target = topic in request.transform.targets
    if is_source and not is_target:
        return f"The login of the source needs READ on topic {topic!r}."
    if is_source:
        return (
            f"Topic {topic!r} is read and written: the login of the source needs READ on topic {topic!r}, that of the "
            "target WRITE."
        )
    required_acls = f"The login of the target needs WRITE on topic {topic!r}"
    if not request.transform.provenance.in_headers:
        return f"{required_acls}."
    if isinstance(request, CopyJob) and request.history.is_retry:
        return (
            f"{required_acls}, and READ, since this is a retry, which first looks there for what an earlier try has "
            "delivered."
        )
    return (
        f"{required_acls}. If it has that, it needs READ too: a Spark task failed, and the job looks there for what "
        "it had written."
    )


def _summary(error_text: str) -> str:
    """The messages of the innermost causes, without the stack."""
    causes = re.findall(r"^Caused by: (.+)$", error_text, re.MULTILINE)
    lines = [
        line.strip()
        for line in error_text.splitlines()
        if line.strip() and not line.lstrip().startswith(("at ", "..."))
    ]
    chosen = [*lines[:2], *causes[-2:]]
    return " | ".join(dict.fromkeys(line[:600] for line in chosen)) or "no message"
