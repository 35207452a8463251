"""What a failed run has delivered, by the progress that was committed with its records."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import confluent_kafka
from confluent_kafka import KafkaException

from airflow_provider_kafka_spark.clients.kafka_client import KafkaClient
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, OffsetRanges, TopicPartition
from airflow_provider_kafka_spark.core.offsets.pieces import partition_name, split_name
from airflow_provider_kafka_spark.core.runs.run_identity import owner_group, progress_group
from airflow_provider_kafka_spark.core.runs.run_protocol import Mark, MarkState, latest


def delivered_by_progress(
    client: KafkaClient,
    instance: str,
    run_id: str,
    targets: Collection[str],
    planned: OffsetRanges,
    topic_ids: Mapping[str, str],
    finished: OffsetRanges,
) -> OffsetRanges:
    """The part of a plan that is known to be in the target. Another part may be there too, if the run had to read the
    target back.

    :param client: of the target's cluster.
    :param instance: by which the run is found, see ``core.runs.run_identity``.
    :param run_id: of the run; progress of another one does not count.
    :param targets: every topic that may be written to.
    :param topic_ids: id of each source topic, as far as it is known.
    :param finished: what has been delivered if the run is finished: a plan that was made after a clear has more.
    :raises BrokerError: if the broker does not answer.
    """
    group = owner_group(instance)
    committed = _committed(client, group, [TopicPartition(topic, 0) for topic in targets])
    mark = latest(Mark.from_json(text) for _, text in committed.values() if text)
    if mark is None or mark.run_id != run_id or mark.state == MarkState.OPENING.value:
        return OffsetRanges()
    if mark.state == MarkState.FINISHED.value:
        return planned.intersect(finished)
    partitions = {partition_name(partition, topic_ids): partition for partition, _ in planned.by_partition()}
    slots = [TopicPartition(min(targets), number) for number in range(mark.width)]
    found = []
    for number in range(mark.groups):
        progress = _committed(client, progress_group(instance, mark.key, number), slots)
        for position, text in progress.values():
            found += list(_copied(text.partition("\n")[0], position, partitions))
    return planned.intersect(OffsetRanges(found).merge())


def _copied(name: str, position: int, partitions: Mapping[str, TopicPartition]) -> Iterator[OffsetRange]:
    """What a piece has copied that stands at ``position``.

    :param partitions: of the plan, by what the names of their pieces begin with.
    """
    of_partition, start, end = split_name(name) or ("", 0, 0)
    partition = partitions.get(of_partition)
    if partition is not None and start < position <= end:
        yield OffsetRange(partition.topic, partition.partition, start, position)


def _committed(
    client: KafkaClient, group: str, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, tuple[int, str]]:
    """Offset and metadata of each partition that has them."""
    asked = [confluent_kafka.TopicPartition(p.topic, p.partition) for p in partitions]
    try:
        found = client.group_consumer(group).committed(asked, timeout=client.timeout)
    except KafkaException as error:
        raise client.to_error(error, f"reading the progress of group {group!r}") from error
    except UnicodeDecodeError:
        # It reads metadata up to a zero character, which those of earlier versions do not have.
        return {}
    return {
        TopicPartition(p.topic, p.partition): (p.offset, p.metadata or "")
        for p in found
        if p.offset >= 0 and p.error is None
    }
