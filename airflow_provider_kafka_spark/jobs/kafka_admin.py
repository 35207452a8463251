"""What the driver asks the target's brokers, by the Java client and with the job's own login."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from airflow_provider_kafka_spark.core.errors import JarError

if TYPE_CHECKING:
    from airflow_provider_kafka_spark.jobs.spark_application import HasContext

_TIMEOUT_MS = 30_000
#: So that a request to a broker that hangs is sent to another one within that time; Kafka's own default is as long.
_BROKER_TIMEOUT_MS = 5_000
_CLOSE_SECONDS = 5
#: Secrets are references to a file, which a provider resolves.
_LOGIN = ("kafka.bootstrap.", "kafka.security.", "kafka.sasl.", "kafka.ssl.", "kafka.config.providers")


def login_options(options: Mapping[str, str]) -> dict[str, str]:
    """Those of Spark's Kafka options that say where the brokers are and how to log in."""
    return {name: value for name, value in options.items() if name.startswith(_LOGIN)}


class KafkaAdmin:
    """A Java AdminClient. Every call is bounded."""

    def __init__(self, jvm: Any, client: Any) -> None:
        self._jvm = jvm
        self._client = client

    def existing(self, topics: Sequence[str], within_ms: int = _TIMEOUT_MS) -> set[str]:
        """Those of the topics that exist.

        :param within_ms: how long brokers may take to answer.
        """
        return set(self._get(self._client.listTopics().names(), within_ms)) & set(topics)

    def partition_counts(self, topics: Sequence[str]) -> dict[str, int]:
        """Number of partitions of each topic that exists."""
        existing = self.existing(topics)
        wanted = self._list(topic for topic in topics if topic in existing)
        described = self._get(self._client.describeTopics(wanted).allTopicNames())
        return {name: described[name].partitions().size() for name in described}

    def configs(self, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        """The settings of each topic that the writer has to know; empty where the login may not read them."""
        from py4j.protocol import Py4JJavaError

        resource = self._jvm.org.apache.kafka.common.config.ConfigResource
        kind = getattr(self._jvm, "org.apache.kafka.common.config.ConfigResource$Type").TOPIC
        try:
            found = self._get(self._client.describeConfigs(self._list(resource(kind, name) for name in topics)).all())
        except Py4JJavaError:
            return {}
        names = ("max.message.bytes", "cleanup.policy", "message.timestamp.type")
        return {
            entry.getKey().name(): {name: str(entry.getValue().get(name).value()) for name in names}
            for entry in found.entrySet()
        }

    def end_offsets(self, topics: Sequence[str], *, committed: bool = False) -> dict[tuple[str, int], int]:
        """The end of each partition of topics that exist.

        :param committed: up to the first open transaction.
        """
        kafka, request = self._jvm.org.apache.kafka, self._jvm.java.util.HashMap()
        latest = kafka.clients.admin.OffsetSpec.latest()
        for topic, count in self.partition_counts(topics).items():
            for number in range(count):
                request.put(kafka.common.TopicPartition(topic, number), latest)
        level = (
            kafka.common.IsolationLevel.READ_COMMITTED if committed else kafka.common.IsolationLevel.READ_UNCOMMITTED
        )
        options = kafka.clients.admin.ListOffsetsOptions(level)
        found = self._get(self._client.listOffsets(request, options).all())
        return {
            (entry.getKey().topic(), entry.getKey().partition()): entry.getValue().offset()
            for entry in found.entrySet()
        }

    def topic_ids(self, topics: Sequence[str]) -> dict[str, str]:
        """The id that Kafka gave each topic at its creation."""
        described = self._get(self._client.describeTopics(self._list(topics)).allTopicNames())
        return {name: described[name].topicId().toString() for name in described}

    def mark(self, group: str) -> str | None:
        """The text that was last committed by :meth:`set_mark`, or None."""
        found = self._get(self._client.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata())
        return next((str(offset.metadata()) for offset in found.values() if offset is not None), None)

    def set_mark(self, group: str, topic: str, text: str) -> None:
        """Commit a text for a group; a committed offset needs a partition that exists on the cluster.

        :param topic: any topic of the cluster; the offset is that of its partition 0.
        """
        kafka, offsets = self._jvm.org.apache.kafka, self._jvm.java.util.HashMap()
        mark = kafka.clients.consumer.OffsetAndMetadata(0, text)
        # Earlier tries may have had other targets, and look for the mark there.
        for partition in self._get(self._client.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata()):
            offsets.put(partition, mark)
        offsets.put(kafka.common.TopicPartition(topic, 0), mark)
        self._get(self._client.alterConsumerGroupOffsets(group, offsets).all())

    def remove_groups(self, groups: Sequence[str]) -> None:
        """Remove consumer groups without members."""
        self._get(self._client.deleteConsumerGroups(self._list(groups)).all())

    def fence(self, transactional_ids: Sequence[str]) -> None:
        """Abort what is open under these ids, and fence the producers that use them."""
        self._get(self._client.fenceProducers(self._list(transactional_ids)).all())

    def _list(self, items: Any) -> Any:
        java_list = self._jvm.java.util.ArrayList()
        for item in items:
            java_list.add(item)
        return java_list

    def _get(self, future: Any, within_ms: int = _TIMEOUT_MS) -> Any:
        return future.get(within_ms, self._jvm.java.util.concurrent.TimeUnit.MILLISECONDS)


@contextmanager
def kafka_admin(spark: HasContext, options: Mapping[str, str]) -> Iterator[KafkaAdmin]:
    """:param options: of Spark's Kafka sink or source; the login is taken from them."""
    jvm: Any = spark.sparkContext._jvm
    config = jvm.java.util.HashMap()
    for name, value in login_options(options).items():
        config.put(name.removeprefix("kafka."), value)
    config.put("request.timeout.ms", str(_BROKER_TIMEOUT_MS))
    # As its sources and sinks do: where the options have no login, Spark may have obtained a token for these brokers.
    try:
        updater = jvm.org.apache.spark.kafka010.KafkaConfigUpdater("admin", jvm.PythonUtils.toScalaMap(config))
    # py4j's answer where a class is absent.
    except TypeError as error:
        raise JarError(
            "Spark must have the Kafka connector of its own version on its class path; it has none. Leave "
            "kafka_connector out to have it fetched, or name its jars. Nothing was written to Kafka."
        ) from error
    login = updater if config.containsKey("sasl.jaas.config") else updater.setAuthenticationConfigIfNeeded()
    client = jvm.org.apache.kafka.clients.admin.AdminClient.create(login.build())
    try:
        yield KafkaAdmin(jvm, client)
    finally:
        # Without a limit it waits for brokers that are away.
        client.close(jvm.java.time.Duration.ofSeconds(_CLOSE_SECONDS))
