"""ACLs and users of the broker's listeners; ``tests/clients/test_logins.py`` has the logins."""

from __future__ import annotations

import stat
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_kafka_spark.core.errors import LocalServiceError, OptionError
from airflow_provider_kafka_spark.testing.broker_admin import CLUSTER
from airflow_provider_kafka_spark.testing.broker_client import BrokerClient, Record
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from tests.required_tools import needs_kdc
from tests.services.certificates import CertificateAuthority
from tests.services.identity_provider import IdentityProvider
from tests.services.kerberos import Kdc

pytestmark = pytest.mark.broker

#: What a client whose login is refused may take to find out.
_REFUSED_SECONDS = 1.5


def test_a_user_may_do_what_an_acl_says(secured_broker: KafkaBroker) -> None:
    """Nothing else, and no longer than it is there."""
    topic = secured_broker.create_topic("acl-orders")
    bob = _client(secured_broker.sasl_client_config("bob"), timeout=10)
    secured_broker.produce(topic, [Record(value=b"1")])
    with pytest.raises(LocalServiceError, match=f"must have topic '{topic}'"):
        bob.consume(topic)
    secured_broker.add_acl("User:bob", "read", "topic", "acl-", "prefixed")
    secured_broker.add_acl("User:bob", "read", "group", "testing-", "prefixed")
    assert len(bob.consume(topic)) == 1
    with pytest.raises(LocalServiceError, match=r"(?i)topic authorization failed"):
        bob.produce(topic, [Record(value=b"2")])
    secured_broker.add_acl("User:bob", "write", "topic", topic)
    bob.produce(topic, [Record(value=b"2")])
    secured_broker.remove_acl("User:bob", "read", "topic", "acl-", "prefixed")
    secured_broker.remove_acl("User:bob", "write", "topic", topic)
    secured_broker.remove_acl("User:bob", "read", "group", "testing-", "prefixed")
    with pytest.raises(LocalServiceError, match=f"must have topic '{topic}'"):
        bob.consume(topic)


def test_a_client_with_a_certificate_is_a_user(secured_broker: KafkaBroker, authority: CertificateAuthority) -> None:
    """Its name is that of its certificate."""
    writer = _client(secured_broker.ssl_client_config(authority.issue("carol")), timeout=10)
    with pytest.raises(LocalServiceError, match=r"(?i)authorization failed"):
        writer.create_topic("carols")
    secured_broker.add_acl("User:CN=carol", "create", "cluster", CLUSTER)
    secured_broker.add_acl("User:CN=carol", "write", "topic", "carols")
    writer.produce(writer.create_topic("carols"), [Record(value=b"1")])
    assert len(secured_broker.consume("carols")) == 1


@pytest.mark.parametrize(
    "acl",
    [("raed", "topic", "t", "literal"), ("read", "tpoic", "t", "literal"), ("read", "topic", "t", "prefix")],
    ids=["operation", "resource-type", "pattern"],
)
def test_a_misspelt_acl_is_refused(secured_broker: KafkaBroker, acl: tuple[str, str, str, str]) -> None:
    """With the names that there are."""
    with pytest.raises(OptionError, match=r"must be one of \[.*'(read|topic|prefixed)'"):
        secured_broker.add_acl("User:alice", *acl)


def test_acls_that_would_change_nothing(secured_broker: KafkaBroker, kafka_broker: KafkaBroker) -> None:
    """One that was never given cannot be taken back, and without an authorizer there are none."""
    with pytest.raises(LocalServiceError, match="no such ACL"):
        secured_broker.remove_acl("User:alice", "read", "topic", "never-given")
    with pytest.raises(LocalServiceError, match=r"must add the ACL.*(?i:authorizer)"):
        kafka_broker.add_acl("User:alice", "read", "topic", "t")


@pytest.mark.parametrize("claims", [{"life": -1}, {"iss": "http://elsewhere"}], ids=["expired", "issuer"])
def test_the_broker_checks_the_token(
    secured_broker: KafkaBroker, provider: IdentityProvider, claims: dict[str, Any]
) -> None:
    """One that is signed by the provider and is not for this broker, or not any longer, is none."""

    def config(token: str) -> dict[str, Any]:
        return {
            "bootstrap.servers": secured_broker.sasl_bootstrap_servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            # The client believes that it is good for an hour.
            "oauth_cb": lambda _: (token, time.time() + 3600),
        }

    assert isinstance(_client(config(provider.token("somebody"))).topics(), set)
    with pytest.raises(LocalServiceError, match=r"invalid_token|Authentication failed"):
        _client(config(provider.token("somebody", **claims)), _REFUSED_SECONDS).topics()


def test_a_listener_or_user_that_is_not_there_is_an_error(misconfigured_broker: KafkaBroker) -> None:
    """Before a client fails with less to say."""
    for config in (KafkaBroker().ssl_client_config, lambda: KafkaBroker().sasl_client_config("alice")):
        with pytest.raises(OptionError, match=r"must run and have a listener SA?SL"):
            config()
    with pytest.raises(OptionError, match=r"one of the broker's mechanisms.*'GSSAPI'"):
        misconfigured_broker.sasl_client_config("alice", "GSSAPI")
    with pytest.raises(OptionError, match=r"user must be one of .* for PLAIN; got 'carol'"):
        misconfigured_broker.sasl_client_config("carol", "PLAIN")


def test_keys_are_for_the_owner_only(secured_broker: KafkaBroker) -> None:
    """Other users of this machine cannot read the broker's files."""
    stores = list(Path(tempfile.gettempdir()).glob("kafka-broker-*/*.pem"))
    assert {file.name for file in stores} == {"keystore.pem", "truststore.pem"}
    assert {stat.S_IMODE(file.stat().st_mode) for file in stores} == {0o600}


@needs_kdc
def test_the_librdkafka_properties_of_a_principal_are_complete(secured_broker: KafkaBroker, kdc: Kdc) -> None:
    """The wheel of confluent-kafka has no GSSAPI to try them with, but a connection for Airflow is written in them."""
    assert secured_broker.sasl_client_config("dave", "GSSAPI") == {
        "bootstrap.servers": secured_broker.sasl_bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "sasl.kerberos.principal": "dave@TEST.LOCAL",
        "sasl.kerberos.keytab": str(kdc.keytab("dave")),
    }


def _client(config: Mapping[str, Any], timeout: float = 20) -> BrokerClient:
    return BrokerClient(config["bootstrap.servers"], config, timeout=timeout)
