"""Errors of a job that ran and did not prove delivery."""

from __future__ import annotations

import re

from airflow_provider_kafka_spark.core.errors import commands
from airflow_provider_kafka_spark.core.errors.base import KafkaSparkError, listed

#: In the message of an error for lack of memory.
_PLACE = re.compile(r"\bOut of memory near (\S+@\d+|the first record of a part of the (?:source|target))")


class JobError(KafkaSparkError):
    """The Spark job ran and did not prove delivery.

    Look at the subclass: it names what is wrong.
    """

    code = "KS700"
    checks = listed(commands.YARN_LOG, commands.POD_LOG)


class JobFailedError(JobError):
    """The job reported a failure that has no name of its own.

    Look at the cause in the message and at the driver's log.
    """

    code = "KS701"
    retriable = True
    causes = listed(
        "An executor or the driver failed in a way that has no error of its own.",
        "The cluster took its resources away.",
    )


class JobReportMissingError(JobError):
    """The job ended without a report: its driver died, or the report was lost.

    Look at the end of the driver's log in the message, such as for lack of memory.
    """

    code = "KS702"
    retriable = True
    causes = listed(
        "The driver had too little memory and was killed.",
        "The driver's pod or container was evicted.",
        "The driver cannot write to report_location.",
    )
    checks = listed(commands.YARN_LOG, commands.POD)


class JobReportForgedError(JobError):
    """The report was not written by the submitted job, or was changed afterwards.

    Check who may write to ``report_location``.
    """

    code = "KS703"
    retriable = True
    causes = listed("Another job, or a person, writes to the same report_location.")


class DeliveryError(JobError):
    """The job's report does not match the plan: records may be missing from the target.

    Wait for the retry: it writes what is missing, and that of a stream names what the stream has passed. If it fails
    too, look at the ranges in the message.
    """

    code = "KS704"
    retriable = True
    causes = listed(
        "The result of a Spark task was lost.",
        "The brokers acknowledged fewer records than were planned.",
    )
    checks = listed("python -m airflow_provider_kafka_spark.audit RESULT.json")


class UncopiedRecordsError(JobError):
    """A failed try of a stream has committed a batch of which not every record was copied.

    No retry copies them, as the stream is past them. Copy the ranges of the message with
    ``ReplayOffsetRangesOperator``, and mark the task as successful: the next run goes on after them. Or begin again
    with ``reset_checkpoint_to``.
    """

    code = "KS718"
    causes = listed(
        "The brokers acknowledged fewer records than the batch has.",
        "The job did not see records that the source has.",
    )
    checks = listed("python -m airflow_provider_kafka_spark.audit RESULT.json")


class AuditFindingError(JobError):
    """An audit found records of a past copy missing, duplicated or different in the target.

    Replay ``missing_ranges`` of the result if records are missing. Pass ``fail_on_finding=False`` to have findings
    reported only.
    """

    code = "KS705"
    causes = listed(
        "Records of the target aged out, were compacted or deleted since the copy.",
        "A copy with at_least_once was repeated.",
        "Something else writes to the target with the same header.",
    )
    checks = listed("airflow kafka-spark coverage --help", commands.TOPIC_CONFIG)


class DuplicateRecordsError(JobError):
    """All records were delivered, and some of them more than once.

    Remove the surplus by the provenance header, or pass ``allow_duplicates=True`` to have it reported only.
    """

    code = "KS706"
    causes = listed("A Spark task or the whole job was repeated, with delivery='at_least_once'.")
    checks = listed("python -m airflow_provider_kafka_spark.audit RESULT.json")


class PausedTooLongError(JobError):
    """The consumer group of ``pause_while_lag`` did not catch up within ``max_pause``, or its lag was unknown for that
    long.

    Look at the consumers of the group. A retry continues where this try stopped.
    """

    code = "KS707"
    retriable = True
    causes = listed(
        "The consumers of the group stand still, or are slower than the producers.",
        "The group has no committed offsets, so that its lag is unknown.",
    )
    checks = listed(commands.GROUP)


class RunTakenOverError(JobError):
    """A later try of the same run writes now. This one was fenced and no longer writes.

    If it was a later try of the task, nothing: that one finishes the run. If it was another deployment of Airflow, give
    each its own name (``[kafka_spark] deployment``).
    """

    code = "KS708"
    retriable = True
    causes = listed(
        "Airflow took this try for lost and began another one.",
        "Another deployment of Airflow has the same [kafka_spark] deployment, and runs a DAG and task of the same "
        "names on this Kafka: the two stop each other.",
    )


class JobTokenEndedError(JobError):
    """The delegation token that the job logged in with ended while it ran.

    Raise ``delegation.token.max.lifetime.ms``, or split the job.
    """

    code = "KS709"
    retriable = True
    causes = listed("The job ran longer than the token may live.")
    checks = listed(commands.TOKENS)


class EarlierJobUnknownError(JobError):
    """It is unknown whether the job of an earlier try still runs. A second job could write the same records again.

    Give the worker access to YARN's ResourceManager or to Kubernetes, as the message says.
    """

    code = "KS710"
    retriable = True
    causes = listed(
        "The cluster's API did not answer.",
        "The worker has no permission to read the application or the pod.",
    )
    checks = listed("yarn application -status APPLICATION_ID", "kubectl auth can-i get pods")


class ProgressUnknownError(JobError):
    """The committed progress of a Spark task is gone, so it is unknown what it has delivered. Nothing was written.

    Nothing: a retry reads the target back.
    """

    code = "KS711"
    retriable = True
    causes = listed("The committed progress expired (offsets.retention.minutes), or was deleted.")


class TransactionEndedError(JobError):
    """The brokers ended a transaction of the job: it was open for too long, or another attempt of its task took over.

    Nothing, if it is rare. Else raise ``kafka.transaction.timeout.ms`` in ``sink_options``.
    """

    code = "KS712"
    retriable = True
    causes = listed(
        "A transaction was open for longer than the time-out, as with slow brokers or a long pause of the JVM.",
        "InvalidPidMappingException: the brokers have forgotten a transactional id that rested for longer than "
        "their transactional.id.expiration.ms, 7 days by default. A retry gets a new one.",
        "Spark started a second attempt of the same task.",
    )
    checks = listed(commands.TRANSACTIONS)


class SourceStalledError(JobError):
    """The source gave no records for longer than ``kafkaConsumer.pollTimeoutMs``. What was committed stays.

    Check the brokers of the source, or raise ``kafkaConsumer.pollTimeoutMs`` in ``source_options``.
    """

    code = "KS713"
    retriable = True
    causes = listed(
        "A broker of the source is overloaded or a partition has no leader.",
        "An open transaction hides the records that come next.",
        "A quota throttles the login.",
    )
    checks = listed(commands.TOPIC, commands.HANGING)


class JobKilledError(JobError):
    """The task was killed, and its job ordered to end. Airflow decides whether it is tried again.

    If the cluster did not take the order, the message says that the job may still run. Clear the task to go on. It
    writes only what is missing.
    """

    code = "KS714"
    retriable = True
    causes = listed(
        "A person or a time-out (execution_timeout) ended the task.",
        "The worker stopped, or ran out of memory.",
    )


class SourceDamagedError(JobError):
    """A record batch of the source is damaged: its checksum is wrong, it is cut off, or its format is not known.

    Its message says from which offset on the attempt has written nothing. Look at the disk of the partition's leader,
    or move the leader to another replica.
    """

    code = "KS715"
    retriable = True
    causes = listed(
        "A disk of a broker has damaged the log of the partition.",
        "The network has damaged the answer of a broker; then a retry passes.",
    )
    checks = listed(commands.TOPIC)


class JobMemoryError(JobError):
    """A JVM of the job had no memory left.

    Raise ``driver_memory`` with a local master, and ``executor_memory`` otherwise.
    """

    code = "KS716"
    retriable = True
    causes = listed(
        "A record, or a batch of compressed records, is much larger unpacked than in the log, and the JVM has 1 GB by "
        "default.",
        "Many Spark tasks run side by side in one JVM (executor_cores, local[*]).",
    )
    checks = listed("airflow kafka-spark peek TOPIC:PARTITION:FROM:UNTIL")

    @property
    def place(self) -> str | None:
        """Near which record memory ended, such as ``orders[0]@50``; None if it is not known. It is that record, or one
        of those that were unpacked together with it. An audit may know only that it is the first that a task reads.
        """
        found = _PLACE.search(str(self))
        return None if found is None else found[1]


class RepeatedMemoryError(JobMemoryError):
    """The job had no memory left at the same record again. Another try would end there too.

    Raise ``driver_memory`` with a local master, and ``executor_memory`` otherwise, or leave the record out with
    ``where``, and clear the task. What was committed is not written again.
    """

    code = "KS717"
    retriable = False
    causes = listed("The record, unpacked, needs more memory than the JVM has, as two tries have shown.")
