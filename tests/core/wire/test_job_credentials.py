from __future__ import annotations

import re

import pytest

from airflow_provider_kafka_spark.core.connection.client_config import KafkaClientConfig
from airflow_provider_kafka_spark.core.errors import ConnectionConfigError
from airflow_provider_kafka_spark.core.wire.job_credentials import JobCredentials

_KEYTAB = "/etc/kafka/copier.keytab"
_ALLOWED = "org.apache.kafka.sasl.oauthbearer.allowed.urls"


def config(conn_id: str, *files: str, allowed: str | None = None, **java: str) -> KafkaClientConfig:
    properties = {name.replace("_", "."): value for name, value in java.items()}
    system = {_ALLOWED: allowed} if allowed else {}
    return KafkaClientConfig(conn_id, "b:9092", {}, properties, (), files=files, system_properties=system)


def store(conn_id: str, path: str) -> KafkaClientConfig:
    return config(conn_id, path, ssl_truststore_location=path, ssl_truststore_type="JKS")


def test_each_side_has_its_own_login() -> None:
    logins = JobCredentials(store("here", "/a/trust.jks"), config("there", security_protocol="SASL_SSL"))

    assert logins.source_options() == {
        "kafka.ssl.truststore.location": "/a/trust.jks",
        "kafka.ssl.truststore.type": "JKS",
    }
    assert logins.sink_options() == {"kafka.security.protocol": "SASL_SSL"}
    # On this machine files are where they are, so none has to travel.
    assert logins.files == ()


def test_elsewhere_files_have_no_folder() -> None:
    jaas = f'com.sun.security.auth.module.Krb5LoginModule required useKeyTab="true" keyTab="{_KEYTAB}" principal="c@R";'
    kerberos = config("here", _KEYTAB, "/a/trust.jks", ssl_truststore_location="/a/trust.jks", sasl_jaas_config=jaas)
    logins = JobCredentials(kerberos, store("there", "/a/trust.jks"), by_name=True)

    assert logins.files == (_KEYTAB, "/a/trust.jks")
    options = logins.source_options()
    assert options["kafka.ssl.truststore.location"] == "trust.jks"
    assert 'keyTab="copier.keytab"' in options["kafka.sasl.jaas.config"]
    assert "/etc" not in "".join(options.values())
    assert logins.sink_options()["kafka.ssl.truststore.location"] == "trust.jks"


def test_two_files_of_one_name_cannot_travel() -> None:
    """One would be taken for the other."""
    logins = JobCredentials(store("here", "/a/trust.jks"), store("there", "/b/trust.jks"), by_name=True)

    with pytest.raises(ConnectionConfigError, match=r"'here' and 'there'.*'/a/trust.jks', '/b/trust.jks'.*Rename one"):
        _ = logins.files
    both = config("here", "/a/store.jks", "/b/store.jks")
    with pytest.raises(ConnectionConfigError, match="Rename one"):
        _ = JobCredentials(both, both, by_name=True).files


@pytest.mark.parametrize("name", ["spark.keytab", "kafka-logins.properties"])
def test_a_file_cannot_have_the_name_of_one_of_the_jobs_own(name: str) -> None:
    """Both lie in one folder: the one would not be written, or be taken for the other."""
    path = f"/etc/kafka/{name}"

    with pytest.raises(
        ConnectionConfigError, match=rf"'here' and 'there'.*{re.escape(name)}.*\['{path}'\]. Rename one"
    ):
        _ = JobCredentials(store("here", path), config("there"), by_name=True).files

    assert JobCredentials(store("here", path), config("there")).files == ()
