"""Administration of a test broker: topics, their properties, deletion of records, ACLs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_provider_kafka_spark.core.errors import LocalServiceError, OptionError

if TYPE_CHECKING:
    from concurrent.futures import Future

    from confluent_kafka.admin import AdminClient, ClusterMetadata

#: The name of the cluster in ACLs, of the resource type ``"cluster"``.
CLUSTER = "kafka-cluster"

_REASON_SECONDS = 5.0
_Member = TypeVar("_Member", bound=Enum)


class BrokerAdmin:
    """Change one running broker: every call returns when the change is effective, or raises.

    :param bootstrap_servers: such as ``"127.0.0.1:9092"``
    :param client_config: more librdkafka properties for every client, such as a login
    :param timeout: seconds that any one call may take
    """

    def __init__(
        self, bootstrap_servers: str, client_config: Mapping[str, Any] | None = None, *, timeout: float = 60.0
    ) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.client_config = dict(client_config or {})
        self.timeout = timeout
        self._client_errors: list[str] = []

    def create_topic(
        self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None, *, replication: int = -1
    ) -> str:
        """Create a topic and return its name when every partition has a leader.

        :param config: topic properties such as ``{"cleanup.policy": "compact"}``
        :param replication: the number of replicas; by default the broker's ``default.replication.factor``
        :raises LocalServiceError: the broker refused it, for instance because it exists
        """
        from confluent_kafka.admin import NewTopic

        admin = self._admin()
        topic = NewTopic(name, num_partitions=partitions, replication_factor=replication, config=dict(config or {}))
        self._settle(admin.create_topics([topic]), f"create topic {name!r}")
        self._wait_for_leaders(admin, name, partitions)
        return name

    def delete_topic(self, name: str) -> None:
        """Delete a topic and return when it is gone, so that the name can be used again.

        :raises LocalServiceError: the broker refused it, for instance because there is none of that name
        """
        admin = self._admin()
        self._settle(admin.delete_topics([name]), f"delete topic {name!r}")
        deadline = time.monotonic() + self.timeout
        while name in self._metadata(admin).topics:
            self._wait(deadline, f"finish the deletion of topic {name!r}")

    def alter_topic(self, name: str, config: Mapping[str, str]) -> None:
        """Change properties of a topic; the others stay.

        :param config: such as ``{"max.message.bytes": "1000000"}``
        :raises LocalServiceError: the broker refused it
        """
        from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

        admin = self._admin()
        entries = [
            ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in config.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
        self._settle(admin.incremental_alter_configs([resource]), f"set {dict(config)!r} of topic {name!r}")

    def add_partitions(self, name: str, total: int) -> None:
        """Add partitions to a topic and return once every one has a leader.

        :param total: how many it has then
        :raises LocalServiceError: the broker refused it, for instance because it has more already
        """
        from confluent_kafka.admin import NewPartitions

        admin = self._admin()
        self._settle(
            admin.create_partitions([NewPartitions(name, total)]), f"add partitions to {name!r}, up to {total}"
        )
        self._wait_for_leaders(admin, name, total)

    def topics(self) -> set[str]:
        """Return the names of all topics, the broker's internal ones included."""
        return set(self._metadata(self._admin()).topics)

    def delete_records(self, topic: str, before: Mapping[int, int]) -> None:
        """Delete the records before the given offset of each named partition, as retention would.

        :param before: partition to the first offset that stays; -1 for the end
        :raises LocalServiceError: the broker refused it, for instance because an offset lies beyond the end
        """
        from confluent_kafka import TopicPartition

        # Assigned to a name, because a garbage-collected client never answers.
        admin = self._admin()
        wanted = [TopicPartition(topic, partition, offset) for partition, offset in before.items()]
        self._settle(admin.delete_records(wanted), f"delete records of topic {topic!r} before {dict(before)!r}")

    def add_acl(self, principal: str, operation: str, resource_type: str, name: str, pattern: str = "literal") -> None:
        """Add an ACL for a user, from any host. It is effective when this returns.

        For :meth:`BrokerClient.consume`, a user also needs READ on groups with the prefix ``testing-``.

        :param principal: such as ``"User:alice"``, or ``"User:CN=alice"`` for a client with a certificate
        :param operation: such as ``"read"``, ``"describe"`` or ``"idempotent_write"``
        :param resource_type: ``"topic"``, ``"group"``, ``"transactional_id"`` or ``"cluster"``
        :param name: of the topic or group; ``"*"`` for all; of a cluster always ``"kafka-cluster"``
        :param pattern: ``"prefixed"`` if it is a prefix of the names
        :raises OptionError: there is no such operation, resource type or pattern
        :raises LocalServiceError: the broker refused it, for instance because it has no authorizer
        """
        self._change_acl((principal, operation, resource_type, name, pattern), is_there=True)

    def remove_acl(
        self, principal: str, operation: str, resource_type: str, name: str, pattern: str = "literal"
    ) -> None:
        """Remove an ACL of :meth:`add_acl`, by the same arguments. It is effective when this returns.

        :raises OptionError: there is no such operation, resource type or pattern
        :raises LocalServiceError: the broker refused it, or has no such ACL
        """
        self._change_acl((principal, operation, resource_type, name, pattern), is_there=False)

    def _change_acl(self, acl: tuple[str, str, str, str, str], *, is_there: bool) -> None:
        from confluent_kafka.admin import (
            AclBinding,
            AclBindingFilter,
            AclOperation,
            AclPermissionType,
            ResourcePatternType,
            ResourceType,
        )

        principal, operation, resource_type, name, pattern = acl
        parts = (
            # The client uses the name of an older protocol.
            _member(ResourceType, "broker" if resource_type.lower() == "cluster" else resource_type),
            name,
            _member(ResourcePatternType, pattern),
            principal,
            "*",
            _member(AclOperation, operation),
            AclPermissionType.ALLOW,
        )
        only_this = AclBindingFilter(*parts)
        admin = self._admin()
        if is_there:
            self._settle(admin.create_acls([AclBinding(*parts)]), f"add the ACL {acl!r}")
        else:
            deletions = admin.delete_acls([only_this])
            self._settle(deletions, f"remove the ACL {acl!r}")
            if not any(future.result() for future in deletions.values()):
                raise self._failed(f"remove the ACL {acl!r}", "no such ACL")
        # The broker answers when the change is written, but it is effective only when the authorizer has read it.
        deadline = time.monotonic() + self.timeout
        while bool(self._answer(admin.describe_acls(only_this), f"list the ACL {acl!r}")) != is_there:
            self._wait(deadline, f"apply the change of the ACL {acl!r}")

    def _config(self, more: Mapping[str, Any] | None = None) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.bootstrap_servers,
            # librdkafka would write to the test's stderr; failures are also returned as errors.
            "log_level": 0,
            "error_cb": lambda error: self._client_errors.append(str(error)),
            # To find a starting broker at once, instead of after up to 10 seconds.
            "reconnect.backoff.max.ms": 200,
            **self.client_config,
            **(more or {}),
        }

    def _admin(self) -> AdminClient:
        from confluent_kafka.admin import AdminClient

        return AdminClient(self._config())

    def _wait_for_leaders(self, admin: AdminClient, topic: str, partitions: int) -> None:
        deadline = time.monotonic() + self.timeout
        while (found := self._metadata(admin).topics.get(topic)) is None or (
            sum(p.leader >= 0 for p in found.partitions.values()) < partitions
        ):
            self._wait(deadline, f"have a leader for all {partitions} partitions of topic {topic!r}")

    def _metadata(self, admin: AdminClient) -> ClusterMetadata:
        from confluent_kafka import KafkaException

        self._client_errors.clear()
        try:
            return admin.list_topics(timeout=self.timeout)
        except KafkaException as error:
            # The reason, such as a refused login, is passed only to the callback, when the client is polled.
            deadline = time.monotonic() + _REASON_SECONDS
            while not self._client_errors and time.monotonic() < deadline:
                admin.poll(0.2)
            reason = self._client_errors[0] if self._client_errors else error
            raise self._failed("answer a metadata request", reason) from error

    def _settle(self, futures: Mapping[Any, Future[Any]], what: str) -> None:
        for future in futures.values():
            self._answer(future, what)

    def _answer(self, future: Future[Any], what: str) -> Any:
        try:
            return future.result(self.timeout)
        except Exception as error:  # the client documents none: KafkaException, and TimeoutError of the future
            raise self._failed(what, str(error) or f"no answer within {self.timeout:g} seconds") from error

    def _wait(self, deadline: float, what: str) -> None:
        if time.monotonic() > deadline:
            raise self._failed(what, f"nothing within {self.timeout:g} seconds")
        time.sleep(0.02)

    def _failed(self, rule: str, got: object) -> LocalServiceError:
        return LocalServiceError(
            f"The broker at {self.bootstrap_servers} must {rule}; got {got}. Check that it runs and permits this."
        )


def _member(kind: type[_Member], name: str) -> _Member:
    """Return the value with this name, in any case."""
    try:
        return kind[name.upper()]
    except KeyError as error:
        known = [member.name.lower() for member in kind]
        raise OptionError(f"{kind.__name__} must be one of {known}; got {name!r}. Correct it.") from error
