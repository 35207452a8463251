from __future__ import annotations

import pytest

from airflow_provider_kafka_spark.core.handoff.refused_records import find_refused_record

_SPARK = "Py4JJavaError: An error occurred while calling o1.collect.\n: org.apache.spark.SparkException: Task 0 failed"
_ERRORS = "org.apache.kafka.common.errors"


def _text(reason: str, size: int = 1_234_567) -> str:
    said = f"Record orders[0]@123 of {size} bytes was not written to copy: {reason}"
    return f"{_SPARK}: java.lang.IllegalStateException: {said}\n\tat x.y(z.java:1)\nCaused by: {reason}"


@pytest.mark.parametrize(
    ("reason", "error", "fragments"),
    [
        pytest.param(
            f"{_ERRORS}.RecordTooLargeException: The request included a message larger than the max message size",
            "TargetError",
            ["orders[0]@123 (1,234,567 bytes", "max.message.bytes of copy (1,000,000 bytes)"],
            id="too-large-for-the-target",
        ),
        pytest.param(
            f"{_ERRORS}.RecordTooLargeException: The message is 9000 bytes when serialized which is larger than 8000, "
            "which is the value of the max.request.size configuration.",
            "TargetError",
            ["orders[0]@123 (1,234,567 bytes", "max.request.size of the producer (8,000 bytes)", "sink_options"],
            id="too-large-for-the-producer",
        ),
        pytest.param(
            f"{_ERRORS}.InvalidTimestampException: Timestamp 1 of message with offset 0 is out of range.",
            "TargetError",
            ["orders[0]@123 was not written to copy", "Timestamp 1 of message", "message.timestamp"],
            id="timestamp",
        ),
        pytest.param(
            f"{_ERRORS}.TopicAuthorizationException: Not authorized to access topics: [copy]",
            "BrokerAuthorizationError",
            ["orders[0]@123 was not written to copy", "WRITE"],
            id="permission",
        ),
        pytest.param("java.lang.Error: boom", "JobFailedError", ["orders[0]@123 was not written", "boom"], id="other"),
    ],
)
def test_names_the_record_the_target_and_the_reason(reason: str, error: str, fragments: list[str]) -> None:
    """And says what to do; sizes are both there."""
    failure = find_refused_record(_text(reason), {"copy": 1_000_000})

    assert failure is not None
    assert failure.error == error
    assert not [fragment for fragment in fragments if fragment not in failure.message], failure.message


def test_a_limit_that_may_not_be_read_is_unknown() -> None:
    """Without DESCRIBE_CONFIGS the record is named all the same."""
    failure = find_refused_record(_text(f"{_ERRORS}.RecordTooLargeException: too large"), {})

    assert failure is not None
    assert "max.message.bytes of copy (unknown, without DESCRIBE_CONFIGS on it)" in failure.message


def test_a_failure_of_no_record_is_somebody_elses() -> None:
    """It is named by the causes that Spark gives."""
    assert find_refused_record(f"{_SPARK}: java.lang.OutOfMemoryError", {}) is None
