from __future__ import annotations

import pytest

from airflow_provider_kafka_spark.core.errors import ConnectionConfigError
from airflow_provider_kafka_spark.core.tokens.delegation_token import DelegationToken, TokenInfo, duration, utc

LATE = TokenInfo("late", "User:alice", (), 0, 1, 2)


def test_a_login_with_a_token_has_nothing_of_the_long_lived_one() -> None:
    before = {
        "bootstrap.servers": "b:1",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "GSSAPI",
        "sasl.jaas.config": 'Krb5LoginModule required keyTab="/secret";',
        "sasl.kerberos.service.name": "kafka",
        "ssl.truststore.certificates": "CA",
        "ssl.keystore.key": "KEY",
        "ssl.key.password": "PASSWORD",
    }
    secret = DelegationToken(LATE, "aG1hYw==")
    assert secret.java_login(before, "SCRAM-SHA-256") == {
        "bootstrap.servers": "b:1",
        "security.protocol": "SASL_SSL",
        "ssl.truststore.certificates": "CA",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.jaas.config": (
            'org.apache.kafka.common.security.scram.ScramLoginModule required username="late" password="aG1hYw==" '
            'tokenauth="true";'
        ),
    }
    assert "aG1hYw" not in repr(secret)


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
def test_a_token_needs_a_sasl_listener(protocol: str) -> None:
    with pytest.raises(ConnectionConfigError, match=f"is {protocol}"):
        DelegationToken(LATE, "x").java_login({"security.protocol": protocol}, "SCRAM-SHA-512")


def test_texts() -> None:
    assert utc(0) == "1970-01-01T00:00:00Z"
    assert utc(2**63 - 1).endswith(" ms")
    assert [duration(ms) for ms in (1500, 90_000, 7_200_000, 3 * 86_400_000)] == ["1.5 s", "90 s", "2 h", "3 d"]
