"""The fields of a request that only a stream has: the checkpoint, and how the job uses it."""

from __future__ import annotations

import json

from airflow_provider_kafka_spark.core.copies.plan import ReplayPlan
from airflow_provider_kafka_spark.core.offsets.offset_range import by_topic
from airflow_provider_kafka_spark.core.streams.checkpoint import Checkpoint
from airflow_provider_kafka_spark.core.streams.stream_plan import StreamPlan
from airflow_provider_kafka_spark.core.wire.protocol import StreamRequest
from airflow_provider_kafka_spark.state.checkpoint import CheckpointFolder


def stream_request(
    folder: CheckpointFolder,
    checkpoint: Checkpoint | None,
    stream_plan: StreamPlan,
    plan: ReplayPlan,
    *,
    is_assigned: bool,
    stale_lock: str | None,
    owner: str,
    max_offsets_per_trigger: int | None,
) -> StreamRequest:
    """The additional fields for a stream.

    :param checkpoint: as it is before the run.
    :param plan: from where the stream stands to the end of the log.
    :param is_assigned: partitions are assigned, and not whole topics subscribed to.
    :param stale_lock: text of a lock that may be taken over because its owner is gone.
    :param owner: the task's run, for the lock.
    :param max_offsets_per_trigger: of one micro-batch; None for no limit.
    """
    last, unfinished = -1, None
    if checkpoint is not None and stream_plan.uncommitted_batch is not None:
        last, unfinished = stream_plan.uncommitted_batch, folder.generation_uri(checkpoint.number)
    elif checkpoint is not None and checkpoint.committed is not None and not stream_plan.is_new:
        last = checkpoint.committed.number
    return StreamRequest(
        stream_id=stream_plan.manifest.stream_id,
        planned=tuple(plan.ranges.format()),
        source=_subscription(plan, is_assigned=is_assigned),
        starting_offsets=_starting_json(stream_plan, plan),
        checkpoint=folder.generation_uri(stream_plan.generation),
        record=stream_plan.manifest.to_json(),
        last_batch=last,
        lock=folder.lock_uri,
        latest_submission=folder.submission_uri,
        stale_lock=stale_lock,
        owner=owner,
        unfinished_batch=stream_plan.uncommitted_batch,
        unfinished_checkpoint=unfinished,
        max_offsets_per_trigger=max_offsets_per_trigger,
    )


def _subscription(plan: ReplayPlan, *, is_assigned: bool) -> dict[str, str]:
    """The matched names, since Spark's own pattern is an unanchored search."""
    by_topic = plan.ranges.by_topic()
    if not is_assigned:
        return {"subscribe": ",".join(by_topic)}
    assign = {topic: [r.partition for r in of_topic] for topic, of_topic in by_topic.items()}
    return {"assign": json.dumps(assign)}


def _starting_json(stream_plan: StreamPlan, plan: ReplayPlan) -> str:
    """The offsets of Spark's first batch; a partition that is added later starts at its earliest offset, -2."""
    starting = stream_plan.manifest.starting
    return json.dumps(by_topic({p: starting.get(p, -2) for p in plan.ranges.topic_partitions}))
