"""The connection type ``kafka_spark``: the fields of its form become the Extra that other types have. No I/O."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_kafka_spark.core.connection.client_properties import DEFAULT_PORT, parse_servers
from airflow_provider_kafka_spark.core.errors import ConnectionConfigError

CONN_TYPE = "kafka_spark"
#: With that of the Kafka provider.
KAFKA_TYPES = ("kafka", CONN_TYPE)
#: Field in the connection's Extra -> its property. A field of ``_PATH_OR_PEM`` has one of two properties.
_PROPERTIES = {
    "security_protocol": "security.protocol",
    "sasl_mechanism": "sasl.mechanism",
    "ssl_key_password": "ssl.key.password",
    "kerberos_service_name": "sasl.kerberos.service.name",
    "kerberos_keytab": "sasl.kerberos.keytab",
    "oidc_endpoint_url": "sasl.oauthbearer.token.endpoint.url",
    "oidc_scope": "sasl.oauthbearer.scope",
    "oidc_extensions": "sasl.oauthbearer.extensions",
    "delegation_mechanism": "delegation.token.mechanism",
    "delegation_max_lifetime_ms": "delegation.token.max.lifetime.ms",
}
#: A path, or the PEM text itself.
_PATH_OR_PEM = {
    "ssl_ca": ("ssl.ca.location", "ssl.ca.pem"),
    "ssl_certificate": ("ssl.certificate.location", "ssl.certificate.pem"),
    "ssl_private_key": ("ssl.key.location", "ssl.key.pem"),
    "oidc_ca": ("https.ca.location", "https.ca.pem"),
}
#: All fields that Airflow stores in the connection's Extra.
FIELDS = (*_PROPERTIES, *_PATH_OR_PEM, "bootstrap_servers", "verify_host_names", "librdkafka")
#: Field -> its label in the form. The first four are fields of every connection.
LABELS = {
    "host": "Bootstrap servers",
    "port": "Port",
    "login": "User",
    "password": "Password",
    "security_protocol": "Protocol",
    "sasl_mechanism": "Login mechanism",
    "ssl_ca": "CA certificates",
    "verify_host_names": "Check host names",
    "ssl_certificate": "Client certificate",
    "ssl_private_key": "Client key",
    "ssl_key_password": "Password of the client key",
    "kerberos_keytab": "Kerberos keytab",
    "kerberos_service_name": "Kerberos service",
    "oidc_endpoint_url": "Token endpoint",
    "oidc_scope": "Token scope",
    "oidc_extensions": "Token extensions",
    "oidc_ca": "CA of the token endpoint",
    "delegation_mechanism": "Mechanism of delegation tokens",
    "delegation_max_lifetime_ms": "Longest life of delegation tokens (ms)",
    "librdkafka": "Further properties",
}


@dataclass(frozen=True, slots=True)
class FormFields:
    """The fields of an Airflow connection of the type ``kafka_spark``.

    :param extra: :data:`FIELDS`, and librdkafka's properties by their own names.
    """

    conn_id: str
    host: str | None = None
    port: int | None = None
    login: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)


def extra_of_form(form: FormFields) -> dict[str, Any]:
    """The librdkafka configuration of the fields.

    :raises ConnectionConfigError: if a field is unknown, or two fields contradict each other.
    """
    given = {str(name).strip(): value for name, value in form.extra.items() if value not in (None, "")}
    typed = {name: value for name, value in given.items() if "." not in name}
    _raise_if_unknown(form.conn_id, typed)
    found = {_PROPERTIES[name]: value for name, value in typed.items() if name in _PROPERTIES}
    for name, (location, pem) in _PATH_OR_PEM.items():
        if name in typed:
            found[pem if "-----BEGIN" in str(typed[name]) else location] = typed[name]
    checked = str(typed.get("verify_host_names", True)).lower()
    if checked not in ("true", "false"):
        raise ConnectionConfigError(
            f"{_field('verify_host_names')} of connection {form.conn_id!r} must be true or false; got {checked!r}. "
            "Correct it."
        )
    if checked == "false":
        found["ssl.endpoint.identification.algorithm"] = "none"
    found |= _servers(form, typed.get("bootstrap_servers"))
    further = {**_further(form.conn_id, typed.get("librdkafka")), **{n: v for n, v in given.items() if "." in n}}
    mechanism = str(
        found.get("sasl.mechanism") or further.get("sasl.mechanism") or further.get("sasl.mechanisms") or ""
    )
    found |= _login(form, mechanism.upper())
    twice = sorted(name for name in found.keys() & further.keys() if str(found[name]) != str(further[name]))
    if twice:
        raise ConnectionConfigError(
            f"The connection {form.conn_id!r} sets {twice} both in a field of its form and in its librdkafka "
            "properties, to different values. Keep one of them."
        )
    return {**further, **found}


def with_field_names(message: str) -> str:
    r"""The message with the labels and names of the form's fields for the properties in it.

    >>> with_field_names("sasl.username is empty.")
    'sasl.username is empty. In this connection\'s form, sasl.username is "User" (login).'
    """
    fields = {
        **{prop: name for name, prop in _PROPERTIES.items()},
        **{prop: name for name, pair in _PATH_OR_PEM.items() for prop in pair},
        "bootstrap.servers": "host",
        "ssl.endpoint.identification.algorithm": "verify_host_names",
        "sasl.username": "login",
        "sasl.password": "password",
        "sasl.oauthbearer.client.id": "login",
        "sasl.oauthbearer.client.secret": "password",
        "sasl.kerberos.principal": "login",
    }
    named = [
        f"{prop} is {_field(name)}"
        for prop, name in fields.items()
        if re.search(rf"\b{re.escape(prop)}\b(?!\.\w)", message)
    ]
    return f"{message} In this connection's form, {', '.join(named)}." if named else message


def _field(name: str) -> str:
    """A field as messages name it."""
    return f'"{LABELS[name]}" ({name})'


def _raise_if_unknown(conn_id: str, typed: Mapping[str, Any]) -> None:
    for name in typed:
        if name not in FIELDS:
            near = difflib.get_close_matches(name, FIELDS, 1)
            raise ConnectionConfigError(
                f"The Extra of connection {conn_id!r} (type {CONN_TYPE!r}) must have only "
                f"{', '.join(sorted(FIELDS))}, and librdkafka's properties by their own names; got {name!r}."
                + (f" Did you mean {near[0]!r}?" if near else " Remove it.")
            )


def _servers(form: FormFields, field_value: Any) -> dict[str, str]:
    try:
        host = ",".join(str(server) for server in parse_servers(form.host or "", form.port or DEFAULT_PORT))
    except ValueError as error:
        raise ConnectionConfigError(
            f"{_field('host')} of connection {form.conn_id!r} must be a broker's name, or some of them as "
            f"'broker-1:9092,broker-2:9092'; {error}. Correct it."
        ) from None
    servers = str(field_value).strip() if field_value else ""
    if host and servers and host != servers:
        raise ConnectionConfigError(
            f"The connection {form.conn_id!r} has the brokers {host!r} in {_field('host')} and {servers!r} in "
            "bootstrap_servers of its Extra. Keep one of them."
        )
    return {"bootstrap.servers": servers or host} if servers or host else {}


def _login(form: FormFields, mechanism: str) -> dict[str, str]:
    names = {
        "GSSAPI": ("sasl.kerberos.principal", None),
        "OAUTHBEARER": ("sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret"),
    }
    user, password = names.get(mechanism, ("sasl.username", "sasl.password"))
    if form.password and password is None:
        raise ConnectionConfigError(
            f"The connection {form.conn_id!r} has a password, which Kerberos (GSSAPI) does not use. Name the "
            f"principal's keytab in {_field('kerberos_keytab')}, and remove the password."
        )
    found = {user: form.login} if form.login else {}
    found |= {password: form.password} if form.password and password else {}
    return found | ({"sasl.oauthbearer.method": "oidc"} if mechanism == "OAUTHBEARER" else {})


def _further(conn_id: str, value: Any) -> dict[str, Any]:
    """The field of further properties: an object, or its JSON text."""
    try:
        found = (json.loads(value) if isinstance(value, str) else value) or {}
        fault = f"got a {type(found).__name__}"
    except ValueError as error:
        found, fault = None, f"it is no JSON: {error}"
    if not isinstance(found, dict):
        raise ConnectionConfigError(
            f"{_field('librdkafka')} of connection {conn_id!r} must be a JSON object of properties, such as "
            f'{{"client.id": "copy"}}; {fault}. Correct it.'
        )
    return {str(name).strip(): value for name, value in found.items() if value is not None}
