"""What a failure of Spark's Kafka connector means, and what to do about it. No I/O.

The messages are Spark's and Kafka's own (KafkaExceptions, KafkaDataConsumer, the clients' error classes), read in 4.0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from airflow_provider_kafka_spark.core.protocol import JobFailure

#: (pattern, name in the error tree, what to do); the first that matches is the cause.
_CAUSES = (
    (
        r"Some data may have been lost|OffsetOutOfRangeException|offset.{0,40}out of range",
        "DataLossError",
        "Offsets of the plan vanished while the job ran: retention deleted them, or the topic was re-created. Compare the plan with the topic's present offsets; "
        "fail_on_data_loss=False copies what is left.",
    ),
    (
        r"not present in metadata after",
        "TargetError",
        "The target topic has too few partitions for preserve_partition or columns['partition']. Part of the records was written.",
    ),
    (
        r"RecordTooLargeException|larger than .{0,40}max\.request\.size|MESSAGE_TOO_LARGE",
        "TargetError",
        "A record is larger than the target takes: raise max.message.bytes of the target topic, and kafka.max.request.size in sink_options.",
    ),
    (
        r"InvalidTimestampException|INVALID_TIMESTAMP",
        "TargetError",
        "The target refuses the record's timestamp: look at its message.timestamp.* settings.",
    ),
    (
        r"InvalidRecordException|One or more records have been rejected",
        "TargetError",
        "The target refuses a record; a compacted topic takes none without a key.",
    ),
    (
        r"SaslAuthenticationException|SslAuthenticationException|Authentication failed|SSL handshake failed",
        "BrokerAuthenticationError",
        "The brokers refused the job's login, although the worker could log in: check that the driver and executors reach the same listener with the same credentials.",
    ),
    (
        r"AuthorizationException|Not authorized to access",
        "BrokerAuthorizationError",
        "The login lacks a permission: the source needs READ and DESCRIBE, the target WRITE and DESCRIBE.",
    ),
    (
        r"Failed to find data source: kafka|ClassNotFoundException: .{0,60}kafka010|NoClassDefFoundError: org/apache/kafka",
        "JarError",
        "Spark has no Kafka connector of its own version on its class path: leave kafka_connector out to have it fetched, or name its jars.",
    ),
    (
        r"CAST_INVALID_INPUT|CAST_OVERFLOW|INVALID_ARRAY_INDEX|DIVIDE_BY_ZERO|ARITHMETIC_OVERFLOW|USER_RAISED_EXCEPTION",
        "ExpressionError",
        "An expression in where, columns or target_topic_expr fails on the data of a record, and would fail again: use try_cast, get or coalesce, or leave such records out with where.",
    ),
    (
        r"UNSUPPORTED.{0,40}NULL.{0,40}topic|null topic present in the data",
        "TargetError",
        "target_topic_expr gave null for a record.",
    ),
)


def find_cause(error_text: str) -> JobFailure:
    """Name the failure.

    :param error_text: the message and stack trace of what Spark threw.
    """
    summary = _summary(error_text)
    for pattern, name, advice in _CAUSES:
        if re.search(pattern, error_text, re.IGNORECASE):
            return JobFailure(name, f"{summary} -- {advice}")
    return JobFailure("JobFailedError", summary)


def redact(text: str, options: Iterable[Mapping[str, str]]) -> str:
    """Take the values of secret options out of a text that goes to a log or a report."""
    secrets = {
        value
        for mapping in options
        for name, value in mapping.items()
        if value and re.search(r"jaas|password|secret|token|\.key|certificate", name, re.IGNORECASE)
    }
    in_jaas = [quoted for value in secrets for quoted in re.findall(r'password="((?:[^"\\]|\\.)+)"', value)]
    # As it stands in the JAAS line, and as it was before it was quoted for it.
    secrets |= {*in_jaas, *(re.sub(r"\\(.)", r"\1", quoted) for quoted in in_jaas)}
    # The longest first, or a secret within another would leave the rest of that in the text.
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "***")
    return text


def _summary(error_text: str) -> str:
    """The innermost causes' own words, without the stack."""
    causes = re.findall(r"^Caused by: (.+)$", error_text, re.MULTILINE)
    lines = [
        line.strip()
        for line in error_text.splitlines()
        if line.strip() and not line.lstrip().startswith(("at ", "..."))
    ]
    chosen = [*lines[:2], *causes[-2:]]
    return " | ".join(dict.fromkeys(line[:600] for line in chosen)) or "no message"
