"""Where logs were cut since they had reached some offsets. Nothing is committed.

librdkafka asks brokers for it (``OffsetForLeaderEpoch``) before it reads from an offset whose epoch it is given.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import closing

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException

from airflow_provider_kafka_spark.clients.connection.broker_failures import UNREADABLE
from airflow_provider_kafka_spark.clients.kafka_client import KafkaClient
from airflow_provider_kafka_spark.clients.next_messages import next_messages
from airflow_provider_kafka_spark.core.errors import BrokerUnavailableError
from airflow_provider_kafka_spark.core.offsets.offset_range import TopicPartition
from airflow_provider_kafka_spark.core.topics.log_ends import LogEnds, Reached

_SETTINGS = {
    "isolation.level": "read_uncommitted",
    "enable.partition.eof": True,
    "fetch.message.max.bytes": 65_536,
    "queued.min.messages": 1,
    "fetch.wait.max.ms": 10,
}
#: As librdkafka says it (``rd_kafka_toppar_handle_OffsetForLeaderEpoch``, read in 2.16).
_CUT = re.compile(r"truncation detected at offset .*broker end offset is ([0-9]+)", re.DOTALL)
#: The broker has forgotten the epoch, or retention has deleted what was there: no answer.
_UNKNOWN = ("No epoch found", "offset not available", "out of range")


def find_cuts(client: KafkaClient, ends: LogEnds) -> dict[TopicPartition, int]:
    """Where each of these logs ended that was cut; others are left out, and those of which the brokers do not know it.

    :raises BrokerUnavailableError: if a broker does not answer within the time-out.
    :raises BrokerAuthorizationError: if the login may not read a topic.
    """
    found: dict[TopicPartition, int] = {}
    if not ends.offsets:
        return found
    missing, deadline = set(ends.offsets), time.monotonic() + client.timeout
    with closing(client.new_consumer(**_SETTINGS)) as consumer:
        consumer.assign(
            [
                confluent_kafka.TopicPartition(p.topic, p.partition, offset, leader_epoch=ends.epochs[p])
                for p, offset in ends.offsets.items()
            ]
        )
        while missing:
            for message in next_messages(consumer, 0.2, 1):
                topic, number, error = message.topic(), message.partition(), message.error()
                if topic is None or number is None or (p := TopicPartition(topic, number)) not in missing:
                    continue
                missing.discard(p)
                cut = None if error is None else _CUT.search(error.str())
                if cut is not None:
                    found[p] = int(cut[1])
                elif error is not None and not _is_answer(error):
                    raise client.to_error(KafkaException(error), f"reading {p}", f"READ on topic {topic!r}")
            if missing and time.monotonic() > deadline:
                raise BrokerUnavailableError(
                    f"It must be known whether the log of {min(missing)} was cut; no broker answered within "
                    f"{client.timeout:.0f} s (connection {client.conn_id!r}, {client.config.bootstrap_servers}). Is "
                    "the partition's leader up?"
                )
    return found


def find_cuts_of(
    reached: Collection[Reached], find: Callable[[LogEnds], Mapping[TopicPartition, int]]
) -> dict[Reached, int]:
    """As ``find_cuts``, of any number of offsets of each partition.

    :param find: asks for one offset of each partition, which is all that a client looks at.
    """
    found: dict[Reached, int] = {}
    asked = list(reached)
    while asked:
        now = {r.partition: r for r in asked}
        ends = LogEnds({p: r.offset for p, r in now.items()}, {p: r.epoch for p, r in now.items()})
        found |= {now[p]: end for p, end in find(ends).items()}
        asked = [r for r in asked if now[r.partition] != r]
    return found


def _is_answer(error: KafkaError) -> bool:
    """Whether the log was not cut, or nobody knows it."""
    code = error.code()
    is_unknown = code == KafkaError._AUTO_OFFSET_RESET and any(text in error.str() for text in _UNKNOWN)
    return is_unknown or code == KafkaError._PARTITION_EOF or code in UNREADABLE
