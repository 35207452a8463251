"""OAUTHBEARER: an access token by OpenID Connect's client credentials, for both clients. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from airflow_provider_kafka_spark.core.connection.client_properties import ClientProperties, LoginFiles
from airflow_provider_kafka_spark.core.connection.connection_extra import (
    CODE_OF_ONE_CLIENT,
    ConnectionExtra,
    PemSource,
)
from airflow_provider_kafka_spark.core.connection.jaas import JaasLine
from airflow_provider_kafka_spark.core.connection.text_rules import EXTENSION, PRINTABLE, SECRET, URL
from airflow_provider_kafka_spark.core.secrets import secrets_in_url

#: Java's login module.
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
#: The class in kafka-clients 3.4 and later, including 4.x; earlier versions have it in another package.
_HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
_HANDLERS = (_HANDLER, "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler")
#: kafka-clients 3.9.1, 4.0 and later only use endpoints that a system property of the JVM allows.
ALLOWED_URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
_URL = "sasl.oauthbearer.token.endpoint.url"
_JAVA_ONLY = ("sasl.oauthbearer.scope.claim.name", "sasl.oauthbearer.header.urlencode")
_WITHOUT_COUNTERPART = {
    "sasl.oauthbearer.config": "it is for unsigned tokens, or for one cloud's own way to get them",
    "enable.sasl.oauthbearer.unsecure.jwt": "unsigned tokens are not translated",
    "sasl.oauthbearer.metadata.authentication.type": "Spark's Java client cannot ask a cloud's metadata service",
    "sasl.jwt.retriever.class": CODE_OF_ONE_CLIENT,
}


@dataclass(frozen=True, slots=True)
class OidcLogin:
    """A client of an identity provider whose tokens the brokers accept.

    :param url: the provider's token endpoint.
    :param extensions: SASL extensions that are sent to the broker.
    :param both: further properties of both clients.
    :param authorities: CA certificates for the provider; None for those of the machine.
    """

    mechanism: ClassVar[str] = "OAUTHBEARER"

    url: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str | None = None
    extensions: Mapping[str, str] = field(default_factory=dict)
    both: Mapping[str, str] = field(default_factory=dict)
    java: Mapping[str, str] = field(default_factory=dict)
    authorities: PemSource | None = None

    @property
    def user(self) -> str:
        """For messages."""
        return self.client_id

    def properties(self, files: LoginFiles, /) -> ClientProperties:
        """For both clients.

        :param files: with the CA certificates for the provider, if the connection has any.
        """
        librdkafka: dict[str, Any] = {
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            _URL: self.url,
            "sasl.oauthbearer.client.id": self.client_id,
            "sasl.oauthbearer.client.secret": self.client_secret,
            **self.both,
        }
        options = {"clientId": self.client_id, "clientSecret": self.client_secret}
        if self.scope:
            librdkafka["sasl.oauthbearer.scope"] = options["scope"] = self.scope
        if self.extensions:
            librdkafka["sasl.oauthbearer.extensions"] = ",".join(f"{k}={v}" for k, v in self.extensions.items())
            options |= {f"extension_{name}": value for name, value in self.extensions.items()}
        if files.https_ca_certificates:
            librdkafka["https.ca.pem"] = files.https_ca_certificates
            # Java has separate trust stores for brokers and for the identity provider; these options set the latter.
            options |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": files.https_ca_certificates}
        line = JaasLine(MODULE, options).format()
        java = {
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.jaas.config": line,
            "sasl.login.callback.handler.class": _HANDLER,
            _URL: self.url,
            **self.both,
            **self.java,
        }
        return ClientProperties(
            librdkafka, java, (self.client_secret, line), system_properties={ALLOWED_URLS: self.url}
        )


def parse_oidc(extra: ConnectionExtra, options: dict[str, str]) -> OidcLogin:
    """Read a login by an identity provider.

    :param options: of the JAAS line; what is understood is taken out.
    :raises ConnectionConfigError: if it is incomplete, or another way to get tokens than client credentials.
    """
    _check_grant(extra)
    # Both clients have an older and a newer name for these, and Java has a third.
    prefix, newer = "sasl.oauthbearer.client", "sasl.oauthbearer.client.credentials.client"
    url = _token_endpoint(extra)
    client_id = extra.take_or_jaas(f"{prefix}.id", f"{newer}.id", in_jaas=options.pop("clientId", None), rule=PRINTABLE)
    client_secret = extra.take_or_jaas(
        f"{prefix}.secret", f"{newer}.secret", in_jaas=options.pop("clientSecret", None), rule=SECRET
    )
    absent = [n for n, v in ((_URL, url), (f"{prefix}.id", client_id), (f"{prefix}.secret", client_secret)) if not v]
    if not url or not client_id or not client_secret:
        raise extra.error(f"needs {' and '.join(absent)} in its Extra for sasl.mechanism OAUTHBEARER.")
    claim = extra.take("sasl.oauthbearer.sub.claim.name")
    return OidcLogin(
        url=url,
        client_id=client_id,
        client_secret=client_secret,
        scope=extra.take_or_jaas("sasl.oauthbearer.scope", in_jaas=options.pop("scope", None)),
        extensions=_extensions(extra, options),
        both={"sasl.oauthbearer.sub.claim.name": claim} if claim else {},
        java={name: value for name in _JAVA_ONLY if (value := extra.take(name))},
        authorities=extra.take_authorities("https.ca.location", "https.ca.pem"),
    )


def _check_grant(extra: ConnectionExtra) -> None:
    """:raises ConnectionConfigError: if tokens are not those of client credentials."""
    for name in _WITHOUT_COUNTERPART:
        if str(extra.left.get(name)).lower() in ("false", "none"):
            extra.take(name)
    extra.raise_if_without_counterpart(_WITHOUT_COUNTERPART)
    if assertions := sorted(name for name in extra.left if name.startswith("sasl.oauthbearer.assertion.")):
        raise extra.without_counterpart(assertions[0], "Spark's Java client gets tokens by client id and secret only")
    grant = extra.take("sasl.oauthbearer.grant.type")
    if grant not in (None, "client_credentials"):
        raise extra.without_counterpart(
            "sasl.oauthbearer.grant.type",
            f"Spark's Java client gets tokens by 'client_credentials' only, not by {grant!r}",
        )
    method, handler = extra.take("sasl.oauthbearer.method"), extra.take("sasl.login.callback.handler.class")
    if handler not in (None, *_HANDLERS):
        raise extra.without_counterpart("sasl.login.callback.handler.class", CODE_OF_ONE_CLIENT)
    if (method or ("oidc" if handler else "default")).lower() != "oidc":
        raise extra.error(
            f"must have sasl.oauthbearer.method 'oidc' for sasl.mechanism OAUTHBEARER; got {method or 'none'!r}. Add "
            f"it, with {_URL}, sasl.oauthbearer.client.id and sasl.oauthbearer.client.secret."
        )


def _token_endpoint(extra: ConnectionExtra) -> str | None:
    """:raises ConnectionConfigError: if there is a secret in its address."""
    url = extra.take(_URL, rule=URL)
    if url and secrets_in_url(url):
        raise extra.error(
            f"must have no secret in {_URL}, since JVMs are started with the address, and all users of the machine "
            "can read their arguments; got a parameter with the name of a secret. Use sasl.oauthbearer.client.secret."
        )
    return url


def _extensions(extra: ConnectionExtra, options: dict[str, str]) -> dict[str, str]:
    prefix = "extension_"
    in_jaas = {name.removeprefix(prefix): options.pop(name) for name in list(options) if name.startswith(prefix)}
    text = extra.take("sasl.oauthbearer.extensions")
    pairs = [pair.partition("=") for pair in (text or "").split(",") if pair.strip()]
    found = {name.strip(): value.strip() for name, _, value in pairs}
    for name, value in (*found.items(), *in_jaas.items()):
        extra.check("sasl.oauthbearer.extensions", f"{name}={value}", EXTENSION)
    if found and in_jaas and found != in_jaas:
        raise extra.error(
            "sets sasl.oauthbearer.extensions and sasl.jaas.config to different values. Keep one of them."
        )
    return found or in_jaas
