"""Errors of a plan: the broker does not hold what it asks for, or it may not be carried out."""

from __future__ import annotations

from airflow_provider_kafka_spark.core.errors import commands
from airflow_provider_kafka_spark.core.errors.base import KafkaSparkError, listed


class PlanError(KafkaSparkError):
    """The broker does not hold what the plan asks for.

    Correct the offsets. If the log was longer before, the topic was deleted and recreated.
    """

    code = "KS200"
    causes = listed("The offsets are not those of this topic or cluster.")
    checks = listed(commands.STARTS, commands.ENDS, commands.TOPIC)


class PlanTooLargeError(PlanError):
    """A plan has more records than the task permits, or more than 100,000 ranges.

    Look at the plan in the log. Correct what is read, raise ``max_planned_records``, or copy the ranges by several
    tasks.
    """

    code = "KS201"
    causes = listed(
        "A start is earlier than was meant, such as 'earliest'.",
        "A topic has more records than usual.",
    )


class PlanOutdatedError(PlanError):
    """What ``plan=`` is to carry out has changed since it was planned: records are gone, or a topic was recreated.
    Nothing was copied.

    Make a new plan, and have it approved: clear the task that plans.
    """

    code = "KS202"
    causes = listed(
        "Records aged out between the plan and its execution.",
        "A topic was deleted and recreated.",
        "Parameters of the task differ from those of the plan.",
    )


class AlreadyDeliveredError(PlanError):
    """The records were copied before, and ``on_rerun`` permits no second copy, or nothing tells which ones are there.
    Nothing was started.

    Pass ``on_rerun="missing_only"`` to write what the target lacks, or ``"copy_again"``. If another run has copied all
    of it while this one waited, mark the task as success.
    """

    code = "KS203"
    causes = listed(
        "A task that has succeeded was cleared.",
        "A backfill runs intervals again that are done.",
        "Somebody has replayed the ranges while the run was queued.",
    )
    checks = listed("airflow kafka-spark coverage --help")


class UnknownTopicError(PlanError):
    """A topic or partition does not exist, or the login may not see it.

    Correct the name, create the topic, or grant DESCRIBE on it.
    """

    code = "KS204"
    causes = listed(
        "The name is misspelt, or its template rendered to another one.",
        "The connection leads to another cluster.",
        "The login may not DESCRIBE the topic: brokers then answer as if there were none.",
    )


class ConcurrentRunsError(PlanError):
    """Another run of the same task looked for new records at the same time, and found them first.

    Set ``max_active_runs=1`` for the DAG.
    """

    code = "KS205"
    retriable = True
    causes = listed("Several runs of the DAG are active at the same time.")
    checks = listed("airflow dags list-runs DAG_ID --state running")


class GroupOffsetsError(PlanError):
    """A group's offsets cannot be translated: it has none, they are not of this topic, or the target has no records
    that a copy has written.

    Correct group, topics and target. The target's records need the header of ``provenance="headers"``.
    """

    code = "KS206"
    causes = listed(
        "The group has committed no offsets on these topics.",
        "The record at the group's offset was never copied, or was copied without the provenance header.",
    )
    checks = listed(commands.GROUP, commands.STARTS)


class TopicRecreatedError(PlanError):
    """A source or target of an audited copy was deleted or recreated since, or its log was cut.

    Nothing can be compared: an audit says nothing about what was in the earlier topic. Copy again, if the records are
    needed.
    """

    code = "KS207"
    causes = listed(
        "The topic was deleted and recreated since the copy.",
        "Records were deleted by kafka-delete-records.sh.",
    )


class DataLossError(PlanError):
    """Requested records are no longer available: they aged out, the topic was deleted or recreated, or its log was cut.

    Clear the task to plan again, or pass ``fail_on_data_loss=False`` to copy what is left. The rest is then in
    ``missing_ranges`` of the result.
    """

    code = "KS208"
    causes = listed(
        "retention.ms or retention.bytes of the topic removed the records before they were copied.",
        "The DAG was paused, or failed, for longer than the retention.",
        "The topic was deleted and recreated, so that its offsets begin again.",
        "Ranges of another task's result are of a topic that was recreated, or of another cluster.",
        "An unclean leader election cut the log: a replica that lacked records became the leader.",
    )
    checks = listed(commands.STARTS, commands.TOPIC_CONFIG)


class OpenTransactionError(PlanError):
    """An open transaction of a producer hides requested records.

    A retry looks again. Give the task ``retries``, or wait with ``KafkaTimestampReachedSensor``. A transaction that
    stays open ends by its own time-out (``transaction.timeout.ms`` of its producer).
    """

    code = "KS209"
    retriable = True
    causes = listed(
        "A producer is still writing its transaction.",
        "A producer died within a transaction, which ends by transaction.timeout.ms.",
        "A transaction hangs: the brokers do not end it.",
    )
    checks = listed(commands.TRANSACTIONS, commands.HANGING)
