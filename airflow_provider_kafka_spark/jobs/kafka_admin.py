"""What the driver asks the target's brokers, by the Java client and with the job's own login."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_provider_kafka_spark.core.errors import BrokerUnavailableError, DeliveryError, JarError
from airflow_provider_kafka_spark.core.offsets.offset_range import is_topic_name
from airflow_provider_kafka_spark.jobs.java_names import items_of, java_of

if TYPE_CHECKING:
    from airflow_provider_kafka_spark.jobs.spark_application import HasContext

_TIMEOUT_MS = 30_000
#: So that a request to a broker that hangs is sent to another one within that time; Kafka's own default is as long.
BROKER_TIMEOUT_MS = 5_000
#: Between two requests about a group or a transactional id, whose coordinator has to be found first.
_BACKOFF_MS = 20
_CLOSE_SECONDS = 5
#: How long to wait for the end of a transaction that commits offsets.
_STABLE_SECONDS = 30.0
#: Brokers' answers about a topic that does not exist, or that the login may not see.
_NOT_SEEN = ("UnknownTopicOrPartitionException", "TopicAuthorizationException")
#: Brokers' answer about a transactional id while they end its transaction.
_IS_ENDING = "ConcurrentTransactionsException"
#: Secrets are references to a file, which a provider resolves.
_LOGIN = ("kafka.bootstrap.", "kafka.security.", "kafka.sasl.", "kafka.ssl.", "kafka.config.providers")


class CommittedOffset(NamedTuple):
    """An offset that a group has committed, with the text beside it."""

    offset: int
    metadata: str


class TargetTopic(NamedTuple):
    """A topic as brokers describe it.

    :param id: that Kafka gave it at its creation; a recreated topic has another one.
    """

    id: str
    partitions: int


#: Committed offsets by topic and number of the partition.
Offsets = Mapping[tuple[str, int], CommittedOffset]


def login_options(options: Mapping[str, str]) -> dict[str, str]:
    """Those of Spark's Kafka options that say where the brokers are and how to log in."""
    return {name: value for name, value in options.items() if name.startswith(_LOGIN)}


def without_login(options: Mapping[str, str]) -> dict[str, str]:
    """The others."""
    return {name: value for name, value in options.items() if not name.startswith(_LOGIN)}


class KafkaAdmin:
    """A Java AdminClient. Every call is bounded."""

    def __init__(self, jvm: Any, client: Any) -> None:
        self.jvm = jvm
        self._client = client

    def describe(self, topics: Iterable[str], within_ms: int = _TIMEOUT_MS) -> dict[str, TargetTopic]:
        """Those of the topics that exist and that the login may see.

        :param within_ms: how long brokers may take to answer.
        """
        from py4j.protocol import Py4JJavaError

        # The client would ask for a name that is too long until its time-out.
        topics, found = list(filter(is_topic_name, topics)), {}
        if not topics:
            return {}
        futures = self._client.describeTopics(self._list(topics)).topicNameValues()
        for name in items_of(futures.keySet()):
            try:
                topic = self._get(futures[name], within_ms)
            except Py4JJavaError as error:
                if not any(name in str(error.java_exception) for name in _NOT_SEEN):
                    raise
            else:
                found[str(name)] = TargetTopic(topic.topicId().toString(), topic.partitions().size())
        return found

    def configs(self, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        """The settings of each topic that the writer has to know; empty where the login may not read them."""
        from py4j.protocol import Py4JJavaError

        resource = self.jvm.org.apache.kafka.common.config.ConfigResource
        kind = getattr(self.jvm, "org.apache.kafka.common.config.ConfigResource$Type").TOPIC
        try:
            found = self._get(self._client.describeConfigs(self._list(resource(kind, name) for name in topics)).all())
        except Py4JJavaError:
            return {}
        names = ("max.message.bytes", "cleanup.policy", "compression.type", "message.timestamp.type")
        return {
            entry.getKey().name(): {name: str(entry.getValue().get(name).value()) for name in names}
            for entry in items_of(found.entrySet())
        }

    def end_offsets(self, topics: Sequence[str], *, committed: bool = False) -> dict[tuple[str, int], int]:
        """The end of each partition of topics that exist.

        :param committed: up to the first open transaction.
        """
        return {place: end.offset() for place, end in self._ends(topics, committed=committed)}

    def leader_epochs(self, topics: Iterable[str]) -> dict[tuple[str, int], int | None]:
        """The epoch of each partition's leader, of topics that exist; None where the brokers do not say it."""
        return {place: end.leaderEpoch().orElse(None) for place, end in self._ends(topics)}

    def _ends(self, topics: Iterable[str], *, committed: bool = False) -> Iterator[tuple[tuple[str, int], Any]]:
        kafka, request = self.jvm.org.apache.kafka, self.jvm.java.util.HashMap()
        latest = kafka.clients.admin.OffsetSpec.latest()
        for topic, described in self.describe(topics).items():
            for number in range(described.partitions):
                request.put(kafka.common.TopicPartition(topic, number), latest)
        level = (
            kafka.common.IsolationLevel.READ_COMMITTED if committed else kafka.common.IsolationLevel.READ_UNCOMMITTED
        )
        options = kafka.clients.admin.ListOffsetsOptions(level)
        for entry in items_of(self._get(self._client.listOffsets(request, options).all()).entrySet()):
            yield (entry.getKey().topic(), entry.getKey().partition()), entry.getValue()

    def committed(self, group: str) -> Offsets:
        """All committed offsets of a group; empty if it is gone. What a transaction is about to change is as before."""
        found = self._get(self._client.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata())
        return {place: offset for place, offset in _offsets(found).items() if offset is not None}

    def stable_offsets(self, places: Mapping[str, Iterable[tuple[str, int]]]) -> Mapping[str, Offsets]:
        """The committed offsets of partitions, by group; those that were never committed are left out. A transaction
        that changes one of them is waited for.

        :param places: which partitions, by group.
        :raises DeliveryError: if such a transaction does not end.
        """
        found: dict[str, dict[tuple[str, int], CommittedOffset]] = {group: {} for group in places}
        waiting, deadline = {group: set(wanted) for group, wanted in places.items()}, time.monotonic() + _STABLE_SECONDS
        while waiting := {group: wanted for group, wanted in waiting.items() if wanted}:
            if time.monotonic() > deadline:
                raise DeliveryError(
                    "The progress of a run must be known before anything is written; a transaction that changes it has "
                    f"been open for {_STABLE_SECONDS:.0f} s, of group {min(waiting)}. This driver writes nothing. A "
                    "retry looks again; the transaction ends at its time-out (transaction.timeout.ms)."
                )
            for group, offsets in self._stable(waiting).items():
                found[group].update({place: offset for place, offset in offsets.items() if offset is not None})
                waiting[group] -= offsets.keys()
            if any(waiting.values()):
                time.sleep(_BACKOFF_MS / 1000)
        return found

    def _stable(
        self, places: Mapping[str, Iterable[tuple[str, int]]]
    ) -> dict[str, dict[tuple[str, int], CommittedOffset | None]]:
        """One request for each coordinator. Where brokers say that an offset is not stable (KIP-447), Kafka's client
        leaves it out; one that was never committed is None.
        """
        kafka, wanted = self.jvm.org.apache.kafka, self.jvm.java.util.HashMap()
        for group, partitions in places.items():
            of_group = self._list(kafka.common.TopicPartition(*place) for place in partitions)
            wanted.put(group, kafka.clients.admin.ListConsumerGroupOffsetsSpec().topicPartitions(of_group))
        options = kafka.clients.admin.ListConsumerGroupOffsetsOptions().requireStable(True)
        found = self._get(self._client.listConsumerGroupOffsets(wanted, options).all())
        return {entry.getKey(): _offsets(entry.getValue()) for entry in items_of(found.entrySet())}

    def commit(self, group: str, offsets: Any) -> None:
        """Commit offsets for a group without members.

        :param offsets: a Java map, by partitions that exist on the cluster.
        """
        self._get(self._client.alterConsumerGroupOffsets(group, offsets).all())

    def remove_groups(self, groups: Sequence[str]) -> None:
        """Remove consumer groups without members."""
        self._get(self._client.deleteConsumerGroups(self._list(groups)).all())

    def transactional_ids(self, prefix: str) -> list[str]:
        """All ids that begin with a prefix, as far as the login may see them."""
        listed = self._get(self._client.listTransactions().all())
        # One text, since a call for each id of the cluster would take long. The ids of this package have no quotes.
        return re.findall(f"transactionalId='({re.escape(prefix)}[^']*)'", listed.toString())

    def check_lists_transactions(self) -> None:
        """Ask once what a retry asks (Kafka 3.0), before anything is written.

        Each broker is asked. One that hangs, and has nothing to do with this run, is none of its concern.

        :raises Py4JJavaError: an ``UnsupportedVersionException``, if the brokers do not know the request.
        """
        options = self.jvm.org.apache.kafka.clients.admin.ListTransactionsOptions()
        # No producer has this id, so the answer is empty; a cluster may have a hundred thousand transactional ids.
        asked = self._client.listTransactions(options.filterProducerIds(self._list([2**62])))
        with suppress(BrokerUnavailableError):
            self._get(asked.all(), BROKER_TIMEOUT_MS)

    def fence(self, transactional_ids: Sequence[str], timeout_ms: int) -> None:
        """Abort what is open under these ids, and fence the producers that use them.

        :param timeout_ms: of the run's transactions: brokers refuse one beyond their transaction.max.timeout.ms.
        """
        options = self.jvm.org.apache.kafka.clients.admin.FenceProducersOptions().timeoutMs(
            min(timeout_ms, _TIMEOUT_MS)
        )
        # One takes 3 ms. The client has one request to a broker in flight, and lets the others of a call wait for times
        # that double: 20 in one call take 14 s.
        for transactional_id in transactional_ids:
            self._fence(transactional_id, options)

    def _fence(self, transactional_id: str, options: Any) -> None:
        from py4j.protocol import Py4JJavaError

        deadline = time.monotonic() + _TIMEOUT_MS / 1000
        while True:
            try:
                self._get(self._client.fenceProducers(self._list([transactional_id]), options).all())
            except Py4JJavaError as error:
                # While brokers end what they abort. The client of Spark 3.5 does not wait for it itself.
                if _IS_ENDING not in str(error.java_exception) or time.monotonic() >= deadline:
                    raise
                time.sleep(_BACKOFF_MS / 1000)
            else:
                return

    def _list(self, items: Any) -> Any:
        java_list = self.jvm.java.util.ArrayList()
        for item in items:
            java_list.add(item)
        return java_list

    def _get(self, future: Any, within_ms: int = _TIMEOUT_MS) -> Any:
        from py4j.protocol import Py4JJavaError

        try:
            return future.get(within_ms, self.jvm.java.util.concurrent.TimeUnit.MILLISECONDS)
        except Py4JJavaError as error:
            if error.java_exception.getClass().getName() != "java.util.concurrent.TimeoutException":
                raise
            raise BrokerUnavailableError(
                f"The target's brokers must answer within {within_ms / 1000:.0f} s; they did not. Check that the "
                "driver reaches them; a retry goes on from what was committed."
            ) from error


def _offsets(found: Any) -> dict[tuple[str, int], CommittedOffset | None]:
    """Of Java's offsets by partition."""
    entries = [(entry.getKey(), entry.getValue()) for entry in items_of(found.entrySet())]
    return {
        (place.topic(), place.partition()): offset and CommittedOffset(offset.offset(), str(offset.metadata()))
        for place, offset in entries
    }


@contextmanager
def kafka_admin(spark: HasContext, options: Mapping[str, str]) -> Iterator[KafkaAdmin]:
    """:param options: of Spark's Kafka sink or source; the login is taken from them."""
    jvm = java_of(spark.sparkContext)
    waits = {
        "kafka.request.timeout.ms": str(BROKER_TIMEOUT_MS),
        # The client sleeps until its whole call is over, and looks only then for requests that are: while it asks for
        # the brokers as often, it notices them.
        "kafka.metadata.max.age.ms": str(BROKER_TIMEOUT_MS),
        "kafka.retry.backoff.ms": str(_BACKOFF_MS),
    }
    config = client_config(jvm, {**login_options(options), **waits})
    client = jvm.org.apache.kafka.clients.admin.AdminClient.create(config)
    try:
        yield KafkaAdmin(jvm, client)
    finally:
        # Without a limit it waits for brokers that are away.
        client.close(jvm.java.time.Duration.ofSeconds(_CLOSE_SECONDS))


def client_config(jvm: Any, options: Mapping[str, str]) -> Any:
    """A Java map for a client of Kafka. As for Spark's sources and sinks, where the options have no login, Spark may
    have obtained a token for these brokers.

    :param options: with the prefix ``kafka.``.
    """
    config = jvm.java.util.HashMap()
    for name, value in options.items():
        config.put(name.removeprefix("kafka."), value)
    try:
        updater = jvm.org.apache.spark.kafka010.KafkaConfigUpdater(
            "admin", jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(config)
        )
    # py4j's answer where a class is absent.
    except TypeError as error:
        raise JarError(
            "Spark must have the Kafka connector of its own version on its class path; it has none. Leave "
            "kafka_connector out to have it fetched, or name its jars. Nothing was written to Kafka."
        ) from error
    login = updater if config.containsKey("sasl.jaas.config") else updater.setAuthenticationConfigIfNeeded()
    return login.build()
