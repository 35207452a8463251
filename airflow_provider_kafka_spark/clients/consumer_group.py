"""The committed offsets of a consumer group without members."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import confluent_kafka
from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions, KafkaError, KafkaException
from confluent_kafka.admin import ConsumerGroupDescription

from airflow_provider_kafka_spark.clients.kafka_client import GROUPS_AT_ONCE, KafkaClient
from airflow_provider_kafka_spark.clients.permissions import check_operations
from airflow_provider_kafka_spark.core.errors import (
    BrokerAuthenticationError,
    BrokerError,
    BrokerUnavailableError,
    ConsumerGroupActiveError,
    ConsumerGroupError,
)
from airflow_provider_kafka_spark.core.offsets.offset_range import TopicPartition
from airflow_provider_kafka_spark.core.shown_text import one_line, shown

T = TypeVar("T")
_Request = Callable[[], list[confluent_kafka.TopicPartition]]

#: Of a group that has no members.
INACTIVE_STATES = frozenset({"EMPTY", "DEAD"})

#: Errors of a broker while the group's coordinator moves, or is created for the first group of a cluster.
_MOVING = frozenset(
    {
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    }
)


class ConsumerGroup:
    """Offsets that are committed for lag monitors, and for sensors that wait for them.

    :param client: to the group's cluster.
    :param group_id: its name; it need not exist yet.
    """

    def __init__(self, client: KafkaClient, group_id: str) -> None:
        self._client = client
        self.group_id = group_id

    def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The committed offset of each partition that has one.

        :raises BrokerError: if the broker does not return them.
        """
        if not partitions:
            return {}
        # It fails at once where the consumer would wait for its time-out: with a refused group or an unavailable
        # broker.
        self._describe()
        return self._offsets(self._request(partitions))

    def _request(self, partitions: Collection[TopicPartition]) -> _Request:
        asked = [confluent_kafka.TopicPartition(p.topic, p.partition) for p in sorted(partitions)]
        consumer = self._client.group_consumer(self.group_id)
        return partial(consumer.committed, asked, timeout=self._client.timeout)

    def _offsets(self, answer: _Request) -> dict[TopicPartition, int]:
        try:
            found = answer()
        except KafkaException as error:
            # For the reason, such as a refused connection, which the client reports in the background.
            self._client.group_consumer(self.group_id).poll(0)
            raise self._client.to_error(
                error, f"reading the offsets of group {self.group_id!r}", f"DESCRIBE on group {self.group_id!r}"
            ) from error
        self._raise_if_errors(found, "got no offset")
        return {TopicPartition(p.topic, p.partition): p.offset for p in found if p.offset >= 0}

    def exists(self) -> bool:
        """:raises BrokerError: if the broker does not say it."""
        return self._describe().state is not ConsumerGroupState.DEAD

    def raise_if_members(self) -> None:
        """:raises ConsumerGroupError: if the group has members: their commits and ours would overwrite each other.
        :raises BrokerAuthorizationError: if the login may not commit for it.
        """
        description = self.check_commits()
        if description.members:
            clients = sorted({f"{shown(member.client_id, 200)} at {member.host}" for member in description.members})
            raise ConsumerGroupError(
                f"The group {self.group_id!r} must have no members, since brokers take offsets of a group only from "
                f"its members while it has any; it is {description.state.name} with {len(description.members)}: "
                f"{one_line(', '.join(clients[:5]))}. Name a group of its own for this, such as 'copy-of-orders'."
            )

    def check_commits(self) -> ConsumerGroupDescription:
        """:raises BrokerAuthorizationError: if the login may not commit for the group."""
        description = self._describe("READ")
        check_operations(self._client, f"group {self.group_id!r}", description.authorized_operations, "READ")
        return description

    def commit(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Commit offsets, forwards only: a commit at the offset or beyond stays unchanged.

        :return: what was committed.
        :raises ConsumerGroupError: naming every partition that was refused.
        """
        before = self.committed(list(offsets))
        ahead = {p: offset for p, offset in sorted(offsets.items()) if offset > before.get(p, -1)}
        if ahead:
            self.raise_if_members()
            self._set(ahead)
        return ahead

    def move(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets, forwards or backwards, and read them back.

        :raises ConsumerGroupActiveError: if the group is active.
        :raises ConsumerGroupError: naming every partition that was refused, or has another offset now.
        """
        self.raise_if_active()
        self._set(dict(sorted(offsets.items())))
        now = self.committed(list(offsets))
        others = [f"{p}: {now.get(p, 'none')}, not {offset}" for p, offset in offsets.items() if now.get(p) != offset]
        if others:
            raise ConsumerGroupError(
                f"The group {self.group_id!r} must have the offsets that were committed; it has others now: "
                f"{'; '.join(others[:10])}. Something else commits for it: stop that, and clear the task."
            )

    @property
    def state(self) -> str:
        """The state that the brokers name, such as ``STABLE``; ``DEAD`` also for a group that does not exist."""
        return str(self._describe().state.name)

    def raise_if_active(self) -> None:
        """:raises ConsumerGroupActiveError: if its state is neither EMPTY nor DEAD."""
        if (state := self.state) not in INACTIVE_STATES:
            raise ConsumerGroupActiveError(
                f"The group {self.group_id!r} (connection {self._client.conn_id!r}) must be EMPTY or not exist, since "
                f"brokers take offsets of a group only from its members while it has any; it is {state}. Stop its "
                "consumers, or name another target_group_id."
            )

    def _set(self, ahead: Mapping[TopicPartition, int]) -> None:
        request = ConsumerGroupTopicPartitions(
            self.group_id, [confluent_kafka.TopicPartition(p.topic, p.partition, offset) for p, offset in ahead.items()]
        )
        answer: ConsumerGroupTopicPartitions = self._ask(
            lambda: self._client.client.alter_consumer_group_offsets([request], request_timeout=self._client.timeout),
            f"committing offsets of group {self.group_id!r}",
            "READ",
        )
        self._raise_if_errors(answer.topic_partitions or [], "did not take the offset")

    def _describe(
        self,
        operation: str = "DESCRIBE",
        asked: Future[ConsumerGroupDescription] | None = None,
        deadline: float | None = None,
    ) -> ConsumerGroupDescription:
        """:param asked: the request, if it is under way.
        :param deadline: as of :meth:`_ask`.
        """
        first = [] if asked is None else [{self.group_id: asked}]
        description: ConsumerGroupDescription = self._ask(
            lambda: first.pop() if first else _descriptions(self._client, [self.group_id]),
            f"describing group {self.group_id!r}",
            operation,
            deadline,
        )
        return description

    def _ask(
        self,
        request: Callable[[], Mapping[str, Future[T]]],
        action: str,
        operation: str,
        deadline: float | None = None,
    ) -> T:
        """:param deadline: of requests that are sent again, by ``time.monotonic``; by default after the time-out."""
        deadline = time.monotonic() + self._client.timeout if deadline is None else deadline
        while True:
            (future,) = request().values()
            try:
                return self._client.result(future, action, f"{operation} on group {self.group_id!r}")
            except BrokerError as error:
                cause = error.__cause__
                code = cause.args[0].code() if isinstance(cause, KafkaException) else None
                if code not in _MOVING:
                    raise
                if time.monotonic() >= deadline:
                    raise BrokerUnavailableError(
                        f"The group {self.group_id!r} had no coordinator within {self._client.timeout:.0f} s while "
                        f"{action}: {error}"
                    ) from error
                time.sleep(0.2)

    def _raise_if_errors(self, partitions: Collection[confluent_kafka.TopicPartition], what: str) -> None:
        # A group with members refuses partitions here, while the request itself succeeds.
        refused = [f"{p.topic}[{p.partition}]: {p.error.str()}" for p in partitions if p.error is not None]
        if refused:
            raise ConsumerGroupError(
                f"The group {self.group_id!r} {what} of {len(refused)} partitions: {'; '.join(refused[:10])}. If it "
                "got members meanwhile, name a group of its own."
            )


def committed_offsets(
    client: KafkaClient, wanted: Mapping[str, Collection[TopicPartition]]
) -> dict[str, dict[TopicPartition, int] | BrokerError | ConsumerGroupError]:
    """The committed offsets of any number of groups, or for each why they are not known.

    A consumer asks for those of each group (see :meth:`KafkaClient.group_consumer`), as many at the same time as may be
    open.

    :param wanted: partitions by group.
    :raises BrokerAuthenticationError: if the login is refused.
    """
    found: dict[str, dict[TopicPartition, int] | BrokerError | ConsumerGroupError] = {
        group_id: {} for group_id, partitions in wanted.items() if not partitions
    }
    asking = sorted(wanted.keys() - found.keys())
    descriptions = _descriptions(client, asking) if asking else {}
    # A group whose coordinator is away says nothing of the others. The requests for all are under way; those without a
    # coordinator are sent again for one time-out together.
    deadline = time.monotonic() + client.timeout
    away: BrokerUnavailableError | None = None

    with ThreadPoolExecutor(GROUPS_AT_ONCE, thread_name_prefix="kafka-groups") as pool:
        for i in range(0, len(asking), GROUPS_AT_ONCE):
            groups = [ConsumerGroup(client, group_id) for group_id in asking[i : i + GROUPS_AT_ONCE]]
            for group in groups:
                with _noting(found, group):
                    group._describe(asked=descriptions[group.group_id], deadline=deadline)
            known = [group for group in groups if group.group_id not in found]
            if away is not None:
                # A coordinator that goes away in the middle costs one time-out, and the next round knows whose it is.
                found |= dict.fromkeys((group.group_id for group in known), away)
                continue
            # A new client waits for its coordinator most of the time.
            answers = [pool.submit(group._request(wanted[group.group_id])) for group in known]
            for group, answer in zip(known, answers, strict=True):
                with _noting(found, group):
                    found[group.group_id] = group._offsets(answer.result)
            failed = (found[group.group_id] for group in known)
            away = next((error for error in failed if isinstance(error, BrokerUnavailableError)), None)
    return found


@contextmanager
def _noting(found: dict[str, Any], group: ConsumerGroup) -> Iterator[None]:
    """Note what fails for one group."""
    try:
        yield
    except BrokerAuthenticationError:
        raise
    except (BrokerError, ConsumerGroupError) as error:
        found[group.group_id] = error


def _descriptions(client: KafkaClient, group_ids: Sequence[str]) -> dict[str, Future[ConsumerGroupDescription]]:
    return client.client.describe_consumer_groups(
        list(group_ids), include_authorized_operations=True, request_timeout=client.timeout
    )
