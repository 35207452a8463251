"""Access tokens of the worker's own identity at a cloud, for librdkafka. The clouds' libraries are optional."""

from __future__ import annotations

import base64
import importlib
import json
import time
from collections.abc import Callable
from datetime import timezone
from typing import Any

from airflow_provider_kafka_spark.core.connection.client_properties import TokenService
from airflow_provider_kafka_spark.core.errors import BrokerAuthenticationError, ConnectionConfigError

#: A token, and when it ends, in seconds since the epoch.
Token = tuple[str, float]
_PACKAGES = {"aws-msk-iam": "aws-msk-iam-sasl-signer-python", "google": "google-auth"}
_REQUEST_SECONDS = 10.0


def token_callback(conn_id: str, service: TokenService) -> Callable[[Any], Token]:
    """librdkafka's ``oauth_cb``, which it calls again before a token ends. The first token is made here.

    librdkafka hides what its callback raises, behind a wait of 10 s.

    :raises ConnectionConfigError: if the cloud's library is not installed.
    :raises BrokerAuthenticationError: if the worker has no credentials, or gets no token.
    """
    make = {"aws-msk-iam": _msk_token, "google": _google_token}[service.provider]
    try:
        first = make(service)
    except ImportError as error:
        raise ConnectionConfigError(
            f"The connection {conn_id!r} needs a library for {service.provider!r} on the worker; got {error}. Run: pip "
            f"install {_PACKAGES[service.provider]}"
        ) from error
    except Exception as error:
        raise BrokerAuthenticationError(
            f"The worker must have credentials for {service.provider!r} (connection {conn_id!r}); it got no token: "
            f"{type(error).__name__}. Give its machine a role, or its user the cloud's default credentials."
        ) from error
    if first[1] <= time.time():
        raise BrokerAuthenticationError(
            f"The token for {service.provider!r} (connection {conn_id!r}) must be valid; it has expired already. Check "
            "the worker's clock and its credentials."
        )
    unused = [first]
    return lambda _config: unused.pop() if unused and unused[0][1] > time.time() + 60 else make(service)


def _msk_token(service: TokenService) -> Token:
    signer = importlib.import_module("aws_msk_iam_sasl_signer").MSKAuthTokenProvider
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
