"""Create, describe, renew and expire Kafka's delegation tokens, by the Java AdminClient."""

from __future__ import annotations

import time
from base64 import b64decode
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from airflow.sdk import BaseHook
from airflow.sdk.log import mask_secret

from airflow_provider_kafka_spark.clients import new_token
from airflow_provider_kafka_spark.clients.cluster_clock import now_ms
from airflow_provider_kafka_spark.clients.kafka_jvm import KafkaJvm, kerberos_properties
from airflow_provider_kafka_spark.clients.managed_resource import ManagedResource
from airflow_provider_kafka_spark.clients.token_requests import TokenRequests
from airflow_provider_kafka_spark.core.connection.client_config import KafkaClientConfig
from airflow_provider_kafka_spark.core.errors import (
    BrokerAuthorizationError,
    BrokerError,
    ConnectionConfigError,
    DelegationTokenError,
)
from airflow_provider_kafka_spark.core.tokens.delegation_token import DelegationToken, TokenInfo
from airflow_provider_kafka_spark.core.tokens.token_selection import TokenSelection
from airflow_provider_kafka_spark.hooks.kafka import KafkaHook
from airflow_provider_kafka_spark.toolchain.connector import client_jars


class DelegationTokenHook(ManagedResource, BaseHook):
    """Manage the delegation tokens of a Kafka cluster with the login of a connection, inside ``with``: one JVM serves
    all calls of the block and ends after it.

    The login needs SASL, or SSL with a client certificate, and must not itself be a token; :meth:`create` needs SASL,
    to test the token. A token's secret (hmac) is masked in logs before it is used; only :meth:`create` and
    :meth:`create_unchecked` return it.

    :param conn_id: Kafka connection.
    :param timeout: seconds for each call.
    :param config: of that connection, if it is known already.
    :param jars: with kafka-clients among them; by default those of Spark's Kafka connector.
    """

    conn_name_attr = "conn_id"
    default_conn_name = "kafka_default"

    def __init__(
        self,
        conn_id: str = default_conn_name,
        timeout: float = 20.0,
        *,
        config: KafkaClientConfig | None = None,
        jars: Sequence[Path] | None = None,
    ) -> None:
        super().__init__()
        self.conn_id = conn_id
        self.timeout = timeout
        self._config = config
        self._jars = jars
        self._jvm: KafkaJvm | None = None
        self._requests: TokenRequests | None = None

    @classmethod
    def of_connector(cls, conn_id: str, timeout: float, kafka_connector: str | None) -> DelegationTokenHook:
        """A hook with the Java client that an operator or sensor configures.

        :param kafka_connector: see :func:`~airflow_provider_kafka_spark.toolchain.connector.client_jars`.
        """
        return cls(conn_id, timeout, jars=client_jars(kafka_connector))

    def open(self) -> None:
        """Start the JVM.

        :raises KafkaSparkError: if it cannot be started, or Kafka's client refuses the connection.
        """
        config = self.config
        check_issues_tokens(config)
        self._jvm = KafkaJvm(
            config.java,
            f"connection {self.conn_id!r}, {config.bootstrap_servers}",
            timeout=self.timeout,
            system_properties={**kerberos_properties(), **config.system_properties},
            jars=self._jars,
        )
        self._jvm.open()
        self._requests = TokenRequests(self._jvm)

    @property
    def config(self) -> KafkaClientConfig:
        """The connection, translated; see :attr:`KafkaHook.config
        <airflow_provider_kafka_spark.hooks.kafka.KafkaHook.config>`.
        """
        if self._config is None:
            self._config = KafkaHook(self.conn_id).config
        return self._config

    def close(self) -> None:
        """End the JVM. Calling it again does nothing."""
        jvm, self._jvm, self._requests = self._jvm, None, None
        if jvm is not None:
            jvm.close()

    def create(
        self, *, max_lifetime_ms: int | None = None, lease_ms: int | None = None, renewers: Iterable[str] = ()
    ) -> DelegationToken:
        """Create a token of the login, and return it when every broker accepts it.

        :param max_lifetime_ms: how long renewals can prolong it; by default the connection's value, or else the
            broker's maximum, which also limits it.
        :param lease_ms: when it ends unless it is renewed, if that is sooner than the broker's
            ``delegation.token.expiry.time.ms``.
        :param renewers: principals that may renew it in addition to the owner, such as ``"User:bob"``.
        :raises DelegationTokenError: if the broker has no tokens or no login with them, or the login may not create
            one.
        :raises DelegationTokenNotUsableError: if the token cannot be used in time.
        :raises BrokerAuthenticationError: if the login is refused.
        :raises BrokerUnavailableError: if no broker answers within the time-out.
        """
        token = self.create_unchecked(max_lifetime_ms=max_lifetime_ms, lease_ms=lease_ms, renewers=renewers)
        try:
            self.wait_until_usable(token)
        except BaseException:
            self._expire_quietly(token.hmac)
            raise
        return token

    def create_unchecked(
        self, *, max_lifetime_ms: int | None = None, lease_ms: int | None = None, renewers: Iterable[str] = ()
    ) -> DelegationToken:
        """As :meth:`create`, without waiting until brokers know the token."""
        made = self._open.create(max_lifetime_ms or self.config.token_max_lifetime_ms, renewers)
        hmac = made.hmac
        # If something fails from here on, the token is expired.
        try:
            mask_secret(hmac)
            token = DelegationToken(made.info, hmac)
            if lease_ms is not None and lease_ms < token.info.expiry_ms - token.info.issue_ms:
                token = replace(token, info=replace(token.info, expiry_ms=self._expire_new(hmac, lease_ms)))
        except BaseException:
            self._expire_quietly(hmac)
            raise
        self.log.info("Made %s.", token.info)
        return token

    def describe(self, owner: str | None = None) -> list[TokenInfo]:
        """The tokens that the login may see: its own, those it may renew, and those it may DESCRIBE.

        Tokens that have ended are listed until the broker removes them (``delegation.token.expiry.check.interval.ms``,
        1 hour).

        :param owner: only the tokens of this owner, such as ``"User:alice"``.
        :raises BrokerError: as for :meth:`create`.
        """
        return [token.info for token in self._open.describe(owner)]

    def renew(self, selection: TokenSelection, *, period_ms: int | None = None) -> list[TokenInfo]:
        """Renew tokens, and return them with their new times. A refused token does not prevent the renewal of the
        others.

        A broker renews no token beyond its maximum time: see
        :attr:`~airflow_provider_kafka_spark.core.tokens.delegation_token.TokenInfo.at_maximum`.

        :param period_ms: the new remaining life, counted from now; the broker's ``delegation.token.expiry.time.ms`` by
            default, which is also the longest.
        :raises DelegationTokenExpiredError: if one has ended.
        :raises BrokerAuthorizationError: if the login is neither owner nor renewer.
        """
        return self._for_each(selection, lambda info, secret: self._open.renew(secret, period_ms, f"renewing {info}"))

    def expire(self, selection: TokenSelection, *, period_ms: int | None = None) -> list[TokenInfo]:
        """Expire tokens, and return them with their new times. A refused token does not prevent the expiry of the
        others.

        :param period_ms: from now; at once by default.
        :raises BrokerAuthorizationError: if the login is neither owner nor renewer.
        """
        return self._for_each(selection, lambda info, secret: self._open.expire(secret, period_ms, f"expiring {info}"))

    def renew_token(self, token: DelegationToken, period_ms: int) -> TokenInfo:
        """Renew a token whose secret is known.

        :param period_ms: the new remaining life, limited by the token's maximum time.
        """
        expiry_ms = self._open.renew(b64decode(token.hmac), period_ms, f"renewing {token.info}")
        return replace(token.info, expiry_ms=expiry_ms)

    def expire_token(self, token: DelegationToken) -> None:
        """Expire a token whose secret is known, at once."""
        self._open.expire(b64decode(token.hmac), None, f"expiring {token.info}")

    def now_ms(self) -> int:
        """The cluster's clock, in ms since 1970; this machine's, with a warning, where brokers do not say theirs.

        :raises BrokerError: if no broker answers, or the login is refused, as for :meth:`create`.
        """
        return now_ms(self._open.jvm, self._open.admin, self.log.warning)

    def wait_until_usable(self, token: DelegationToken) -> None:
        """Log in with a new token until every broker accepts it; brokers know it only after some time.

        :raises DelegationTokenNotUsableError: if one still does not after 20 s.
        :raises DelegationTokenError: if the listener has no login for tokens.
        :raises BrokerTlsError: if TLS fails for another reason than a missing client certificate.
        """
        new_token.wait_until_usable(self._open.jvm, self.config, token)

    def _picked(self, selection: TokenSelection) -> list[tuple[TokenInfo, bytes]]:
        known = {token.info.token_id: token for token in self._open.describe(selection.owner)}
        picked = selection.pick(token.info for token in known.values())
        secrets = [known[info.token_id].hmac for info in picked]
        for secret in secrets:
            mask_secret(secret)
        return [(info, b64decode(secret)) for info, secret in zip(picked, secrets, strict=True)]

    def _for_each(self, selection: TokenSelection, change: Callable[[TokenInfo, bytes], int]) -> list[TokenInfo]:
        """Change the expiry time of all selected tokens; the first refusal is raised after all were tried."""
        changed, refusals = list[TokenInfo](), list[BrokerError]()
        for info, secret in self._picked(selection):
            try:
                changed.append(replace(info, expiry_ms=change(info, secret)))
            except (BrokerAuthorizationError, DelegationTokenError) as error:
                refusals.append(error)
        if refusals:
            for done in changed:
                self.log.info("Done, although others failed: %s.", done)
            for other in refusals[1:]:
                self.log.error("%s", other)
            raise refusals[0]
        return changed

    def _expire_new(self, hmac: str, period_ms: int | None = None) -> int:
        """The broker may not know the token yet."""
        deadline = time.monotonic() + new_token.USABLE_SECONDS
        while True:
            try:
                return self._open.expire(b64decode(hmac), period_ms, "shortening the life of a delegation token")
            except DelegationTokenError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(new_token.AGAIN_SECONDS)

    def _expire_quietly(self, hmac: str) -> None:
        """Clean up after a failure, without hiding it by another one."""
        try:
            self._expire_new(hmac)
        except Exception as error:  # noqa: BLE001 - whatever it is, the failure before it counts
            self.log.warning("An unused delegation token could not be expired; it ends by itself. %s", error)

    @property
    def _open(self) -> TokenRequests:
        if self._requests is None:
            raise BrokerError("Use a DelegationTokenHook inside `with`: its JVM runs only there.")
        return self._requests


def check_issues_tokens(config: KafkaClientConfig) -> None:
    """:raises ConnectionConfigError: if the brokers of a connection are known to issue no delegation tokens."""
    if config.token_service is not None:
        raise ConnectionConfigError(
            f"A delegation token needs brokers that issue them; those of connection {config.conn_id!r} are a managed "
            "service's, which issues none. Leave use_delegation_token out: the job logs in by the identity of its own "
            "machines."
        )
