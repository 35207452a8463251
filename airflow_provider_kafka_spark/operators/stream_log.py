"""The log lines about the plan of a stream."""

from __future__ import annotations

from typing import Any

from airflow_provider_kafka_spark.core.copies.plan import ReplayPlan
from airflow_provider_kafka_spark.core.shown_text import first_ten
from airflow_provider_kafka_spark.core.streams.checkpoint import Checkpoint
from airflow_provider_kafka_spark.core.streams.stream_plan import StreamPlan


def log_stream_plan(
    log: Any,
    plan: ReplayPlan,
    stream_plan: StreamPlan,
    checkpoint: Checkpoint | None,
    starting_offsets: object,
    finds_delivered: bool,
) -> None:
    """Log what the next run does, and what it does not do.

    :param log: a logger of :mod:`logging`, or Airflow's.
    :param checkpoint: as it is before the run.
    :param starting_offsets: the parameter.
    :param finds_delivered: the job finds out which records of an uncommitted batch the target already has.
    """
    log.info("The plan of stream %s:\n%s", stream_plan.manifest.stream_id, plan.table())
    if checkpoint is not None and stream_plan.is_new:
        log.warning(
            "Starting generation %s of the checkpoint; generation %s stays as it is.",
            stream_plan.generation,
            checkpoint.number,
        )
    elif checkpoint is not None and starting_offsets is not None:
        log.info("Ignoring starting_offsets=%r: the stream resumes from its checkpoint.", starting_offsets)
    batch = checkpoint.uncommitted if checkpoint is not None else None
    if checkpoint is not None and batch is not None and stream_plan.uncommitted_batch is None:
        log.warning(
            "Batch %s of generation %s is uncommitted and is not finished: %s.",
            batch.number,
            checkpoint.number,
            ", ".join(first_ten(checkpoint.uncommitted_ranges.format())) or "no records",
        )
    if batch is not None and stream_plan.uncommitted:
        log.warning(
            "Batch %s of an earlier run is uncommitted: %s. It is finished first, with exactly these offsets; %s.",
            batch.number,
            ", ".join(first_ten(stream_plan.uncommitted.format())),
            "records that the target already has are not written again"
            if finds_delivered
            else "all of it is written again, since without provenance headers there is no way to find what the target "
            "already has",
        )
    if stream_plan.added:
        added = first_ten([str(p) for p in stream_plan.added])
        log.info("New to the stream, and read from their beginning: %s.", ", ".join(added))
