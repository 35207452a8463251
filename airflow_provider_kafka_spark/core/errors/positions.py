"""Errors of what keeps how far a reader is: checkpoints of streams, and consumer groups."""

from __future__ import annotations

from airflow_provider_kafka_spark.core.errors import commands
from airflow_provider_kafka_spark.core.errors.base import KafkaSparkError, listed


class CheckpointError(KafkaSparkError):
    """A checkpoint is damaged, out of reach, or belongs to another job.

    Restore the file that the message names, or pass another ``checkpoint_location``. For a changed job, pass the
    ``reset_checkpoint_to`` that the message gives.
    """

    code = "KS300"
    causes = listed(
        "checkpoint_location is that of another task, or its topics or options have changed.",
        "The storage does not answer, or the login may not read it.",
        "A file of the checkpoint was removed or cut.",
    )
    checks = listed(commands.RENDER, "hadoop fs -ls CHECKPOINT_LOCATION")


class CheckpointMissingError(CheckpointError):
    """There is no checkpoint where a sensor expects one.

    Correct the location, run the stream first, or add ``"if_missing": "earliest"`` to ``since``.
    """

    code = "KS301"
    causes = listed(
        "The location is misspelt.",
        "The stream has never run.",
    )


class CheckpointInUseError(CheckpointError):
    """Another run is using the checkpoint.

    Set ``max_active_runs=1`` for the DAG, and give each task a ``checkpoint_location`` of its own.
    """

    code = "KS302"
    retriable = True
    causes = listed(
        "Another run of the DAG is active.",
        "Two tasks have the same checkpoint_location.",
        "The driver of an earlier try still runs on the cluster.",
    )
    checks = listed("airflow dags list-runs DAG_ID --state running")


class CheckpointUnavailableError(CheckpointError):
    """The storage of a checkpoint did not answer a trigger in time.

    A retry asks again. Check that the triggerer reaches the storage.
    """

    code = "KS303"
    retriable = True
    causes = listed(
        "The storage hangs, as a mount of a server that is down does.",
        "The triggerer's network does not lead to it.",
    )


class ConsumerGroupError(KafkaSparkError):
    """A consumer group has members, or did not take all offsets.

    Pass a ``commit_group_id`` that nobody consumes with.
    """

    code = "KS400"
    retriable = True
    causes = listed("An application consumes with the group that offsets are committed for.")
    checks = listed(commands.MEMBERS)


class ConsumerGroupActiveError(ConsumerGroupError):
    """A consumer group to which offsets are committed is active: its state is neither Empty nor Dead.

    Stop its consumers and wait until their session has ended, or pass another ``target_group_id``.
    """

    code = "KS401"
    causes = listed(
        "The consumers of the group still run.",
        "They have just stopped, and their session has not ended yet.",
    )
