from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_provider_kafka_spark.core.codec import encode
from airflow_provider_kafka_spark.core.errors import JobFailedError, error_named
from airflow_provider_kafka_spark.core.handoff.task_failures import failure_in, failure_of_task
from airflow_provider_kafka_spark.core.handoff.writer_messages import TaskFailure

_ERRORS = "org.apache.kafka.common.errors"


def _failure(kind: str, reason: str = "", **fields: Any) -> TaskFailure:
    defaults = {"message": "It failed.", "record": None, "record_bytes": 0, "target": None, "permanent": False}
    return TaskFailure(**{"kind": kind, "reason": reason} | defaults | fields)


def _refused(reason: str) -> TaskFailure:
    record, message = "orders[0]@123", "Record orders[0]@123 was not written to copy."
    return _failure(
        "refused", reason, message=message, record=record, record_bytes=1_234_567, target="copy", permanent=True
    )


@pytest.mark.parametrize(
    ("reason", "error", "fragments"),
    [
        pytest.param(
            f"{_ERRORS}.RecordTooLargeException: The request included a message larger than the max message size",
            "TargetError",
            ["orders[0]@123 (1,234,567 bytes", "max.message.bytes of copy (1,000,000 bytes)", "compression.type=lz4"],
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
            "org.apache.kafka.common.InvalidRecordException: One or more records have been rejected",
            "TargetError",
            ["orders[0]@123 was not written", "without a key"],
            id="null-key-in-a-compacted-topic",
        ),
    ],
)
def test_names_the_record_the_target_and_the_reason(reason: str, error: str, fragments: list[str]) -> None:
    failure = failure_of_task(_refused(reason), {"copy": 1_000_000})

    assert failure.error == error
    assert not [fragment for fragment in fragments if fragment not in failure.message], failure.message


def test_a_limit_that_may_not_be_read_is_unknown() -> None:
    failure = failure_of_task(_refused(f"{_ERRORS}.RecordTooLargeException: too large"), {})

    assert "max.message.bytes of copy (unknown, without DESCRIBE_CONFIGS on it)" in failure.message


@pytest.mark.parametrize(
    ("failure", "error", "retriable"),
    [
        (_failure("taken_over"), "RunTakenOverError", True),
        (_failure("target_recreated"), "TargetRecreatedError", True),
        (_failure("progress_unknown"), "ProgressUnknownError", True),
        (_failure("transaction_ended", f"{_ERRORS}.ProducerFencedException: x"), "TransactionEndedError", True),
        (_failure("source_stalled", "java.util.concurrent.TimeoutException: x"), "SourceStalledError", True),
        (_failure("null_topic", permanent=True), "TargetError", False),
        (_failure("null_header_key", permanent=True), "ExpressionError", False),
        (_failure("expression", permanent=True), "ExpressionError", False),
        (_failure("stack_overflow", permanent=True), "ExpressionError", False),
        (_failure("outside_of_piece", permanent=True), "JobFailedError", True),
        (_failure("not_acknowledged"), "BrokerUnavailableError", True),
        (_failure("not_acknowledged", f"{_ERRORS}.TimeoutException: slow"), "BrokerUnavailableError", True),
        (_failure("could_not_begin", f"{_ERRORS}.TimeoutException: slow"), "BrokerUnavailableError", True),
        (
            _failure("could_not_commit", f"{_ERRORS}.GroupAuthorizationException: Not authorized to access group: g"),
            "BrokerAuthorizationError",
            False,
        ),
    ],
    ids=lambda value: (
        f"{value.kind}-{value.reason.partition(':')[0][-20:]}" if isinstance(value, TaskFailure) else None
    ),
)
def test_each_kind_has_an_error(failure: TaskFailure, error: str, retriable: bool) -> None:
    named = failure_of_task(failure, {})

    assert named.error == error
    assert named.message.startswith("It failed.")
    assert error_named(named.error, JobFailedError).retriable is retriable
    assert len(named.message) <= 400


def test_what_spark_throws_may_quote_the_failure_of_a_task() -> None:
    failure = _failure("expression", permanent=True)
    thrown = "Job aborted due to stage failure: java.lang.IllegalStateException: WriteFailure: {}\n\tat a.B.c(B.java:1)"

    named = failure_in(thrown.format(json.dumps(encode(failure, 1))))

    assert (named.error, named.message) == ("ExpressionError", failure_of_task(failure, {}).message)
    assert failure_in(thrown.format('{"kind": "expression"}')).error == "JobFailedError"
