"""Access tokens of the worker's own identity at a cloud, for librdkafka. The clouds' libraries are optional."""

from __future__ import annotations

import base64
import importlib
import json
import logging
import time
from collections.abc import Callable
from datetime import timezone
from typing import Any

from airflow_provider_kafka_spark.core.connection.client_properties import TokenService
from airflow_provider_kafka_spark.core.connection.managed import AWS_MSK_IAM, GOOGLE
from airflow_provider_kafka_spark.core.errors import BrokerAuthenticationError, ConnectionConfigError

log = logging.getLogger(__name__)

#: A token, and when it ends, in seconds since the epoch.
Token = tuple[str, float]
_EXTRAS = {AWS_MSK_IAM: "msk", GOOGLE: "google"}
_CREDENTIALS = {
    AWS_MSK_IAM: "Give its machine or pod a role of IAM, or its user a profile or AWS_ACCESS_KEY_ID",
    GOOGLE: "Give its machine or pod a service account, or set GOOGLE_APPLICATION_CREDENTIALS to the file of one",
}
_REQUEST_SECONDS = 10.0
#: Seconds that the first token must still be valid when librdkafka asks for it.
_UNUSED_SECONDS = 1.0


def token_callback(conn_id: str, service: TokenService) -> Callable[[Any], Token]:
    """librdkafka's ``oauth_cb``, which it calls again before a token ends. The first token is made here.

    librdkafka hides what its callback raises, after a wait of 10 s.

    :raises ConnectionConfigError: if the cloud's library is not installed.
    :raises BrokerAuthenticationError: if the worker has no credentials, or gets no token.
    """
    make = {AWS_MSK_IAM: _msk_token, GOOGLE: _google_token}[service.provider]
    try:
        first = make(service)
    except ImportError as error:
        raise ConnectionConfigError(
            f"The worker must have the library of {service.provider!r}, for the tokens of connection {conn_id!r}; got "
            f"{type(error).__name__} for {error.name!r}. Run: pip install "
            f"'airflow-provider-kafka-spark[{_EXTRAS[service.provider]}]'"
        ) from error
    except Exception as error:  # noqa: BLE001 - the libraries' errors have no common base
        # Its text may have the cloud's answer, or parts of a login.
        raise BrokerAuthenticationError(
            f"The worker must have credentials of {service.provider!r} (connection {conn_id!r}); its library made no "
            f"token of them: {type(error).__name__}. {_CREDENTIALS[service.provider]}."
        ) from None
    if first[1] <= time.time():
        raise BrokerAuthenticationError(
            f"The token of {service.provider!r} (connection {conn_id!r}) must be valid; it has expired already. Check "
            "the worker's clock and its credentials."
        )
    unused = [first]

    def callback(_config: Any) -> Token:
        if unused and unused[0][1] > time.time() + _UNUSED_SECONDS:
            return unused.pop()
        unused.clear()
        try:
            return make(service)
        except Exception as error:  # noqa: BLE001
            # librdkafka replaces it by words of its own, and asks again after some seconds.
            log.warning("No new token of %r for connection %r: %s.", service.provider, conn_id, type(error).__name__)
            raise BrokerAuthenticationError(f"There is no new token of {service.provider!r}.") from None

    return callback


def _msk_token(service: TokenService) -> Token:
    signer = importlib.import_module("aws_msk_iam_sasl_signer.MSKAuthTokenProvider")
    token, expires_ms = signer.generate_auth_token(service.region)
    return token, expires_ms / 1000


def _google_token(_service: TokenService) -> Token:
    auth = importlib.import_module("google.auth")
    requests = importlib.import_module("google.auth.transport.requests")
    credentials, _ = auth.default(scopes=["https://www.googleapis.com/auth/cloud-platform"])
    session = requests.Request()
    credentials.refresh(lambda *args, **options: session(*args, **{**options, "timeout": _REQUEST_SECONDS}))
    expires = credentials.expiry.replace(tzinfo=timezone.utc).timestamp()
    claims = {"exp": expires, "iss": "Google", "iat": time.time(), "scope": "kafka"}
    claims["sub"] = credentials.service_account_email
    header = {"typ": "JWT", "alg": "GOOG_OAUTH2_TOKEN"}
    return ".".join(map(_encoded, (json.dumps(header), json.dumps(claims), credentials.token))), expires


def _encoded(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")
