from __future__ import annotations

import pytest

from airflow_provider_kafka_spark.core.errors import OptionError
from airflow_provider_kafka_spark.core.spark.secret_references import by_reference, dereferenced

PLAIN = {
    "kafka.bootstrap.servers": "b:9093",
    "kafka.security.protocol": "SASL_SSL",
    "kafka.sasl.mechanism": "PLAIN",
    "kafka.sasl.oauthbearer.token.endpoint.url": "https://id/token",
    "kafka.ssl.truststore.certificates": "-----BEGIN CERTIFICATE-----",
    "kafka.ssl.keystore.certificate.chain": "-----BEGIN CERTIFICATE-----",
    "kafka.ssl.truststore.location": "/trust.jks",
    "kafka.ssl.keystore.type": "PEM",
    "kafka.isolation.level": "read_committed",
}


@pytest.mark.parametrize("name", ["kafka.sasl.jaas.config", "kafka.ssl.keystore.key"])
def test_secrets_are_referred_to(name: str) -> None:
    options, secrets = by_reference({**PLAIN, name: "s3cret"}, "/jobs/1/logins", "sink")

    provider = "org.apache.kafka.common.config.provider.FileConfigProvider"
    how = {
        "kafka.config.providers": "file",
        "kafka.config.providers.file.class": provider,
        "kafka.config.providers.file.param.allowed.paths": "/jobs/1/logins",
    }
    assert options == {**PLAIN, name: f"${{file:/jobs/1/logins:sink.{name}}}", **how}
    assert secrets == {f"sink.{name}": "s3cret"}


@pytest.mark.parametrize("value", ["${file:/etc/passwd:root}", "a${b"])
def test_no_option_refers_to_a_file_of_its_own(value: str) -> None:
    """Kafka's clients would resolve it, as they resolve ours: into the log, or into the other cluster."""
    with pytest.raises(OptionError, match=r"kafka\.client\.id must be a plain value"):
        by_reference({**PLAIN, "kafka.ssl.key.password": "s3cret", "kafka.client.id": value}, "/f", "source")


def test_what_is_referred_to_reads_back() -> None:
    given = {**PLAIN, "kafka.sasl.jaas.config": 'x required password="}:";', "kafka.ssl.key.password": "s3cret"}
    options, secrets = by_reference(given, "/jobs/1/logins", "sink")

    found = dereferenced(options, {"/jobs/1/logins": secrets}.__getitem__)

    assert given.items() <= found.items()


@pytest.mark.parametrize("value", ["${file:f:absent}", "${env:HOME}", ""])
def test_what_cannot_be_found_stays(value: str) -> None:
    """Kafka's clients fail at it themselves."""
    assert dereferenced({"kafka.x": value}, lambda _: {}) == {"kafka.x": value}
