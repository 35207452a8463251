"""The connection type ``kafka_spark`` as Airflow's form shows it. Its fields are read by
:mod:`~airflow_provider_kafka_spark.core.connection.connection_form`.
"""

from __future__ import annotations

from typing import Any

from airflow_provider_kafka_spark.core.connection.client_config import PROTOCOLS, TOKEN_MECHANISMS
from airflow_provider_kafka_spark.core.connection.connection_form import CONN_TYPE, LABELS
from airflow_provider_kafka_spark.core.connection.sasl import MODULES

_LISTENER = "Protocol and login (for every secured cluster)"
_TLS = "TLS certificates"
_KERBEROS = "Kerberos (GSSAPI)"
_OAUTH = "OAuth (OAUTHBEARER)"
_MORE = "Delegation tokens and further properties"


def connection_type(hook_class: str) -> dict[str, Any]:
    """One entry of ``connection-types`` in the provider's metadata.

    :param hook_class: dotted name of the hook that tests such a connection.
    """
    return {
        "connection-type": CONN_TYPE,
        "hook-name": "Kafka (for Spark)",
        "hook-class-name": hook_class,
        "ui-field-behaviour": {
            # Airflow 3.3 tests no stored connection without a port, so the port must not be hidden.
            "hidden-fields": ["schema"],
            "relabeling": {name: LABELS[name] for name in ("host", "port", "login", "password")},
            "placeholders": {
                "host": "broker-1:9093,broker-2:9093",
                "port": "9092 (Test needs it)",
                "login": "copier, or the principal, or the OAuth client's id",
                "password": "of the user, or the OAuth client's secret",
            },
        },
        "conn-fields": _FIELDS,
    }


def _field(name: str, section: str, description: str, **schema: Any) -> dict[str, Any]:
    return {
        "label": LABELS[name],
        "description": description,
        "schema": {"type": ["string", "null"], "section": section, **schema},
    }


_PATH_OR_TEXT = "Path on the worker, such as {0}, or the PEM text itself"
# The form has them in this order.
_FIELDS = {
    name: _field(name, section, description, **schema)
    for name, section, description, schema in (
        (
            "security_protocol",
            _LISTENER,
            "Of the brokers' listener, such as SASL_SSL: a login over TLS. PLAINTEXT has neither",
            {"enum": [*PROTOCOLS], "default": "PLAINTEXT"},
        ),
        (
            "sasl_mechanism",
            _LISTENER,
            "With SASL_SSL and SASL_PLAINTEXT: SCRAM-SHA-512, for example. GSSAPI is Kerberos, OAUTHBEARER is OAuth",
            {"enum": [*MODULES]},
        ),
        (
            "ssl_ca",
            _TLS,
            f"{_PATH_OR_TEXT.format('/etc/ssl/kafka-ca.pem')}. Empty: the machine's own trust store",
            {"format": "multiline"},
        ),
        (
            "verify_host_names",
            _TLS,
            "The certificate of broker-1:9093 must be for broker-1. Switch it off only for a test cluster",
            {"type": ["boolean", "null"], "default": True},
        ),
        (
            "ssl_certificate",
            _TLS,
            f"{_PATH_OR_TEXT.format('/etc/ssl/copier.crt')}. For brokers that ask for one",
            {"format": "multiline"},
        ),
        ("ssl_private_key", _TLS, _PATH_OR_TEXT.format("/etc/ssl/copier.key"), {"format": "password"}),
        ("ssl_key_password", _TLS, "Of a key that begins with BEGIN ENCRYPTED PRIVATE KEY", {"format": "password"}),
        (
            "kerberos_keytab",
            _KERBEROS,
            "Path on the worker, such as /etc/copier.keytab. Empty: the worker's tickets",
            {},
        ),
        (
            "kerberos_service_name",
            _KERBEROS,
            "First part of the brokers' principals: kafka of kafka/broker-1.example.com. Empty: kafka",
            {},
        ),
        ("oidc_endpoint_url", _OAUTH, "Of the identity provider, such as https://id.example.com/token", {}),
        ("oidc_scope", _OAUTH, "As the provider wants it, such as kafka. May be empty", {}),
        ("oidc_extensions", _OAUTH, "As the brokers want them, such as logicalCluster=lkc-1,identityPoolId=pool-2", {}),
        ("oidc_ca", _OAUTH, f"{_PATH_OR_TEXT.format('/etc/ssl/id-ca.pem')}", {"format": "multiline"}),
        (
            "delegation_mechanism",
            _MORE,
            "For jobs with use_delegation_token. Empty: SCRAM-SHA-512",
            {"enum": [*TOKEN_MECHANISMS]},
        ),
        (
            "delegation_max_lifetime_ms",
            _MORE,
            "How long renewals prolong a token, such as 604800000 (7 days). Empty: the brokers' own",
            {"type": ["integer", "null"]},
        ),
        ("librdkafka", _MORE, 'Of librdkafka, as JSON: {"client.id": "copy"}', {"format": "multiline"}),
    )
}
