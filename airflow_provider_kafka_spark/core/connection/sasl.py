"""SASL: one login, as librdkafka's properties or as Java's JAAS line, written for both clients. No I/O."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from airflow_provider_kafka_spark.core.connection import kerberos, oidc
from airflow_provider_kafka_spark.core.connection.client_properties import ClientProperties, LoginFiles
from airflow_provider_kafka_spark.core.connection.connection_extra import CODE_OF_ONE_CLIENT, ConnectionExtra
from airflow_provider_kafka_spark.core.connection.jaas import JaasLine, parse_jaas, quote
from airflow_provider_kafka_spark.core.connection.managed import managed_login
from airflow_provider_kafka_spark.core.connection.text_rules import PRINTABLE, SECRET

_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
#: The login module of each mechanism.
MODULES = {
    "GSSAPI": kerberos.MODULE,
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": _SCRAM,
    "SCRAM-SHA-512": _SCRAM,
    "OAUTHBEARER": oidc.MODULE,
}
#: Java's settings for renewing a login; librdkafka has its own, or none.
JAVA_ONLY = (
    "sasl.login.connect.timeout.ms",
    "sasl.login.read.timeout.ms",
    "sasl.login.refresh.buffer.seconds",
    "sasl.login.refresh.min.period.seconds",
    "sasl.login.refresh.window.factor",
    "sasl.login.refresh.window.jitter",
    "sasl.login.retry.backoff.max.ms",
    "sasl.login.retry.backoff.ms",
)
#: A connection with any of these says itself how to get tokens.
_OWN_TOKENS = ("sasl.oauthbearer.", "sasl.jaas.config", "sasl.login.callback.handler.class")
_OAUTH_CODE = f"{CODE_OF_ONE_CLIENT}; give sasl.oauthbearer.method=oidc with the endpoint, id and secret"
_WITHOUT_COUNTERPART = {
    "sasl.login.class": CODE_OF_ONE_CLIENT,
    "sasl.client.callback.handler.class": CODE_OF_ONE_CLIENT,
    "oauth_cb": _OAUTH_CODE,
    "oauthbearer_token_refresh_cb": _OAUTH_CODE,
}


class Login(Protocol):
    """A login by any mechanism."""

    @property
    def mechanism(self) -> str: ...

    @property
    def user(self) -> str:
        """For messages."""

    def properties(self, files: LoginFiles, /) -> ClientProperties:
        """For both clients."""


@dataclass(frozen=True, slots=True)
class PasswordLogin:
    """A user name and a password, or a delegation token's id and secret.

    :param is_token: whether it is a delegation token, which is SCRAM with an extension.
    """

    mechanism: str
    user: str
    password: str = field(repr=False)
    is_token: bool = False

    def properties(self, _files: LoginFiles, /) -> ClientProperties:
        """For both clients; files are not needed."""
        mark = {"tokenauth": "true"} if self.is_token else {}
        line = JaasLine(MODULES[self.mechanism], {"username": self.user, "password": self.password, **mark}).format()
        secrets = tuple(dict.fromkeys((self.password, quote(self.password)[1:-1], line)))
        java = {"sasl.mechanism": self.mechanism, "sasl.jaas.config": line}
        if self.is_token:
            reason = (
                "its login is a delegation token (tokenauth), with which librdkafka cannot log in. Give the "
                "connection the login of the token's owner; a job then uses a token of that login by "
                "use_delegation_token=True"
            )
            return ClientProperties(java=java, secrets=secrets, unsupported_by_librdkafka=reason)
        librdkafka = {"sasl.mechanism": self.mechanism, "sasl.username": self.user, "sasl.password": self.password}
        return ClientProperties(librdkafka, java, secrets)


def parse_sasl(extra: ConnectionExtra, servers: str = "") -> Login:
    """Read the login of a connection, whichever client's properties it is written in.

    :raises ConnectionConfigError: if it is incomplete, contradicts itself, or only one of the two clients supports it.
    """
    extra.raise_if_without_counterpart(_WITHOUT_COUNTERPART)
    mechanism = (extra.take("sasl.mechanism", "sasl.mechanisms") or "GSSAPI").upper()
    if mechanism not in MODULES:
        raise extra.error(f"must have one of {', '.join(MODULES)} as sasl.mechanism; got {mechanism!r}.")
    login: Login | None
    if mechanism == "OAUTHBEARER" and not any(name.startswith(_OWN_TOKENS) for name in extra.left):
        login = managed_login(servers)
        if login is not None:
            return login
    options = _jaas_options(extra, mechanism)
    if mechanism == "GSSAPI":
        login = kerberos.parse_kerberos(extra, options)
    elif mechanism == "OAUTHBEARER":
        login = oidc.parse_oidc(extra, options)
    else:
        login = _parse_password(extra, mechanism, options)
    if options:
        raise extra.error(
            f"has {sorted(options)} in sasl.jaas.config, which has no counterpart on the worker or is not known for "
            f"{mechanism}. Remove it."
        )
    return login


def _jaas_options(extra: ConnectionExtra, mechanism: str) -> dict[str, str]:
    """The options of the JAAS line, if there is one. The caller removes those that it reads."""
    text = extra.take("sasl.jaas.config", rule=SECRET)
    if text is None:
        return {}
    try:
        line = parse_jaas(text)
    except ValueError as error:
        raise extra.error(
            f"must have one login module in sasl.jaas.config, such as '{MODULES[mechanism]} required ... ;', and "
            f"{error}. Correct it."
        ) from None
    if line.module != MODULES[mechanism]:
        raise extra.error(
            f"has {line.short_name} in sasl.jaas.config, and {mechanism} as sasl.mechanism, which takes "
            f"{MODULES[mechanism]}. Correct one of them."
        )
    return dict(line.options)


def _parse_password(extra: ConnectionExtra, mechanism: str, options: dict[str, str]) -> PasswordLogin:
    user = extra.take_or_jaas("sasl.username", in_jaas=options.pop("username", None), rule=PRINTABLE)
    password = extra.take_or_jaas("sasl.password", in_jaas=options.pop("password", None), rule=SECRET)
    if not user or not password:
        absent = [name for name, value in (("sasl.username", user), ("sasl.password", password)) if not value]
        raise extra.error(f"needs {' and '.join(absent)} in its Extra for sasl.mechanism {mechanism}.")
    is_token = options.pop("tokenauth", "false").lower() == "true"
    if is_token and mechanism == "PLAIN":
        raise extra.error(
            "has tokenauth in sasl.jaas.config, and brokers take delegation tokens only by SCRAM-SHA-256 or "
            "SCRAM-SHA-512."
        )
    return PasswordLogin(mechanism, user, password, is_token)
