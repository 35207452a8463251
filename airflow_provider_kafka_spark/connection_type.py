"""The connection type ``kafka_spark`` as Airflow's form shows it. Its fields are read by
:mod:`~airflow_provider_kafka_spark.core.connection.connection_form`.
"""

from __future__ import annotations

from typing import Any

from airflow_provider_kafka_spark.core.client_config import PROTOCOLS, TOKEN_MECHANISMS
from airflow_provider_kafka_spark.core.connection.connection_form import CONN_TYPE
from airflow_provider_kafka_spark.core.connection.sasl import MODULES

_TEXT = {"type": ["string", "null"]}
_LONG_TEXT = {"type": ["string", "null"], "format": "multiline"}
_SECRET = {"type": ["string", "null"], "format": "password"}


def connection_type(hook_class: str) -> dict[str, Any]:
    """One entry of ``connection-types`` in the provider's metadata.

    :param hook_class: dotted name of the hook that tests such a connection.
    """
    return {
        "connection-type": CONN_TYPE,
        "hook-name": "Kafka (for Spark)",
        "hook-class-name": hook_class,
        "ui-field-behaviour": {
            "hidden-fields": ["schema", "port"],
            "relabeling": {
                "host": "Bootstrap servers",
                "login": "User (principal, client id)",
                "password": "Password (client secret)",
            },
            "placeholders": {"host": "broker-1:9093,broker-2:9093"},
        },
        "conn-fields": _FIELDS,
    }


_FIELDS: dict[str, Any] = {
    "security_protocol": {
        "label": "Protocol",
        "description": "Of the brokers' listener",
        "schema": {"type": ["string", "null"], "enum": [*PROTOCOLS], "default": "PLAINTEXT"},
    },
    "sasl_mechanism": {
        "label": "Login mechanism",
        "description": "For SASL_PLAINTEXT and SASL_SSL",
        "schema": {"type": ["string", "null"], "enum": [*MODULES]},
    },
    "ssl_ca": {
        "label": "CA certificates",
        "description": "Path on the worker, or the PEM text; empty for the machine's trust store",
        "schema": _LONG_TEXT,
    },
    "ssl_certificate": {
        "label": "Client certificate",
        "description": "Path on the worker, or the PEM text",
        "schema": _LONG_TEXT,
    },
    "ssl_private_key": {
        "label": "Client key",
        "description": "Path on the worker, or the PEM text",
        "schema": _SECRET,
    },
    "ssl_key_password": {
        "label": "Password of the client key",
        "description": "If it is encrypted",
        "schema": _SECRET,
    },
    "verify_host_names": {
        "label": "Check host names",
        "description": "Brokers' certificates must match their host names",
        "schema": {"type": ["boolean", "null"], "default": True},
    },
    "kerberos_keytab": {
        "label": "Kerberos keytab",
        "description": "GSSAPI: path on the worker; empty to use the worker's tickets",
        "schema": _TEXT,
    },
    "kerberos_service_name": {
        "label": "Kerberos service",
        "description": "GSSAPI: first part of the brokers' principals; kafka if empty",
        "schema": _TEXT,
    },
    "oidc_endpoint_url": {
        "label": "Token endpoint",
        "description": "OAUTHBEARER: https://id.example.com/token",
        "schema": _TEXT,
    },
    "oidc_scope": {"label": "Token scope", "description": "OAUTHBEARER", "schema": _TEXT},
    "oidc_extensions": {
        "label": "Token extensions",
        "description": "OAUTHBEARER: name=value,name=value",
        "schema": _TEXT,
    },
    "oidc_ca": {
        "label": "CA of the token endpoint",
        "description": "OAUTHBEARER: path on the worker, or the PEM text",
        "schema": _LONG_TEXT,
    },
    "delegation_mechanism": {
        "label": "Mechanism of delegation tokens",
        "description": "For jobs that log in with a token: SCRAM-SHA-512 if empty",
        "schema": {"type": ["string", "null"], "enum": [*TOKEN_MECHANISMS]},
    },
    "delegation_max_lifetime_ms": {
        "label": "Longest life of delegation tokens (ms)",
        "description": "The brokers' own if empty",
        "schema": {"type": ["integer", "null"]},
    },
    "librdkafka": {
        "label": "Further properties",
        "description": 'librdkafka\'s, as JSON: {"client.id": "copy"}',
        "schema": _LONG_TEXT,
    },
}
