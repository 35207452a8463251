"""The error for the failure of a Spark task: what happened, and what to do. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress

from airflow_provider_kafka_spark.core.errors import JobMemoryError, KafkaSparkError, ProtocolError, TargetError
from airflow_provider_kafka_spark.core.errors.catalogue import error_with_code
from airflow_provider_kafka_spark.core.spark.tuning import COMPRESSION
from airflow_provider_kafka_spark.core.wire.failure_causes import MORE_MEMORY, find_cause
from airflow_provider_kafka_spark.core.wire.protocol import JobRequest
from airflow_provider_kafka_spark.core.wire.writer_messages import TaskFailure

_LIMIT_OF_PRODUCER = re.compile(r"larger than (\d+), which is the value of the max\.request\.size")
#: As ``WriteFailure.java`` writes it.
_OF_A_TASK = re.compile(r"\bWriteFailure: (\{.{1,10000}\})$", re.MULTILINE)


def failure_in(text: str, request: JobRequest | None = None) -> KafkaSparkError:
    """The error for what Spark threw, which may quote the failure of a task.

    :param text: the message with those of all causes.
    :param request: of the job, used to name a missing permission.
    """
    found = _OF_A_TASK.search(text)
    if found is not None:
        # Somebody else's text may look like one.
        with suppress(ProtocolError):
            return failure_of_task(TaskFailure.from_json(found[1]), {}, request)
    return find_cause(text, request)


def failure_of_task(
    failure: TaskFailure, largest: Mapping[str, int], request: JobRequest | None = None
) -> KafkaSparkError:
    """The error of a Spark task.

    :param largest: ``max.message.bytes`` of each target, as far as it is known.
    :param request: of the job, used to name a missing permission.
    :raises ProtocolError: if there is no error with its code.
    """
    reason = failure.reason
    if failure.code == JobMemoryError.code:
        size = f", a record of {failure.record_bytes:,} bytes" if failure.record_bytes else ""
        return JobMemoryError(f"Out of memory near {failure.record}{size} ({reason}): {MORE_MEMORY}")
    if failure.code is not None:
        return error_with_code(failure.code)(f"{failure.message} ({reason})" if reason else failure.message)
    if failure.target is not None and "RecordTooLargeException" in reason:
        return _too_large(failure, failure.target, largest, request)
    # Its text is similar to that of a lost offset.
    if failure.target is not None and "InvalidTimestampException" in reason:
        return TargetError(
            f"{failure.message} {reason} Look at message.timestamp.* of {failure.target}, or pass "
            "preserve_timestamps=False."
        )
    cause = find_cause(reason, request)
    return type(cause)(f"{failure.message} {cause}")


def _too_large(
    failure: TaskFailure, target: str, largest: Mapping[str, int], request: JobRequest | None
) -> TargetError:
    of_record = f"Record {failure.record} ({failure.record_bytes:,} bytes"
    if of_producer := _LIMIT_OF_PRODUCER.search(failure.reason):
        return TargetError(
            f"{of_record}) is larger than max.request.size of the producer ({int(of_producer[1]):,} bytes). Pass "
            f"sink_options={{'kafka.max.request.size': ...}}, and raise max.message.bytes of {target} if that is "
            "smaller; or leave the record out with where."
        )
    limit = f"{largest[target]:,} bytes" if target in largest else "unknown, without DESCRIBE_CONFIGS on it"
    codec = None if request is None else request.sink_options.get(COMPRESSION)
    compressed = "also as the producer compresses it" + (f" ({COMPRESSION}={codec})" if codec else "")
    raise_it = f"If the source has it in a smaller form, pass sink_options={{'{COMPRESSION}': 'zstd'}}; otherwise raise"
    return TargetError(
        f"{of_record} and its headers) is larger than max.message.bytes of {target} ({limit}), {compressed}. "
        f"{raise_it if codec != 'zstd' else 'Raise'} max.message.bytes there, or leave the record out with where."
    )
