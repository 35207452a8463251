"""Logins of managed Kafka by the identity of the machine: AWS MSK with IAM, and Google's Managed Kafka. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from airflow_provider_kafka_spark.core.connection.client_properties import ClientProperties, LoginFiles, TokenService
from airflow_provider_kafka_spark.core.connection.jaas import JaasLine

AWS_MSK_IAM, GOOGLE = "aws-msk-iam", "google"
_MSK_SERVER = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?:\d+", re.IGNORECASE)
_GOOGLE_SERVER = re.compile(r"\.managedkafka\.[a-z0-9.:-]+\.cloud\.goog:\d+", re.IGNORECASE)
_HANDLER_PROPERTIES = ("sasl.client.callback.handler.class", "sasl.login.callback.handler.class")
#: Java's properties by the service. A connection cannot name a class.
_JAVA = {
    AWS_MSK_IAM: {
        "sasl.mechanism": "AWS_MSK_IAM",
        "sasl.jaas.config": JaasLine("software.amazon.msk.auth.iam.IAMLoginModule", {}).format(),
        "sasl.client.callback.handler.class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
    },
    GOOGLE: {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": JaasLine(
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule", {}
        ).format(),
        "sasl.login.callback.handler.class": "com.google.cloud.hosted.kafka.auth.GcpLoginCallbackHandler",
    },
}


@dataclass(frozen=True, slots=True)
class ManagedLogin:
    """The identity of the machine at a cloud, by its own chain of credentials; the connection has no secret."""

    #: Of the worker's client.
    mechanism: ClassVar[str] = "OAUTHBEARER"

    service: TokenService

    @property
    def user(self) -> str:
        """For messages."""
        return f"the machine's identity ({self.service.provider})"

    def properties(self, _files: LoginFiles, /) -> ClientProperties:
        """For both clients; files are not needed."""
        librdkafka = {"sasl.mechanism": "OAUTHBEARER"}
        return ClientProperties(librdkafka, _JAVA[self.service.provider], token_service=self.service)


def managed_login(servers: str) -> ManagedLogin | None:
    """The login of a managed cluster, found by all of its servers' names as the Kafka provider does; or None.

    >>> managed_login("b-1.x.c2.kafka.eu-west-1.amazonaws.com:9098").service.region
    'eu-west-1'
    """
    each = [server.strip() for server in servers.split(",")]
    regions = {found[1].lower() if (found := _MSK_SERVER.search(server)) else None for server in each}
    if len(regions) == 1 and (region := regions.pop()):
        return ManagedLogin(TokenService(AWS_MSK_IAM, region))
    return ManagedLogin(TokenService(GOOGLE)) if all(map(_GOOGLE_SERVER.search, each)) else None


def login_handler(java: Mapping[str, str]) -> str | None:
    """The class of a cloud's that a Java client's properties name, which is not part of Kafka; or None.

    :param java: made by this package: a connection cannot name a class.
    """
    classes = (java.get(name, "") for name in _HANDLER_PROPERTIES)
    return next((name for name in classes if name and not name.startswith("org.apache.kafka.")), None)
