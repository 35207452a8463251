"""What the driver asks the target's brokers, by the Java client and with the job's own login."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TIMEOUT_MS = 30_000
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

    def partition_counts(self, topics: Sequence[str]) -> dict[str, int]:
        """Number of partitions of each topic that exists."""
        existing = set(self._get(self._client.listTopics().names()))
        wanted = self._list(topic for topic in topics if topic in existing)
        described = self._get(self._client.describeTopics(wanted).allTopicNames())
        return {name: described[name].partitions().size() for name in described}

    def largest_messages(self, topics: Sequence[str]) -> dict[str, int]:
        """``max.message.bytes`` of each topic."""
        resource = self._jvm.org.apache.kafka.common.config.ConfigResource
        kind = getattr(self._jvm, "org.apache.kafka.common.config.ConfigResource$Type").TOPIC
        configs = self._get(self._client.describeConfigs(self._list(resource(kind, name) for name in topics)).all())
        return {
            entry.getKey().name(): int(entry.getValue().get("max.message.bytes").value())
            for entry in configs.entrySet()
        }

    def _list(self, items: Any) -> Any:
        java_list = self._jvm.java.util.ArrayList()
        for item in items:
            java_list.add(item)
        return java_list

    def _get(self, future: Any) -> Any:
        return future.get(_TIMEOUT_MS, self._jvm.java.util.concurrent.TimeUnit.MILLISECONDS)


@contextmanager
def kafka_admin(spark: SparkSession, options: Mapping[str, str]) -> Iterator[KafkaAdmin]:
    """:param options: of Spark's Kafka sink or source; the login is taken from them."""
    jvm: Any = spark.sparkContext._jvm
    config = jvm.java.util.HashMap()
    for name, value in login_options(options).items():
        config.put(name.removeprefix("kafka."), value)
    # As its sources and sinks do: where the options have no login, Spark may have obtained a token for these brokers.
    updater = jvm.org.apache.spark.kafka010.KafkaConfigUpdater("admin", jvm.PythonUtils.toScalaMap(config))
    login = updater if config.containsKey("sasl.jaas.config") else updater.setAuthenticationConfigIfNeeded()
    client = jvm.org.apache.kafka.clients.admin.AdminClient.create(login.build())
    try:
        yield KafkaAdmin(jvm, client)
    finally:
        client.close()
