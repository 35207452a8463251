"""The error for a record that was not written: source record, target, reason, and what to do. No I/O.

It parses the writer's message and Kafka's error classes (3.9).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from airflow_provider_kafka_spark.core.handoff.failure_causes import find_cause
from airflow_provider_kafka_spark.core.protocol import JobFailure, JobRequest

_REFUSED = re.compile(
    r"IllegalStateException: Record (?P<record>\S+\[\d+\]@\d+) of (?P<size>\d+) bytes was not written to "
    r"(?P<target>\S+): (?P<reason>.+)"
)
_TOO_LARGE = re.compile(r"RecordTooLargeException|MESSAGE_TOO_LARGE")
_LIMIT_OF_PRODUCER = re.compile(r"larger than (\d+), which is the value of the max\.request\.size")


def find_refused_record(
    error_text: str, largest: Mapping[str, int], request: JobRequest | None = None
) -> JobFailure | None:
    """The failure of one record, or None if the text has none.

    :param error_text: the message of what Spark threw.
    :param largest: ``max.message.bytes`` of each target, as far as it is known.
    :param request: of the job.
    """
    found = _REFUSED.search(error_text)
    if found is None:
        return None
    record, target, size, reason = found["record"], found["target"], int(found["size"]), found["reason"].strip()
    # Its text is similar to that of a lost offset.
    if "InvalidTimestampException" in reason:
        return JobFailure(
            "TargetError",
            f"Record {record} was not written to {target}: {reason} Look at message.timestamp.* of {target}, or pass "
            "preserve_timestamps=False.",
        )
    if not _TOO_LARGE.search(reason):
        cause = find_cause(reason, request)
        return JobFailure(cause.error, f"Record {record} was not written to {target}: {cause.message}")
    if of_producer := _LIMIT_OF_PRODUCER.search(reason):
        return JobFailure(
            "TargetError",
            f"Record {record} ({size:,} bytes) is larger than max.request.size of the producer "
            f"({int(of_producer[1]):,} bytes). Pass sink_options={{'kafka.max.request.size': ...}}, and raise "
            f"max.message.bytes of {target} if that is smaller; or leave the record out with where.",
        )
    limit = f"{largest[target]:,} bytes" if target in largest else "unknown, without DESCRIBE_CONFIGS on it"
    return JobFailure(
        "TargetError",
        f"Record {record} ({size:,} bytes and its headers) is larger than max.message.bytes of {target} ({limit}). "
        "Raise it there, or leave the record out with where.",
    )
