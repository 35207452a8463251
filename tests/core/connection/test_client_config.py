from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_kafka_spark.core.connection.client_config import (
    joined_system_properties,
    translate,
)
from airflow_provider_kafka_spark.core.errors import ConnectionConfigError
from tests.core.refusals import refuses

_SERVERS = {"bootstrap.servers": "broker-1:9092,broker-2:9092"}
_PLAIN = {
    **_SERVERS,
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "ann",
    "sasl.password": "hunter2",
}


def test_names_as_people_write_them() -> None:
    config = translate("kafka_default", {" metadata.broker.list ": " b:9092 "})

    assert config.java["bootstrap.servers"] == "b:9092"
    assert config.librdkafka == {"bootstrap.servers": "b:9092"}


def test_a_password_becomes_a_jaas_line() -> None:
    """Under no other name. Both clients' names of the mechanism are understood."""
    extra = {name: value for name, value in _PLAIN.items() if name != "sasl.mechanism"}
    java = translate("c", {**extra, "sasl.mechanisms": "scram-sha-512"}).java

    assert java == {
        **_SERVERS,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": (
            'org.apache.kafka.common.security.scram.ScramLoginModule required username="ann" password="hunter2";'
        ),
    }


_KEYTAB = {
    **_SERVERS,
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "GSSAPI",
    "sasl.kerberos.principal": "copier@REALM",
    "sasl.kerberos.keytab": "/etc/copier.keytab",
}


def test_another_login_in_spark_leaves_the_keytab_behind() -> None:
    """A job that logs in with a delegation token needs no file of the login that made it."""
    config = translate("c", _KEYTAB)
    token = {
        **config.java,
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": 'a.B required username="id" password="x";',
    }

    assert config.with_java(token).files == ()
    assert config.with_java(config.java).files == config.files == ("/etc/copier.keytab",)


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        pytest.param({}, ("SCRAM-SHA-512", None), id="default"),
        pytest.param({"delegation.token.mechanism": "scram-sha-256"}, ("SCRAM-SHA-256", None), id="mechanism"),
        pytest.param({"delegation.token.max.lifetime.ms": "60000"}, ("SCRAM-SHA-512", 60_000), id="text"),
    ],
)
def test_settings_of_delegation_tokens_are_ours(extra: dict[str, Any], expected: tuple[str, int | None]) -> None:
    config = translate("c", {**_SERVERS, **extra})

    assert (config.token_mechanism, config.token_max_lifetime_ms) == expected
    assert config.librdkafka == _SERVERS


def test_two_clusters_ask_two_identity_providers() -> None:
    login = {"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.method": "oidc", "security.protocol": "SASL_SSL"}
    client = {"sasl.oauthbearer.client.id": "id", "sasl.oauthbearer.client.secret": "secret"}
    configs = [
        translate("c", {**_SERVERS, **login, **client, "sasl.oauthbearer.token.endpoint.url": url})
        for url in ("https://a/token", "https://b/token", "https://a/token")
    ]

    assert list(joined_system_properties(configs).values()) == ["https://a/token,https://b/token"]


@pytest.mark.parametrize(
    ("name", "value", "on_worker"),
    [
        ("isolation.level", "read_uncommitted", True),
        ("socket.timeout.ms", 1000, True),
        ("debug", "broker", True),
        # Its look-ups use no group of anybody else's, join none, and write nothing.
        ("group.id", "team", False),
        ("session.timeout.ms", 600_000, False),
        ("enable.idempotence", True, False),
    ],
)
def test_what_concerns_only_the_worker_stays_there(name: str, value: object, on_worker: bool) -> None:
    """The job has explicit offsets and settings of its own, so such a property neither reaches nor stops it."""
    config = translate("c", {**_SERVERS, name: value})

    assert (name in config.java, name in config.librdkafka) == (False, on_worker)


@pytest.mark.parametrize(
    ("name", "value", "java"),
    [
        pytest.param("connections.max.idle.ms", "0", "-1", id="never-as-text"),
        pytest.param("connections.max.idle.ms", " -00 ", "-1", id="never-as-librdkafka-reads-it"),
        pytest.param("connections.max.idle.ms", 600_000, "600000", id="at-some-time"),
        pytest.param("client.dns.lookup", "USE_ALL_DNS_IPS", "use_all_dns_ips", id="capitals"),
    ],
)
def test_what_the_clients_spell_differently(name: str, value: object, java: str) -> None:
    config = translate("c", {**_SERVERS, name: value})

    assert config.java[name] == java
    assert config.librdkafka[name] == str(value)


_BAD = [
    pytest.param(
        {"bootstrap.servers": ["b:9092"]}, ["'my_kafka'", "one text in bootstrap.servers", "a list"], id="list"
    ),
    pytest.param(
        {}, ["'my_kafka'", "'bootstrap.servers'", "its Extra has nothing", "AIRFLOW_CONN_MY_KAFKA"], id="empty"
    ),
    pytest.param({"bootstrap_servers": "b:1"}, ["'bootstrap.servers'", "['bootstrap_servers']"], id="servers-misspelt"),
    pytest.param(
        {**_SERVERS, "security.protocol": "TLS"},
        ["security.protocol", "'my_kafka'", "PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL", "'TLS'"],
        id="unknown-protocol",
    ),
    pytest.param(
        {**_PLAIN, "sasl.mechanism": "CRAM-MD5"},
        ["sasl.mechanism", "'my_kafka'", "GSSAPI, PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER", "'CRAM-MD5'"],
        id="unknown-mechanism",
    ),
    pytest.param(
        {**_SERVERS, "delegation.token.mechanism": "PLAIN"},
        ["delegation.token.mechanism", "SCRAM-SHA-512, SCRAM-SHA-256", "'PLAIN'"],
        id="token-mechanism",
    ),
    pytest.param(
        {**_SERVERS, "delegation.token.max.lifetime.ms": "7d"},
        ["delegation.token.max.lifetime.ms", "milliseconds", "'7d'"],
        id="token-lifetime",
    ),
    pytest.param({"bootstrap.servers": "b:99999"}, ["'b:99999' is no host:port", "broker-1:9092"], id="servers-port"),
    pytest.param(
        {"bootstrap.servers": ",".join(f"b-{i}:1" for i in range(101))},
        ["bootstrap.servers", "got 101 of at most 100"],
        id="servers-for-each-of-which-there-is-a-thread",
    ),
    pytest.param(
        {**_SERVERS, "sasl.username": "ann", "sasl.password": "hunter2"},
        [
            "['sasl.password', 'sasl.username']",
            "no effect with security.protocol PLAINTEXT",
            "SASL_SSL, SASL_PLAINTEXT or SSL",
            "SASL_SSL",
        ],
        id="login-without-a-protocol-that-uses-it",
    ),
    pytest.param(
        {**_PLAIN, "sasl.kerberos.keytab": "/k", "https.ca.location": "/ca"},
        ["['https.ca.location', 'sasl.kerberos.keytab']", "SASL_SSL and sasl.mechanism PLAIN"],
        id="settings-of-another-mechanism",
    ),
    pytest.param({**_PLAIN, "ssl.key.password": "hunter2"}, ["ssl.key.password, and no key"], id="client-key"),
    pytest.param({**_SERVERS, "bootstrap.serverz": "x"}, ["'bootstrap.serverz'", "'my_kafka'"], id="unknown-property"),
    # source_options refuses every login property, so the message says that the way round is for others.
    pytest.param(
        {**_SERVERS, "queued.max.messages.kbytes": 10},
        ["'queued.max.messages.kbytes'", "Remove it. A setting that is no login can be given in its Java form"],
        id="librdkafkas-only",
    ),
]


@pytest.mark.parametrize(("extra", "fragments"), _BAD)
def test_refuses_a_connection_that_cannot_serve_both_clients(extra: dict[str, Any], fragments: list[str]) -> None:
    with refuses(ConnectionConfigError, *fragments) as error:
        translate("my_kafka", extra)

    assert "hunter2" not in str(error.value)
