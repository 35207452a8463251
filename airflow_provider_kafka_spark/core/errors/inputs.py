"""Errors of what was given: parameters and connections. Nothing was started, or a record has shown it."""

from __future__ import annotations

from airflow_provider_kafka_spark.core.errors import commands
from airflow_provider_kafka_spark.core.errors.base import KafkaSparkError, listed


class InvalidInputError(KafkaSparkError):
    """A parameter cannot be right. Nothing was started.

    Correct the parameter that the message names. If it is a template, check what it rendered to.
    """

    code = "KS100"
    causes = listed(
        "A parameter has a value that it cannot have.",
        "A template rendered to something else than expected, such as an empty text or 'None'.",
        "A template uses the date of a run that has none.",
    )
    checks = listed(commands.RENDER)


class OffsetRangeError(InvalidInputError):
    """An offset range is malformed, given twice or overlaps another one.

    Correct ``offset_ranges``, or pass ``merge_overlaps=True`` to write the records of overlapping ranges once.
    """

    code = "KS101"
    causes = listed(
        "The end of a range is not after its start.",
        "Two ranges have offsets in common, as when an incident's list was put together by hand.",
        "A list was given as text of another form.",
    )
    checks = listed(commands.RENDER, commands.STARTS, commands.ENDS)


class BoundError(InvalidInputError):
    """A start, an end or a time window is malformed, reversed, empty or in the future.

    Correct the offsets or timestamps that the message names.
    """

    code = "KS102"
    causes = listed(
        "Start and end are exchanged, or equal.",
        "The end of a window is in the future, as in a run that was started by hand.",
        "A timestamp has no time zone, or is in seconds instead of milliseconds.",
    )


class OptionError(InvalidInputError):
    """An option is misspelt, refused, ignored by Spark, or contradicts another one.

    Correct or remove the option. The message names the parameter to use instead, if there is one.
    """

    code = "KS103"
    causes = listed(
        "The name of the option is misspelt.",
        "The option is one that this package sets by itself, or that would change what is read.",
        "Two parameters exclude each other.",
    )


class ExpressionError(InvalidInputError):
    """An SQL expression does not compile, is not permitted, or fails on the data of a record.

    Correct ``where``, ``columns``, ``reject_when`` or ``target_topic_expr``, or leave out the records on which it
    fails.
    """

    code = "KS104"
    causes = listed(
        "A column or an SQL function does not exist; the source has key, value, topic, partition, offset, "
        "timestamp, timestampType and headers.",
        "key and value are binary: compare them after CAST(value AS STRING).",
        "A record's value is not of the form that the expression expects.",
        "A record's timestamp is one of microseconds or nanoseconds, which Spark SQL cannot hold.",
    )


class AuditInputError(InvalidInputError):
    """A result cannot be audited: it is a plan, of another kind of task, or of a copy with ``provenance=None``.

    Pass the result of a task that has copied, as it was returned.
    """

    code = "KS105"
    causes = listed(
        "The value is the result of another task, or a plan.",
        "The copy ran with provenance=None, so nothing tells which records of the target are its own.",
        "The connection leads to another cluster than that of the copy.",
    )
    checks = listed(commands.RENDER, commands.CONNECTION)


class ConnectionConfigError(InvalidInputError):
    """An Airflow connection is incomplete, or has a property that one of the two Kafka clients does not know.

    Correct the property of the connection that the message names.
    """

    code = "KS106"
    causes = listed(
        "It has no bootstrap.servers.",
        "Only one of librdkafka (on the worker) and Kafka's Java client (in Spark) knows a property.",
        "A file that the connection names does not exist on the worker.",
    )
    checks = listed(commands.CONNECTION)


class ConnectionNotFoundError(ConnectionConfigError):
    """Airflow returned no connection: there is none of this id, or its API or secrets backend did not answer.

    Airflow does not tell the two apart, so a retry asks again. If there is none, add it, or correct the id.
    """

    code = "KS109"
    retriable = True
    causes = listed(
        "No connection has this id.",
        "Airflow's API server or the secrets backend was down or overloaded.",
    )


class TargetError(InvalidInputError):
    """The target cannot take the records: it is missing, is a source too, has too few partitions, or refuses a record.

    Create or change the target topic, or leave out the record that the message names. Then clear the task.
    """

    code = "KS107"
    causes = listed(
        "The target topic does not exist, or has fewer partitions than preserve_partition needs.",
        "The target topic is also among the source topics.",
        "A record is larger than the target's max.message.bytes, or has no key and the target is compacted.",
        "The target would replace, refuse or delete the timestamps of the records.",
    )
    checks = listed(commands.TOPIC, commands.TOPIC_CONFIG)


class TargetRecreatedError(TargetError):
    """A target was deleted, or deleted and recreated, while the job ran: what went to the earlier topic is lost.

    Create the topic if it does not exist. A retry writes all records to the new one.
    """

    code = "KS108"
    retriable = True
    causes = listed("Somebody deleted the target topic while the job ran.")
