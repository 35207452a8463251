"""The delegation tokens of one Spark job: created before it, renewed while it runs, expired after it. Spark gets only
the tokens, never the login that created them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from threading import Event, Thread
from typing import Any, Protocol

from airflow_provider_kafka_spark.clients.managed_resource import ManagedResource
from airflow_provider_kafka_spark.core.connection.client_config import KafkaClientConfig
from airflow_provider_kafka_spark.core.errors import (
    BrokerAuthorizationError,
    BrokerError,
    DelegationTokenError,
    DelegationTokenExpiredError,
    JobTokenEndedError,
    KafkaSparkError,
)
from airflow_provider_kafka_spark.core.tokens.delegation_token import RENEW_AT, DelegationToken, duration, utc
from airflow_provider_kafka_spark.core.tokens.token_selection import TokenSelection
from airflow_provider_kafka_spark.hooks.delegation_token import DelegationTokenHook

log = logging.getLogger(__name__)

Clock = Callable[[], float]

#: A killed worker cannot expire its token, so an unrenewed token ends after this time.
RENEW_PERIOD_MS = 3_600_000
#: Wait after a failed renewal.
AGAIN_SECONDS = 5.0
_STOP_SECONDS = 60.0
_KEY = "kafka_spark_tokens"


class TaskStateStore(Protocol):
    """Airflow's task state store, which is kept between the tries of a task."""

    def get(self, key: str, /) -> Any: ...

    def set(self, key: str, value: Any, /) -> None: ...


class JobTokens(ManagedResource):
    """A token for each cluster of a job, inside ``with``.

    :param configs: connections whose logins create the tokens; Spark gets the tokens in place of these logins.
    :param min_lifetime_ms: the minimum time for which renewals can prolong a token.
    :param timeout: seconds for each call to a broker.
    :param state_store: keeps the tokens' ids, so that the next try expires those of a worker that was killed.
    :param jars: with kafka-clients among them; by default those of Spark's Kafka connector.
    :param clock: of this machine, in seconds since 1970.
    """

    def __init__(
        self,
        configs: Iterable[KafkaClientConfig],
        *,
        state_store: TaskStateStore,
        min_lifetime_ms: int | None = None,
        timeout: float = 20.0,
        jars: Sequence[Path] | None = None,
        clock: Clock = time.time,
    ) -> None:
        self._configs = {config.conn_id: config for config in configs}
        self._state_store = state_store
        self._min_lifetime_ms = min_lifetime_ms
        self._timeout = timeout
        self._jars = jars
        self._clock = clock
        self._tokens: dict[str, _RenewedToken] = {}

    def open(self) -> None:
        """Create the tokens.

        :raises DelegationTokenError: if one is unavailable, or cannot live long enough.
        """
        for conn_id, config in self._configs.items():
            with DelegationTokenHook(conn_id, self._timeout, config=config, jars=self._jars) as hook:
                self._expire_left(hook)
                token = hook.create_unchecked(lease_ms=RENEW_PERIOD_MS)
                self._tokens[conn_id] = renewed_token = _RenewedToken(
                    config, self._timeout, self._jars, token, self._clock
                )
                self._remember({conn_id: token.info.token_id})
                renewed_token.raise_if_short(self._min_lifetime_ms)
                hook.wait_until_usable(token)
            renewed_token.start()

    def end(self) -> None:
        """Start to expire all tokens without waiting: Airflow gives a killed task some seconds. :meth:`close` waits."""
        for renewed_token in list(self._tokens.values()):
            renewed_token.end()

    def close(self) -> None:
        """Expire the tokens. A failure is only logged, since the job has delivered. Calling it again does nothing."""
        self.end()
        while self._tokens:
            conn_id, renewed_token = self._tokens.popitem()
            try:
                if renewed_token.stop():
                    self._remember({conn_id: None})
            except Exception as error:  # noqa: BLE001 - the job's own outcome counts, and the token ends by itself
                log.warning("The end of a delegation token could not be recorded: %s", error)

    def login(self, config: KafkaClientConfig) -> KafkaClientConfig:
        """The login for Spark: the token if there is one, or else the connection's own login."""
        renewed_token = self._tokens.get(config.conn_id)
        return config if renewed_token is None else renewed_token.login()

    def explain(self, error: KafkaSparkError) -> None:
        """Name the end of a token as the cause of a later failure, which Spark reports as a time-out or a failed login.

        :raises JobTokenEndedError: if a token had ended.
        """
        for renewed_token in self._tokens.values():
            renewed_token.explain(error)

    def _expire_left(self, hook: DelegationTokenHook) -> None:
        """Expire the token of an earlier try whose worker was killed, if it is still valid."""
        left = self._remembered().get(hook.conn_id)
        if left is None or left not in {token.token_id for token in hook.describe()}:
            return
        try:
            hook.expire(TokenSelection(token_ids=(left,)))
        except (DelegationTokenError, BrokerAuthorizationError) as error:
            # It ends by itself, and this try has its own token.
            log.warning("The delegation token %s of an earlier try could not be expired: %s", left, error)
        else:
            log.info("The delegation token %s of an earlier try, which could not do so itself, is expired.", left)

    def _remembered(self) -> dict[str, str]:
        stored = self._state_store.get(_KEY)
        return {str(k): str(v) for k, v in stored.items()} if isinstance(stored, dict) else {}

    def _remember(self, changed: Mapping[str, str | None]) -> None:
        ids = {**self._remembered(), **changed}
        self._state_store.set(_KEY, {conn_id: token_id for conn_id, token_id in ids.items() if token_id is not None})


class _RenewedToken:
    """A new token, and the thread that renews it."""

    def __init__(
        self,
        config: KafkaClientConfig,
        timeout: float,
        jars: Sequence[Path] | None,
        token: DelegationToken,
        clock: Clock,
    ) -> None:
        self._config = config
        self._timeout = timeout
        self._jars = jars
        self._token = token
        self._clock = clock
        self._skew_ms = token.info.issue_ms - int(clock() * 1000)
        #: Why it is no longer renewed.
        self._given_up: str | None = None
        self._done = Event()
        self._thread = Thread(target=self._keep, name=f"delegation token of {config.conn_id}", daemon=True)
        self._ending: Thread | None = None
        self._ended = False

    def raise_if_short(self, min_lifetime_ms: int | None) -> None:
        info = self._token.info
        longest = info.max_ms - info.issue_ms
        if min_lifetime_ms is not None and longest < min_lifetime_ms:
            raise DelegationTokenExpiredError(
                f"min_token_lifetime wants a delegation token that can live for {duration(min_lifetime_ms)}; the "
                f"broker gives one for {duration(longest)} at most ({info}; connection {self._config.conn_id!r}). "
                "Split the job, or raise delegation.token.max.lifetime.ms of the broker, or that of the connection."
            )

    def start(self) -> None:
        self._thread.start()
        log.info(
            "Spark logs in to %s with a delegation token of its own: %s. It is renewed while the job runs, and "
            "expired after it.",
            self._config.bootstrap_servers,
            self._token.info,
        )

    def login(self) -> KafkaClientConfig:
        return self._config.with_java(self._token.java_login(self._config.java, self._config.token_mechanism))

    def end(self) -> None:
        """Start to expire the token, without waiting."""
        self._done.set()
        if self._ending is None:
            self._ending = Thread(target=self._expire, name=f"end of {self._thread.name}", daemon=True)
            self._ending.start()

    def stop(self) -> bool:
        """:return: whether it has ended."""
        self.end()
        for thread in (self._ending, self._thread):
            if thread is not None and thread.is_alive():
                thread.join(_STOP_SECONDS)
        return self._ended

    def _expire(self) -> None:
        info = self._token.info
        try:
            with self._hook() as hook:
                hook.expire_token(self._token)
        except DelegationTokenError:
            log.info("The job's delegation token %s has ended already.", info.token_id)
        except Exception as error:  # noqa: BLE001 - as in close
            log.warning(
                "The delegation token could not be expired; it ends at %s by itself. %s", utc(info.expiry_ms), error
            )
            return
        else:
            log.info("The job's delegation token %s is expired.", info.token_id)
        self._ended = True

    def explain(self, error: KafkaSparkError) -> None:
        # A lost login appears as a broker error or as a retriable error. Other permanent errors stay as they are.
        if not error.retriable and not isinstance(error, BrokerError):
            return
        info = self._token.info
        late = self._now_ms() - info.expiry_ms
        if self._given_up is not None:
            reason, when = self._given_up, "was ended before the job failed"
        elif late >= 0:
            reason = (
                "it had reached its maximum time" if info.at_maximum else "it could not be renewed, as the log says"
            )
            when = f"ended at {utc(info.expiry_ms)}, {duration(late)} before the job failed"
        else:
            return
        raise JobTokenEndedError(
            f"The delegation token with which Spark logs in to {self._config.bootstrap_servers} {when}: {reason} "
            f"({info}; connection {self._config.conn_id!r}). A retry has a token of its own and writes only what is "
            f"missing; for a job that takes longer than {duration(info.max_ms - info.issue_ms)} raise "
            f"delegation.token.max.lifetime.ms, or split it. The job's own failure: {error}"
        ) from error

    def _keep(self) -> None:
        """Renew the token in time until the job ends."""
        life_ms = min(RENEW_PERIOD_MS, self._token.info.expiry_ms - self._token.info.issue_ms)
        wait = self._until_renewal()
        while not self._done.wait(wait):
            if self._token.info.at_maximum:
                log.warning(
                    "No renewal makes the job's delegation token live longer; the job must be done before it ends: %s",
                    self._token.info,
                )
                return
            wait = self._until_renewal() if self._renewed(life_ms) else AGAIN_SECONDS
            if self._given_up is not None:
                return

    def _renewed(self, life_ms: int) -> bool:
        ends = utc(self._token.info.expiry_ms)
        try:
            with self._hook() as hook:
                renewed = hook.renew_token(self._token, life_ms)
        except DelegationTokenExpiredError as error:
            if self._done.is_set():
                # This process expired it at the same time.
                return False
            late = self._token.info.remaining_ms(self._now_ms()) <= 0
            self._given_up = f"{'it could not be renewed in time' if late else 'it was expired by others'} ({error})"
            log.error("The job's delegation token cannot be renewed any more: %s", error)
            return False
        except Exception as error:  # noqa: BLE001 - whatever it was, it is tried again as long as the token lives
            log.warning("The job's delegation token could not be renewed, and ends at %s: %s", ends, error)
            if self._token.info.remaining_ms(self._now_ms()) <= 0:
                self._given_up = f"it could not be renewed in time ({error})"
            return False
        self._token = DelegationToken(renewed, self._token.hmac)
        log.info("Renewed the job's delegation token: %s.", renewed)
        return True

    def _until_renewal(self) -> float:
        """Seconds."""
        return max(1.0, self._token.info.remaining_ms(self._now_ms()) * RENEW_AT / 1000)

    def _now_ms(self) -> int:
        """The broker's clock."""
        return int(self._clock() * 1000) + self._skew_ms

    def _hook(self) -> DelegationTokenHook:
        return DelegationTokenHook(self._config.conn_id, self._timeout, config=self._config, jars=self._jars)
