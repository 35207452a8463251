"""The error for the failure of a Spark task: what happened, and what to do. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress

from airflow_provider_kafka_spark.core.errors import ProtocolError
from airflow_provider_kafka_spark.core.handoff.failure_causes import find_cause
from airflow_provider_kafka_spark.core.handoff.tuning import sink_defaults
from airflow_provider_kafka_spark.core.handoff.writer_messages import TaskFailure
from airflow_provider_kafka_spark.core.protocol import JobFailure, JobRequest

_CODEC = "kafka.compression.type"
_LIMIT_OF_PRODUCER = re.compile(r"larger than (\d+), which is the value of the max\.request\.size")
#: As ``WriteFailure.java`` writes it.
_OF_A_TASK = re.compile(r"\bWriteFailure: (\{.{1,10000}\})$", re.MULTILINE)
#: For each kind of failure the name in the error tree, and what to do. The other kinds are named by their reason.
_ERRORS: Mapping[str, tuple[str, str]] = {
    "taken_over": ("RunTakenOverError", "Nothing more is written by this job, and nothing twice."),
    "target_recreated": (
        "TargetRecreatedError",
        "What went to the earlier topic is lost. Create the topic if it does not exist: a retry then writes all "
        "records to the new one.",
    ),
    "progress_unknown": (
        "ProgressUnknownError",
        "This Spark task has written nothing. A retry finds out what was delivered.",
    ),
    "transaction_ended": (
        "TransactionEndedError",
        "Nothing of it is in the target. A retry goes on from what was committed; if it happens again, raise "
        "kafka.transaction.timeout.ms in sink_options.",
    ),
    "source_stalled": (
        "SourceStalledError",
        "A retry goes on from what was committed. Look at the brokers of the source, or raise "
        "kafkaConsumer.pollTimeoutMs in source_options.",
    ),
    "source_damaged": (
        "SourceDamagedError",
        "Look at the disk of the partition's leader, or move the leader to another replica; a retry goes on from what "
        "was committed.",
    ),
    "null_topic": (
        "TargetError",
        "Use coalesce in target_topic_expr, add the topic to topic_map, or leave such records out with where.",
    ),
    "unknown_schema_id": (
        "OptionError",
        "Add it with the id that the schema has in the target's registry, or leave such records out with where.",
    ),
    "null_header_key": (
        "ExpressionError",
        "columns['headers'] gave a header that is null or has no key: use filter or coalesce in it.",
    ),
    "expression": (
        "ExpressionError",
        "It would fail again: use try_cast, get or coalesce, or leave such records out with where. What the record "
        "holds is not shown.",
    ),
    "stack_overflow": (
        "ExpressionError",
        "An expression in where, columns or target_topic_expr is too deep, or a regular expression in it needs too "
        "much stack for the value of a record: simplify it, or leave such records out with where.",
    ),
    "outside_of_piece": (
        "JobFailedError",
        "This is a fault of this package; please report it with the plan. Nothing of this record was written.",
    ),
}


def failure_in(text: str, request: JobRequest | None = None) -> JobFailure:
    """Name what Spark threw, which may quote the failure of a task.

    :param text: the message with those of all causes.
    :param request: of the job, used to name a missing permission.
    """
    found = _OF_A_TASK.search(text)
    if found is not None:
        # Somebody else's text may look like one.
        with suppress(ProtocolError):
            return failure_of_task(TaskFailure.from_json(found[1]), {}, request)
    return find_cause(text, request)


def failure_of_task(failure: TaskFailure, largest: Mapping[str, int], request: JobRequest | None = None) -> JobFailure:
    """Name the failure of a Spark task.

    :param largest: ``max.message.bytes`` of each target, as far as it is known.
    :param request: of the job, used to name a missing permission.
    """
    if failure.kind in _ERRORS:
        name, advice = _ERRORS[failure.kind]
        reason = f" ({failure.reason})" if failure.reason else ""
        return JobFailure(name, f"{failure.message}{reason} {advice}")
    if failure.kind == "refused":
        return _refused(failure, largest, request)
    if not failure.reason:
        return JobFailure("BrokerUnavailableError", f"{failure.message} A retry goes on from what was committed.")
    cause = find_cause(failure.reason, request)
    return JobFailure(cause.error, f"{failure.message} {cause.message}")


def _refused(failure: TaskFailure, largest: Mapping[str, int], request: JobRequest | None) -> JobFailure:
    """The failure of a record that the target never takes."""
    reason, target = failure.reason, failure.target or ""
    # Its text is similar to that of a lost offset.
    if "InvalidTimestampException" in reason:
        return JobFailure(
            "TargetError",
            f"{failure.message} {reason} Look at message.timestamp.* of {target}, or pass preserve_timestamps=False.",
        )
    if "RecordTooLargeException" not in reason:
        cause = find_cause(reason, request)
        return JobFailure(cause.error, f"{failure.message} {cause.message}")
    of_record = f"Record {failure.record} ({failure.record_bytes:,} bytes"
    if of_producer := _LIMIT_OF_PRODUCER.search(reason):
        return JobFailure(
            "TargetError",
            f"{of_record}) is larger than max.request.size of the producer ({int(of_producer[1]):,} bytes). Pass "
            f"sink_options={{'kafka.max.request.size': ...}}, and raise max.message.bytes of {target} if that is "
            "smaller; or leave the record out with where.",
        )
    limit = f"{largest[target]:,} bytes" if target in largest else "unknown, without DESCRIBE_CONFIGS on it"
    codec = (sink_defaults() if request is None else request.sink_options).get(_CODEC, "none")
    raise_it = f"If the source has it in a smaller form, pass sink_options={{'{_CODEC}': 'zstd'}}; otherwise raise"
    return JobFailure(
        "TargetError",
        f"{of_record} and its headers) is larger than max.message.bytes of {target} ({limit}), also as the producer "
        f"compresses it ({_CODEC}={codec}). {raise_it if codec != 'zstd' else 'Raise'} max.message.bytes there, or "
        "leave the record out with where.",
    )
