"""The worker's last word on a run: the mark at the target's brokers says whether everything was delivered."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress

import confluent_kafka
from confluent_kafka import KafkaException

from airflow_provider_kafka_spark.clients.consumer_group import ConsumerGroup
from airflow_provider_kafka_spark.clients.kafka_client import KafkaClient
from airflow_provider_kafka_spark.core.errors import (
    BrokerAuthorizationError,
    BrokerError,
    KafkaSparkError,
    UnknownTopicError,
)
from airflow_provider_kafka_spark.core.runs.run_identity import owner_group
from airflow_provider_kafka_spark.core.runs.run_protocol import Mark, judged, latest

log = logging.getLogger(__name__)


def run_mark(client: KafkaClient, instance: str, targets: Sequence[str]) -> Mark | None:
    """The mark of the submission that has the run; None if there is none, or the login may not read it.

    :param client: of the target's cluster.
    :param instance: by which the run is found, see ``core.runs.run_identity``.
    :param targets: every topic that may be written to; none if that is not known.
    :raises BrokerError: if the brokers do not say it.
    """
    try:
        if not targets or not ConsumerGroup(client, owner_group(instance)).exists():
            return None
        return latest(marks(client, instance, targets).values())
    except BrokerAuthorizationError:
        return None


def judge_run(
    client: KafkaClient,
    instance: str,
    submission: int,
    run_id: str,
    targets: Sequence[str],
    *,
    proved: bool,
    leaves: bool = False,
) -> None:
    """Commit what the worker found of a driver's report, for the driver that comes next.

    Brokers that are away, or a login that may not do it, are no failure of the task: the next driver then looks at the
    committed progress, or at the target.

    :param client: of the target's cluster.
    :param instance: by which the run is found, see ``core.runs.run_identity``.
    :param submission: number of the job that wrote the report.
    :param run_id: that the driver wrote under.
    :param targets: topics that were written to.
    :param proved: whether everything was delivered, and nothing twice.
    :param leaves: the driver has left the mark to another plan of the run, which goes on later.
    :raises RunTakenOverError: if a later submission has the run.
    """
    try:
        known = marks(client, instance, targets)
    except (BrokerError, UnknownTopicError) as error:
        log.warning("The mark of the run could not be read: %s", error)
        return
    mark = latest(known.values())
    if mark is None:
        # At least once without the permission to commit it.
        return
    after = judged(mark, submission, run_id, proved=proved, leaves=leaves)
    if proved and leaves:
        return
    said, group = after.to_json(), owner_group(instance)
    offsets = [confluent_kafka.TopicPartition(topic, 0, 0, said) for topic in known]
    try:
        client.group_consumer(group).commit(offsets=offsets, asynchronous=False)
    except KafkaException as error:
        log.warning("The mark of the run could not be set: %s", client.to_error(error, f"committing to {group!r}"))


def marks(client: KafkaClient, instance: str, targets: Iterable[str]) -> dict[str, Mark]:
    """The mark of a run at each topic that has one.

    :raises BrokerError: if that of one is not known.
    """
    group = owner_group(instance)
    asked = [confluent_kafka.TopicPartition(topic, 0) for topic in targets]
    try:
        committed = client.group_consumer(group).committed(asked, timeout=client.timeout)
        failed = next((p.error for p in committed if p.error is not None), None)
        if failed is not None:
            raise KafkaException(failed)
    except KafkaException as error:
        raise client.to_error(error, f"reading group {group!r}") from error
    return {p.topic: Mark.from_json(p.metadata) for p in committed if p.offset >= 0 and p.metadata}


def remove_progress(client: KafkaClient, groups: Sequence[str]) -> None:
    """Remove the groups of a finished run's pieces, if the login may; otherwise they expire by themselves."""
    if not groups:
        return
    futures = client.client.delete_consumer_groups(list(groups), request_timeout=client.timeout)
    for future in futures.values():
        with suppress(KafkaException, KafkaSparkError):
            client.result(future, "removing a group")
