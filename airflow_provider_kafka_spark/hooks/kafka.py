"""The hook for a Kafka connection: offsets, timestamps, topic ids and configurations of a cluster."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import closing
from functools import partial

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import TopicDescription

from airflow_provider_kafka_spark.clients.connection_check import check_connection
from airflow_provider_kafka_spark.clients.consumer_group import ConsumerGroup
from airflow_provider_kafka_spark.clients.kafka_client import KafkaClient, partition_numbers, topic_ids
from airflow_provider_kafka_spark.clients.log_cuts import find_cuts, find_cuts_of
from airflow_provider_kafka_spark.clients.permissions import unlisted_topics
from airflow_provider_kafka_spark.clients.record_reader import SHORT_RANGES, read_ranges
from airflow_provider_kafka_spark.clients.record_reads import raise_error
from airflow_provider_kafka_spark.clients.topic_configs import topic_configs
from airflow_provider_kafka_spark.clients.topic_offsets import read_offsets
from airflow_provider_kafka_spark.core.connection.connection_form import CONN_TYPE
from airflow_provider_kafka_spark.core.errors import BrokerUnavailableError, UnknownTopicError
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, OffsetRanges, TopicPartition
from airflow_provider_kafka_spark.core.topics.bounds import Bound
from airflow_provider_kafka_spark.core.topics.broker_state import ClusterState, Selection
from airflow_provider_kafka_spark.core.topics.log_ends import LogEnds, Reached
from airflow_provider_kafka_spark.core.topics.record_search import credible_ahead_ms
from airflow_provider_kafka_spark.core.topics.starts import GroupStart

#: Of a range, on average, below which a fetch of a megabyte is too much.
_FEW_RECORDS = 1_000


class KafkaHook(KafkaClient):
    """Read offsets, topics and configurations of a Kafka cluster, with time-outs, and close every client.

    Use it as a context manager, inside ``execute``: a librdkafka client does not survive a fork.

    :param conn_id: an Airflow connection of the type ``kafka_spark``, or of any other type whose Extra is a librdkafka
        configuration.
    :param timeout: seconds for each call. If a broker does not answer, the call fails within this time; a refused login
        fails much earlier.
    :param waits_for_start: whether a first request waits for its whole timeout while every bootstrap server refuses
        connections. If not, it fails after about 3 s; later requests wait, so that brokers may restart.
    """

    # Not "kafka": that type belongs to the Kafka provider, and registering it twice breaks both.
    conn_type = CONN_TYPE
    hook_name = "Kafka (for Spark)"

    def test_connection(self) -> tuple[bool, str]:
        """Airflow's button "Test": check name, port, TLS, login and permissions, within 30 s.

        :return: whether the test passed, and a message for the user, without secrets.
        """
        return check_connection(self.conn_id)

    def topic_names(self, named: Iterable[str] = (), operation: str = "DESCRIBE") -> frozenset[str]:
        """The names of all topics that the login may see.

        :param named: topics that are selected by name.
        :param operation: the intended operation, for the message; ``READ`` and ``WRITE`` include ``DESCRIBE``.
        :raises BrokerAuthorizationError: if the login may not see one of them.
        :raises BrokerUnavailableError: if no broker answers within the time-out, or brokers do not agree whether one of
            them exists.
        """
        names = frozenset(self.metadata().topics)
        self._raise_if_unlisted(set(named) - names, operation)
        return names

    def state(
        self,
        topics: Iterable[str],
        timestamps: Collection[int] = (),
        operation: str = "DESCRIBE",
        *,
        only: Collection[TopicPartition] | None = None,
    ) -> ClusterState:
        """Offsets, ids and configurations of topics, in a few requests for any number of partitions.

        A topic that does not exist is left out of the answer.

        :param topics: names of topics.
        :param timestamps: in ms since 1970; for each, the first record at or after it is searched in every partition,
            which takes READ on the topics.
        :param operation: the intended operation, for the message; ``READ`` and ``WRITE`` include ``DESCRIBE``.
        :param only: the partitions that are asked for; by default all of these topics. One that does not exist is left
            out.
        :raises BrokerUnavailableError: if no broker answers within the time-out, or brokers do not agree whether a
            topic exists.
        :raises BrokerAuthenticationError: if the login is refused.
        :raises BrokerAuthorizationError: if the login may not describe a topic.
        """
        metadata, names = self.metadata(), sorted(set(topics))
        wanted = {name: metadata.topics[name] for name in names if name in metadata.topics}
        self._raise_if_unlisted(set(names) - set(wanted), operation)
        for name, topic in wanted.items():
            if topic.error is not None and topic.error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise self.to_error(
                    KafkaException(topic.error), f"describing topic {name!r}", f"{operation} on topic {name!r}"
                )
        # Before the offsets: if a topic is recreated in between, they are of one that the ids do not name.
        described, configs = self._described(wanted), topic_configs(self, wanted)
        numbers = {name: partition_numbers(topic, described[name]) for name, topic in wanted.items()}
        partitions = [TopicPartition(name, number) for name in wanted for number in numbers[name]]
        counts = None
        if only is not None:
            counts, chosen = {name: len(of_topic) for name, of_topic in numbers.items()}, set(only)
            partitions = [p for p in partitions if p in chosen]
        offsets = read_offsets(
            self,
            partitions,
            dict.fromkeys(wanted, timestamps),
            ahead_ms={name: credible_ahead_ms(config) for name, config in configs.items()},
            on_error=raise_error,
            retry_seconds=self.timeout,
        )
        return offsets.cluster_state(wanted, metadata.cluster_id, self.conn_id, topic_ids(described), configs, counts)

    def start_of(
        self, start: GroupStart, topics: Collection[str], selection: Selection, name: str = "starting_offsets"
    ) -> Bound:
        """Where a group stands. To be asked before :meth:`state`: one that keeps up would stand beyond those ends.

        :param topics: those of the selection that exist.
        :param name: what a message calls it.
        :raises BoundError: if the group has no offset of what is read.
        :raises BrokerError: if the brokers do not return the offsets.
        """
        metadata = self.metadata()
        exist = {
            TopicPartition(topic, number)
            for topic in metadata.topics.keys() & topics
            for number in metadata.topics[topic].partitions
        }
        chosen = selection.assigned
        group = ConsumerGroup(self, start.group_id)
        return start.bound(group.committed(exist if chosen is None else exist & set(chosen)), name)

    def cuts(self, ends: LogEnds, cluster: ClusterState | None = None) -> dict[TopicPartition, int]:
        """Where logs were cut since they had reached these ends. Only those are asked that have another leader now.

        :param cluster: their state now, if it is known.
        :raises BrokerUnavailableError: if a broker does not answer within the time-out.
        :raises BrokerAuthorizationError: if the login may not read a topic.
        """
        if not ends.offsets:
            return {}
        return find_cuts(self, ends.changed(cluster or self.state({p.topic for p in ends.offsets})))

    def cuts_of(self, reached: Collection[Reached]) -> dict[Reached, int]:
        """As :meth:`cuts`, of any number of offsets of each partition, all of which are asked for."""
        return find_cuts_of(reached, partial(find_cuts, self))

    def count_records(self, ranges: OffsetRanges, *, read_committed: bool = True) -> dict[OffsetRange, int]:
        """Count the records in ranges by reading all of them; those that have aged out since are not counted.

        :param ranges: that end within the log.
        :param read_committed: leave out aborted records.
        :raises BrokerUnavailableError: if the broker stops answering for as long as the time-out.
        """
        counts = dict.fromkeys(ranges, 0)
        isolation_level = "read_committed" if read_committed else "read_uncommitted"
        settings = {"isolation.level": isolation_level, "fetch.wait.max.ms": 10, "auto.offset.reset": "earliest"}
        if ranges.total <= _FEW_RECORDS * len(ranges):
            settings |= SHORT_RANGES
        with closing(self.new_consumer(**settings)) as consumer:
            for r, _, _ in read_ranges(self, consumer, ranges, "counting records"):
                counts[r] += 1
        return counts

    def _described(self, topics: Collection[str]) -> dict[str, TopicDescription]:
        futures = self.describe_topics(topics)
        try:
            return {name: self.result(future, f"describing topic {name!r}") for name, future in futures.items()}
        except UnknownTopicError as error:
            raise BrokerUnavailableError(
                f"{error} It is listed: it was deleted meanwhile, or a broker that has just started does not know it."
            ) from error

    def _raise_if_unlisted(self, names: Collection[str], operation: str) -> None:
        """Brokers omit topics from their lists that the login may not see, or that they do not know yet."""
        for reason in unlisted_topics(self, names, operation).values():
            raise reason
