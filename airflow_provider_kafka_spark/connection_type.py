"""The connection type ``kafka_spark`` as Airflow's form shows it. Its fields are read by
:mod:`~airflow_provider_kafka_spark.core.connection.connection_form`.
"""

from __future__ import annotations

from typing import Any

from airflow_provider_kafka_spark.core.client_config import PROTOCOLS, TOKEN_MECHANISMS
from airflow_provider_kafka_spark.core.connection.connection_form import CONN_TYPE
from airflow_provider_kafka_spark.core.connection.sasl import MODULES


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


def _field(label: str, description: str, **schema: Any) -> dict[str, Any]:
    return {"label": label, "description": description, "schema": {"type": ["string", "null"], **schema}}


_FIELDS = {
    "security_protocol": _field("Protocol", "Of the brokers' listener", enum=[*PROTOCOLS], default="PLAINTEXT"),
    "sasl_mechanism": _field("Login mechanism", "For SASL_PLAINTEXT and SASL_SSL", enum=[*MODULES]),
    "ssl_ca": _field(
        "CA certificates",
        "Path on the worker, or the PEM text; empty for the machine's trust store",
        format="multiline",
    ),
    "ssl_certificate": _field("Client certificate", "Path on the worker, or the PEM text", format="multiline"),
    "ssl_private_key": _field("Client key", "Path on the worker, or the PEM text", format="password"),
    "ssl_key_password": _field("Password of the client key", "If it is encrypted", format="password"),
    "verify_host_names": _field(
        "Check host names", "Brokers' certificates must match their host names", type=["boolean", "null"], default=True
    ),
    "kerberos_keytab": _field("Kerberos keytab", "GSSAPI: path on the worker; empty to use the worker's tickets"),
    "kerberos_service_name": _field(
        "Kerberos service", "GSSAPI: first part of the brokers' principals; kafka if empty"
    ),
    "oidc_endpoint_url": _field("Token endpoint", "OAUTHBEARER: https://id.example.com/token"),
    "oidc_scope": _field("Token scope", "OAUTHBEARER"),
    "oidc_extensions": _field("Token extensions", "OAUTHBEARER: name=value,name=value"),
    "oidc_ca": _field(
        "CA of the token endpoint", "OAUTHBEARER: path on the worker, or the PEM text", format="multiline"
    ),
    "delegation_mechanism": _field(
        "Mechanism of delegation tokens",
        "For jobs that log in with a token: SCRAM-SHA-512 if empty",
        enum=[*TOKEN_MECHANISMS],
    ),
    "delegation_max_lifetime_ms": _field(
        "Longest life of delegation tokens (ms)", "The brokers' own if empty", type=["integer", "null"]
    ),
    "librdkafka": _field("Further properties", 'librdkafka\'s, as JSON: {"client.id": "copy"}', format="multiline"),
}
