"""Requests about delegation tokens, by the Java AdminClient."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from airflow_provider_kafka_spark.clients.kafka_jvm import KafkaJvm
from airflow_provider_kafka_spark.core.tokens.delegation_token import TokenInfo
from airflow_provider_kafka_spark.core.tokens.token_selection import principal

#: Kafka's value for the default period of a renewal, and for expiry at once.
_BROKERS_OWN = -1
_DESCRIBING = "describing delegation tokens"


@dataclass(frozen=True)
class JavaToken:
    """A token as the client has returned it. Its secret is read only where it is needed.

    :param token: the client's.
    """

    jvm: KafkaJvm
    token: Any

    @property
    def hmac(self) -> str:
        """The secret, in base 64. **Secret.**"""
        with self.jvm.translate_errors(_DESCRIBING):
            return str(self.token.hmacAsBase64String())

    @cached_property
    def info(self) -> TokenInfo:
        with self.jvm.translate_errors(_DESCRIBING):
            info = self.token.tokenInfo()
            return TokenInfo(
                token_id=str(info.tokenId()),
                owner=str(info.ownerAsString()),
                renewers=tuple(str(name) for name in self.jvm.items(info.renewersAsString())),
                issue_ms=int(info.issueTimestamp()),
                expiry_ms=int(info.expiryTimestamp()),
                max_ms=int(info.maxTimestamp()),
            )


class TokenRequests:
    """Each raises an error of this package, see :meth:`KafkaJvm.translate_errors`.

    :param jvm: that runs, for one cluster and one login.
    :ivar admin: its AdminClient.
    """

    def __init__(self, jvm: KafkaJvm) -> None:
        self.jvm = jvm
        self.admin: Any = jvm.admin()

    def create(self, max_lifetime_ms: int | None, renewers: Iterable[str]) -> JavaToken:
        """A new token of the login, which brokers know only after some time.

        :param max_lifetime_ms: None for the broker's maximum.
        """
        action = "creating a delegation token"
        with self.jvm.translate_errors(action):
            options = self._options("CreateDelegationTokenOptions").maxlifeTimeMs(max_lifetime_ms or _BROKERS_OWN)
            options = options.renewers([self._principal(name) for name in renewers])
            return JavaToken(
                self.jvm, self.jvm.get(self.admin.createDelegationToken(options).delegationToken(), action)
            )

    def describe(self, owner: str | None) -> list[JavaToken]:
        """The tokens that the login may see.

        :param owner: None for those of all owners.
        """
        with self.jvm.translate_errors(_DESCRIBING):
            # An empty list of owners selects no tokens, and null selects all.
            options = self._options("DescribeDelegationTokenOptions")
            if owner is not None:
                options = options.owners([self._principal(owner)])
            future = self.admin.describeDelegationToken(options).delegationTokens()
            return [JavaToken(self.jvm, token) for token in self.jvm.items(self.jvm.get(future, _DESCRIBING))]

    def renew(self, secret: bytes, period_ms: int | None, action: str) -> int:
        """When it ends after that, in ms since 1970.

        :param period_ms: from now on; the broker's default if None.
        :param action: for messages.
        """
        with self.jvm.translate_errors(action):
            period = _BROKERS_OWN if period_ms is None else period_ms
            options = self._options("RenewDelegationTokenOptions").renewTimePeriodMs(period)
            return int(self.jvm.get(self.admin.renewDelegationToken(secret, options).expiryTimestamp(), action))

    def expire(self, secret: bytes, period_ms: int | None, action: str) -> int:
        """As :meth:`renew`; at once if the period is None."""
        with self.jvm.translate_errors(action):
            period = _BROKERS_OWN if period_ms is None else period_ms
            options = self._options("ExpireDelegationTokenOptions").expiryTimePeriodMs(period)
            return int(self.jvm.get(self.admin.expireDelegationToken(secret, options).expiryTimestamp(), action))

    def _principal(self, name: str) -> Any:
        kind, _, user = principal(name).partition(":")
        return self.jvm.java.org.apache.kafka.common.security.auth.KafkaPrincipal(kind, user)

    def _options(self, name: str) -> Any:
        return getattr(self.jvm.java.org.apache.kafka.clients.admin, name)()
