from __future__ import annotations

import re

import pytest

from airflow_provider_kafka_spark.core.job.redaction import REDACTION, is_secret, redact
from airflow_provider_kafka_spark.core.job.secret_references import by_reference
from airflow_provider_kafka_spark.core.secret_names import holds_secret

_SECRET = [
    "sasl.jaas.config",
    "sasl.oauthbearer.assertion.private.key.file",
    "sasl.oauthbearer.assertion.private.key.passphrase",
    "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.client.secret",
    "sasl.password",
    "SSL.KEYSTORE.PASSWORD",
    "ssl.key.password",
    "ssl.keystore.key",
    "ssl.truststore.password",
    "delegation.token.hmac",
    "bearer.auth.token",
    "some.reporter.api.key",
    "some.reporter.accesskey",
]
_PLAIN = [
    "bootstrap.servers",
    "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.sub.claim.name",
    "sasl.oauthbearer.token.endpoint.url",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.location",
    "ssl.keystore.type",
    "ssl.truststore.certificates",
    "key.serializer",
    "partitioner.ignore.keys",
]


@pytest.mark.parametrize("name", _SECRET)
def test_what_goes_to_a_file_is_hidden_everywhere(name: str) -> None:
    """From Spark's pages and event log, from its arguments, and from messages."""
    option = f"kafka.{name}"
    _, in_file = by_reference({option: "s3cret"}, "f", "sink")

    assert holds_secret(name)
    assert in_file == {f"sink.{option}": "s3cret"}
    assert redact("a s3cret b", [{option: "s3cret"}]) == "a *** b"
    assert redact("a s3cret b", [in_file]) == "a *** b"
    for named in (option, f"spark.kafka.clusters.east.{name}"):
        assert is_secret(named, "s3cret")
        assert re.search(REDACTION["spark.redaction.regex"], named)
        assert re.search(REDACTION["spark.sql.redaction.options.regex"], named)


@pytest.mark.parametrize("name", _PLAIN)
def test_what_is_not_secret_stays_where_it_is(name: str) -> None:
    """A message without it says less, and protects nothing."""
    option = f"kafka.{name}"

    assert not holds_secret(name)
    assert by_reference({option: "plain"}, "f", "sink") == ({option: "plain"}, {})
    assert redact("a plain b", [{option: "plain"}]) == "a plain b"
