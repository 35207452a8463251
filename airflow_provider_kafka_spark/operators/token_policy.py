"""The logins of an operator's Spark job: the connections' own logins, or delegation tokens in their place."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta

from airflow_provider_kafka_spark.core.checks import flag, milliseconds
from airflow_provider_kafka_spark.core.connection.client_config import KafkaClientConfig
from airflow_provider_kafka_spark.core.errors import ConnectionConfigError, JobKilledError, KafkaSparkError, OptionError
from airflow_provider_kafka_spark.core.tokens.spark_tokens import cluster_settings, obtained_by_spark, without_login
from airflow_provider_kafka_spark.core.wire.job_credentials import JobCredentials
from airflow_provider_kafka_spark.hooks.delegation_token import check_issues_tokens
from airflow_provider_kafka_spark.hooks.kafka import KafkaHook
from airflow_provider_kafka_spark.operators.job_tokens import JobTokens, TaskStateStore
from airflow_provider_kafka_spark.submission.spark_cluster import SparkCluster

log = logging.getLogger(__name__)

_BY_SPARK = "spark"
_USES = (False, True, "source", "target", _BY_SPARK)
#: Requests for tokens have a short time-out, even if requests for offsets may take longer.
_MAX_SECONDS = 20.0


class DelegationTokenPolicy:
    """The delegation tokens of an operator's job.

    :param use: as ``use_delegation_token`` of
        :class:`~airflow_provider_kafka_spark.operators.kafka_to_kafka.KafkaToKafkaOperator`.
    :param min_lifetime: as its ``min_token_lifetime``.
    :param timeout: seconds for each call to a broker.
    :raises OptionError: if they are invalid or contradict each other.
    """

    def __init__(
        self, use: bool | str = False, min_lifetime: timedelta | float | None = None, timeout: float = _MAX_SECONDS
    ) -> None:
        with suppress(OptionError):
            use = flag(use, "use_delegation_token")
        if use not in _USES:
            raise OptionError(f"use_delegation_token must be True, False, 'source', 'target' or 'spark'; got {use!r}.")
        self._use = use
        self._timeout = min(timeout, _MAX_SECONDS)
        self._min_lifetime_ms = None if min_lifetime is None else milliseconds(min_lifetime, "min_token_lifetime")
        if min_lifetime is not None and use == _BY_SPARK:
            raise OptionError(
                "min_token_lifetime is for tokens that the worker creates; those of use_delegation_token='spark' are "
                "created when the job has started, and Spark renews them. Leave it out."
            )
        if min_lifetime is not None and not use:
            raise OptionError(
                "min_token_lifetime is for the token of use_delegation_token=True. For other tokens, put a "
                "DelegationTokenExpirySensor(mode='valid') before the task."
            )
        self._made: JobTokens | None = None

    def check(self, cluster: SparkCluster, source: KafkaHook, sink: KafkaHook) -> None:
        """Check the tokens' prerequisites before anything is planned.

        :raises OptionError: if Spark is to obtain tokens and cannot.
        :raises ConnectionConfigError: if two connections lead to the same brokers, or a connection has no login.
        :raises JarError: if the worker creates a token, and Kafka's Java client is unavailable; or if a connection
            needs a cloud's login handler, and no jar has it.
        """
        if self._use == _BY_SPARK:
            _check_obtains_tokens(cluster)
            obtained_by_spark((source.config, sink.config))
            return
        by_token = self._configs(source, sink)
        cluster.jars.handlers(config for config in (source.config, sink.config) if config not in by_token)
        for config in by_token:
            check_issues_tokens(config)
            if not config.protocol.startswith("SASL_"):
                raise ConnectionConfigError(
                    "use_delegation_token is for connections with a login: a delegation token logs in by SASL/SCRAM. "
                    f"The security.protocol of connection {config.conn_id!r} is {config.protocol}. Name a SASL "
                    "listener, or say 'source' or 'target' for the other cluster alone."
                )
            cluster.jars.client  # noqa: B018 - they are fetched here

    @contextmanager
    def logins(
        self, state_store: TaskStateStore, cluster: SparkCluster, source: KafkaHook, sink: KafkaHook
    ) -> Iterator[JobCredentials]:
        """The logins of the job while it runs.

        :param state_store: of the task, between its tries.
        :raises DelegationTokenError: if a token is unavailable, or cannot live long enough.
        :raises JobTokenEndedError: in place of the job's own failure, if a token ended before it.
        """
        if self._use == _BY_SPARK:
            yield _obtained(source.config, sink.config, cluster.deployment.login_folder)
            return
        configs = self._configs(source, sink)
        jars = cluster.jars.client if configs else None
        with JobTokens(
            configs, state_store=state_store, min_lifetime_ms=self._min_lifetime_ms, timeout=self._timeout, jars=jars
        ) as tokens:
            self._made = tokens
            try:
                yield JobCredentials(
                    tokens.login(source.config),
                    tokens.login(sink.config),
                    by_name=not cluster.deployment.executors_on_worker,
                    folder=cluster.deployment.login_folder,
                )
            except KafkaSparkError as error:
                # The error after a token's end depends on what Spark did at that moment.
                if not isinstance(error, JobKilledError):
                    tokens.explain(error)
                raise

    def end(self) -> None:
        """Start to expire the tokens without waiting: the task is being killed."""
        if self._made is not None:
            self._made.end()

    def _configs(self, source: KafkaHook, sink: KafkaHook) -> list[KafkaClientConfig]:
        """The connections for which the worker creates a token."""
        hooks = {True: (source, sink), "source": (source,), "target": (sink,)}.get(self._use, ())
        return [hook.config for hook in hooks]


def _check_obtains_tokens(cluster: SparkCluster) -> None:
    """Check that Spark itself obtains Kafka's delegation tokens on this cluster.

    :raises OptionError: on a master other than YARN and Kubernetes, and for a proxy user: brokers issue tokens only to
        the requesting principal (KIP-48), so Spark refuses that on the cluster.
    """
    if not cluster.deployment.obtains_tokens:
        raise OptionError(
            "use_delegation_token='spark' needs YARN or Kubernetes, where Spark itself obtains tokens; the master of "
            f"connection {cluster.spark_conn_id!r} is {cluster.master!r}. Use True: then the worker makes a token, and "
            "it works everywhere."
        )
    proxy_user = cluster.submit_options.get("proxy_user")
    if proxy_user:
        raise OptionError(
            f"use_delegation_token='spark' and proxy_user={proxy_user!r} cannot go together: a broker gives a "
            "delegation token only to the requesting principal, so Spark obtains none for a proxy user. Leave "
            "proxy_user out, or use True: then the token is that of the Kafka connection's login."
        )


def _obtained(source: KafkaClientConfig, target: KafkaClientConfig, folder: str) -> JobCredentials:
    """Spark obtains the tokens, with its own Kerberos login."""
    found = obtained_by_spark((source, target))
    for config in found:
        log.info(
            "Spark obtains a delegation token for %s itself (connection %r).",
            config.bootstrap_servers,
            config.conn_id,
        )
    names = {config.conn_id for config in found}
    source, target = (without_login(c) if c.conn_id in names else c for c in (source, target))
    return JobCredentials(source, target, by_name=True, folder=folder, spark_settings=cluster_settings(found))
