"""A new delegation token, which brokers know only after some time."""

from __future__ import annotations

import re
import time
from contextlib import suppress
from typing import Any

from airflow_provider_kafka_spark.clients.kafka_jvm import KafkaJvm
from airflow_provider_kafka_spark.core.connection.client_config import KafkaClientConfig
from airflow_provider_kafka_spark.core.connection.faults import find_login_fault
from airflow_provider_kafka_spark.core.errors import (
    BrokerAuthenticationError,
    BrokerAuthorizationError,
    BrokerTlsError,
    DelegationTokenError,
    DelegationTokenNotUsableError,
)
from airflow_provider_kafka_spark.core.tokens.delegation_token import DelegationToken

#: Maximum time until a new token is known to all brokers, in seconds, and the time between two tries.
USABLE_SECONDS, AGAIN_SECONDS = 20.0, 0.2
_ACTION = "logging in with the new delegation token"


def wait_until_usable(jvm: KafkaJvm, config: KafkaClientConfig, token: DelegationToken) -> None:
    """Log in with a new token until every broker accepts it.

    :param config: of the login that made it.
    :raises DelegationTokenNotUsableError: if one still does not after 20 s.
    :raises DelegationTokenError: if the listener has no login for tokens.
    :raises BrokerTlsError: if TLS fails for another reason than a missing client certificate.
    """
    deadline = time.monotonic() + USABLE_SECONDS
    admin = jvm.admin(token.java_login(config.java, config.token_mechanism))
    while True:
        try:
            _log_in(jvm, admin)
            return
        except BrokerTlsError as error:
            raise _of_tls(error, config) from None
        except BrokerAuthenticationError as error:
            if re.search("not enabled in the server|it has:", str(error)):
                raise DelegationTokenError(
                    f"A login with a delegation token uses SCRAM, so the listener must have {config.token_mechanism}, "
                    f"in addition to {config.mechanism} for the connection itself. Enable it in "
                    "sasl.enabled.mechanisms of the broker, or name another in the connection's Extra as "
                    "'delegation.token.mechanism'."
                ) from None
            if time.monotonic() > deadline:
                raise DelegationTokenNotUsableError(
                    f"The new delegation token must be usable within {USABLE_SECONDS:.0f} s; at "
                    f"{config.bootstrap_servers} its login is still refused. Are all brokers in touch with their "
                    "controller? The task may be tried again."
                ) from None
        time.sleep(AGAIN_SECONDS)


def _log_in(jvm: KafkaJvm, admin: Any) -> None:
    """Log in to each broker. An authorization error proves that the login was accepted."""
    config = jvm.java.org.apache.kafka.common.config
    with jvm.translate_errors(_ACTION):
        for node in jvm.items(jvm.get(admin.describeCluster().nodes(), _ACTION)):
            name = str(node.idString())
            # This request goes to that broker.
            broker = config.ConfigResource(config.ConfigResource.Type.BROKER, name)
            with suppress(BrokerAuthorizationError):
                jvm.get(admin.describeConfigs([broker]).all(), f"logging in to broker {name} with the new token")


def _of_tls(error: BrokerTlsError, config: KafkaClientConfig) -> BrokerTlsError | DelegationTokenError:
    """The error where a listener asks for the client certificate that only the connection's own login has."""
    fault = find_login_fault(str(error))
    has_certificate = any(name.startswith("ssl.keystore.") for name in config.java)
    if fault is None or not fault.by_certificate or not has_certificate:
        return error
    return DelegationTokenError(
        "A job on a delegation token gets nothing of the connection's own login, and so no client certificate; the "
        f"listener of {config.bootstrap_servers} must be content without one (ssl.client.auth=none or requested). Name "
        f"another listener, or go without use_delegation_token. {error}"
    )
