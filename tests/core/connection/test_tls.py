from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_kafka_spark.core.connection.client_properties import LoginFiles
from airflow_provider_kafka_spark.core.connection.connection_extra import ConnectionExtra, PemSource
from airflow_provider_kafka_spark.core.connection.tls import StoreSource, Tls, parse_tls
from airflow_provider_kafka_spark.core.errors import ConnectionConfigError
from tests.core.refusals import refuses

_PEM = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"


def _parse(**properties: Any) -> Tls:
    extra = ConnectionExtra("my_kafka", {name.replace("__", "."): value for name, value in properties.items()})
    tls = parse_tls(extra)
    assert extra.left == {}
    return tls


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        pytest.param({}, {}, id="the-machines-trust"),
        pytest.param({"ssl__ca__location": "probe"}, {}, id="probed"),
        pytest.param(
            {"ssl__truststore__type": "PEM", "ssl__truststore__certificates": _PEM},
            {"ca_certificates": PemSource("ssl.truststore.certificates", pem=_PEM)},
            id="java-ca-text",
        ),
        pytest.param(
            {"ssl__certificate__location": "/c", "ssl__key__pem": _PEM, "ssl__key__password": "p"},
            {
                "certificate": PemSource("ssl.certificate.location", location="/c"),
                "key": PemSource("ssl.key.pem", pem=_PEM), "key_password": "p",
            },
            id="client-certificate",
        ),
        pytest.param(
            {"ssl__keystore__location": "/k", "ssl__keystore__password": "s", "ssl__key__password": "p"},
            {"key_store": StoreSource("ssl.keystore", "/k", "s"), "key_password": "p"},
            id="java-key-store",
        ),
        pytest.param(
            {"ssl__endpoint__identification__algorithm": "NONE"}, {"check_host_names": False},
            id="librdkafka-host-names",
        ),
        pytest.param(
            {"ssl__endpoint__identification__algorithm": ""}, {"check_host_names": False}, id="java-host-names",
        ),
        pytest.param(
            {"ssl__providers": "default,legacy"}, {"worker": {"ssl.providers": "default,legacy"}}, id="worker-only",
        ),
    ],
)  # fmt: skip
def test_both_clients_names_are_read(properties: dict[str, Any], expected: dict[str, Any]) -> None:
    assert _parse(**properties) == Tls("my_kafka", **expected)


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        pytest.param(
            {"ssl__ca__location": "/a", "ssl__ca__pem": _PEM}, "both ssl.ca.location and ssl.ca.pem",
            id="two-authorities",
        ),
        pytest.param(
            {"ssl__ca__location": "/a", "ssl__truststore__certificates": _PEM},
            "both ssl.truststore.certificates and ssl.ca.location", id="both-clients-authorities",
        ),
        pytest.param({"ssl__ca__location": _PEM}, "Put it into ssl.ca.pem", id="text-for-a-path"),
        pytest.param({"ssl__key__location": "/k"}, "a key and not its certificate", id="key-alone"),
        pytest.param(
            {"ssl__certificate__pem": _PEM}, "the client's certificate and not its key", id="certificate-alone",
        ),
        pytest.param({"ssl__truststore__password": "hunter2"}, "no ssl.truststore.location", id="password-alone"),
        pytest.param(
            {"ssl__keystore__location": "/k", "ssl__keystore__type": "BKS"},
            "PEM, PKCS12, JKS for ssl.keystore.type; got 'BKS'", id="store-type",
        ),
        pytest.param({"ssl__endpoint__identification__algorithm": "http"}, "'https' or 'none'", id="algorithm"),
        pytest.param({"enable__ssl__certificate__verification": "x"}, "Java verifies every certificate", id="no-flag"),
        pytest.param({"ssl__cipher__suites": "x"}, "OpenSSL's names of ciphers", id="ciphers"),
        pytest.param({"ssl__engine__factory__class": "x"}, "names code", id="code"),
    ],
)  # fmt: skip
def test_refuses_what_only_one_client_could_do(properties: dict[str, Any], words: str) -> None:
    with refuses(ConnectionConfigError, "'my_kafka'", words) as raised:
        _parse(**properties)
    assert "hunter2" not in str(raised.value)


def test_a_java_key_store_needs_pem_for_the_worker() -> None:
    """librdkafka reads no JKS; with both, Java has its store, which travels, and librdkafka the PEM."""
    store = {"ssl__truststore__location": "/t.jks", "ssl__truststore__password": "hunter2"}
    with pytest.raises(ConnectionConfigError, match="librdkafka on the worker cannot read") as raised:
        _parse(**store).properties(LoginFiles(jks_trust_store=True))
    assert "hunter2" not in str(raised.value)

    both = _parse(**store, ssl__ca__pem=_PEM).properties(LoginFiles(ca_certificates=_PEM, jks_trust_store=True))
    assert both.librdkafka == {"ssl.ca.pem": _PEM}
    assert both.java == {
        "ssl.truststore.type": "JKS",
        "ssl.truststore.location": "/t.jks",
        "ssl.truststore.password": "hunter2",
    }
    assert both.files == ("/t.jks",)
    assert both.secrets == ("hunter2",)


def test_a_store_that_is_no_jks_may_not_stand_beside_pem() -> None:
    tls = _parse(ssl__truststore__location="/t.p12", ssl__ca__location="/ca.pem")
    with pytest.raises(ConnectionConfigError, match=r"both ssl\.truststore\.location and ssl\.ca\.location"):
        tls.properties(LoginFiles(ca_certificates=_PEM))
