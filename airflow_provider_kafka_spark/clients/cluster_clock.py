"""The clock of a cluster, by which the times of delegation tokens are compared."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from airflow_provider_kafka_spark.clients.kafka_jvm import KafkaJvm
from airflow_provider_kafka_spark.core.errors import BrokerAuthorizationError, BrokerError

#: A smaller difference between the clocks is not logged.
_SKEW_MS = 5_000


def now_ms(jvm: KafkaJvm, admin: Any, warn: Callable[..., Any]) -> int:
    """The cluster's clock, in ms since 1970: that of the active controller, which also manages tokens.

    Kafka has no request for the time, but the quorum's leader returns when it last caught up, which is now. If that is
    refused (it needs DESCRIBE on the cluster) or unknown (no KRaft), this machine's clock is used and logged.

    :param admin: a Java AdminClient.
    :param warn: what logs a warning.
    :raises BrokerError: if no broker answers, or the login is refused.
    """
    before = time.time()
    try:
        clocks = _clocks_of_leader(jvm, admin)
    except BrokerError as error:
        # If the broker is unavailable or refuses the login, another request would fail in the same way.
        if type(error) not in (BrokerAuthorizationError, BrokerError):
            raise
        warn(
            "The times of tokens are compared with this machine's clock, since the broker does not return its own: %s",
            error,
        )
        return int(time.time() * 1000)
    if not clocks:
        warn("The times of tokens are compared with this machine's clock: no broker returns its own.")
        return int(time.time() * 1000)
    skew = clocks[0] - int((before + time.time()) / 2 * 1000)
    if abs(skew) > _SKEW_MS:
        warn(
            "The broker's clock is %.1f s %s this machine's; the times of tokens are the broker's.",
            abs(skew) / 1000,
            "ahead of" if skew > 0 else "behind",
        )
    return clocks[0]


def _clocks_of_leader(jvm: KafkaJvm, admin: Any) -> list[int]:
    """One, or none if the quorum does not say it."""
    action = "describing the metadata quorum"
    with jvm.translate_errors(action):
        quorum = jvm.get(admin.describeMetadataQuorum().quorumInfo(), action)
        return [
            int(replica.lastCaughtUpTimestamp().getAsLong())
            for replica in quorum.voters()
            if replica.replicaId() == quorum.leaderId() and replica.lastCaughtUpTimestamp().isPresent()
        ]
