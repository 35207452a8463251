"""What a failed run has delivered, by the progress that was committed with its records."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import confluent_kafka
from confluent_kafka import KafkaException

from airflow_provider_kafka_spark.clients.kafka_client import GROUPS_AT_ONCE, KafkaClient
from airflow_provider_kafka_spark.clients.run_mark import marks
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, OffsetRanges, TopicPartition
from airflow_provider_kafka_spark.core.offsets.pieces import partition_name, split_name
from airflow_provider_kafka_spark.core.runs.run_identity import progress_group
from airflow_provider_kafka_spark.core.runs.run_protocol import MarkState, latest


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
    mark = latest(marks(client, instance, targets).values())
    if mark is None or mark.run_id != run_id or mark.state == MarkState.OPENING.value:
        return OffsetRanges()
    if mark.state == MarkState.FINISHED.value:
        return planned.intersect(finished)
    partitions = {partition_name(partition, topic_ids): partition for partition, _ in planned.by_partition()}
    slots = [TopicPartition(min(targets), number) for number in range(mark.width)]
    groups = [progress_group(instance, mark.key, number) for number in range(mark.groups)]
    found = [
        copied
        for position, text in _committed(client, groups, slots)
        for copied in _copied(text.partition("\n")[0], position, partitions)
    ]
    return planned.intersect(OffsetRanges(found).merge())


def _committed(
    client: KafkaClient, groups: Sequence[str], slots: Collection[TopicPartition]
) -> Iterator[tuple[int, str]]:
    """Offset and metadata of each slot that has them. As many groups as may be are asked at the same time: a plan of
    many partitions has many, if its target has few.
    """
    with ThreadPoolExecutor(GROUPS_AT_ONCE, thread_name_prefix="kafka-groups") as pool:
        for i in range(0, len(groups), GROUPS_AT_ONCE):
            # Their consumers are made one after the other.
            some = groups[i : i + GROUPS_AT_ONCE]
            consumers = [client.group_consumer(group) for group in some]
            for committed in pool.map(partial(_of_group, client, slots), some, consumers):
                yield from committed


def _copied(name: str, position: int, partitions: Mapping[str, TopicPartition]) -> Iterator[OffsetRange]:
    """What a piece has copied that stands at ``position``.

    :param partitions: of the plan, by what the names of their pieces begin with.
    """
    of_partition, start, end = split_name(name) or ("", 0, 0)
    partition = partitions.get(of_partition)
    if partition is not None and start < position <= end:
        yield OffsetRange(partition.topic, partition.partition, start, position)


def _of_group(
    client: KafkaClient, slots: Collection[TopicPartition], group: str, consumer: confluent_kafka.Consumer
) -> list[tuple[int, str]]:
    asked = [confluent_kafka.TopicPartition(p.topic, p.partition) for p in slots]
    try:
        found = consumer.committed(asked, timeout=client.timeout)
    except KafkaException as error:
        raise client.to_error(error, f"reading the progress of group {group!r}") from error
    return [(p.offset, p.metadata or "") for p in found if p.offset >= 0 and p.error is None]
