from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_kafka_spark import jobs
from airflow_provider_kafka_spark.core.errors import (
    BrokerAuthorizationError,
    BrokerUnavailableError,
    ExpressionError,
    JobFailedError,
    JobMemoryError,
    KafkaSparkError,
    ProtocolError,
    TargetError,
    TransactionEndedError,
)
from airflow_provider_kafka_spark.core.errors.catalogue import all_errors
from airflow_provider_kafka_spark.core.wire.codec import encode
from airflow_provider_kafka_spark.core.wire.task_failures import failure_in, failure_of_task
from airflow_provider_kafka_spark.core.wire.writer_messages import TaskFailure
from tests.core.job_requests import job_request

_ERRORS = "org.apache.kafka.common.errors"


def _failure(code: str | None, reason: str = "", **fields: Any) -> TaskFailure:
    defaults = {"message": "It failed.", "record": None, "record_bytes": 0, "target": None, "permanent": False}
    return TaskFailure(**{"code": code, "reason": reason} | defaults | fields)


def _refused(reason: str) -> TaskFailure:
    record, message = "orders[0]@123", "Record orders[0]@123 was not written to copy."
    return _failure(None, reason, message=message, record=record, record_bytes=1_234_567, target="copy", permanent=True)


@pytest.mark.parametrize(
    ("reason", "fragments"),
    [
        pytest.param(
            f"{_ERRORS}.RecordTooLargeException: The request included a message larger than the max message size",
            [
                "orders[0]@123 (1,234,567 bytes",
                "max.message.bytes of copy (1,000,000 bytes)",
                "also as the producer compresses it (kafka.compression.type=lz4)",
            ],
            id="too-large-for-the-target",
        ),
        pytest.param(
            f"{_ERRORS}.RecordTooLargeException: The message is 9000 bytes when serialized which is larger than 8000, "
            "which is the value of the max.request.size configuration.",
            ["orders[0]@123 (1,234,567 bytes", "max.request.size of the producer (8,000 bytes)", "sink_options"],
            id="too-large-for-the-producer",
        ),
        pytest.param(
            f"{_ERRORS}.InvalidTimestampException: Timestamp 1 of message with offset 0 is out of range.",
            ["orders[0]@123 was not written to copy", "Timestamp 1 of message", "message.timestamp"],
            id="timestamp",
        ),
        pytest.param(
            "org.apache.kafka.common.InvalidRecordException: One or more records have been rejected",
            ["orders[0]@123 was not written", "without a key"],
            id="null-key-in-a-compacted-topic",
        ),
    ],
)
def test_names_the_record_the_target_and_the_reason(reason: str, fragments: list[str]) -> None:
    request = job_request(sink_options={"kafka.compression.type": "lz4"})
    failure = failure_of_task(_refused(reason), {"copy": 1_000_000}, request)

    assert type(failure) is TargetError
    assert not [fragment for fragment in fragments if fragment not in str(failure)], str(failure)


def test_a_limit_that_may_not_be_read_is_unknown() -> None:
    failure = failure_of_task(_refused(f"{_ERRORS}.RecordTooLargeException: too large"), {})

    assert "max.message.bytes of copy (unknown, without DESCRIBE_CONFIGS on it)" in str(failure)


@pytest.mark.parametrize(
    ("reason", "error"),
    [
        (f"{_ERRORS}.TimeoutException: slow", BrokerUnavailableError),
        (f"{_ERRORS}.GroupAuthorizationException: Not authorized to access group: g", BrokerAuthorizationError),
    ],
)
def test_without_a_code_the_clients_error_says_which_it_is(reason: str, error: type[KafkaSparkError]) -> None:
    named = failure_of_task(_failure(None, reason), {})

    assert type(named) is error
    assert str(named).startswith("It failed. ")
    assert len(str(named)) <= 400


def test_a_code_says_which_error_it_is() -> None:
    with_reason = failure_of_task(_failure(TransactionEndedError.code, "fenced"), {})

    assert (type(with_reason), str(with_reason)) == (TransactionEndedError, "It failed. (fenced)")
    with pytest.raises(ProtocolError, match="KS000"):
        failure_of_task(_failure("KS000"), {})


@pytest.mark.parametrize(("size", "shown"), [(12_800, ", a record of 12,800 bytes"), (0, "")])
def test_a_lack_of_memory_names_the_record(size: int, shown: str) -> None:
    reason = "java.lang.OutOfMemoryError: Java heap space"
    named = failure_of_task(_failure("KS716", reason, record="orders[0]@50", record_bytes=size), {})

    assert isinstance(named, JobMemoryError)
    assert named.place == "orders[0]@50"
    assert str(named).startswith(f"Out of memory near orders[0]@50{shown} ({reason}): raise driver_memory")


def test_what_spark_throws_may_quote_the_failure_of_a_task() -> None:
    thrown = "Job aborted due to stage failure: java.lang.IllegalStateException: WriteFailure: {}\n\tat a.B.c(B.java:1)"

    named = failure_in(thrown.format(json.dumps(encode(_failure(ExpressionError.code), 1))))

    assert (type(named), str(named)) == (ExpressionError, "It failed.")
    # Whatever looks like one.
    for other in ('{"code": "KS104"}', json.dumps(encode(_failure("KS000"), 1))):
        assert type(failure_in(thrown.format(other))) is JobFailedError


def test_the_codes_of_the_writer_are_of_the_catalogue() -> None:
    """By the names of their errors."""
    source = (Path(jobs.__file__).parent / "writer" / "WriteFailure.java").read_text()
    used = dict(re.findall(r'String ([A-Z_]+) = "(KS\d+)";', source))

    assert used
    names = {name: "".join(word.capitalize() for word in name.split("_")) + "Error" for name in used}
    assert {names[name]: code for name, code in used.items()} == {
        error.__name__: error.code for error in all_errors() if error.__name__ in names.values()
    }
